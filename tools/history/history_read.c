/* Reads recordings. */
#include "history_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

enum {
    ROWS_A_POINT = HISTORY_FACTOR, /* maximum number of rows read for one point */
    LIST_STEP = 64,
};

/* ---- Lists of rows with strings ---- */

static void read_text(sqlite3_stmt *select, int column, char *text, size_t size) {
    const char *found = (const char *)sqlite3_column_text(select, column);
    text_copy(text, size, found ? found : "");
}

/* Strings, one after another. They are offsets until the list is complete, because the block
   moves. */
struct strings {
    char *text;
    size_t size, room;
};

static int keep_string(struct strings *strings, sqlite3_stmt *select, int column,
                       const char **string) {
    const char *text = (const char *)sqlite3_column_text(select, column);
    size_t size = text ? (size_t)sqlite3_column_bytes(select, column) + 1 : 1;
    if (strings->size + size > strings->room) {
        size_t room = 2 * strings->room + size;
        char *bigger = realloc(strings->text, room);
        if (!bigger)
            return -1;
        strings->text = bigger;
        strings->room = room;
    }
    memcpy(strings->text + strings->size, text ? text : "", size);
    *string = (const char *)(uintptr_t)strings->size;
    strings->size += size;
    return 0;
}

static void place_string(const struct strings *strings, const char **string) {
    *string = strings->text + (uintptr_t)*string;
}

/* ---- Runs ---- */

static const char **string_of(struct history_run *run, int column) {
    return (const char **)((char *)run + history_run_columns[column].offset);
}

static int read_run(struct history_run *run, sqlite3_stmt *select, struct strings *texts) {
    enum { FIRST = 2 };
    run->id = sqlite3_column_int64(select, 0);
    run->part = sqlite3_column_int(select, 1);
    for (int i = 0; i < HISTORY_RUN_COLUMNS; i++)
        if (history_run_columns[i].separate)
            continue;
        else if (!history_run_columns[i].text)
            *(double *)((char *)run + history_run_columns[i].offset) =
                history_column_number(select, FIRST + i);
        else if (keep_string(texts, select, FIRST + i, string_of(run, i)))
            return -1;
    return 0;
}

static sqlite3_stmt *select_runs(struct history *h) {
    sqlite3_str *sql = sqlite3_str_new(h->file);
    sqlite3_str_appendall(sql, "SELECT id, part");
    for (int i = 0; i < HISTORY_RUN_COLUMNS; i++)
        sqlite3_str_appendf(sql, ", %s",
                            h->lacks_of_runs[i] || history_run_columns[i].separate
                                ? "NULL"
                                : history_run_columns[i].name);
    sqlite3_str_appendall(sql, " FROM runs ORDER BY id");
    return history_prepare_made(h, sql);
}

int history_runs(struct history *h, struct history_runs *runs) {
    *runs = (struct history_runs){0};
    struct strings texts = {0};
    sqlite3_stmt *select = select_runs(h);
    if (!select)
        return -1;
    int code, status = 0;
    while (!status && (code = sqlite3_step(select)) == SQLITE_ROW) {
        void *list = runs->runs;
        if (runs->count < HISTORY_ROWS_MAX &&
            history_grow(h, &list, runs->count, sizeof *runs->runs) == 0) {
            runs->runs = list;
            status = read_run(&runs->runs[runs->count++], select, &texts);
        } else {
            status = -1;
        }
    }
    status = runs->count == HISTORY_ROWS_MAX ? history_too_long(h)
             : status                        ? history_memory(h)
             : code == SQLITE_DONE           ? 0
                                             : history_fail(h);
    sqlite3_finalize(select);
    runs->text = texts.text;
    for (size_t i = 0; !status && i < runs->count; i++)
        for (int column = 0; column < HISTORY_RUN_COLUMNS; column++)
            if (history_run_columns[column].text && !history_run_columns[column].separate)
                place_string(&texts, string_of(&runs->runs[i], column));
    if (status)
        history_runs_clear(runs);
    return status;
}

void history_runs_clear(struct history_runs *runs) {
    free(runs->runs);
    free(runs->text);
    *runs = (struct history_runs){0};
}

static bool lacks_configuration(const struct history *h) {
    for (int i = 0; i < HISTORY_RUN_COLUMNS; i++)
        if (history_run_columns[i].separate)
            return h->lacks_of_runs[i];
    return true;
}

