#include "build-config.h"

#include "history_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- SQL ---- */

/* Parameters of every statement: 1 run, 2 part, 3 level, 4 number or the first one, 5 the last. */
enum { RUN = 1, PART, LEVEL, NUMBER, LAST, VALUES = LAST };

enum { LIST_STEP = 256 /* entries by which a list grows */ };

enum verb { INSERT, SELECT, FIRST, NEWEST, TRIM };

static void add_where(sqlite3_str *sql, const struct history_table *table, bool raw) {
    sqlite3_str_appendf(sql, " %s%s WHERE run = ?1", table->name, raw ? "" : "_levels");
    if (table->part)
        sqlite3_str_appendf(sql, " AND %s = ?2", table->part);
    if (!raw)
        sqlite3_str_appendall(sql, " AND level = ?3");
}

static void add_insert(const struct history *h, sqlite3_str *sql, enum history_kind kind,
                       bool raw) {
    const struct history_table *table = &history_tables[kind];
    sqlite3_str_appendf(sql, "INSERT INTO %s%s (run, %s%s%snumber, ", table->name,
                        raw ? "" : "_levels", table->part ? table->part : "",
                        table->part ? ", " : "", raw ? "" : "level, ");
    history_schema_columns(h, sql, kind, raw);
    sqlite3_str_appendf(sql, ") VALUES (?1, %s%s?4", table->part ? "?2, " : "", raw ? "" : "?3, ");
    int values = HISTORY_AXES + 1 + table->count * (raw ? 1 : 4) + (table->histogram ? 1 : 0);
    for (int i = 0; i < values; i++)
        sqlite3_str_appendf(sql, ", ?%d", VALUES + i);
    sqlite3_str_appendall(sql, ")");
}

static sqlite3_stmt *prepare(struct history *h, enum history_kind kind, bool raw, enum verb verb) {
    const struct history_table *table = &history_tables[kind];
    sqlite3_str *sql = sqlite3_str_new(h->file);
    if (verb == INSERT) {
        add_insert(h, sql, kind, raw);
    } else if (verb == SELECT) {
        sqlite3_str_appendall(sql, "SELECT number, ");
        history_schema_columns(h, sql, kind, raw);
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
        sqlite3_str_appendf(sql, " AND number BETWEEN ?4 AND ?5 ORDER BY number%s LIMIT 1",
                            verb == NEWEST ? " DESC" : "");
    }
    return history_prepare_made(h, sql);
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
    if (history_tables[place->kind].part)
        sqlite3_bind_int(*statement, PART, place->part);
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
    if (!table->histogram)
        return;
    if (row->bin_messages)
        sqlite3_bind_blob(insert, at, row->bins, sizeof row->bins, SQLITE_STATIC);
    else
        sqlite3_bind_null(insert, at);
}

static int insert(struct history *h, const struct history_place *place,
                  const struct history_row *row) {
    sqlite3_stmt *insert = statement_for(h, place, INSERT);
    if (!insert)
        return -1;
    sqlite3_bind_int64(insert, NUMBER, row->number);
    bind_row(insert, &history_tables[place->kind], row, place->level == 0);
    return history_done(h, insert);
}

/* Room in the list for one more than `count`. */
static int grow(struct history *h, void **list, size_t count, size_t size) {
    if (count % LIST_STEP)
        return 0;
    void *bigger = realloc(*list, (count + LIST_STEP) * size);
    if (!bigger)
        return history_memory(h);
    *list = bigger;
    return 0;
}

int history_collect(struct history *h, sqlite3_stmt *select, history_read_one *read, size_t size,
                    void **list, size_t *count) {
    int code, status = 0;
    *list = NULL;
    *count = 0;
    while (!status && (code = sqlite3_step(select)) == SQLITE_ROW) {
        status = *count < HISTORY_ROWS_MAX ? grow(h, list, *count, size) : history_too_long(h);
        if (!status)
            read(select, (char *)*list + (*count)++ * size);
    }
    status = status ? -1 : code == SQLITE_DONE ? 0 : history_fail(h);
    sqlite3_finalize(select);
    return status;
}

double history_column_number(sqlite3_stmt *select, int column) {
    return sqlite3_column_type(select, column) == SQLITE_NULL
               ? NAN
               : sqlite3_column_double(select, column);
}

/* In how many of a row's messages there was no number: in all, where there was no column yet. */
static uint64_t missing(sqlite3_stmt *select, int column, uint64_t messages) {
    return sqlite3_column_type(select, column) == SQLITE_NULL
               ? messages
               : (uint64_t)sqlite3_column_int64(select, column);
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
        value->missing = raw ? isnan(value->mean) : missing(select, at++, row->at.messages);
    }
    row->bin_messages = 0;
    if (!table->histogram || sqlite3_column_bytes(select, at) != sizeof row->bins)
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
    sqlite3_bind_int64(select, LAST, HISTORY_NUMBER_MAX);
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

/* ---- New rows ---- */

void history_row_fill(struct history_row *row, const struct history_table *table,
                      const json_t *object) {
    for (int column = 0; column < table->count; column++) {
        double value = field_number(table->columns[column], object);
        row->values[column] = (struct history_value){value, value, value, isnan(value)};
    }
    double bins[HISTORY_BINS];
    row->bin_messages = layer_bins(object, bins);
    for (size_t bin = 0; row->bin_messages && bin < HISTORY_BINS; bin++)
        row->bins[bin] = (float)bins[bin];
}

struct folding {
    struct history_row row;
    int columns;
};

static bool fold_row(void *context, const struct history_row *row) {
    struct folding *folding = context;
    history_row_add(&folding->row, row, folding->columns);
    return true;
}

int history_row_insert(struct history *h, struct history_place place,
                       const struct history_row *row) {
    struct folding folding = {.row = *row, .columns = history_tables[place.kind].count};
    if (insert(h, &place, &folding.row))
        return -1;
    while (folding.row.number % HISTORY_FACTOR == HISTORY_FACTOR - 1 &&
           place.level + 1 < HISTORY_LEVELS) {
        int64_t above = folding.row.number / HISTORY_FACTOR, first = above * HISTORY_FACTOR;
        folding.row.at.messages = 0;
        if (history_rows(h, &place, first, first + HISTORY_FACTOR - 1, fold_row, &folding))
            return -1;
        folding.row.number = above;
        place.level++;
        if (insert(h, &place, &folding.row))
            return -1;
    }
    return 0;
}
