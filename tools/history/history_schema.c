#include "build-config.h"

#include "history_internal.h"

#include <stdio.h>
#include <string.h>

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

enum { PARTS_SHARE = 10 /* one row a message, but of many columns and experts */ };

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

/* What a level has of each column: a row of the first level the number itself. */
static const char *const parts[] = {"_minimum", "_maximum", "_mean", "_missing"};
enum { PARTS = sizeof parts / sizeof *parts };

/* The columns of a level, in order, with a comma before each. */
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

void history_schema_columns(const struct history *h, sqlite3_str *sql, enum history_kind kind,
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
    " examples REAL, steps REAL, time REAL, kind TEXT, text TEXT);"
    "CREATE INDEX IF NOT EXISTS events_of_run ON events (run);"
    "CREATE TABLE IF NOT EXISTS columns (of TEXT, name TEXT, unit TEXT,"
    " PRIMARY KEY (of, name)) WITHOUT ROWID;";

/* Run SQL that was put together, and free it. */
static int run_made(struct history *h, sqlite3_str *sql) {
    char *text = sqlite3_str_finish(sql);
    int status = text ? history_run_sql(h, text) : history_memory(h);
    sqlite3_free(text);
    return status;
}

/* The table of a kind's rows, of the first level or of the others. */
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

/* The tables that are not there, and what their columns are. */
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
    return history_predictions_create(h) || history_anomalies_create(h) ? -1 : 0;
}

int history_schema_create(struct history *h) {
    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             HISTORY_APPLICATION, HISTORY_FORMAT);
    return history_run_sql(h, "BEGIN IMMEDIATE") || create_missing(h) ||
                   history_run_sql(h, pragmas) || history_run_sql(h, "COMMIT")
               ? -1
               : 0;
}

/* ---- What a file lacks ---- */

int history_has_table(struct history *h, const char *name, bool *there) {
    sqlite3_stmt *select = history_prepare(h, "SELECT count(*) FROM sqlite_schema WHERE name = ?");
    if (!select)
        return -1;
    sqlite3_bind_text(select, 1, name, -1, SQLITE_STATIC);
    int status = sqlite3_step(select) == SQLITE_ROW ? 0 : history_fail(h);
    *there = !status && sqlite3_column_int(select, 0) > 0;
    sqlite3_finalize(select);
    return status;
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

/* Whether a table lacks a column; true when it is not there itself. */
static int look_for(struct history *h, sqlite3_stmt *select, const char *table, const char *name,
                    bool *lacking) {
    sqlite3_bind_text(select, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(select, 2, name, -1, SQLITE_STATIC);
    int status = sqlite3_step(select) == SQLITE_ROW ? 0 : history_fail(h);
    *lacking = !status && sqlite3_column_int(select, 0) == 0;
    sqlite3_reset(select);
    return status;
}

/* Note which columns the file lacks. */
static int find_lacking(struct history *h) {
    sqlite3_stmt *select = history_prepare(h, "SELECT count(*) FROM pragma_table_info(?1)"
                                              " WHERE name = ?2");
    int status = select ? look_for(h, select, "layers", "member", &h->lacks_members) : -1;
    if (!status)
        status = look_for(h, select, "predictions", "score", &h->lacks_scores);
    if (!status)
        status = look_for(h, select, "anomalies", "note", &h->lacks_notes);
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

static int add_lacking(struct history *h) {
    if (add_to_runs(h))
        return -1;
    if (h->lacks_members && history_run_sql(h, "ALTER TABLE layers ADD COLUMN member TEXT"))
        return -1;
    h->lacks_members = false;
    if (h->lacks_scores && history_run_sql(h, "ALTER TABLE predictions ADD COLUMN score REAL"))
        return -1;
    h->lacks_scores = false;
    if (h->lacks_notes && history_run_sql(h, "ALTER TABLE anomalies ADD COLUMN note TEXT"))
        return -1;
    h->lacks_notes = false;
    for (int kind = 0; kind < KINDS; kind++)
        for (int column = 0; column < history_tables[kind].count; column++)
            if (h->lacks[kind][column] &&
                add_column(h, &history_tables[kind], history_tables[kind].columns[column]))
                return -1;
    memset(h->lacks, 0, sizeof h->lacks);
    return 0;
}

int history_schema_complete(struct history *h) {
    if (h->lock < 0)
        return find_lacking(h);
    return history_run_sql(h, "BEGIN IMMEDIATE") || create_missing(h) || find_lacking(h) ||
                   add_lacking(h) || history_run_sql(h, "COMMIT")
               ? -1
               : 0;
}
