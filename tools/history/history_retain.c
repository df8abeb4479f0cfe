#include "build-config.h"

#include "history_internal.h"

enum { KEEP_MIN = 1000 };

static int used_bytes(struct history *h, uint64_t *bytes) {
    sqlite3_stmt *select = history_prepare(
        h, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count,"
           " pragma_freelist_count, pragma_page_size");
    if (!select)
        return -1;
    int status = sqlite3_step(select) == SQLITE_ROW ? 0 : history_fail(h);
    *bytes = status ? 0 : (uint64_t)sqlite3_column_int64(select, 0);
    sqlite3_finalize(select);
    return status;
}

static int trim_place(struct history *h, const struct history_place *place) {
    double position[HISTORY_AXES];
    int64_t last;
    if (history_row_last(h, place, &last, position))
        return -1;
    /* Those stay that are still to be put together to a row of the next level. */
    int64_t below = last + 1 - (int64_t)h->keep;
    below -= below % HISTORY_FACTOR;
    return below > 0 ? history_row_trim(h, place, below) : 0;
}

static int trim_events(struct history *h, int64_t run) {
    sqlite3_stmt *trim = history_prepare(
        h, "DELETE FROM events WHERE run = ?1 AND id <= (SELECT id FROM events WHERE run = ?1"
           " ORDER BY id DESC LIMIT 1 OFFSET ?2)");
    if (!trim)
        return -1;
    sqlite3_bind_int64(trim, 1, run);
    sqlite3_bind_int64(trim, 2, (sqlite3_int64)h->keep);
    int status = history_done(h, trim);
    sqlite3_finalize(trim);
    return status;
}

static int trim_run(struct history *h, int64_t run) {
    struct history_layer layers[HISTORY_LAYERS];
    int count;
    if (history_layers(h, run, layers, &count))
        return -1;
    for (int level = 0; level < HISTORY_LEVELS; level++) {
        if (trim_place(h, &(struct history_place){KIND_LOSS, run, 0, level}))
            return -1;
        for (int layer = 0; layer < count; layer++)
            if (trim_place(h, &(struct history_place){KIND_STATE, run, layer, level}))
                return -1;
    }
    return trim_events(h, run);
}

static int trim_all(struct history *h) {
    struct history_runs runs;
    if (history_runs(h, &runs))
        return -1;
    int status = 0;
    for (size_t i = 0; !status && i < runs.count; i++)
        status = trim_run(h, runs.runs[i].id);
    history_runs_clear(&runs);
    return status ? -1 : history_predictions_trim(h);
}

static bool is_fed(const struct history *h, int64_t run) {
    const struct history_feed *feed = h->feeds;
    while (feed && feed->run != run)
        feed = feed->following;
    return feed != NULL;
}

static int remove_run(struct history *h, int64_t run) {
    static const char *const tables[] = {"loss",   "loss_levels", "state",       "state_levels",
                                         "layers", "events",      "predictions", "runs"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[64];
        sqlite3_snprintf(sizeof sql, sql, "DELETE FROM %s WHERE %s = %lld", tables[i],
                         i + 1 < sizeof tables / sizeof *tables ? "run" : "id", (long long)run);
        if (history_run_sql(h, sql))
            return -1;
    }
    return 0;
}

/* Delete the oldest run that is not being written; *removed says whether there was one. */
static int remove_oldest(struct history *h, bool *removed) {
    struct history_runs runs;
    if (history_runs(h, &runs))
        return -1;
    int status = 0;
    *removed = false;
    for (size_t i = 0; !*removed && i < runs.count; i++)
        if (!is_fed(h, runs.runs[i].id)) {
            *removed = true;
            status = remove_run(h, runs.runs[i].id);
        }
    history_runs_clear(&runs);
    return status;
}

static int fit(struct history *h) {
    uint64_t bytes;
    bool removed = true;
    if (used_bytes(h, &bytes))
        return -1;
    while (bytes > h->options.bytes && (h->keep > KEEP_MIN || removed)) {
        if (h->keep > KEEP_MIN) {
            h->keep = h->keep / 2 > KEEP_MIN ? h->keep / 2 : KEEP_MIN;
            if (trim_all(h))
                return -1;
        } else if (remove_oldest(h, &removed)) {
            return -1;
        }
        if (used_bytes(h, &bytes))
            return -1;
    }
    return 0;
}

int history_retain(struct history *h) {
    if (h->commits <= 1)
        return trim_all(h) ? -1 : fit(h);
    for (const struct history_feed *feed = h->feeds; feed; feed = feed->following)
        if (feed->run && trim_run(h, feed->run))
            return -1;
    return history_predictions_trim(h) ? -1 : fit(h);
}