int history_configuration(struct history *h, int64_t run, char **json) {
    *json = NULL;
    if (lacks_configuration(h))
        return 0;
    sqlite3_stmt *select =
        history_prepare_run(h, "SELECT configuration FROM runs WHERE id = ?", run);
    bool row;
    int status = history_step(h, select, &row);
    const char *text = row ? (const char *)sqlite3_column_text(select, 0) : NULL;
    *json = text ? strdup(text) : NULL;
    if (text && !*json)
        status = history_memory(h);
    sqlite3_finalize(select);
    return status;
}

int history_has_run(struct history *h, int64_t run, bool *known) {
    sqlite3_stmt *select = history_prepare_run(h, "SELECT 1 FROM runs WHERE id = ?", run);
    int status = history_step(h, select, known);
    sqlite3_finalize(select);
    return status;
}

int history_layers(struct history *h, int64_t run, struct history_layer layers[HISTORY_LAYERS],
                   int *count) {
    *count = 0;
    sqlite3_stmt *select = history_prepare_run(
        h,
        h->lacks_members ? "SELECT kind, size, NULL FROM layers WHERE run = ? ORDER BY layer"
                         : "SELECT kind, size, member FROM layers WHERE run = ? ORDER BY layer",
        run);
    bool row = true;
    int status = 0;
    while (*count < HISTORY_LAYERS && !(status = history_step(h, select, &row)) && row) {
        struct history_layer *layer = &layers[(*count)++];
        read_text(select, 0, layer->kind, sizeof layer->kind);
        layer->size = sqlite3_column_int(select, 1);
        read_text(select, 2, layer->member, sizeof layer->member);
    }
    sqlite3_finalize(select);
    return status;
}

/* ---- Series ---- */

/* Finds the first number in first..last + 1 whose position is at least `from`, or with `beyond`
   greater. Positions never decrease within a run. */
static int search(struct history *h, const struct history_place *place, enum history_axis axis,
                  double from, bool beyond, int64_t first, int64_t last, int64_t *found) {
    while (first <= last) {
        int64_t middle = first + (last - first) / 2, number;
        double position[HISTORY_AXES];
        if (history_row_first(h, place, middle, &number, position))
            return -1;
        if (number < 0 || (beyond ? position[axis] > from : position[axis] >= from))
            last = middle - 1;
        else
            first = number + 1;
    }
    *found = first;
    return 0;
}

/* The rows [*first, *end) of a level that lie in the range; *covers: whether the level reaches back
   to the range's beginning. */
static int find_rows(struct history *h, const struct history_place *place,
                     const struct history_range *range, int64_t *first, int64_t *end,
                     bool *covers) {
    double oldest_at[HISTORY_AXES], newest_at[HISTORY_AXES];
    int64_t oldest, newest;
    if (history_row_first(h, place, 0, &oldest, oldest_at) ||
        history_row_last(h, place, &newest, newest_at))
        return -1;
    *first = *end = 0;
    *covers = oldest <= 0 || oldest_at[range->axis] <= range->from;
    if (oldest < 0)
        return 0;
    if (search(h, place, range->axis, range->from, false, oldest, newest, first))
        return -1;
    return search(h, place, range->axis, range->to, true, *first, newest, end);
}

/* Chooses the finest level that reaches back far enough and has few enough rows. */
static int choose_level(struct history *h, struct history_place *place,
                        const struct history_range *range, int64_t *first, int64_t *end) {
    int64_t most = (int64_t)range->points * ROWS_A_POINT;
    bool covers = false;
    for (place->level = 0; place->level < HISTORY_LEVELS; place->level++) {
        if (find_rows(h, place, range, first, end, &covers))
            return -1;
        if (covers && *end - *first <= most)
            return 0;
    }
    place->level--;
    return 0;
}

/* Joins rows to points of `group` messages each. */
struct gathering {
    struct history_series *series;
    const struct history_table *table;
    struct history_row row;
    const struct history_range *range;
    uint64_t group;
    size_t room;
    bool raw, done, short_of_memory;
};

static bool flush_point(struct gathering *g) {
    struct history_series *s = g->series;
    if (s->points == HISTORY_ROWS_MAX) {
        g->short_of_memory = true;
        return false;
    }
    if (s->points == g->room) {
        size_t room = g->room ? 2 * g->room : LIST_STEP;
        struct history_point *at = realloc(s->at, room * sizeof *at);
        s->at = at ? at : s->at;
        struct history_value *values = realloc(s->values, room * s->columns * sizeof *values);
        s->values = values ? values : s->values;
        float *bins =
            g->table->histogram ? realloc(s->histograms, room * HISTORY_BINS * sizeof *bins) : NULL;
        s->histograms = bins ? bins : s->histograms;
        g->short_of_memory = !at || !values || (g->table->histogram && !bins);
        if (g->short_of_memory)
            return false;
        g->room = room;
    }
    s->at[s->points] = g->row.at;
    memcpy(s->values + s->points * s->columns, g->row.values, s->columns * sizeof *s->values);
    for (int bin = 0; s->histograms && bin < HISTORY_BINS; bin++)
        s->histograms[s->points * HISTORY_BINS + (size_t)bin] =
            g->row.bin_messages ? g->row.bins[bin] : NAN;
    s->points++;
    g->row.at.messages = 0;
    return true;
}

