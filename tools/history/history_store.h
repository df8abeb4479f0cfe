/* The file of recordings: its tables, and the rows of their levels. history.c writes through it,
   history_read.c reads. */
#ifndef RUNNEL_HISTORY_STORE_H
#define RUNNEL_HISTORY_STORE_H

#include <sqlite3.h>

#include "common/database.h"
#include "history.h"

#define HISTORY_APPLICATION 0x52554e48 /* "RUNH" */

enum {
    HISTORY_FORMAT = 1, /* of files */
    HISTORY_COLUMNS_MAX = (int)HISTORY_LAYER_COLUMNS > (int)HISTORY_LOSS_COLUMNS
                              ? (int)HISTORY_LAYER_COLUMNS
                              : (int)HISTORY_LOSS_COLUMNS,
    HISTORY_LEVELS = 9, /* 10^8 messages in a row of the last: three years at 1 Hz */
    HISTORY_ERROR_SIZE = 512,
    HISTORY_RUN_SIZE = 81,       /* of a run's digits */
    HISTORY_TEXT_SIZE = 2048,    /* of a text of a daemon; longer ones are truncated */
    HISTORY_JSON_SIZE = 1 << 20, /* of a value of JSON; longer ones are left out */
    HISTORY_ROW_SIZE = 1 << 24,  /* of a row that is read */
    HISTORY_ROWS_MAX = 1 << 22,  /* that are read at once */
};

/* The kinds of tables: `loss` with `loss_levels`, `state` with `state_levels`, and so on. */
enum history_kind { KIND_LOSS, KIND_STATE, KIND_COLUMNS, KIND_EXPERTS, KINDS };

struct history_table {
    const char *name;
    const struct field *const *columns;
    int count;
    const char
        *part; /* what of a message has a row of its own, by number: "layer"; NULL = all of it */
    bool histogram;
    uint64_t share; /* of the rows to keep, one in so many is kept of each part */
};
extern const struct history_table history_tables[KINDS];

/* Columns of the tables of single rows, in the order in which they are bound and read: after the
   keys of each come those of HISTORY_AXES. */
#define PREDICTION_NUMBERS                                                                         \
    "examples, steps, time, data_time, target, prediction, low, high, baseline"
#define ANOMALY_COLUMNS                                                                            \
    "event, run, stream, reason, column, "                                                         \
    "examples, steps, time, data_time, score, threshold, column_score, forecast, truth"
enum { PREDICTION_KEYS = 5, ANOMALY_KEYS = 6 /* bound before the numbers */, ANOMALY_NOTE = 15 };

/* Greatest number of a row. A file with greater ones was not written by this program: they are
   ignored. */
#define HISTORY_NUMBER_MAX 1000000000000000

/* What belongs together in a table: the rows of one level. */
struct history_place {
    enum history_kind kind;
    int64_t run;
    int part; /* 0 where the table has none */
    int level;
};

/* A row of any level; of level 0 minimum = maximum = mean. */
struct history_row {
    int64_t number;
    struct history_point at;
    struct history_value values[HISTORY_COLUMNS_MAX];
    uint64_t bin_messages; /* that the bins are the mean of; 0 = there are no bins */
    float bins[HISTORY_BINS];
};

/* For each table the statements on its rows, prepared when first needed. */
struct history_statements {
    sqlite3_stmt *insert[2], *select[2], *first[2], *last[2], *trim[2]; /* level 0, the others */
};

struct history {
    sqlite3 *file;
    struct database_clock clock;
    char *path;
    int lock;     /* held by the one writer; -1 = a reader */
    bool writing; /* within a transaction */
    struct history_options options;
    uint64_t keep; /* rows a level that the bytes allow now */
    unsigned commits;
    int64_t version; /* of the file's data, of a reader; 0 = not asked for yet */
    bool lacks[KINDS][HISTORY_COLUMNS_MAX]; /* columns that the file does not have: see below */
    bool lacks_of_runs[HISTORY_RUN_COLUMNS];
    bool lacks_members; /* of layers, likewise */
    bool lacks_scores;  /* of predictions */
    bool lacks_notes;   /* of anomalies */
    struct history_statements statements[KINDS];
    sqlite3_stmt *add_prediction; /* prepared when first needed */
    struct history_feed *feeds;
    char error[HISTORY_ERROR_SIZE];
};

/* Fill the error from what SQLite says; -1. */
int history_fail(struct history *history);
int history_memory(struct history *history);
int history_too_long(struct history *history);

/* Run SQL without results; prepare one statement (NULL: failed, the error is filled). */
int history_run_sql(struct history *history, const char *sql);
sqlite3_stmt *history_prepare(struct history *history, const char *sql);
sqlite3_stmt *history_prepare_made(struct history *history, sqlite3_str *sql); /* which is freed */

/* Step a statement that has no rows, and reset it. */
int history_done(struct history *history, sqlite3_stmt *statement);

/* The same, once, and finalize it; NULL: it could not be prepared. */
int history_done_once(struct history *history, sqlite3_stmt *statement);

/* Step a statement of one row at most; whether there is that row. */
int history_step(struct history *history, sqlite3_stmt *select, bool *row);

/* Room in the list for one more than `count`. */
int history_grow(struct history *history, void **list, size_t count, size_t size);

/* Open what history->path names, to write with a lock or to read; close all but the feeds. */
int history_store_open(struct history *history, bool writes);
void history_store_close(struct history *history);

/* Whether the file has the table: one that was written before it was there has not. */
int history_has_table(struct history *history, const char *name, bool *there);

/* ---- Rows ---- */

/* Insert a row of level 0, and whatever rows of the next levels it completes. */
int history_row_insert(struct history *history, struct history_place place,
                       const struct history_row *row);

/* A column of a result, NaN where it is NULL. */
double history_column_number(sqlite3_stmt *select, int column);

/* All rows that the statement selects: `list` becomes (count,) of `size` bytes each, filled by
   `read` and to be freed, also after -1. Finalizes the statement. */
typedef void history_read_one(sqlite3_stmt *select, void *one);
int history_collect(struct history *history, sqlite3_stmt *select, history_read_one *read,
                    size_t size, void **list, size_t *count);

/* Rows with numbers first..last in order: each is given to `take`, until it returns false. */
typedef bool history_take_row(void *context, const struct history_row *row);
int history_rows(struct history *history, const struct history_place *place, int64_t first,
                 int64_t last, history_take_row *take, void *context);

/* The number of the first row with number >= `from`, or the last of all; -1 where there is none. */
int history_row_first(struct history *history, const struct history_place *place, int64_t from,
                      int64_t *number, double position[HISTORY_AXES]);
int history_row_last(struct history *history, const struct history_place *place, int64_t *number,
                     double position[HISTORY_AXES]);

/* Delete rows with numbers below `below`. */
int history_row_trim(struct history *history, const struct history_place *place, int64_t below);

/* Into an empty row (zeros), or one that has something, another. */
void history_row_add(struct history_row *into, const struct history_row *row, int columns);

/* What an object says of a table's columns. */
void history_row_fill(struct history_row *row, const struct history_table *table,
                      const json_t *object);

#endif
