#include "history_store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { BUSY_MS = 10000, CACHE_KIB = 4096 };

/* ---- Errors and statements ---- */

const char *history_error(const struct history *h) {
    return h->error;
}

int history_fail(struct history *h) {
    int code = sqlite3_errcode(h->file) & 0xff, reason = sqlite3_system_errno(h->file);
    bool known = (code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && reason;
    snprintf(h->error, sizeof h->error, "the recording %s: %s%s%s%s", h->path,
             code == SQLITE_FULL ? "the disk is full" : database_message(h->file),
             known ? " (" : "", known ? strerror(reason) : "", known ? ")" : "");
    return -1;
}

int history_memory(struct history *h) {
    snprintf(h->error, sizeof h->error, "the recording %s: out of memory", h->path);
    return -1;
}

int history_too_long(struct history *h) {
    snprintf(h->error, sizeof h->error, "the recording %s: more than %d rows in one query", h->path,
             HISTORY_ROWS_MAX);
    return -1;
}

int history_run_sql(struct history *h, const char *sql) {
    return sqlite3_exec(h->file, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : history_fail(h);
}

sqlite3_stmt *history_prepare(struct history *h, const char *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v3(h->file, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) !=
        SQLITE_OK)
        history_fail(h);
    return statement;
}

sqlite3_stmt *history_prepare_run(struct history *h, const char *sql, int64_t run) {
    sqlite3_stmt *statement = history_prepare(h, sql);
    sqlite3_bind_int64(statement, 1, run);
    return statement;
}

sqlite3_stmt *history_prepare_made(struct history *h, sqlite3_str *sql) {
    char *text = sqlite3_str_finish(sql);
    sqlite3_stmt *statement = text ? history_prepare(h, text) : NULL;
    if (!text)
        history_memory(h);
    sqlite3_free(text);
    return statement;
}

int history_done(struct history *h, sqlite3_stmt *statement) {
    int status = sqlite3_step(statement) == SQLITE_DONE ? 0 : history_fail(h);
    sqlite3_reset(statement);
    return status;
}

int history_done_once(struct history *h, sqlite3_stmt *statement) {
    int status = statement ? history_done(h, statement) : -1;
    sqlite3_finalize(statement);
    return status;
}

int history_step(struct history *h, sqlite3_stmt *select, bool *row) {
    int code = sqlite3_step(select);
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? 0 : history_fail(h);
}

/* ---- Columns ---- */

#define COLUMN_NUMBER(field) &field,
#define COLUMN_COUNT(field) &field,
#define COLUMN_TEXT(field)
#define COLUMN_TALLY(field)
#define COLUMN_ROWS(field)
#define COLUMN_JSON(field)
#define COLUMN_BINS(field)

const struct field *const history_loss_columns[HISTORY_LOSS_COLUMNS] = {
#define ROW_OF_LOSS(name, member, group, key, path, type, ...)                                     \
    COLUMN_##type(fields_of_loss[FIELD_##name])
#include "common/fields.def"
};

const struct field *const history_layer_columns[HISTORY_LAYER_COLUMNS] = {
#define MEASURED_ROW(name, member, group, key, path, type, ...)                                    \
    COLUMN_##type(fields_of_layer[LAYER_##name])
#include "common/fields.def"
};

#define OF_COLUMN(name, ...) &fields_of_column[COLUMN_##name],
#define OF_EXPERT(name, ...) &fields_of_expert[EXPERT_##name],
static const struct field *const of_columns[] = {
#define COLUMN_ROW OF_COLUMN
#include "common/fields.def"
};
static const struct field *const of_experts[] = {
#define EXPERT_ROW OF_EXPERT
#include "common/fields.def"
};

enum { PARTS_SHARE = 10 /* messages have one row, but many columns and experts */ };

const struct history_table history_tables[KINDS] = {
    [KIND_LOSS] = {"loss", history_loss_columns, HISTORY_LOSS_COLUMNS, NULL, false, 1},
    [KIND_STATE] = {"state", history_layer_columns, HISTORY_LAYER_COLUMNS, "layer", true, 1},
    [KIND_COLUMNS] = {"loss_columns", of_columns, COLUMN_FIELDS, "column", false, PARTS_SHARE},
    [KIND_EXPERTS] = {"loss_experts", of_experts, EXPERT_FIELDS, "expert", false, PARTS_SHARE},
};

int history_column(const struct field *const *columns, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(columns[i]->name, name))
            return i;
    return -1;
}

