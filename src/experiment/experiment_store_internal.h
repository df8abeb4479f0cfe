/* For the files of the store alone. */
#ifndef RUNNEL_EXPERIMENT_STORE_INTERNAL_H
#define RUNNEL_EXPERIMENT_STORE_INTERNAL_H

#include <sqlite3.h>

#include "common/database.h"
#include "experiment_store.h"

struct experiment_store {
    sqlite3 *file;
    struct database_clock clock;
    size_t texts; /* bytes of the texts read */
    char path[EXPERIMENT_PATH_SIZE];
    bool writes;
};

/* A column of a table, and the field of a struct that it is. */
enum store_type {
    STORE_TEXT,  /* const char *, NULL = NULL */
    STORE_LABEL, /* const char *, never NULL */
    STORE_NAME,  /* char[EXPERIMENT_NAME_SIZE], "" = NULL */
    STORE_STATE, /* enum experiment_state, as its name */
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
    size_t most;       /* rows of one read; a file with more is refused */
};
extern const struct store_table store_streams, store_variants, store_settings, store_runs,
    store_points, store_columns, store_experts, store_weights;

/* What has gone wrong with the file: `doing` is "written" or "read". */
int store_error(struct experiment_store *store, const char *doing, struct error *error);

int store_execute(struct experiment_store *store, const char *sql, struct error *error);
int store_prepare(struct experiment_store *store, const char *sql, sqlite3_stmt **statement,
                  struct error *error);

#endif
