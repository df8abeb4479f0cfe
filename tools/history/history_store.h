/* The file of recordings: its tables and the rows of their levels. history.c writes through it,
   history_read.c reads. */
#ifndef RUNNEL_HISTORY_STORE_H
#define RUNNEL_HISTORY_STORE_H

#include <sqlite3.h>

#include "common/database.h"
#include "history.h"

#define HISTORY_APPLICATION 0x52554e48 /* "RUNH" */

enum {
    HISTORY_FORMAT = 1, /* version of the file format */
    HISTORY_COLUMNS_MAX = (int)HISTORY_LAYER_COLUMNS > (int)HISTORY_LOSS_COLUMNS
                              ? (int)HISTORY_LAYER_COLUMNS
                              : (int)HISTORY_LOSS_COLUMNS,
    HISTORY_LEVELS = 9, /* 10^8 messages in a row of the last level: three years at 1 Hz */
    HISTORY_ERROR_SIZE = 512,
    HISTORY_RUN_SIZE = 81,       /* size of a run's digits */
    HISTORY_TEXT_SIZE = 2048,    /* size of a daemon's text; longer ones are truncated */
    HISTORY_JSON_SIZE = 1 << 20, /* size of a JSON value; longer ones are left out */
    HISTORY_ROW_SIZE = 1 << 24,  /* maximum size of a row */
    HISTORY_ROWS_MAX = 1 << 22,  /* maximum rows in one query */
};

/* The tables: `loss` with `loss_levels`, `state` with `state_levels`, and so on. */
enum history_kind { KIND_LOSS, KIND_STATE, KIND_COLUMNS, KIND_EXPERTS, KINDS };

struct history_table {
    const char *name;
    const struct field *const *columns;
    int count;
    /* the part of a message with a row of its own, by number, such as "layer"; NULL = the whole
       message */
    const char *part;
    bool histogram;
    uint64_t share; /* each part keeps 1/share of the rows */
};
extern const struct history_table history_tables[KINDS];

/* Columns of the tables of single rows in the order in which they are bound and read. The columns
   of HISTORY_AXES follow the keys. */
#define PREDICTION_NUMBERS                                                                         \
    "examples, steps, time, data_time, target, prediction, low, high, baseline"
#define PREDICTION_SCORES "pit_below, pit_at, z, crps, log_score" /* as TRUTH_SCORES */
#define ANOMALY_COLUMNS                                                                            \
    "event, run, stream, reason, column, "                                                         \
    "examples, steps, time, data_time, score, threshold, column_score, forecast, truth"
enum {
    PREDICTION_KEYS = 5,
    PREDICTION_QUANTILES = 20,
    ANOMALY_KEYS = 6 /* bound before the numbers */,
    ANOMALY_NOTE = 15
};

/* Greatest number of a row. This program does not write greater ones; they are ignored. */
#define HISTORY_NUMBER_MAX 1000000000000000

/* The rows of one level of a table. */
struct history_place {
    enum history_kind kind;
    int64_t run;
    int part; /* 0 if the table has no parts */
    int level;
};

/* A row of any level; in level 0 minimum = maximum = mean. */
struct history_row {
    int64_t number;
    struct history_point at;
    struct history_value values[HISTORY_COLUMNS_MAX];
    uint64_t bin_messages; /* number of messages in the mean of the bins; 0 = no bins */
    float bins[HISTORY_BINS];
};

/* Statements on the rows of a table, prepared when first needed. */
struct history_statements {
    sqlite3_stmt *insert[2], *select[2], *first[2], *last[2], *trim[2]; /* level 0, other levels */
};

struct history {
    sqlite3 *file;
    struct database_clock clock;
    char *path;
    int lock;     /* held by the writer; -1 = a reader */
    bool writing; /* within a transaction */
    struct history_options options;
    uint64_t keep; /* rows a level within the limit of bytes */
    unsigned commits;
    int64_t version; /* data version that a reader has seen; 0 = not read yet */
    /* columns that the file does not have: see complete_tables */
    bool lacks[KINDS][HISTORY_COLUMNS_MAX];
    bool lacks_of_runs[HISTORY_RUN_COLUMNS];
    bool lacks_members; /* the same for layers */
    bool lacks_scores;  /* the same for predictions */
    bool lacks_quantiles;
    bool lacks_notes;     /* the same for anomalies */
    bool lacks_incidents; /* the same for events */
    struct history_statements statements[KINDS];
    sqlite3_stmt *add_prediction; /* prepared when first needed */
    struct history_feed *feeds;
    char error[HISTORY_ERROR_SIZE];
};

/* Fills the error with SQLite's message; returns -1. */
int history_fail(struct history *history);
int history_memory(struct history *history);
int history_too_long(struct history *history);

/* Run SQL without results; prepare a statement (NULL: failed, the error is filled). */
int history_run_sql(struct history *history, const char *sql);
sqlite3_stmt *history_prepare(struct history *history, const char *sql);

/* The same with the run as ?1. SQLite ignores binding to a statement that is NULL, and the
   functions below return -1 for it. */
sqlite3_stmt *history_prepare_run(struct history *history, const char *sql, int64_t run);
sqlite3_stmt *history_prepare_made(struct history *history, sqlite3_str *sql); /* frees `sql` */

/* Steps a statement that returns no rows, and resets it. */
int history_done(struct history *history, sqlite3_stmt *statement);

/* Steps such a statement once and finalizes it. */
int history_done_once(struct history *history, sqlite3_stmt *statement);

/* Steps a statement of at most one row; *row: whether it returned one. */
int history_step(struct history *history, sqlite3_stmt *select, bool *row);

/* Makes room in the list for one more than `count`. */
int history_grow(struct history *history, void **list, size_t count, size_t size);

/* Opens history->path, for writing with a lock or for reading; closes everything but the feeds. */
int history_store_open(struct history *history, bool writes);
void history_store_close(struct history *history);

/* Older files may lack a table. Returns whether it is there, or -1. */
int history_has_table(struct history *history, const char *name);

/* ---- Rows ---- */

/* Inserts a row of level 0, and the rows of higher levels that it completes. */
int history_row_insert(struct history *history, struct history_place place,
                       const struct history_row *row);

/* A column of a result; NaN if it is NULL. */
double history_column_number(sqlite3_stmt *select, int column);

/* Collects all rows of the statement: the pointer at `list` becomes (count,) of `size` bytes each,
   filled by `read`, and the caller frees it, also after -1. Finalizes the statement. */
typedef void history_read_one(sqlite3_stmt *select, void *one);
int history_collect(struct history *history, sqlite3_stmt *select, history_read_one *read,
                    size_t size, void *list, size_t *count);

/* Calls `take` with the rows first..last in order until it returns false. */
typedef bool history_take_row(void *context, const struct history_row *row);
int history_rows(struct history *history, const struct history_place *place, int64_t first,
                 int64_t last, history_take_row *take, void *context);

/* The number of the first row with number >= `from`, or of the last row; -1 if neither
   exists. */
int history_row_first(struct history *history, const struct history_place *place, int64_t from,
                      int64_t *number, double position[HISTORY_AXES]);
int history_row_last(struct history *history, const struct history_place *place, int64_t *number,
                     double position[HISTORY_AXES]);

/* Deletes rows with numbers below `below`. */
int history_row_trim(struct history *history, const struct history_place *place, int64_t below);

/* Adds `row` to `into`, which may be empty (zeros). */
void history_row_add(struct history_row *into, const struct history_row *row, int columns);

/* Fills the row with an object's values for the table's columns. */
void history_row_fill(struct history_row *row, const struct history_table *table,
                      const json_t *object);

#endif
