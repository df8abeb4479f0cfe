/* The columns of results.sqlite and their fields. */
#include "experiment_store.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/database.h"
#include "common/text.h"
#include "experiment_memory.h"

struct experiment_store {
    sqlite3 *file;
    struct database_clock clock;
    size_t texts; /* bytes of the texts read */
    char path[EXPERIMENT_PATH_SIZE];
    bool writes;
};

/* A column of a table, and its field in a struct. */
enum store_type {
    STORE_TEXT,  /* const char *, NULL = NULL */
    STORE_LABEL, /* const char *, never NULL */
    STORE_NAME,  /* char[EXPERIMENT_NAME_SIZE], "" = NULL */
    STORE_STATE, /* enum experiment_state, by its name */
    STORE_COUNT, /* uint64_t or size_t */
    STORE_WHOLE, /* int64_t */
    STORE_REAL,  /* double, NaN = NULL */
};
struct store_column {
    const char *name;
    enum store_type type;
    size_t at;
};
struct store_table {
    const char *name;
    const struct store_column *columns;
    size_t count;
    size_t size;       /* of the struct */
    const char *order; /* of reading */
    size_t most;       /* rows of one read; a file with more is rejected */
};

#define OF(type, struct_name, name, field)                                                         \
    { name, STORE_##type, offsetof(struct struct_name, field) }
#define TABLE(of, struct_name, text, order, most)                                                  \
    { text, of, sizeof of / sizeof *of, sizeof(struct struct_name), order, most }

static const struct store_column of_streams[] = {
    OF(COUNT, experiment_stream, "stream", stream),
    OF(LABEL, experiment_stream, "name", name),
    OF(TEXT, experiment_stream, "command", command),
    OF(TEXT, experiment_stream, "digest", digest),
    OF(COUNT, experiment_stream, "examples", examples),
    OF(COUNT, experiment_stream, "bytes", bytes),
    OF(TEXT, experiment_stream, "files", files),
};
static const struct store_column of_variants[] = {
    OF(COUNT, experiment_variant, "variant", variant),
    OF(LABEL, experiment_variant, "name", name),
};
static const struct store_column of_settings[] = {
    OF(LABEL, experiment_setting, "key", key),
    OF(TEXT, experiment_setting, "short", brief),
    OF(LABEL, experiment_setting, "value", value),
};
#define RUN(type, name) OF(type, experiment_run, #name, name)
#define FIGURE(name) OF(REAL, experiment_run, #name, figures.name)
static const struct store_column of_runs[] = {
    RUN(WHOLE, run),
    RUN(COUNT, variant),
    RUN(COUNT, stream),
    RUN(WHOLE, seed),
    RUN(STATE, state),
    RUN(TEXT, error),
    RUN(TEXT, configuration),
    RUN(TEXT, digest),
    RUN(TEXT, data),
    RUN(TEXT, version),
    RUN(TEXT, device),
    RUN(COUNT, parameters),
    RUN(COUNT, examples),
    RUN(COUNT, rejected),
    RUN(COUNT, steps),
    RUN(COUNT, scored),
    RUN(COUNT, updates),
    RUN(COUNT, skipped),
    RUN(REAL, started),
    RUN(REAL, seconds),
    RUN(REAL, cpu_seconds),
    FIGURE(mean),
    FIGURE(recent),
    FIGURE(baseline),
    FIGURE(baseline_recent),
    FIGURE(skill),
    FIGURE(skill_recent),
    FIGURE(rmse),
    FIGURE(mae),
    FIGURE(accuracy),
    FIGURE(bits),
    FIGURE(crps),
    FIGURE(crps_skill),
    RUN(TEXT, losses_digest),
    RUN(TEXT, parameters_digest),
};
#define POINT(type, name) OF(type, experiment_point, #name, name)
static const struct store_column of_points[] = {
    POINT(COUNT, examples),   POINT(COUNT, scored),       POINT(REAL, mean),
    POINT(REAL, baseline),    POINT(REAL, gradient_norm), POINT(REAL, update_ratio),
    POINT(REAL, weight_norm),
};
static const struct store_column of_columns[] = {
    OF(NAME, experiment_column, "name", name),
    OF(REAL, experiment_column, "rmse", rmse),
    OF(REAL, experiment_column, "mae", mae),
    OF(REAL, experiment_column, "skill", skill),
};
static const struct store_column of_experts[] = {
    OF(NAME, experiment_expert, "name", name),
    OF(REAL, experiment_expert, "mean", mean),
    OF(REAL, experiment_expert, "weight", weight),
};
static const struct store_column of_weights[] = {
    OF(COUNT, experiment_weight, "point", point),
    OF(NAME, experiment_weight, "tensor", tensor),
    OF(REAL, experiment_weight, "norm", norm),
    OF(REAL, experiment_weight, "change", change),
};

enum { FEW = 1 << 16, MANY = 1 << 20 };
static const struct store_table
    store_streams = TABLE(of_streams, experiment_stream, "streams", "stream", FEW),
    store_variants = TABLE(of_variants, experiment_variant, "variants", "variant", FEW),
    store_settings = TABLE(of_settings, experiment_setting, "settings", "key", FEW),
    store_runs = TABLE(of_runs, experiment_run, "runs", "variant, stream, seed", MANY),
    store_points = TABLE(of_points, experiment_point, "curves", "point", MANY),
    store_columns = TABLE(of_columns, experiment_column, "columns", "place", FEW),
    store_experts = TABLE(of_experts, experiment_expert, "experts", "place", FEW),
    store_weights = TABLE(of_weights, experiment_weight, "weights", "point, place", MANY);

enum {
    APPLICATION = 0x72756e65, /* "rune": the file's application */
    FORMAT = 1,
    BUSY_MS = 10000, /* waiting time for another process */
};
static const char FILE_NAME[] = "results.sqlite";

static const char SCHEMA[] =
    "CREATE TABLE experiment (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE streams (stream INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, command TEXT,"
    " digest TEXT, examples INTEGER, bytes INTEGER, files TEXT);"
    "CREATE TABLE variants (variant INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);"
    "CREATE TABLE settings (variant INTEGER NOT NULL, key TEXT NOT NULL, short TEXT, value TEXT,"
    " PRIMARY KEY (variant, key)) WITHOUT ROWID;"
    "CREATE TABLE runs (run INTEGER PRIMARY KEY, variant INTEGER NOT NULL, stream INTEGER NOT NULL,"
    " seed INTEGER NOT NULL, state TEXT NOT NULL, error TEXT, configuration TEXT, digest TEXT,"
    " data TEXT, version TEXT, device TEXT, parameters INTEGER, examples INTEGER,"
    " rejected INTEGER, steps INTEGER, scored INTEGER, updates INTEGER, skipped INTEGER,"
    " started REAL, seconds REAL, cpu_seconds REAL, mean REAL, recent REAL, baseline REAL,"
    " baseline_recent REAL, skill REAL, skill_recent REAL, rmse REAL, mae REAL, accuracy REAL,"
    " bits REAL, crps REAL, crps_skill REAL, losses_digest TEXT, parameters_digest TEXT, UNIQUE "
    "(variant, stream, seed));"
    "CREATE TABLE curves (run INTEGER NOT NULL, point INTEGER NOT NULL, examples INTEGER,"
    " scored INTEGER, mean REAL, baseline REAL, gradient_norm REAL, update_ratio REAL,"
    " weight_norm REAL, PRIMARY KEY (run, point)) WITHOUT ROWID;"
    "CREATE TABLE columns (run INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT, rmse REAL,"
    " mae REAL, skill REAL, PRIMARY KEY (run, place)) WITHOUT ROWID;"
    "CREATE TABLE experts (run INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT, mean REAL,"
    " weight REAL, PRIMARY KEY (run, place)) WITHOUT ROWID;"
    "CREATE TABLE losses (run INTEGER PRIMARY KEY, losses BLOB);"
    "CREATE TABLE weights (run INTEGER NOT NULL, point INTEGER NOT NULL, place INTEGER NOT NULL,"
    " tensor TEXT, norm REAL, change REAL, PRIMARY KEY (run, point, place)) WITHOUT ROWID;"
    "CREATE TABLE parameters (run INTEGER PRIMARY KEY, safetensors BLOB);";

/* ---- Names ---- */

const char *experiment_state_name(enum experiment_state state) {
    static const char *const names[] = {[EXPERIMENT_WAITING] = "waiting",
                                        [EXPERIMENT_DONE] = "done",
                                        [EXPERIMENT_NONFINITE] = "nonfinite",
                                        [EXPERIMENT_FAILED] = "failed"};
    return names[state];
}

const struct experiment_figures experiment_no_figures = {NAN, NAN, NAN, NAN, NAN, NAN,
                                                         NAN, NAN, NAN, NAN, NAN, NAN};

const struct experiment_measure experiment_measures[EXPERIMENT_FIGURES] = {
    {"mean", false, "loss"},         {"recent", false, "recent loss"},
    {"baseline", false, "baseline"}, {"baseline_recent", false, "recent baseline"},
    {"skill", true, "skill"},        {"skill_recent", true, "recent skill"},
    {"rmse", false, "rmse"},         {"mae", false, "mae"},
    {"accuracy", true, "accuracy"},  {"bits", false, "bits"},
    {"crps", false, "CRPS"},         {"crps_skill", true, "CRPS skill"},
};

size_t experiment_measure_named(const char *name) {
    size_t n = 0;
    while (n < EXPERIMENT_FIGURES && strcmp(experiment_measures[n].name, name) != 0)
        n++;
    return n;
}

/* ---- Errors ---- */

static int store_error(struct experiment_store *store, const char *doing, struct error *error) {
    int code = sqlite3_errcode(store->file) & 0xFF, reason = sqlite3_system_errno(store->file);
    bool refused = code == SQLITE_ERROR || code == SQLITE_TOOBIG || code == SQLITE_INTERRUPT;
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB || (refused && !store->writes))
        return error_set(
            error, EX_DATAERR,
            "%s is damaged, or is not a result of runnel-experiment (%s); restore a copy of it, or "
            "run the experiment again with -o into another directory, or here with --again",
            store->path, database_message(store->file));
    if (code == SQLITE_NOMEM)
        return error_set(error, EX_OSERR, "out of memory for %s", store->path);
    if (code == SQLITE_FULL || reason == ENOSPC || reason == EDQUOT || reason == EFBIG)
        return error_set(
            error, EX_IOERR,
            "cannot %s %s: the disk is full; free disk space, and run the same command to resume",
            doing, store->path);
    bool known = (code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && reason;
    bool disk = code == SQLITE_IOERR && store->writes;
    return error_set(error, EX_IOERR, "cannot %s %s: %s%s%s%s%s", doing, store->path,
                     database_message(store->file), known ? " (" : "",
                     known ? strerror(reason) : "", known ? ")" : "",
                     disk ? "; repair the disk or free space, and run the same command to resume"
                          : "");
}

static int store_execute(struct experiment_store *store, const char *sql, struct error *error) {
    return sqlite3_exec(store->file, sql, NULL, NULL, NULL) ? store_error(store, "write", error)
                                                            : 0;
}

/* NULL: the error is filled. SQLite ignores binding to NULL, and the next two functions return -1.
 */
static sqlite3_stmt *store_prepare(struct experiment_store *store, const char *sql,
                                   struct error *error) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(store->file, sql, -1, &statement, NULL))
        store_error(store, "read", error);
    return statement;
}

