#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "experiment_memory.h"
#include "experiment_store_internal.h"

enum { SQL_SIZE = 1024 };

/* ---- Memory ---- */

void *experiment_results_memory(struct experiment_results *results, size_t size) {
    return memory_take(&results->memory, size);
}

char *experiment_results_copy(struct experiment_results *results, const char *text) {
    return memory_copy(&results->memory, text);
}

void experiment_results_clear(struct experiment_results *results) {
    memory_clear(&results->memory);
    memset(results, 0, sizeof *results);
}

/* ---- A row ---- */

static enum experiment_state state_of(const char *name) {
    enum experiment_state state = EXPERIMENT_WAITING;
    while (state < EXPERIMENT_FAILED && strcmp(experiment_state_name(state), name) != 0)
        state++;
    return state;
}

/* -1: out of memory. */
static int take_column(struct experiment_results *results, sqlite3_stmt *statement, int n,
                       const struct store_column *column, void *row) {
    void *to = (char *)row + column->at;
    const char *text = NULL;
    if (column->type <= STORE_STATE)
        text = (const char *)sqlite3_column_text(statement, n);
    switch (column->type) {
    case STORE_LABEL:
        text = text ? text : "";
        /* fall through */
    case STORE_TEXT:
        *(const char **)to = text ? experiment_results_copy(results, text) : NULL;
        return text && !*(const char **)to ? -1 : 0;
    case STORE_NAME:
        snprintf(to, EXPERIMENT_NAME_SIZE, "%s", text ? text : "");
        return 0;
    case STORE_COUNT:
    case STORE_WHOLE:
        *(int64_t *)to = sqlite3_column_int64(statement, n);
        return 0;
    case STORE_REAL:
        *(double *)to = sqlite3_column_type(statement, n) == SQLITE_NULL
                            ? NAN
                            : sqlite3_column_double(statement, n);
        return 0;
    case STORE_STATE:
        *(enum experiment_state *)to = state_of(text ? text : "");
        return 0;
    }
    return 0;
}

static void select_sql(char sql[SQL_SIZE], const struct store_table *table, const char *where) {
    size_t used = (size_t)snprintf(sql, SQL_SIZE, "SELECT ");
    for (size_t n = 0; n < table->count; n++)
        used += (size_t)snprintf(sql + used, SQL_SIZE - used, "%s%s", n ? ", " : "",
                                 table->columns[n].name);
    snprintf(sql + used, SQL_SIZE - used, " FROM %s%s%s%s ORDER BY %s", table->name,
             *where ? " WHERE " : "", where, *where ? " = ?" : "", table->order);
}

static int too_large(const struct experiment_store *store, const char *name, struct error *error) {
    return error_set(error, EX_DATAERR,
                     "%s: too many rows, or texts that are too long, in the table %s", store->path,
                     name);
}

static bool texts_fit(struct experiment_store *store, sqlite3_stmt *statement) {
    enum { TEXTS_MAX = 1 << 30 };
    for (int n = 0; n < sqlite3_column_count(statement); n++)
        if (sqlite3_column_type(statement, n) == SQLITE_TEXT)
            store->texts += (size_t)sqlite3_column_bytes(statement, n);
    return store->texts <= TEXTS_MAX;
}

static bool grow(char **array, size_t used, size_t *room, size_t size) {
    enum { FIRST = 16 };
    if (used < *room)
        return true;
    *room = *room ? 2 * *room : FIRST;
    char *larger = realloc(*array, *room * size);
    *array = larger ? larger : *array;
    return larger;
}

/* All rows, in an array that grows; `results` has their texts. */
static int read_rows(struct experiment_store *store, const struct store_table *table,
                     const char *where, int64_t is, struct experiment_results *results, void **rows,
                     size_t *count, struct error *error) {
    char sql[SQL_SIZE], *array = NULL;
    size_t room = 0, used = 0;
    int status = 0;
    sqlite3_stmt *statement;
    *rows = NULL;
    *count = 0;
    select_sql(sql, table, where);
    if (store_prepare(store, sql, &statement, error))
        return -1;
    if (*where)
        sqlite3_bind_int64(statement, 1, is);
    int code;
    while (!status && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (used == table->most || !texts_fit(store, statement))
            status = too_large(store, table->name, error);
        else if (!grow(&array, used, &room, table->size))
            status = error_no_memory(error);
        if (status)
            break;
        char *row = array + used++ * table->size;
        memset(row, 0, table->size);
        for (size_t n = 0; !status && n < table->count; n++)
            if (take_column(results, statement, (int)n, &table->columns[n], row))
                status = error_no_memory(error);
    }
    if (!status && code != SQLITE_DONE)
        status = store_error(store, "read", error);
    sqlite3_finalize(statement);
    if (status) {
        free(array);
        return -1;
    }
    *rows = array;
    *count = used;
    return 0;
}