const struct field *const history_axes[HISTORY_AXES] = {
    [HISTORY_EXAMPLES] = &fields_of_each[EACH_examples],
    [HISTORY_STEPS] = &fields_of_each[EACH_steps],
    [HISTORY_TIME] = &fields_of_each[EACH_time],
};

#define TEXT(name, status)                                                                         \
    { #name, true, false, false, offsetof(struct history_run, name), status }
#define NUMBER(name, status)                                                                       \
    { #name, false, false, false, offsetof(struct history_run, name), status }
#define JSON(name, status)                                                                         \
    { #name, true, true, false, offsetof(struct history_run, name), status }
#define SEPARATE_JSON(name, status)                                                                \
    { #name, true, true, true, 0, status }
#define STATUS(name) &fields_of_status[STATUS_##name]
const struct history_run_column history_run_columns[HISTORY_RUN_COLUMNS] = {
    TEXT(run, NULL),
    TEXT(endpoint, NULL),
    TEXT(name, STATUS(name)),
    TEXT(digest, STATUS(digest)),
    TEXT(compatible, STATUS(compatible)),
    NUMBER(seed, STATUS(seed)),
    JSON(tags, STATUS(tags)),
    SEPARATE_JSON(configuration, STATUS(configuration)),
    TEXT(model, STATUS(model)),
    TEXT(device, STATUS(device)),
    TEXT(version, STATUS(version)),
    TEXT(resumed, STATUS(resumed)),
    NUMBER(parameters, STATUS(parameters)),
    NUMBER(every, STATUS(every)),
    NUMBER(first_time, NULL),
    NUMBER(newest_time, NULL),
    NUMBER(first_examples, NULL),
    NUMBER(newest_examples, NULL),
    NUMBER(first_steps, NULL),
    NUMBER(newest_steps, NULL),
};

/* Values of a column in the rows of higher levels; rows of level 0 have only the number. */
static const char *const parts[] = {"_minimum", "_maximum", "_mean", "_missing"};
enum { PARTS = sizeof parts / sizeof *parts };

/* Appends the columns of a level in order, each after a comma. */
static void add_columns(const struct history *h, sqlite3_str *sql, enum history_kind kind, bool raw,
                        const char *type) {
    const struct history_table *table = &history_tables[kind];
    for (int column = 0; column < table->count; column++)
        for (int part = 0; part < (raw ? 1 : PARTS); part++)
            if (h->lacks[kind][column])
                sqlite3_str_appendall(sql, ", NULL");
            else
                sqlite3_str_appendf(sql, ", %s%s%s", table->columns[column]->name,
                                    raw ? "" : parts[part], type);
}

/* Appends the columns of a level in the order in which they are bound and read. */
static void schema_columns(const struct history *h, sqlite3_str *sql, enum history_kind kind,
                           bool raw) {
    sqlite3_str_appendall(sql, "examples, steps, time, messages");
    add_columns(h, sql, kind, raw, "");
    if (history_tables[kind].histogram)
        sqlite3_str_appendall(sql, ", histogram");
}

/* ---- Tables ---- */

static const char SCHEMA[] =
    "CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, run TEXT NOT NULL,"
    " part INTEGER NOT NULL, endpoint TEXT, name TEXT, digest TEXT, model TEXT, device TEXT,"
    " version TEXT, resumed TEXT, parameters REAL, every REAL, first_time REAL, newest_time REAL,"
    " first_examples REAL, newest_examples REAL, first_steps REAL, newest_steps REAL,"
    " compatible TEXT, seed REAL, tags TEXT, configuration TEXT,"
    " UNIQUE (run, part));"
    "CREATE TABLE IF NOT EXISTS layers (run INTEGER, layer INTEGER, kind TEXT, size INTEGER,"
    " member TEXT, PRIMARY KEY (run, layer)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS experts (run INTEGER, expert INTEGER, name TEXT,"
    " PRIMARY KEY (run, expert)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, run INTEGER NOT NULL,"
    " examples REAL, steps REAL, time REAL, kind TEXT, text TEXT, incident TEXT);"
    "CREATE INDEX IF NOT EXISTS events_of_run ON events (run);"
    "CREATE TABLE IF NOT EXISTS columns (of TEXT, name TEXT, unit TEXT,"
    " PRIMARY KEY (of, name)) WITHOUT ROWID;";

/* These tables are created after the tables of rows. */
static const char SINGLE_ROWS[] =
    "CREATE TABLE IF NOT EXISTS predictions (id INTEGER PRIMARY KEY, run INTEGER NOT NULL,"
    " stream TEXT, column INTEGER, ahead INTEGER, examples REAL, steps REAL, time REAL,"
    " data_time REAL, target REAL, prediction REAL, low REAL, high REAL, baseline REAL,"
    " score REAL, pit_below REAL, pit_at REAL, z REAL, crps REAL, log_score REAL, quantiles TEXT);"
    "CREATE INDEX IF NOT EXISTS predictions_of_stream ON predictions (run, stream, column, ahead);"
    "CREATE TABLE IF NOT EXISTS anomalies (id INTEGER PRIMARY KEY, event INTEGER NOT NULL,"
    " run INTEGER NOT NULL, stream TEXT, reason TEXT, column INTEGER, examples REAL, steps REAL,"
    " time REAL, data_time REAL, score REAL, threshold REAL, column_score REAL, forecast REAL,"
    " truth REAL, note TEXT);"
    "CREATE INDEX IF NOT EXISTS anomalies_of_run ON anomalies (run, event);";

/* Runs the SQL and frees it. */
static int run_made(struct history *h, sqlite3_str *sql) {
    char *text = sqlite3_str_finish(sql);
    int status = text ? history_run_sql(h, text) : history_memory(h);
    sqlite3_free(text);
    return status;
}

/* Creates the table of a kind's rows, of level 0 or of all others. */
static int create_rows(struct history *h, enum history_kind kind, bool raw) {
    const struct history_table *table = &history_tables[kind];
    const char *part = table->part ? table->part : "", *level = raw ? "" : "level";
    sqlite3_str *sql = sqlite3_str_new(h->file);
    sqlite3_str_appendf(sql,
                        "CREATE TABLE IF NOT EXISTS %s%s (run INTEGER, %s%s%s%s number INTEGER,"
                        " examples REAL, steps REAL, time REAL, messages INTEGER",
                        table->name, raw ? "" : "_levels", part, *part ? " INTEGER, " : "", level,
                        *level ? " INTEGER, " : "");
    add_columns(h, sql, kind, raw, " REAL");
    sqlite3_str_appendf(sql, "%s, PRIMARY KEY (run, %s%s%s%s number)) WITHOUT ROWID",
                        table->histogram ? ", histogram BLOB" : "", part, *part ? ", " : "", level,
                        *level ? ", " : "");
    return run_made(h, sql);
}

static int describe_column(struct history *h, const struct history_table *table,
                           const struct field *field) {
    sqlite3_str *sql = sqlite3_str_new(h->file);
    sqlite3_str_appendf(sql, "INSERT OR REPLACE INTO columns VALUES (%Q, %Q, %Q)", table->name,
                        field->name, field->unit);
    return run_made(h, sql);
}

/* Creates missing tables and the descriptions of their columns. */
static int create_missing(struct history *h) {
    if (history_run_sql(h, SCHEMA))
        return -1;
    for (int kind = 0; kind < KINDS; kind++) {
        const struct history_table *table = &history_tables[kind];
        if (create_rows(h, (enum history_kind)kind, true) ||
            create_rows(h, (enum history_kind)kind, false))
            return -1;
        for (int column = 0; column < table->count; column++)
            if (describe_column(h, table, table->columns[column]))
                return -1;
    }
    return history_run_sql(h, SINGLE_ROWS);
}

/* Creates the tables of an empty file. */
static int create_tables(struct history *h) {
    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             HISTORY_APPLICATION, HISTORY_FORMAT);
    return history_run_sql(h, "BEGIN IMMEDIATE") || create_missing(h) ||
                   history_run_sql(h, pragmas) || history_run_sql(h, "COMMIT")
               ? -1
               : 0;
}

/* ---- Missing columns ---- */

int history_has_table(struct history *h, const char *name) {
    sqlite3_stmt *select = history_prepare(h, "SELECT count(*) FROM sqlite_schema WHERE name = ?");
    if (!select)
        return -1;
    sqlite3_bind_text(select, 1, name, -1, SQLITE_STATIC);
    int there =
        sqlite3_step(select) == SQLITE_ROW ? sqlite3_column_int(select, 0) > 0 : history_fail(h);
    sqlite3_finalize(select);
    return there;
}

static int add_column(struct history *h, const struct history_table *table,
                      const struct field *field) {
    sqlite3_str *sql = sqlite3_str_new(h->file);
    sqlite3_str_appendf(sql, "ALTER TABLE %s ADD COLUMN %s REAL;", table->name, field->name);
    for (int part = 0; part < PARTS; part++)
        sqlite3_str_appendf(sql, "ALTER TABLE %s_levels ADD COLUMN %s%s REAL;", table->name,
                            field->name, parts[part]);
    return run_made(h, sql);
}

/* Whether a table lacks a column or does not exist. */
static int look_for(struct history *h, sqlite3_stmt *select, const char *table, const char *name,
                    bool *lacking) {
    sqlite3_bind_text(select, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(select, 2, name, -1, SQLITE_STATIC);
    int status = sqlite3_step(select) == SQLITE_ROW ? 0 : history_fail(h);
    *lacking = !status && sqlite3_column_int(select, 0) == 0;
    sqlite3_reset(select);
    return status;
}

/* Fills the `lacks` fields. */
static int find_lacking(struct history *h) {
    sqlite3_stmt *select = history_prepare(h, "SELECT count(*) FROM pragma_table_info(?1)"
                                              " WHERE name = ?2");
    int status = select ? look_for(h, select, "layers", "member", &h->lacks_members) : -1;
    if (!status)
        status = look_for(h, select, "predictions", "score", &h->lacks_scores);
    if (!status)
        status = look_for(h, select, "predictions", "quantiles", &h->lacks_quantiles);
    if (!status)
        status = look_for(h, select, "anomalies", "note", &h->lacks_notes);
    if (!status)
        status = look_for(h, select, "events", "incident", &h->lacks_incidents);
    for (int i = 0; !status && i < HISTORY_RUN_COLUMNS; i++)
        status = look_for(h, select, "runs", history_run_columns[i].name, &h->lacks_of_runs[i]);
    for (int kind = 0; kind < KINDS; kind++)
        for (int column = 0; !status && column < history_tables[kind].count; column++)
            status = look_for(h, select, history_tables[kind].name,
                              history_tables[kind].columns[column]->name, &h->lacks[kind][column]);
    sqlite3_finalize(select);
    return status;
}

static int add_to_runs(struct history *h) {
    for (int i = 0; i < HISTORY_RUN_COLUMNS; i++) {
        const struct history_run_column *column = &history_run_columns[i];
        sqlite3_str *sql = h->lacks_of_runs[i] ? sqlite3_str_new(h->file) : NULL;
        if (!sql)
            continue;
        sqlite3_str_appendf(sql, "ALTER TABLE runs ADD COLUMN %s %s", column->name,
                            column->text ? "TEXT" : "REAL");
        if (run_made(h, sql))
            return -1;
        h->lacks_of_runs[i] = false;
    }
    return 0;
}

#define ADD_COLUMN "ALTER TABLE predictions ADD COLUMN "
static const char ADD_DISTRIBUTIONS[] =
    ADD_COLUMN "pit_below REAL;" ADD_COLUMN "pit_at REAL;" ADD_COLUMN "z REAL;" ADD_COLUMN
               "crps REAL;" ADD_COLUMN "log_score REAL;" ADD_COLUMN "quantiles TEXT;";

static int add_lacking(struct history *h) {
    if (add_to_runs(h))
        return -1;
    if (h->lacks_members && history_run_sql(h, "ALTER TABLE layers ADD COLUMN member TEXT"))
        return -1;
    h->lacks_members = false;
    if (h->lacks_scores && history_run_sql(h, "ALTER TABLE predictions ADD COLUMN score REAL"))
        return -1;
    h->lacks_scores = false;
    if (h->lacks_quantiles && history_run_sql(h, ADD_DISTRIBUTIONS))
        return -1;
    h->lacks_quantiles = false;
    if (h->lacks_notes && history_run_sql(h, "ALTER TABLE anomalies ADD COLUMN note TEXT"))
        return -1;
    h->lacks_notes = false;
    if (h->lacks_incidents && history_run_sql(h, "ALTER TABLE events ADD COLUMN incident TEXT"))
        return -1;
    h->lacks_incidents = false;
    for (int kind = 0; kind < KINDS; kind++)
        for (int column = 0; column < history_tables[kind].count; column++)
            if (h->lacks[kind][column] &&
                add_column(h, &history_tables[kind], history_tables[kind].columns[column]))
                return -1;
    memset(h->lacks, 0, sizeof h->lacks);
    return 0;
}

/* Adds the missing columns to an older file, empty in existing rows. For a reader, `lacks` marks
   them as empty. Unknown columns are left alone. */
static int complete_tables(struct history *h) {
    if (h->lock < 0)
        return find_lacking(h);
    return history_run_sql(h, "BEGIN IMMEDIATE") || create_missing(h) || find_lacking(h) ||
                   add_lacking(h) || history_run_sql(h, "COMMIT")
               ? -1
               : 0;
}

/* ---- The file ---- */

static int pragma(struct history *h, const char *sql, int64_t *value) {
    sqlite3_stmt *statement = history_prepare(h, sql);
    int status = statement && sqlite3_step(statement) == SQLITE_ROW ? 0 : history_fail(h);
    *value = status ? 0 : sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

int history_changed(struct history *h, bool *changed) {
    int64_t version;
    int status = pragma(h, "PRAGMA data_version", &version);
    *changed = !status && version != h->version;
    h->version = version;
    return status;
}

/* An empty file becomes a recording; any other file must be one. */
static int check_file(struct history *h) {
    int64_t application, format, tables;
    if (pragma(h, "PRAGMA application_id", &application) ||
        pragma(h, "PRAGMA user_version", &format) ||
        pragma(h, "SELECT count(*) FROM sqlite_schema", &tables))
        return -1;
    if (h->lock >= 0 && !tables && !application)
        return create_tables(h);
    if (application == HISTORY_APPLICATION && format == HISTORY_FORMAT)
        return complete_tables(h);
    snprintf(h->error, sizeof h->error,
             application == HISTORY_APPLICATION
                 ? "%s was written by another version of runnel: use another file"
                 : "%s is not a recording of runnel-web or runnel-record: use another file",
             h->path);
    return -1;
}

static int open_file(struct history *h) {
    static const char WRITER[] =
        "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
        "PRAGMA journal_size_limit = 16777216;";
    char cache[64];
    bool writer = h->lock >= 0;
    int flags = writer ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    snprintf(cache, sizeof cache, "PRAGMA cache_size = -%d", CACHE_KIB);
    h->clock.limit = DATABASE_READ_SECONDS;
    if (database_open(&h->file, h->path, flags | SQLITE_OPEN_NOMUTEX, &h->clock) != SQLITE_OK)
        return h->file ? history_fail(h) : history_memory(h);
    sqlite3_extended_result_codes(h->file, 1);
    sqlite3_limit(h->file, SQLITE_LIMIT_LENGTH, HISTORY_ROW_SIZE);
    sqlite3_busy_timeout(h->file, BUSY_MS);
    if (history_run_sql(h, cache) || (writer && history_run_sql(h, WRITER)))
        return -1;
    return check_file(h);
}

/* One writer a file, since rows are numbered. SQLite locks with fcntl, so flock on the same file is
   free. Closing the descriptor would release SQLite's locks, so it is closed last. */
static int lock_file(struct history *h) {
    enum { FILE_MODE = 0600 }; /* SQLite uses it for -wal and -shm, too */
    h->lock = open(h->path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (h->lock < 0)
        snprintf(h->error, sizeof h->error, "cannot open the recording %s: %s", h->path,
                 strerror(errno));
    else if (flock(h->lock, LOCK_EX | LOCK_NB))
        snprintf(h->error, sizeof h->error,
                 "%s is in use by another runnel-web or runnel-record: use another file", h->path);
    else
        return 0;
    return -1;
}

/* ---- Statements of rows ---- */

/* Parameters of every statement. NUMBER is the first number of a range. */
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
    schema_columns(h, sql, kind, raw);
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
        schema_columns(h, sql, kind, raw);
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

/* The statement for a place with its key bound; NULL if it cannot be prepared. */
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

/* ---- Rows ---- */

/* SQLite stores NaN as NULL. */
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

int history_grow(struct history *h, void **list, size_t count, size_t size) {
    if (count % LIST_STEP)
        return 0;
    void *bigger = realloc(*list, (count + LIST_STEP) * size);
    if (!bigger)
        return history_memory(h);
    *list = bigger;
    return 0;
}

int history_collect(struct history *h, sqlite3_stmt *select, history_read_one *read, size_t size,
                    void *list, size_t *count) {
    int code, status = 0;
    void *rows = NULL;
    *count = 0;
    while (!status && (code = sqlite3_step(select)) == SQLITE_ROW) {
        status =
            *count < HISTORY_ROWS_MAX ? history_grow(h, &rows, *count, size) : history_too_long(h);
        if (!status)
            read(select, (char *)rows + (*count)++ * size);
    }
    memcpy(list, &rows, sizeof rows);
    status = status ? -1 : code == SQLITE_DONE ? 0 : history_fail(h);
    sqlite3_finalize(select);
    return status;
}

double history_column_number(sqlite3_stmt *select, int column) {
    return sqlite3_column_type(select, column) == SQLITE_NULL
               ? NAN
               : sqlite3_column_double(select, column);
}

/* The number of a row's messages without a value: all, if the column was added later. */
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

/* ---- Joining rows ---- */

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

/* ---- Opening ---- */

static void close_rows(struct history *h) {
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

int history_store_open(struct history *h, bool writes) {
    h->lock = -1;
    return (writes && lock_file(h)) || open_file(h) ? -1 : 0;
}

void history_store_close(struct history *h) {
    close_rows(h);
    sqlite3_finalize(h->add_prediction);
    sqlite3_close(h->file);
    if (h->lock >= 0)
        close(h->lock);
}