static bool gather(void *context, const struct history_row *row) {
    struct gathering *g = context;
    g->done = row->at.position[g->range->axis] > g->range->to;
    if (g->done && g->raw)
        return false;
    history_row_add(&g->row, row, g->table->count);
    return (g->row.at.messages < g->group || flush_point(g)) && !g->done;
}

/* Reads rows [first, ...) of the level, then the rows of finer levels that it does not summarize
   yet. A row across the range's end is included: finer rows may be deleted. */
static int gather_levels(struct history *h, struct history_place place, int64_t first,
                         struct gathering *g) {
    for (;; place.level--) {
        double position[HISTORY_AXES];
        int64_t last;
        g->raw = place.level == 0;
        if (history_rows(h, &place, first, HISTORY_NUMBER_MAX, gather, g) ||
            history_row_last(h, &place, &last, position))
            return -1;
        if (g->raw || g->done || g->short_of_memory || first > HISTORY_NUMBER_MAX)
            return 0;
        first = (last >= first ? last + 1 : first) * HISTORY_FACTOR;
    }
}

static int read_rows(struct history *h, struct history_place place,
                     const struct history_range *range, struct history_series *series) {
    const struct history_table *table = &history_tables[place.kind];
    *series = (struct history_series){.columns = (size_t)table->count};
    struct gathering g = {.series = series, .table = table, .range = range};
    int64_t first, end;
    uint64_t in_row = 1;
    if (choose_level(h, &place, range, &first, &end))
        return -1;
    if (first == end && place.level == 0)
        return 0;
    for (int level = 0; level < place.level; level++)
        in_row *= HISTORY_FACTOR;
    /* One row may lie across the end; all finer levels together add less than one row. */
    uint64_t rows = (uint64_t)(end - first) + (place.level > 0 ? 2 : 0);
    g.group = in_row * ((rows + range->points - 1) / range->points);
    int status = gather_levels(h, place, first, &g);
    if (!status && (g.short_of_memory || (g.row.at.messages && !flush_point(&g))))
        status = history_memory(h);
    if (status)
        history_series_clear(series);
    return status;
}

/* Reads in one transaction, so that no commit of the writer falls in between. */
static int read_series(struct history *h, struct history_place place,
                       const struct history_range *range, struct history_series *series) {
    bool within = h->writing;
    *series = (struct history_series){0};
    if (!within && history_run_sql(h, "BEGIN"))
        return -1;
    int status = read_rows(h, place, range, series);
    if (!within && history_run_sql(h, "COMMIT") && !status) {
        history_series_clear(series);
        status = -1;
    }
    return status;
}

int history_loss(struct history *h, int64_t run, const struct history_range *range,
                 struct history_series *series) {
    return read_series(h, (struct history_place){.kind = KIND_LOSS, .run = run}, range, series);
}

int history_state(struct history *h, int64_t run, int layer, const struct history_range *range,
                  struct history_series *series) {
    struct history_place place = {.kind = KIND_STATE, .run = run, .part = layer};
    return read_series(h, place, range, series);
}

void history_series_clear(struct history_series *series) {
    free(series->at);
    free(series->values);
    free(series->histograms);
    *series = (struct history_series){0};
}

/* ---- Events ---- */

