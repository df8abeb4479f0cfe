/* The table `anomalies`: a row for each column of each event `anomaly`. */
#include "build-config.h"

#include "history_internal.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "common/text.h"
#include "tools/shared/watch_anomaly.h"

enum {
    COLUMNS_MOST = 64, /* of an event; further ones are left out */
    KEYS = 6,          /* columns before the numbers */
    NOTE = 15,         /* the column after them */
};

/* What a row has before its numbers, and those. */
#define TEXTS "event, run, stream, reason, column"
#define NUMBERS "examples, steps, time, data_time, score, threshold, column_score, forecast, truth"

static const char TABLE[] =
    "CREATE TABLE IF NOT EXISTS anomalies (id INTEGER PRIMARY KEY, event INTEGER NOT NULL,"
    " run INTEGER NOT NULL, stream TEXT, reason TEXT, column INTEGER, examples REAL, steps REAL,"
    " time REAL, data_time REAL, score REAL, threshold REAL, column_score REAL, forecast REAL,"
    " truth REAL, note TEXT);"
    "CREATE INDEX IF NOT EXISTS anomalies_of_run ON anomalies (run, event);";

int history_anomalies_create(struct history *h) {
    return history_run_sql(h, TABLE);
}

/* ---- Writing ---- */

/* NaN becomes NULL. */
static int insert(struct history *h, sqlite3_stmt *statement, const double position[HISTORY_AXES],
                  const struct anomaly *a, const struct anomaly_column *column) {
    const double numbers[] = {a->data_time,  a->score,         a->threshold,
                              column->score, column->forecast, column->truth};
    if (column->column >= 0 && column->column <= INT_MAX)
        sqlite3_bind_int64(statement, KEYS - 1, (sqlite3_int64)column->column);
    else
        sqlite3_bind_null(statement, KEYS - 1);
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        sqlite3_bind_double(statement, KEYS + axis, position[axis]);
    if (!isnan(a->example))
        sqlite3_bind_double(statement, KEYS + HISTORY_EXAMPLES, a->example);
    for (int n = 0; n < (int)(sizeof numbers / sizeof *numbers); n++)
        sqlite3_bind_double(statement, KEYS + HISTORY_AXES + n, numbers[n]);
    return history_done(h, statement);
}

int history_anomalies_take(struct history *h, int64_t run, int64_t event,
                           const double position[HISTORY_AXES], const json_t *body) {
    struct anomaly anomaly;
    char stream[HISTORY_STREAM_SIZE], reason[HISTORY_KIND_SIZE], note[WIRE_NOTE_MAX + 1];
    if (!anomaly_of(body, &anomaly))
        return 0;
    sqlite3_stmt *statement =
        history_prepare(h, "INSERT INTO anomalies (" TEXTS ", " NUMBERS
                           ", note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    if (!statement)
        return -1;
    sqlite3_bind_int64(statement, 1, event);
    sqlite3_bind_int64(statement, 2, run);
    sqlite3_bind_text(statement, 3, text_copy(stream, sizeof stream, anomaly.stream), -1,
                      SQLITE_STATIC);
    sqlite3_bind_text(statement, 4, text_copy(reason, sizeof reason, anomaly.reason), -1,
                      SQLITE_STATIC);
    if (*text_copy(note, sizeof note, anomaly.note))
        sqlite3_bind_text(statement, NOTE, note, -1, SQLITE_STATIC);
    size_t columns = json_array_size(anomaly.columns);
    int status = 0;
    for (size_t i = 0; !status && (i == 0 || (i < columns && i < COLUMNS_MOST)); i++) {
        const struct anomaly_column column = anomaly_column(&anomaly, i);
        status = insert(h, statement, position, &anomaly, &column);
        sqlite3_bind_null(statement, NOTE);
    }
    sqlite3_finalize(statement);
    return status;
}

int history_anomalies_trim(struct history *h, int64_t run) {
    sqlite3_stmt *trim = history_prepare(h, "DELETE FROM anomalies WHERE run = ?1 AND event <"
                                            " (SELECT min(id) FROM events WHERE run = ?1)");
    if (!trim)
        return -1;
    sqlite3_bind_int64(trim, 1, run);
    int status = history_done(h, trim);
    sqlite3_finalize(trim);
    return status;
}

/* ---- Reading ---- */

#define SELECTION(note)                                                                            \
    "SELECT " TEXTS ", " NUMBERS ", " note " FROM (SELECT * FROM anomalies"                        \
    " WHERE run = ?1 AND (?2 IS NULL OR stream = ?2) ORDER BY id DESC LIMIT ?3) ORDER BY id"

static void read_text(sqlite3_stmt *select, int column, char *text, size_t size) {
    const char *found = (const char *)sqlite3_column_text(select, column);
    text_copy(text, size, found ? found : "");
}

static void read_row(sqlite3_stmt *select, void *one) {
    struct history_anomaly *row = one;
    enum { EVENT, RUN, STREAM, REASON, COLUMN, FIRST };
    double *const numbers[] = {&row->data_time,    &row->score,    &row->threshold,
                               &row->column_score, &row->forecast, &row->truth};
    row->event = sqlite3_column_int64(select, EVENT);
    read_text(select, STREAM, row->stream, sizeof row->stream);
    read_text(select, REASON, row->reason, sizeof row->reason);
    read_text(select, NOTE - 1, row->note, sizeof row->note);
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
    bool there;
    *rows = NULL;
    *count = 0;
    if (history_has_table(h, "anomalies", &there))
        return -1;
    if (!there)
        return 0;
    sqlite3_stmt *select =
        history_prepare(h, h->lacks_notes ? SELECTION("NULL") : SELECTION("note"));
    if (!select)
        return -1;
    sqlite3_bind_int64(select, 1, run);
    if (stream)
        sqlite3_bind_text(select, 2, stream, -1, SQLITE_STATIC);
    sqlite3_bind_int64(select, 3, (sqlite3_int64)most);
    void *list;
    int status = history_collect(h, select, read_row, sizeof **rows, &list, count);
    *rows = list;
    return status;
}
