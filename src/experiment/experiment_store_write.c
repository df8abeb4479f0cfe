#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "experiment_store_internal.h"

enum { SQL_SIZE = 1024 };

int experiment_store_begin(struct experiment_store *store, struct error *error) {
    return store_execute(store, "BEGIN IMMEDIATE", error);
}

int experiment_store_commit(struct experiment_store *store, struct error *error) {
    return store_execute(store, "COMMIT", error);
}

/* A full disk may have ended the transaction already. */
void experiment_store_undo(struct experiment_store *store) {
    if (!sqlite3_get_autocommit(store->file))
        sqlite3_exec(store->file, "ROLLBACK", NULL, NULL, NULL);
}

/* Run it to its end, and be done with it. */
static int finish(struct experiment_store *store, sqlite3_stmt *statement, struct error *error) {
    int code = sqlite3_step(statement);
    int result =
        code == SQLITE_DONE || code == SQLITE_ROW ? 0 : store_error(store, "written", error);
    sqlite3_finalize(statement);
    return result;
}

static void bind_text(sqlite3_stmt *statement, int n, const char *text) {
    sqlite3_bind_text(statement, n, text, -1, SQLITE_STATIC); /* NULL binds NULL */
}

static void bind(sqlite3_stmt *statement, int n, const struct store_column *column,
                 const void *row) {
    const void *from = (const char *)row + column->at;
    const char *name = from;
    double number;
    switch (column->type) {
    case STORE_TEXT:
    case STORE_LABEL:
        bind_text(statement, n, *(const char *const *)from);
        break;
    case STORE_NAME:
        bind_text(statement, n, *name ? name : NULL);
        break;
    case STORE_COUNT:
    case STORE_WHOLE:
        sqlite3_bind_int64(statement, n, *(const int64_t *)from);
        break;
    case STORE_REAL:
        number = *(const double *)from;
        if (isfinite(number))
            sqlite3_bind_double(statement, n, number);
        else
            sqlite3_bind_null(statement, n);
        break;
    case STORE_STATE:
        bind_text(statement, n, experiment_state_name(*(const enum experiment_state *)from));
        break;
    }
}

/* Rows of a table that begin with `first`, and, with `place`, which row it is. */
static int put_rows(struct experiment_store *store, const struct store_table *table,
                    const char *first, int64_t is, const char *place, const void *rows,
                    size_t count, struct error *error) {
    char sql[SQL_SIZE];
    sqlite3_stmt *statement;
    size_t used =
        (size_t)snprintf(sql, SQL_SIZE, "INSERT OR REPLACE INTO %s (%s%s%s%s", table->name, first,
                         *first ? ", " : "", place, *place ? ", " : "");
    for (size_t n = 0; n < table->count; n++)
        used += (size_t)snprintf(sql + used, SQL_SIZE - used, "%s%s", n ? ", " : "",
                                 table->columns[n].name);
    size_t given = table->count + (*first != 0) + (*place != 0);
    used += (size_t)snprintf(sql + used, SQL_SIZE - used, ") VALUES (");
    for (size_t n = 0; n < given; n++)
        used += (size_t)snprintf(sql + used, SQL_SIZE - used, n ? ", ?" : "?");
    snprintf(sql + used, SQL_SIZE - used, ")");
    if (store_prepare(store, sql, &statement, error))
        return -1;
    int code = SQLITE_DONE;
    for (size_t row = 0; row < count && code == SQLITE_DONE; row++) {
        int at = 1;
        if (*first)
            sqlite3_bind_int64(statement, at++, is);
        if (*place)
            sqlite3_bind_int64(statement, at++, (int64_t)row);
        for (size_t n = 0; n < table->count; n++)
            bind(statement, at++, &table->columns[n], (const char *)rows + row * table->size);
        code = sqlite3_step(statement);
        if (code == SQLITE_DONE)
            sqlite3_reset(statement);
    }
    int result = code == SQLITE_DONE ? 0 : store_error(store, "written", error);
    sqlite3_finalize(statement);
    return result;
}

int experiment_store_say(struct experiment_store *store, const char *key, const char *value,
                         struct error *error) {
    sqlite3_stmt *statement;
    if (store_prepare(store,
                      value ? "INSERT OR REPLACE INTO experiment (key, value) VALUES (?1, ?2)"
                            : "DELETE FROM experiment WHERE key = ?1",
                      &statement, error))
        return -1;
    bind_text(statement, 1, key);
    if (value)
        bind_text(statement, 2, value);
    return finish(store, statement, error);
}

int experiment_store_stream(struct experiment_store *store, const struct experiment_stream *stream,
                            struct error *error) {
    return put_rows(store, &store_streams, "", 0, "", stream, 1, error);
}

static int delete_rows(struct experiment_store *store, const char *sql, int64_t of,
                       struct error *error) {
    sqlite3_stmt *statement;
    if (store_prepare(store, sql, &statement, error))
        return -1;
    sqlite3_bind_int64(statement, 1, of);
    return finish(store, statement, error);
}

