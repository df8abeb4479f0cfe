#include "experiment_store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/error.h"
#include "experiment_store_internal.h"

enum {
    APPLICATION = 0x72756e65, /* "rune": whose file it is */
    FORMAT = 1,
    BUSY_MS = 10000, /* that somebody else may be at it */
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
    " bits REAL, losses_digest TEXT, parameters_digest TEXT, UNIQUE (variant, stream, seed));"
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

const struct experiment_figures experiment_no_figures = {NAN, NAN, NAN, NAN, NAN,
                                                         NAN, NAN, NAN, NAN, NAN};

const struct experiment_measure experiment_measures[EXPERIMENT_FIGURES] = {
    {"mean", false, "loss"},         {"recent", false, "recent loss"},
    {"baseline", false, "baseline"}, {"baseline_recent", false, "recent baseline"},
    {"skill", true, "skill"},        {"skill_recent", true, "recent skill"},
    {"rmse", false, "rmse"},         {"mae", false, "mae"},
    {"accuracy", true, "accuracy"},  {"bits", false, "bits"},
};

size_t experiment_measure_named(const char *name) {
    size_t n = 0;
    while (n < EXPERIMENT_FIGURES && strcmp(experiment_measures[n].name, name) != 0)
        n++;
    return n;
}

/* ---- Errors ---- */

int store_error(struct experiment_store *store, const char *doing, struct error *error) {
    int code = sqlite3_errcode(store->file) & 0xFF, reason = sqlite3_system_errno(store->file);
    bool refused = code == SQLITE_ERROR || code == SQLITE_TOOBIG || code == SQLITE_INTERRUPT;
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB || (refused && !store->writes))
        return error_set(
            error, EX_DATAERR,
            "%s is damaged, or no results of runnel-experiment (%s): restore a copy of "
            "it, or run the experiment again into another directory with -o, or here "
            "with --again",
            store->path, database_message(store->file));
    if (code == SQLITE_NOMEM)
        return error_set(error, EX_OSERR, "out of memory for %s", store->path);
    if (code == SQLITE_FULL || reason == ENOSPC || reason == EDQUOT || reason == EFBIG)
        return error_set(error, EX_IOERR,
                         "%s cannot be %s: the disk is full; make room, and the same command "
                         "resumes",
                         store->path, doing);
    bool known = (code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && reason;
    bool disk = code == SQLITE_IOERR && store->writes;
    return error_set(error, EX_IOERR, "%s cannot be %s: %s%s%s%s%s", store->path, doing,
                     database_message(store->file), known ? " (" : "",
                     known ? strerror(reason) : "", known ? ")" : "",
                     disk ? "; once the disk works and has room, the same command resumes" : "");
}

int store_execute(struct experiment_store *store, const char *sql, struct error *error) {
    return sqlite3_exec(store->file, sql, NULL, NULL, NULL) ? store_error(store, "written", error)
                                                            : 0;
}

int store_prepare(struct experiment_store *store, const char *sql, sqlite3_stmt **statement,
                  struct error *error) {
    return sqlite3_prepare_v2(store->file, sql, -1, statement, NULL)
               ? store_error(store, "read", error)
               : 0;
}

/* ---- Opening ---- */

static int number_of(struct experiment_store *store, const char *sql, int64_t *number,
                     struct error *error) {
    sqlite3_stmt *statement;
    if (store_prepare(store, sql, &statement, error))
        return -1;
    int result = sqlite3_step(statement) == SQLITE_ROW ? 0 : store_error(store, "read", error);
    *number = result ? 0 : sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return result;
}

/* In one transaction: whoever is killed here leaves an empty file, or all tables. */
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
        return store->writes ? create(store, error)
                             : error_set(error, EX_DATAERR,
                                         "%s is empty: nothing has been run here yet", store->path);
    if (application != APPLICATION)
        return error_set(error, EX_DATAERR,
                         "%s is a database of something else, no results of runnel-experiment: %s",
                         store->path,
                         store->writes ? "choose another directory with -o"
                                       : "name the directory that it has made");
    if (format != FORMAT)
        return error_set(error, EX_DATAERR,
                         "%s has format %lld, and this runnel-experiment knows %d: use the version "
                         "that wrote it",
                         store->path, (long long)format, FORMAT);
    return 0;
}

/* Without a log beside it a file can be copied, and read where nobody may write. */
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
        return error_set(error, EX_NOINPUT, "%s: %s: no results of an experiment are here",
                         store->path, strerror(errno));
    int flags = store->writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    store->clock.limit = DATABASE_READ_SECONDS;
    if (database_open(&store->file, store->path, flags | SQLITE_OPEN_NOMUTEX, &store->clock))
        return store->file ? store_error(store, "opened", error) : error_no_memory(error);
    return 0;
}

int experiment_store_open(struct experiment_store **store, const char *path,
                          enum experiment_access access, struct error *error) {
    struct experiment_store *opened = *store = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    opened->writes = access == EXPERIMENT_WRITE;
    if (open_file(opened, path, error) || set_modes(opened, error) || check_format(opened, error)) {
        opened->writes = false; /* nothing is to be tidied */
        experiment_store_close(store);
        return -1;
    }
    return 0;
}

void experiment_store_close(struct experiment_store **store) {
    struct experiment_store *s = *store;
    if (!s)
        return;
    if (s->file && s->writes) { /* while somebody reads, the log stays: the next writer tidies */
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