static int store_row(struct experiment_store *store, sqlite3_stmt *statement, struct error *error) {
    return !statement                              ? -1
           : sqlite3_step(statement) == SQLITE_ROW ? 0
                                                   : store_error(store, "read", error);
}

/* Runs the statement to its end, and finalizes it. */
static int finish(struct experiment_store *store, sqlite3_stmt *statement, struct error *error) {
    int code = statement ? sqlite3_step(statement) : SQLITE_DONE;
    int result = code == SQLITE_DONE || code == SQLITE_ROW ? 0 : store_error(store, "write", error);
    sqlite3_finalize(statement);
    return statement ? result : -1;
}

/* ---- Opening ---- */

static int number_of(struct experiment_store *store, const char *sql, int64_t *number,
                     struct error *error) {
    sqlite3_stmt *statement = store_prepare(store, sql, error);
    int result = store_row(store, statement, error);
    *number = result ? 0 : sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return result;
}

/* Creates all tables in one transaction: after a kill the file is empty or complete. */
static int create(struct experiment_store *store, struct error *error) {
    char sql[128];
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d;", APPLICATION,
             FORMAT);
    if (store_execute(store, "BEGIN IMMEDIATE", error))
        return -1;
    if (store_execute(store, SCHEMA, error) || store_execute(store, sql, error) ||
        store_execute(store, "COMMIT", error)) {
        experiment_store_undo(store);
        return -1;
    }
    return 0;
}

