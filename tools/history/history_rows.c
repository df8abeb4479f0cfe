#include "build-config.h"

#include "history_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/shared/tool.h"

const struct history_column history_loss_columns[HISTORY_LOSS_COLUMNS] = {
    {"loss", "loss", "nats"},
    {"mean", "mean", "nats"},
    {"smoothed", "smoothed", "nats"},
    {"minimum", "minimum", "nats"},
    {"maximum", "maximum", "nats"},
    {"updates", "updates", ""},
    {"rate", "rate", ""},
    {"gradient_norm", "gradient_norm", ""},
    {"update_ratio", "update_ratio", ""},
    {"metric.rmse", "metric_rmse", "original units"},
    {"metric.accuracy", "metric_accuracy", "share"},
    {"metric.bits", "metric_bits", "bits"},
    {"examples_per_second", "examples_per_second", "1/s"},
    {"latency_us.p50", "latency_us_p50", "us"},
    {"latency_us.p99", "latency_us_p99", "us"},
    {"latency_us.max", "latency_us_max", "us"},
    {"queued", "queued", "examples"},
    {"rejected", "rejected", "messages"},
    {"skipped", "skipped", "updates"},
    {"streams", "streams", ""},
};

const struct history_column history_layer_columns[HISTORY_LAYER_COLUMNS] = {
    {"summed_inputs.mean", "summed_inputs_mean", ""},
    {"summed_inputs.std", "summed_inputs_std", ""},
    {"summed_recurrent.mean", "summed_recurrent_mean", ""},
    {"summed_recurrent.std", "summed_recurrent_std", ""},
    {"hidden.mean", "hidden_mean", ""},
    {"hidden.std", "hidden_std", ""},
    {"hidden.minimum", "hidden_minimum", ""},
    {"hidden.maximum", "hidden_maximum", ""},
    {"hidden.norm", "hidden_norm", ""},
    {"hidden.saturated", "hidden_saturated", "share"},
    {"cell.mean", "cell_mean", ""},
    {"cell.std", "cell_std", ""},
    {"cell.minimum", "cell_minimum", ""},
    {"cell.maximum", "cell_maximum", ""},
    {"cell.norm", "cell_norm", ""},
    {"cell.saturated", "cell_saturated", "share"},
    {"gain.mean", "gain_mean", ""},
    {"gain.std", "gain_std", ""},
    {"gain.minimum", "gain_minimum", ""},
    {"gain.maximum", "gain_maximum", ""},
    {"bias.mean", "bias_mean", ""},
    {"bias.std", "bias_std", ""},
    {"bias.minimum", "bias_minimum", ""},
    {"bias.maximum", "bias_maximum", ""},
};

const struct history_table history_tables[KINDS] = {
    {"loss", history_loss_columns, HISTORY_LOSS_COLUMNS, false},
    {"state", history_layer_columns, HISTORY_LAYER_COLUMNS, true},
};

int history_column(const struct history_column *columns, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(columns[i].name, name))
            return i;
    return -1;
}

double history_number(const json_t *object, const char *path) {
    char first[32];
    double value;
    const char *dot = strchr(path, '.');
    if (dot) {
        snprintf(first, sizeof first, "%.*s", (int)(dot - path), path);
        object = json_object_get(object, first);
        path = dot + 1;
    }
    return tool_number(object, path, &value) ? value : NAN;
}

/* ---- SQL ---- */

/* The columns of a level, in the order in which they are bound and read. */
static void add_columns(sqlite3_str *sql, const struct history_table *table, bool raw, bool types) {
    static const char *const parts[] = {"minimum", "maximum", "mean", "missing"};
    sqlite3_str_appendall(sql, types ? "examples REAL, steps REAL, time REAL, messages INTEGER"
                                     : "examples, steps, time, messages");
    for (int column = 0; column < table->count; column++)
        for (size_t part = 0; part < (raw ? 1 : sizeof parts / sizeof *parts); part++)
            sqlite3_str_appendf(sql, ", %s%s%s%s", table->columns[column].name, raw ? "" : "_",
                                raw ? "" : parts[part], types ? " REAL" : "");
    if (table->layered)
        sqlite3_str_appendall(sql, types ? ", histogram BLOB" : ", histogram");
}