/* The same, into the memory of the results. */
static int read_table(struct experiment_store *store, const struct store_table *table,
                      const char *where, int64_t is, struct experiment_results *results,
                      void **rows, size_t *count, struct error *error) {
    void *array;
    if (read_rows(store, table, where, is, results, &array, count, error))
        return -1;
    *rows = experiment_results_memory(results, *count * table->size + 1);
    if (*rows && array)
        memcpy(*rows, array, *count * table->size);
    free(array);
    return *rows ? 0 : error_no_memory(error);
}

/* ---- Results ---- */

/* -1: out of memory. A text that is not a list gives an empty one. */
static int take_seeds(struct experiment_results *results, const char *text) {
    json_t *list = json_loads(text, 0, NULL);
    size_t count = json_array_size(list);
    results->seeds = experiment_results_memory(results, count * sizeof *results->seeds + 1);
    results->seed_count = results->seeds ? count : 0;
    for (size_t n = 0; n < results->seed_count; n++)
        results->seeds[n] = json_integer_value(json_array_get(list, n));
    json_decref(list);
    return results->seeds ? 0 : -1;
}

/* -1: out of memory. */
static int take_saying(struct experiment_results *results, const char *key, const char *value) {
    const struct {
        const char *key;
        const char **text;
        double *number;
    } known[] = {
        {"name", &results->name, NULL},         {"measure", &results->measure, NULL},
        {"version", &results->version, NULL},   {"device", &results->device, NULL},
        {"isa", &results->isa, NULL},           {"text", &results->text, NULL},
        {"keep", &results->kept, NULL},         {"yaml_path", &results->yaml_path, NULL},
        {"recent", NULL, &results->recent},     {"started", NULL, &results->started},
        {"finished", NULL, &results->finished},
    };
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        if (strcmp(known[n].key, key) != 0)
            continue;
        if (known[n].number)
            *known[n].number = strtod(value, NULL);
        else if (!(*known[n].text = experiment_results_copy(results, value)))
            return -1;
    }
    if (strcmp(key, "points") == 0)
        results->points = strtoull(value, NULL, 10);
    else if (strcmp(key, "total") == 0)
        results->total = strtoull(value, NULL, 10);
    else if (strcmp(key, "seeds") == 0)
        return take_seeds(results, value);
    return 0;
}

static int read_sayings(struct experiment_store *store, struct experiment_results *results,
                        struct error *error) {
    sqlite3_stmt *statement;
    results->started = results->finished = NAN;
    results->name = "";
    if (store_prepare(store, "SELECT key, value FROM experiment", &statement, error))
        return -1;
    int code, result = 0;
    while (result == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(statement, 0);
        const char *value = (const char *)sqlite3_column_text(statement, 1);
        if (!texts_fit(store, statement))
            result = too_large(store, "experiment", error);
        else if (key && value && take_saying(results, key, value))
            result = error_no_memory(error);
    }
    if (result == 0 && code != SQLITE_DONE)
        result = store_error(store, "read", error);
    sqlite3_finalize(statement);
    return result;
}

static int read_all(struct experiment_store *store, struct experiment_results *results,
                    struct error *error) {
    void *rows;
    if (read_sayings(store, results, error) ||
        read_table(store, &store_streams, "", 0, results, &rows, &results->stream_count, error))
        return -1;
    results->streams = rows;
    if (read_table(store, &store_variants, "", 0, results, &rows, &results->variant_count, error))
        return -1;
    results->variants = rows;
    for (size_t n = 0; n < results->variant_count; n++) {
        struct experiment_variant *variant = &results->variants[n];
        if (read_table(store, &store_settings, "variant", (int64_t)variant->variant, results, &rows,
                       &variant->setting_count, error))
            return -1;
        variant->settings = rows;
    }
    if (read_table(store, &store_runs, "", 0, results, &rows, &results->run_count, error))
        return -1;
    results->runs = rows;
    return 0;
}

