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
    uint64_t keep = h->keep / history_tables[place->kind].share;
    /* Those stay that are still to be put together to a row of the next level. */
    int64_t below = last + 1 - (int64_t)(keep ? keep : 1);
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

/* The levels of a kind, or of one of its parts; *there: whether it has any rows. */
static int trim_levels(struct history *h, struct history_place place, bool *there) {
    double position[HISTORY_AXES];
    int64_t last;
    if (history_row_last(h, &place, &last, position))
        return -1;
    *there = last >= 0;
    for (; *there && place.level < HISTORY_LEVELS; place.level++)
        if (trim_place(h, &place))
            return -1;
    return 0;
}

static int trim_run(struct history *h, int64_t run) {
    for (int kind = 0; kind < KINDS; kind++) {
        struct history_place place = {.kind = (enum history_kind)kind, .run = run};
        bool there;
        do {
            if (trim_levels(h, place, &there))
                return -1;
            place.part++;
        } while (there && history_tables[kind].part);
    }
    return trim_events(h, run) || history_anomalies_trim(h, run) ? -1 : 0;
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

static int delete_run(struct history *h, const char *table, const char *levels, const char *key,
                      int64_t run) {
    char sql[96];
    sqlite3_snprintf(sizeof sql, sql, "DELETE FROM %s%s WHERE %s = %lld", table, levels, key,
                     (long long)run);
    return history_run_sql(h, sql);
}

static int remove_run(struct history *h, int64_t run) {
    static const char *const others[] = {"layers", "experts", "events", "anomalies", "predictions"};
    for (int kind = 0; kind < KINDS; kind++)
        if (delete_run(h, history_tables[kind].name, "", "run", run) ||
            delete_run(h, history_tables[kind].name, "_levels", "run", run))
            return -1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (delete_run(h, others[i], "", "run", run))
            return -1;
    return delete_run(h, "runs", "", "id", run);
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