char *history_rows_schema(void) {
    sqlite3_str *sql = sqlite3_str_new(NULL);
    for (int kind = 0; kind < KINDS; kind++) {
        const struct history_table *table = &history_tables[kind];
        const char *layer = table->layered ? "layer, " : "";
        const char *typed = table->layered ? "layer INTEGER, " : "";
        sqlite3_str_appendf(sql, "CREATE TABLE %s (run INTEGER, %snumber INTEGER, ", table->name,
                            typed);
        add_columns(sql, table, true, true);
        sqlite3_str_appendf(sql, ", PRIMARY KEY (run, %snumber)) WITHOUT ROWID;", layer);
        sqlite3_str_appendf(
            sql, "CREATE TABLE %s_levels (run INTEGER, %slevel INTEGER, number INTEGER, ",
            table->name, typed);
        add_columns(sql, table, false, true);
        sqlite3_str_appendf(sql, ", PRIMARY KEY (run, %slevel, number)) WITHOUT ROWID;", layer);
    }
    return sqlite3_str_finish(sql);
}

/* Parameters of every statement: 1 run, 2 layer, 3 level, 4 number or the first one, 5 the last. */
enum { RUN = 1, LAYER, LEVEL, NUMBER, LAST, VALUES = LAST };

enum verb { INSERT, SELECT, FIRST, NEWEST, TRIM };

static void add_where(sqlite3_str *sql, const struct history_table *table, bool raw) {
    sqlite3_str_appendf(sql, " %s%s WHERE run = ?1%s%s", table->name, raw ? "" : "_levels",
                        table->layered ? " AND layer = ?2" : "", raw ? "" : " AND level = ?3");
}

static void add_insert(sqlite3_str *sql, const struct history_table *table, bool raw) {
    sqlite3_str_appendf(sql, "INSERT INTO %s%s (run, %s%snumber, ", table->name,
                        raw ? "" : "_levels", table->layered ? "layer, " : "",
                        raw ? "" : "level, ");
    add_columns(sql, table, raw, false);
    sqlite3_str_appendf(sql, ") VALUES (?1, %s%s?4", table->layered ? "?2, " : "",
                        raw ? "" : "?3, ");
    int values = HISTORY_AXES + 1 + table->count * (raw ? 1 : 4) + (table->layered ? 1 : 0);
    for (int i = 0; i < values; i++)
        sqlite3_str_appendf(sql, ", ?%d", VALUES + i);
    sqlite3_str_appendall(sql, ")");
}

static sqlite3_stmt *prepare(struct history *h, enum history_kind kind, bool raw, enum verb verb) {
    const struct history_table *table = &history_tables[kind];
    sqlite3_str *sql = sqlite3_str_new(h->file);
    if (verb == INSERT) {
        add_insert(sql, table, raw);
    } else if (verb == SELECT) {
        sqlite3_str_appendall(sql, "SELECT number, ");
        add_columns(sql, table, raw, false);
        sqlite3_str_appendall(sql, " FROM");
        add_where(sql, table, raw);
        sqlite3_str_appendall(sql, " AND number BETWEEN ?4 AND ?5 ORDER BY number");
    } else if (verb == TRIM) {
        sqlite3_str_appendall(sql, "DELETE FROM");
        add_where(sql, table, raw);
        sqlite3_str_appendall(sql, " AND number < ?4");
    } else {
        sqlite3_str_appendall(sql, "SELECT number, examples, steps, time FROM");
        add_where(sql, table, raw);
        sqlite3_str_appendf(sql, " AND number >= ?4 ORDER BY number%s LIMIT 1",
                            verb == NEWEST ? " DESC" : "");
    }
    char *text = sqlite3_str_finish(sql);
    sqlite3_stmt *statement = text ? history_prepare(h, text) : NULL;
    if (!text)
        history_memory(h);
    sqlite3_free(text);
    return statement;
}