int experiment_store_variant(struct experiment_store *store,
                             const struct experiment_variant *variant, struct error *error) {
    int64_t number = (int64_t)variant->variant;
    return put_rows(store, &store_variants, "", 0, "", variant, 1, error) ||
                   delete_rows(store, "DELETE FROM settings WHERE variant = ?", number, error) ||
                   put_rows(store, &store_settings, "variant", number, "", variant->settings,
                            variant->setting_count, error)
               ? -1
               : 0;
}

int experiment_store_plan(struct experiment_store *store, size_t variant, size_t stream,
                          int64_t seed, struct error *error) {
    static const char sql[] = "INSERT OR IGNORE INTO runs (variant, stream, seed, state) "
                              "VALUES (?, ?, ?, 'waiting')";
    sqlite3_stmt *statement;
    if (store_prepare(store, sql, &statement, error))
        return -1;
    sqlite3_bind_int64(statement, 1, (int64_t)variant);
    sqlite3_bind_int64(statement, 2, (int64_t)stream);
    sqlite3_bind_int64(statement, 3, seed);
    return finish(store, statement, error);
}

int experiment_store_unplan(struct experiment_store *store, struct error *error) {
    return store_execute(store, "DELETE FROM runs WHERE state IN ('waiting', 'failed')", error);
}

/* The number of the run that waits in this place, or the next one. */
static int number_of_run(struct experiment_store *store, const struct experiment_run *run,
                         int64_t *number, struct error *error) {
    static const char sql[] =
        "SELECT coalesce((SELECT run FROM runs WHERE variant = ? AND stream = ? AND seed = ?),"
        " (SELECT coalesce(max(run), 0) + 1 FROM runs))";
    sqlite3_stmt *statement;
    if (store_prepare(store, sql, &statement, error))
        return -1;
    sqlite3_bind_int64(statement, 1, (int64_t)run->variant);
    sqlite3_bind_int64(statement, 2, (int64_t)run->stream);
    sqlite3_bind_int64(statement, 3, run->seed);
    int code = sqlite3_step(statement);
    *number = sqlite3_column_int64(statement, 0);
    int result = code == SQLITE_ROW ? 0 : store_error(store, "read", error);
    sqlite3_finalize(statement);
    return result;
}

static int clear_course(struct experiment_store *store, int64_t run, struct error *error) {
    static const char *const tables[] = {"curves", "columns", "experts",
                                         "losses", "weights", "parameters"};
    for (size_t n = 0; n < sizeof tables / sizeof *tables; n++) {
        char sql[SQL_SIZE];
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE run = ?", tables[n]);
        if (delete_rows(store, sql, run, error))
            return -1;
    }
    return 0;
}

static int put_bytes(struct experiment_store *store, const char *sql, int64_t run,
                     const void *bytes, size_t size, struct error *error) {
    sqlite3_stmt *statement;
    if (!bytes)
        return 0;
    if (store_prepare(store, sql, &statement, error))
        return -1;
    sqlite3_bind_int64(statement, 1, run);
    sqlite3_bind_blob64(statement, 2, bytes, size, SQLITE_STATIC);
    return finish(store, statement, error);
}

static int put_weights(struct experiment_store *store, int64_t run,
                       const struct experiment_weight *weights, size_t count, struct error *error) {
    return put_rows(store, &store_weights, "run", run, "place", weights, count, error);
}

static int put_all(struct experiment_store *store, const struct experiment_outcome *o,
                   struct error *error) {
    struct experiment_run row = o->run;
    if (number_of_run(store, &row, &row.run, error) || clear_course(store, row.run, error) ||
        put_rows(store, &store_runs, "", 0, "", &row, 1, error) ||
        put_rows(store, &store_points, "run", row.run, "point", o->points, o->point_count, error) ||
        put_rows(store, &store_columns, "run", row.run, "place", o->columns, o->column_count,
                 error) ||
        put_rows(store, &store_experts, "run", row.run, "place", o->experts, o->expert_count,
                 error) ||
        put_weights(store, row.run, o->weights, o->weight_count, error) ||
        put_bytes(store, "INSERT INTO losses (run, losses) VALUES (?, ?)", row.run, o->losses,
                  o->loss_count * sizeof *o->losses, error) ||
        put_bytes(store, "INSERT INTO parameters (run, safetensors) VALUES (?, ?)", row.run,
                  o->parameters, o->parameters_size, error))
        return -1;
    return 0;
}

int experiment_store_put(struct experiment_store *store, const struct experiment_outcome *outcome,
                         struct error *error) {
    if (experiment_store_begin(store, error))
        return -1;
    if (put_all(store, outcome, error) || experiment_store_commit(store, error)) {
        experiment_store_undo(store);
        return -1;
    }
    return 0;
}