static int check_format(struct experiment_store *store, struct error *error) {
    int64_t application, format, tables;
    if (number_of(store, "PRAGMA application_id", &application, error) ||
        number_of(store, "PRAGMA user_version", &format, error) ||
        number_of(store, "SELECT count(*) FROM sqlite_master", &tables, error))
        return -1;
    if (application == 0 && format == 0 && tables == 0)
        return store->writes
                   ? create(store, error)
                   : error_set(error, EX_DATAERR, "%s is empty: the experiment has no runs yet",
                               store->path);
    if (application != APPLICATION)
        return error_set(error, EX_DATAERR, "%s is a database of another program; %s", store->path,
                         store->writes ? "choose another directory with -o"
                                       : "pass a directory that runnel-experiment created");
    if (format != FORMAT)
        return error_set(
            error, EX_DATAERR,
            "%s: expected format %d, got %lld; use the version of runnel-experiment that wrote it",
            store->path, FORMAT, (long long)format);
    return 0;
}

/* Earlier versions had no CRPS. A reader sees NULL in a view instead. */
static int add_scores(struct experiment_store *store, struct error *error) {
    int64_t there;
    if (number_of(store, "SELECT count(*) FROM pragma_table_info('runs') WHERE name = 'crps'",
                  &there, error))
        return -1;
    return there ? 0
                 : store_execute(store,
                                 store->writes
                                     ? "BEGIN IMMEDIATE; ALTER TABLE runs ADD COLUMN crps REAL;"
                                       "ALTER TABLE runs ADD COLUMN crps_skill REAL; COMMIT"
                                     : "CREATE TEMP VIEW runs AS SELECT *, NULL AS crps,"
                                       " NULL AS crps_skill FROM main.runs",
                                 error);
}