/* The statement for a place, its key bound; NULL when it cannot be prepared. */
static sqlite3_stmt *statement_for(struct history *h, const struct history_place *place,
                                   enum verb verb) {
    struct history_statements *all = &h->statements[place->kind];
    sqlite3_stmt **of[] = {all->insert, all->select, all->first, all->last, all->trim};
    bool raw = place->level == 0;
    sqlite3_stmt **statement = &of[verb][raw ? 0 : 1];
    if (!*statement)
        *statement = prepare(h, place->kind, raw, verb);
    if (!*statement)
        return NULL;
    sqlite3_bind_int64(*statement, RUN, place->run);
    if (history_tables[place->kind].layered)
        sqlite3_bind_int(*statement, LAYER, place->layer);
    if (!raw)
        sqlite3_bind_int(*statement, LEVEL, place->level);
    return *statement;
}

void history_rows_close(struct history *h) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int level = 0; level < 2; level++) {
            struct history_statements *all = &h->statements[kind];
            sqlite3_finalize(all->insert[level]);
            sqlite3_finalize(all->select[level]);
            sqlite3_finalize(all->first[level]);
            sqlite3_finalize(all->last[level]);
            sqlite3_finalize(all->trim[level]);
        }
    memset(h->statements, 0, sizeof h->statements);
}

/* ---- Rows ---- */

/* SQLite writes NaN as NULL. */
static void bind_row(sqlite3_stmt *insert, const struct history_table *table,
                     const struct history_row *row, bool raw) {
    int at = VALUES;
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        sqlite3_bind_double(insert, at++, row->at.position[axis]);
    sqlite3_bind_int64(insert, at++, (sqlite3_int64)row->at.messages);
    for (int column = 0; column < table->count; column++) {
        const struct history_value *value = &row->values[column];
        if (!raw) {
            sqlite3_bind_double(insert, at++, value->minimum);
            sqlite3_bind_double(insert, at++, value->maximum);
        }
        sqlite3_bind_double(insert, at++, value->mean);
        if (!raw)
            sqlite3_bind_int64(insert, at++, (sqlite3_int64)value->missing);
    }
    if (!table->layered)
        return;
    if (row->bin_messages)
        sqlite3_bind_blob(insert, at, row->bins, sizeof row->bins, SQLITE_STATIC);
    else
        sqlite3_bind_null(insert, at);
}

int history_row_insert(struct history *h, const struct history_place *place,
                       const struct history_row *row) {
    sqlite3_stmt *insert = statement_for(h, place, INSERT);
    if (!insert)
        return -1;
    sqlite3_bind_int64(insert, NUMBER, row->number);
    bind_row(insert, &history_tables[place->kind], row, place->level == 0);
    return history_done(h, insert);
}

double history_column_number(sqlite3_stmt *select, int column) {
    return sqlite3_column_type(select, column) == SQLITE_NULL
               ? NAN
               : sqlite3_column_double(select, column);
}

static void read_row(sqlite3_stmt *select, const struct history_table *table,
                     struct history_row *row, bool raw) {
    int at = 0;
    row->number = sqlite3_column_int64(select, at++);
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        row->at.position[axis] = history_column_number(select, at++);
    row->at.messages = (uint64_t)sqlite3_column_int64(select, at++);
    for (int column = 0; column < table->count; column++) {
        struct history_value *value = &row->values[column];
        value->minimum = history_column_number(select, at++);
        value->maximum = raw ? value->minimum : history_column_number(select, at++);
        value->mean = raw ? value->minimum : history_column_number(select, at++);
        value->missing = raw ? isnan(value->mean) : (uint64_t)sqlite3_column_int64(select, at++);
    }
    row->bin_messages = 0;
    if (!table->layered || sqlite3_column_bytes(select, at) != sizeof row->bins)
        return;
    memcpy(row->bins, sqlite3_column_blob(select, at), sizeof row->bins);
    row->bin_messages = row->at.messages;
}