int history_events(struct history *h, int64_t run, const char *kind,
                   const struct history_range *range, struct history_events *events) {
    char sql[320];
    *events = (struct history_events){0};
    struct strings texts = {0};
    sqlite3_snprintf(sizeof sql, sql,
                     "SELECT id, examples, steps, time, kind, text, %s FROM (SELECT * FROM events"
                     " WHERE run = ?1 AND (?5 IS NULL OR kind = ?5) AND %s BETWEEN ?2 AND ?3"
                     " ORDER BY id DESC LIMIT ?4) ORDER BY id",
                     h->lacks_incidents ? "NULL" : "incident", history_axes[range->axis]->name);
    sqlite3_stmt *select = history_prepare_run(h, sql, run);
    sqlite3_bind_double(select, 2, range->from);
    sqlite3_bind_double(select, 3, range->to);
    sqlite3_bind_int64(select, 4, (sqlite3_int64)range->points);
    sqlite3_bind_text(select, 5, kind, -1, SQLITE_STATIC);
    int code, status = 0;
    while (!status && (code = sqlite3_step(select)) == SQLITE_ROW) {
        void *list = events->events;
        status = history_grow(h, &list, events->count, sizeof *events->events);
        if (status)
            break;
        events->events = list;
        struct history_event *event = &events->events[events->count++];
        event->id = sqlite3_column_int64(select, 0);
        for (int axis = 0; axis < HISTORY_AXES; axis++)
            event->position[axis] = history_column_number(select, 1 + axis);
        status = keep_string(&texts, select, 4, &event->kind) ||
                 keep_string(&texts, select, 5, &event->text) ||
                 keep_string(&texts, select, 6, &event->incident);
    }
    status = status ? history_memory(h) : code == SQLITE_DONE ? 0 : history_fail(h);
    sqlite3_finalize(select);
    events->text = texts.text;
    for (size_t i = 0; !status && i < events->count; i++) {
        place_string(&texts, &events->events[i].kind);
        place_string(&texts, &events->events[i].text);
        place_string(&texts, &events->events[i].incident);
    }
    if (status)
        history_events_clear(events);
    return status;
}

void history_events_clear(struct history_events *events) {
    free(events->events);
    free(events->text);
    *events = (struct history_events){0};
}

/* ---- Columns, experts and members ---- */

struct reading_part {
    struct history_part *part; /* filled by read_part */
    int columns;
    bool found;
};

static bool read_part(void *context, const struct history_row *row) {
    struct reading_part *reading = context;
    for (int i = 0; i < reading->columns; i++)
        reading->part->numbers[i] = row->values[i].mean;
    reading->found = true;
    return true;
}

static int read_name(struct history *h, int64_t run, int expert, char name[HISTORY_NAME_SIZE]) {
    sqlite3_stmt *select =
        history_prepare_run(h, "SELECT name FROM experts WHERE run = ? AND expert = ?", run);
    sqlite3_bind_int(select, 2, expert);
    bool row;
    int status = history_step(h, select, &row);
    read_text(select, 0, name, HISTORY_NAME_SIZE);
    sqlite3_finalize(select);
    return status;
}

/* The parts of the message with this number. */
static int read_parts(struct history *h, enum history_kind kind, int64_t run, int64_t number,
                      struct history_part *list, size_t *count) {
    struct history_place place = {.kind = kind, .run = run};
    struct reading_part reading = {.columns = history_tables[kind].count, .found = true};
    for (; place.part < HISTORY_PARTS; place.part++) {
        reading.part = &list[place.part];
        reading.found = false;
        if (history_rows(h, &place, number, number, read_part, &reading))
            return -1;
        if (!reading.found)
            break;
        if (kind == KIND_EXPERTS && read_name(h, run, place.part, list[place.part].name))
            return -1;
    }
    *count = (size_t)place.part;
    return 0;
}

int history_parts(struct history *h, int64_t run, bool experts, struct history_part **list,
                  size_t *count) {
    enum history_kind kind = experts ? KIND_EXPERTS : KIND_COLUMNS;
    double position[HISTORY_AXES];
    int64_t newest;
    *list = NULL;
    *count = 0;
    if (h->lacks[kind][0]) /* the file has no such table */
        return 0;
    *list = calloc(HISTORY_PARTS, sizeof **list);
    if (!*list)
        return history_memory(h);
    struct history_place losses = {.kind = KIND_LOSS, .run = run};
    return history_row_last(h, &losses, &newest, position) ||
                   (newest >= 0 && read_parts(h, kind, run, newest, *list, count))
               ? -1
               : 0;
}

/* ---- Anomalies ---- */

#define ANOMALIES(note)                                                                            \
    "SELECT " ANOMALY_COLUMNS ", " note " FROM (SELECT * FROM anomalies"                           \
    " WHERE run = ?1 AND (?2 IS NULL OR stream = ?2) ORDER BY id DESC LIMIT ?3) ORDER BY id"