/* The file can be copied without a log, and read in a read-only directory. */
static int set_modes(struct experiment_store *store, struct error *error) {
    sqlite3_busy_timeout(store->file, BUSY_MS);
    sqlite3_extended_result_codes(store->file, 0);
    return store->writes
               ? store_execute(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", error)
               : 0;
}

static int open_file(struct experiment_store *store, const char *path, struct error *error) {
    struct stat status;
    bool directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    int length = snprintf(store->path, sizeof store->path, "%s%s%s", path, directory ? "/" : "",
                          directory ? FILE_NAME : "");
    if (length >= (int)sizeof store->path)
        return error_set(error, EX_NOINPUT, "the path %s is too long", path);
    if (!store->writes && stat(store->path, &status))
        return error_set(error, EX_NOINPUT, "%s: results not found: %s", store->path,
                         strerror(errno));
    int flags = store->writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    store->clock.limit = DATABASE_READ_SECONDS;
    if (database_open(&store->file, store->path, flags | SQLITE_OPEN_NOMUTEX, &store->clock))
        return store->file ? store_error(store, "open", error) : error_no_memory(error);
    return 0;
}

int experiment_store_open(struct experiment_store **store, const char *path,
                          enum experiment_access access, struct error *error) {
    struct experiment_store *opened = *store = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    opened->writes = access == EXPERIMENT_WRITE;
    if (open_file(opened, path, error) || set_modes(opened, error) || check_format(opened, error) ||
        add_scores(opened, error)) {
        opened->writes = false; /* nothing to clean up */
        experiment_store_close(store);
        return -1;
    }
    return 0;
}

void experiment_store_close(struct experiment_store **store) {
    struct experiment_store *s = *store;
    if (!s)
        return;
    if (s->file && s->writes) { /* the log stays if there is a reader: the next writer removes it */
        sqlite3_busy_timeout(s->file, 0);
        sqlite3_exec(s->file, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    }
    sqlite3_close(s->file);
    free(s);
    *store = NULL;
}

const char *experiment_store_path(const struct experiment_store *store) {
    return store->path;
}

enum { SQL_SIZE = 1024 };

/* ---- Memory ---- */

void experiment_results_clear(struct experiment_results *results) {
    memory_clear(&results->memory);
    memset(results, 0, sizeof *results);
}

const struct experiment_stream *experiment_stream_of(const struct experiment_results *results,
                                                     size_t number) {
    for (size_t n = 0; n < results->stream_count; n++)
        if (results->streams[n].stream == number)
            return &results->streams[n];
    return NULL;
}

const struct experiment_run *experiment_run_of(const struct experiment_results *results,
                                               size_t variant, size_t stream, int64_t seed) {
    for (size_t n = 0; n < results->run_count; n++) {
        const struct experiment_run *run = &results->runs[n];
        if (run->variant == variant && run->stream == stream && run->seed == seed)
            return run;
    }
    return NULL;
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
        *(const char **)to = text ? memory_copy(&results->memory, text) : NULL;
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
    *sql = 0;
    for (size_t n = 0; n < table->count; n++)
        text_append(sql, SQL_SIZE, "%s%s", n ? ", " : "SELECT ", table->columns[n].name);
    text_append(sql, SQL_SIZE, " FROM %s%s%s%s ORDER BY %s", table->name, *where ? " WHERE " : "",
                where, *where ? " = ?" : "", table->order);
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

/* All rows, in a growing array at the pointer `rows`; `results` owns their texts. */
static int read_rows(struct experiment_store *store, const struct store_table *table,
                     const char *where, int64_t is, struct experiment_results *results, void *rows,
                     size_t *count, struct error *error) {
    char sql[SQL_SIZE], *array = NULL;
    size_t room = 0, used = 0;
    int status = 0;
    memcpy(rows, &array, sizeof array);
    *count = 0;
    select_sql(sql, table, where);
    sqlite3_stmt *statement = store_prepare(store, sql, error);
    if (!statement)
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
    memcpy(rows, &array, sizeof array);
    *count = used;
    return 0;
}

/* The same, into the memory of the results. */
static int read_table(struct experiment_store *store, const struct store_table *table,
                      const char *where, int64_t is, struct experiment_results *results, void *rows,
                      size_t *count, struct error *error) {
    void *array, *kept;
    if (read_rows(store, table, where, is, results, &array, count, error))
        return -1;
    kept = memory_take(&results->memory, *count * table->size + 1);
    if (kept && array)
        memcpy(kept, array, *count * table->size);
    free(array);
    memcpy(rows, &kept, sizeof kept);
    return kept ? 0 : error_no_memory(error);
}

/* ---- Results ---- */

/* -1: out of memory. A text that is not a list gives an empty one. */
static int take_seeds(struct experiment_results *results, const char *text) {
    json_t *list = json_loads(text, 0, NULL);
    size_t count = json_array_size(list);
    results->seeds = memory_take(&results->memory, count * sizeof *results->seeds + 1);
    results->seed_count = results->seeds ? count : 0;
    for (size_t n = 0; n < results->seed_count; n++)
        results->seeds[n] = json_integer_value(json_array_get(list, n));
    json_decref(list);
    return results->seeds ? 0 : -1;
}

/* -1: out of memory. */
static int take_property(struct experiment_results *results, const char *key, const char *value) {
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
        else if (!(*known[n].text = memory_copy(&results->memory, value)))
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

static int read_properties(struct experiment_store *store, struct experiment_results *results,
                           struct error *error) {
    sqlite3_stmt *statement = store_prepare(store, "SELECT key, value FROM experiment", error);
    results->started = results->finished = NAN;
    results->name = "";
    if (!statement)
        return -1;
    int code, result = 0;
    while (result == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(statement, 0);
        const char *value = (const char *)sqlite3_column_text(statement, 1);
        if (!texts_fit(store, statement))
            result = too_large(store, "experiment", error);
        else if (key && value && take_property(results, key, value))
            result = error_no_memory(error);
    }
    if (result == 0 && code != SQLITE_DONE)
        result = store_error(store, "read", error);
    sqlite3_finalize(statement);
    return result;
}

static int read_all(struct experiment_store *store, struct experiment_results *results,
                    struct error *error) {
    if (read_properties(store, results, error) ||
        read_table(store, &store_streams, "", 0, results, &results->streams, &results->stream_count,
                   error) ||
        read_table(store, &store_variants, "", 0, results, &results->variants,
                   &results->variant_count, error))
        return -1;
    for (size_t n = 0; n < results->variant_count; n++) {
        struct experiment_variant *variant = &results->variants[n];
        if (read_table(store, &store_settings, "variant", (int64_t)variant->variant, results,
                       &variant->settings, &variant->setting_count, error))
            return -1;
    }
    return read_table(store, &store_runs, "", 0, results, &results->runs, &results->run_count,
                      error);
}

int experiment_store_read(struct experiment_store *store, struct experiment_results *results,
                          struct error *error) {
    memset(results, 0, sizeof *results);
    store->texts = 0;
    bool inside = !sqlite3_get_autocommit(store->file);
    if (!inside && store_execute(store, "BEGIN", error)) /* a consistent snapshot */
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
    sqlite3_stmt *statement = store_prepare(store, sql, error);
    int result = store_row(store, statement, error);
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
    store->texts = 0;
    return read_rows(store, table, "run", run, NULL, array, count, error);
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

/* Inserts rows of a table that begin with `first` and, with `place`, the row's number. */
static int put_rows(struct experiment_store *store, const struct store_table *table,
                    const char *first, int64_t is, const char *place, const void *rows,
                    size_t count, struct error *error) {
    char sql[SQL_SIZE];
    size_t given = table->count + (*first != 0) + (*place != 0);
    snprintf(sql, SQL_SIZE, "INSERT OR REPLACE INTO %s (%s%s%s%s", table->name, first,
             *first ? ", " : "", place, *place ? ", " : "");
    for (size_t n = 0; n < table->count; n++)
        text_append(sql, SQL_SIZE, "%s%s", n ? ", " : "", table->columns[n].name);
    for (size_t n = 0; n < given; n++)
        text_append(sql, SQL_SIZE, n ? ", ?" : ") VALUES (?");
    text_append(sql, SQL_SIZE, ")");
    sqlite3_stmt *statement = store_prepare(store, sql, error);
    if (!statement)
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
    int result = code == SQLITE_DONE ? 0 : store_error(store, "write", error);
    sqlite3_finalize(statement);
    return result;
}

int experiment_store_set(struct experiment_store *store, const char *key, const char *value,
                         struct error *error) {
    sqlite3_stmt *statement =
        store_prepare(store,
                      value ? "INSERT OR REPLACE INTO experiment (key, value) VALUES (?1, ?2)"
                            : "DELETE FROM experiment WHERE key = ?1",
                      error);
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
    sqlite3_stmt *statement = store_prepare(store, sql, error);
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
    sqlite3_stmt *statement = store_prepare(store, sql, error);
    sqlite3_bind_int64(statement, 1, (int64_t)variant);
    sqlite3_bind_int64(statement, 2, (int64_t)stream);
    sqlite3_bind_int64(statement, 3, seed);
    return finish(store, statement, error);
}

int experiment_store_unplan(struct experiment_store *store, struct error *error) {
    return store_execute(store, "DELETE FROM runs WHERE state IN ('waiting', 'failed')", error);
}

/* The number of the waiting run in this place, or the next free one. */
static int number_of_run(struct experiment_store *store, const struct experiment_run *run,
                         int64_t *number, struct error *error) {
    static const char sql[] =
        "SELECT coalesce((SELECT run FROM runs WHERE variant = ? AND stream = ? AND seed = ?),"
        " (SELECT coalesce(max(run), 0) + 1 FROM runs))";
    sqlite3_stmt *statement = store_prepare(store, sql, error);
    sqlite3_bind_int64(statement, 1, (int64_t)run->variant);
    sqlite3_bind_int64(statement, 2, (int64_t)run->stream);
    sqlite3_bind_int64(statement, 3, run->seed);
    int result = store_row(store, statement, error);
    *number = sqlite3_column_int64(statement, 0);
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
    if (!bytes)
        return 0;
    sqlite3_stmt *statement = store_prepare(store, sql, error);
    sqlite3_bind_int64(statement, 1, run);
    sqlite3_bind_blob64(statement, 2, bytes, size, SQLITE_STATIC);
    return finish(store, statement, error);
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
        put_rows(store, &store_weights, "run", row.run, "place", o->weights, o->weight_count,
                 error) ||
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