int history_rows(struct history *h, const struct history_place *place, int64_t first, int64_t last,
                 history_take_row *take, void *context) {
    struct history_row row;
    sqlite3_stmt *select = statement_for(h, place, SELECT);
    if (!select)
        return -1;
    sqlite3_bind_int64(select, NUMBER, first);
    sqlite3_bind_int64(select, LAST, last);
    int code;
    bool more = true;
    while (more && (code = sqlite3_step(select)) == SQLITE_ROW) {
        read_row(select, &history_tables[place->kind], &row, place->level == 0);
        more = take(context, &row);
    }
    int status = more && code != SQLITE_DONE ? history_fail(h) : 0;
    sqlite3_reset(select);
    return status;
}

static int find(struct history *h, const struct history_place *place, enum verb verb, int64_t from,
                int64_t *number, double position[HISTORY_AXES]) {
    sqlite3_stmt *select = statement_for(h, place, verb);
    if (!select)
        return -1;
    sqlite3_bind_int64(select, NUMBER, from);
    int code = sqlite3_step(select);
    *number = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : -1;
    for (int axis = 0; axis < HISTORY_AXES; axis++)
        position[axis] = code == SQLITE_ROW ? history_column_number(select, 1 + axis) : NAN;
    int status = code == SQLITE_ROW || code == SQLITE_DONE ? 0 : history_fail(h);
    sqlite3_reset(select);
    return status;
}

int history_row_first(struct history *h, const struct history_place *place, int64_t from,
                      int64_t *number, double position[HISTORY_AXES]) {
    return find(h, place, FIRST, from, number, position);
}

int history_row_last(struct history *h, const struct history_place *place, int64_t *number,
                     double position[HISTORY_AXES]) {
    return find(h, place, NEWEST, 0, number, position);
}

int history_row_trim(struct history *h, const struct history_place *place, int64_t below) {
    sqlite3_stmt *trim = statement_for(h, place, TRIM);
    if (!trim)
        return -1;
    sqlite3_bind_int64(trim, NUMBER, below);
    return history_done(h, trim);
}

/* ---- Putting rows together ---- */

static void add_value(struct history_value *into, uint64_t messages,
                      const struct history_value *value, uint64_t more) {
    uint64_t known = messages - into->missing, added = more - value->missing;
    into->missing += value->missing;
    if (!added)
        return;
    into->minimum = known ? fmin(into->minimum, value->minimum) : value->minimum;
    into->maximum = known ? fmax(into->maximum, value->maximum) : value->maximum;
    into->mean =
        known ? into->mean + (value->mean - into->mean) * (double)added / (double)(known + added)
              : value->mean;
}

void history_row_add(struct history_row *into, const struct history_row *row, int columns) {
    if (!into->at.messages) {
        *into = *row;
        return;
    }
    for (int column = 0; column < columns; column++)
        add_value(&into->values[column], into->at.messages, &row->values[column], row->at.messages);
    uint64_t bins = into->bin_messages + row->bin_messages;
    float share = bins ? (float)row->bin_messages / (float)bins : 0;
    for (int bin = 0; share > 0 && bin < HISTORY_BINS; bin++)
        into->bins[bin] = into->bin_messages
                              ? into->bins[bin] + (row->bins[bin] - into->bins[bin]) * share
                              : row->bins[bin];
    into->bin_messages = bins;
    memcpy(into->at.position, row->at.position, sizeof into->at.position);
    into->at.messages += row->at.messages;
}