static void read_anomaly(sqlite3_stmt *select, void *one) {
    struct history_anomaly *row = one;
    enum { EVENT, RUN, STREAM, REASON, COLUMN, FIRST };
    double *const numbers[] = {&row->data_time,    &row->score,    &row->threshold,
                               &row->column_score, &row->forecast, &row->truth};
    row->event = sqlite3_column_int64(select, EVENT);
    read_text(select, STREAM, row->stream, sizeof row->stream);
    read_text(select, REASON, row->reason, sizeof row->reason);
    read_text(select, ANOMALY_NOTE - 1, row->note, sizeof row->note);
    row->column = sqlite3_column_type(select, COLUMN) == SQLITE_NULL
                      ? -1
                      : sqlite3_column_int(select, COLUMN);
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        row->position[axis] = history_column_number(select, FIRST + axis);
    for (int n = 0; n < (int)(sizeof numbers / sizeof *numbers); n++)
        *numbers[n] = history_column_number(select, FIRST + HISTORY_AXES + n);
}

int history_anomalies(struct history *h, int64_t run, const char *stream, size_t most,
                      struct history_anomaly **rows, size_t *count) {
    *rows = NULL;
    *count = 0;
    int there = history_has_table(h, "anomalies");
    if (there <= 0)
        return there;
    sqlite3_stmt *select =
        history_prepare_run(h, h->lacks_notes ? ANOMALIES("NULL") : ANOMALIES("note"), run);
    sqlite3_bind_text(select, 2, stream, -1, SQLITE_STATIC);
    sqlite3_bind_int64(select, 3, (sqlite3_int64)most);
    return history_collect(h, select, read_anomaly, sizeof **rows, rows, count);
}

/* ---- Predictions and truths ---- */

static void read_predicted(sqlite3_stmt *select, void *one) {
    struct history_predicted *predicted = one;
    read_text(select, 0, predicted->stream, sizeof predicted->stream);
    predicted->column = sqlite3_column_int(select, 1);
    predicted->ahead = sqlite3_column_int(select, 2);
    predicted->rows = (uint64_t)sqlite3_column_int64(select, 3);
}

int history_predicted(struct history *h, int64_t run, struct history_predicted **list,
                      size_t *count) {
    *list = NULL;
    *count = 0;
    int there = history_has_table(h, "predictions");
    if (there <= 0)
        return there;
    static const char sql[] =
        "SELECT stream, column, ahead, count(*) FROM predictions WHERE run = ?"
        " GROUP BY stream, column, ahead ORDER BY stream, column, ahead";
    return history_collect(h, history_prepare_run(h, sql, run), read_predicted, sizeof **list, list,
                           count);
}

static void read_prediction(sqlite3_stmt *select, void *one) {
    struct history_prediction *row = one;
    double *const numbers[] = {&row->data_time, &row->target,   &row->prediction, &row->low,
                               &row->high,      &row->baseline, &row->score};
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        row->position[axis] = history_column_number(select, axis);
    int n = 0;
    for (; n < (int)(sizeof numbers / sizeof *numbers); n++)
        *numbers[n] = history_column_number(select, HISTORY_AXES + n);
    read_text(select, HISTORY_AXES + n, row->quantiles, sizeof row->quantiles);
}

#define PREDICTIONS(score)                                                                         \
    "WITH found AS (SELECT * FROM predictions WHERE run = ?1 AND stream = ?2 AND column = ?3"      \
    " AND ahead = ?4) SELECT " PREDICTION_NUMBERS score " FROM"                                    \
    " (SELECT * FROM (SELECT * FROM found WHERE examples < ?6 ORDER BY id DESC LIMIT ?5)"          \
    " UNION ALL"                                                                                   \
    " SELECT * FROM (SELECT * FROM found WHERE examples >= ?6 ORDER BY id LIMIT ?7))"              \
    " ORDER BY id"

int history_predictions(struct history *h, int64_t run, const struct history_predicted *of,
                        double around, size_t most, struct history_prediction **rows,
                        size_t *count) {
    *rows = NULL;
    *count = 0;
    int there = history_has_table(h, "predictions");
    if (there <= 0)
        return there;
    const char *sql = h->lacks_scores      ? PREDICTIONS(", NULL, NULL")
                      : h->lacks_quantiles ? PREDICTIONS(", score, NULL")
                                           : PREDICTIONS(", score, quantiles");
    sqlite3_stmt *select = history_prepare_run(h, sql, run);
    sqlite3_bind_text(select, 2, of->stream, -1, SQLITE_STATIC);
    sqlite3_bind_int(select, 3, of->column);
    sqlite3_bind_int(select, 4, of->ahead);
    sqlite3_bind_int64(select, 5, (sqlite3_int64)(isfinite(around) ? most / 2 : most));
    sqlite3_bind_double(select, 6, around);
    sqlite3_bind_int64(select, 7, (sqlite3_int64)(most - most / 2));
    return history_collect(h, select, read_prediction, sizeof **rows, rows, count);
}
