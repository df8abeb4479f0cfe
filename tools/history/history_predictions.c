/* The table `predictions`: a row for each column of each truth, beside what was said of it. */
#include "build-config.h"

#include "history_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "tools/shared/watch_truth.h"

enum { KEYS = 5 /* bound before the numbers */ };

/* Its columns after id, run, stream, column and ahead. */
#define NUMBERS "examples, steps, time, data_time, target, prediction, low, high, baseline"
#define ALL NUMBERS ", score"
#define WITHOUT_SCORES NUMBERS ", NULL"

static const char TABLE[] =
    "CREATE TABLE IF NOT EXISTS predictions (id INTEGER PRIMARY KEY, run INTEGER NOT NULL,"
    " stream TEXT, column INTEGER, ahead INTEGER, examples REAL, steps REAL, time REAL,"
    " data_time REAL, target REAL, prediction REAL, low REAL, high REAL, baseline REAL,"
    " score REAL);"
    "CREATE INDEX IF NOT EXISTS predictions_of_stream ON predictions (run, stream, column, ahead);";

int history_predictions_create(struct history *h) {
    return history_run_sql(h, TABLE);
}

/* ---- Writing ---- */

struct inserting {
    struct history *history;
    int64_t run;
    const double *position; /* (HISTORY_AXES,) */
    int status;
};

static void insert(void *context, const struct truth_row *row) {
    struct inserting *inserting = context;
    struct history *h = inserting->history;
    const double numbers[] = {row->data_time, row->target,   row->prediction, row->low,
                              row->high,      row->baseline, row->score};
    char stream[HISTORY_STREAM_SIZE];
    sqlite3_stmt *statement = h->add_prediction;
    if (inserting->status)
        return;
    text_copy(stream, sizeof stream, row->stream);
    sqlite3_bind_int64(statement, 1, inserting->run);
    sqlite3_bind_text(statement, 2, stream, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)row->column);
    sqlite3_bind_double(statement, 4, row->ahead);
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        sqlite3_bind_double(statement, KEYS + axis, inserting->position[axis]);
    /* NaN becomes NULL */
    for (int n = 0; n < (int)(sizeof numbers / sizeof *numbers); n++)
        sqlite3_bind_double(statement, KEYS + HISTORY_AXES + n, numbers[n]);
    inserting->status = history_done(h, statement);
}

int history_predictions_take(struct history *h, int64_t run, const double position[HISTORY_AXES],
                             const json_t *body) {
    struct inserting inserting = {h, run, position, 0};
    if (!h->add_prediction)
        h->add_prediction =
            history_prepare(h, "INSERT INTO predictions (run, stream, column, ahead, " ALL ")"
                               " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    if (!h->add_prediction)
        return -1;
    truth_rows(body, insert, &inserting);
    return inserting.status;
}

int history_predictions_trim(struct history *h) {
    char sql[96];
    sqlite3_snprintf(sizeof sql, sql,
                     "DELETE FROM predictions WHERE id <= (SELECT max(id) FROM predictions) - %lld",
                     (long long)h->keep);
    return history_run_sql(h, sql);
}

void history_predictions_close(struct history *h) {
    sqlite3_finalize(h->add_prediction);
    h->add_prediction = NULL;
}

/* ---- Reading ---- */

static void read_predicted(sqlite3_stmt *select, void *one) {
    struct history_predicted *predicted = one;
    const char *stream = (const char *)sqlite3_column_text(select, 0);
    text_copy(predicted->stream, sizeof predicted->stream, stream ? stream : "");
    predicted->column = sqlite3_column_int(select, 1);
    predicted->ahead = sqlite3_column_int(select, 2);
    predicted->rows = (uint64_t)sqlite3_column_int64(select, 3);
}

int history_predicted(struct history *h, int64_t run, struct history_predicted **list,
                      size_t *count) {
    bool there;
    *list = NULL;
    *count = 0;
    if (history_has_table(h, "predictions", &there))
        return -1;
    if (!there)
        return 0;
    sqlite3_stmt *select =
        history_prepare(h, "SELECT stream, column, ahead, count(*) FROM predictions WHERE run = ?"
                           " GROUP BY stream, column, ahead ORDER BY stream, column, ahead");
    if (!select)
        return -1;
    sqlite3_bind_int64(select, 1, run);
    void *found;
    int status = history_collect(h, select, read_predicted, sizeof **list, &found, count);
    *list = found;
    return status;
}

static void read_row(sqlite3_stmt *select, void *one) {
    struct history_prediction *row = one;
    double *const numbers[] = {&row->data_time, &row->target,   &row->prediction, &row->low,
                               &row->high,      &row->baseline, &row->score};
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        row->position[axis] = history_column_number(select, axis);
    for (int n = 0; n < (int)(sizeof numbers / sizeof *numbers); n++)
        *numbers[n] = history_column_number(select, HISTORY_AXES + n);
}

#define SELECTION(columns)                                                                         \
    "WITH found AS (SELECT * FROM predictions WHERE run = ?1 AND stream = ?2 AND column = ?3"      \
    " AND ahead = ?4) SELECT " columns " FROM"                                                     \
    " (SELECT * FROM (SELECT * FROM found WHERE examples < ?6 ORDER BY id DESC LIMIT ?5)"          \
    " UNION ALL"                                                                                   \
    " SELECT * FROM (SELECT * FROM found WHERE examples >= ?6 ORDER BY id LIMIT ?7))"              \
    " ORDER BY id"

int history_predictions(struct history *h, int64_t run, const struct history_predicted *of,
                        double around, size_t most, struct history_prediction **rows,
                        size_t *count) {
    bool there;
    *rows = NULL;
    *count = 0;
    if (history_has_table(h, "predictions", &there))
        return -1;
    if (!there)
        return 0;
    sqlite3_stmt *select =
        history_prepare(h, h->lacks_scores ? SELECTION(WITHOUT_SCORES) : SELECTION(ALL));
    if (!select)
        return -1;
    sqlite3_bind_int64(select, 1, run);
    sqlite3_bind_text(select, 2, of->stream, -1, SQLITE_STATIC);
    sqlite3_bind_int(select, 3, of->column);
    sqlite3_bind_int(select, 4, of->ahead);
    sqlite3_bind_int64(select, 5, (sqlite3_int64)(isfinite(around) ? most / 2 : most));
    sqlite3_bind_double(select, 6, around);
    sqlite3_bind_int64(select, 7, (sqlite3_int64)(most - most / 2));
    void *list;
    int status = history_collect(h, select, read_row, sizeof **rows, &list, count);
    *rows = list;
    return status;
}