int experiment_store_read(struct experiment_store *store, struct experiment_results *results,
                          struct error *error) {
    memset(results, 0, sizeof *results);
    store->texts = 0;
    bool inside = !sqlite3_get_autocommit(store->file);
    if (!inside && store_execute(store, "BEGIN", error)) /* all of one moment */
        return -1;
    int result = read_all(store, results, error);
    if (!inside)
        sqlite3_exec(store->file, "COMMIT", NULL, NULL, NULL);
    if (result)
        experiment_results_clear(results);
    return result;
}

int experiment_store_progress(struct experiment_store *store, struct experiment_progress *progress,
                              struct error *error) {
    static const char sql[] = "SELECT count(*), sum(state <> 'waiting'), sum(state = 'nonfinite'), "
                              "sum(state = 'failed') FROM runs";
    sqlite3_stmt *statement;
    if (store_prepare(store, sql, &statement, error))
        return -1;
    int result = sqlite3_step(statement) == SQLITE_ROW ? 0 : store_error(store, "read", error);
    if (result == 0)
        *progress = (struct experiment_progress){(uint64_t)sqlite3_column_int64(statement, 0),
                                                 (uint64_t)sqlite3_column_int64(statement, 1),
                                                 (uint64_t)sqlite3_column_int64(statement, 2),
                                                 (uint64_t)sqlite3_column_int64(statement, 3)};
    sqlite3_finalize(statement);
    return result;
}

/* ---- The course of a run ---- */

static int read_course(struct experiment_store *store, const struct store_table *table, int64_t run,
                       void *array, size_t *count, struct error *error) {
    void *rows;
    store->texts = 0;
    int result = read_rows(store, table, "run", run, NULL, &rows, count, error);
    memcpy(array, &rows, sizeof rows);
    return result;
}

int experiment_store_curve(struct experiment_store *store, int64_t run,
                           struct experiment_point **points, size_t *count, struct error *error) {
    return read_course(store, &store_points, run, points, count, error);
}

int experiment_store_columns(struct experiment_store *store, int64_t run,
                             struct experiment_column **columns, size_t *count,
                             struct error *error) {
    return read_course(store, &store_columns, run, columns, count, error);
}

int experiment_store_experts(struct experiment_store *store, int64_t run,
                             struct experiment_expert **experts, size_t *count,
                             struct error *error) {
    return read_course(store, &store_experts, run, experts, count, error);
}

int experiment_store_weights(struct experiment_store *store, int64_t run,
                             struct experiment_weight **weights, size_t *count,
                             struct error *error) {
    return read_course(store, &store_weights, run, weights, count, error);
}

static int read_bytes(struct experiment_store *store, const char *sql, int64_t run, void **bytes,
                      size_t *size, struct error *error) {
    sqlite3_stmt *statement;
    *bytes = NULL;
    *size = 0;
    if (store_prepare(store, sql, &statement, error))
        return -1;
    sqlite3_bind_int64(statement, 1, run);
    int code = sqlite3_step(statement), result = 0;
    if (code == SQLITE_ROW) {
        const void *blob = sqlite3_column_blob(statement, 0);
        *size = (size_t)sqlite3_column_bytes(statement, 0);
        *bytes = malloc(*size + 1);
        if (!*bytes)
            result = error_no_memory(error);
        else if (blob)
            memcpy(*bytes, blob, *size);
    } else if (code != SQLITE_DONE) {
        result = store_error(store, "read", error);
    }
    sqlite3_finalize(statement);
    return result;
}

int experiment_store_losses(struct experiment_store *store, int64_t run, double **losses,
                            size_t *count, struct error *error) {
    void *bytes;
    int result =
        read_bytes(store, "SELECT losses FROM losses WHERE run = ?", run, &bytes, count, error);
    *losses = bytes;
    *count /= sizeof **losses;
    return result;
}

int experiment_store_parameters(struct experiment_store *store, int64_t run, void **bytes,
                                size_t *size, struct error *error) {
    return read_bytes(store, "SELECT safetensors FROM parameters WHERE run = ?", run, bytes, size,
                      error);
}
