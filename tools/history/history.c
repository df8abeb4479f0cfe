#include "build-config.h"

#include "common/complain.h"
#include "history_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sysexits.h>
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
    snprintf(h->error, sizeof h->error, "the recording %s: more than %d rows at once", h->path,
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

/* An empty file becomes a recording; any other has to be one. */
static int check_file(struct history *h) {
    int64_t application, format, tables;
    if (pragma(h, "PRAGMA application_id", &application) ||
        pragma(h, "PRAGMA user_version", &format) ||
        pragma(h, "SELECT count(*) FROM sqlite_schema", &tables))
        return -1;
    if (h->lock >= 0 && !tables && !application)
        return history_schema_create(h);
    if (application == HISTORY_APPLICATION && format == HISTORY_FORMAT)
        return history_schema_complete(h);
    snprintf(h->error, sizeof h->error,
             application == HISTORY_APPLICATION
                 ? "%s was written by another version of runnel: name another file"
                 : "%s is no file of runnel-web or runnel-record: name another one",
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

/* One writer a file, for numbers of messages are counted on: SQLite itself locks with fcntl, so
   that a flock on the same file is free for this. Closing the descriptor would drop SQLite's locks:
   it is closed last. */
static int lock_file(struct history *h) {
    enum { FILE_MODE = 0600 }; /* SQLite gives it to -wal and -shm too */
    h->lock = open(h->path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (h->lock < 0)
        snprintf(h->error, sizeof h->error, "the recording %s cannot be opened: %s", h->path,
                 strerror(errno));
    else if (flock(h->lock, LOCK_EX | LOCK_NB))
        snprintf(h->error, sizeof h->error,
                 "%s is being written by another runnel-web or runnel-record: name another file",
                 h->path);
    else
        return 0;
    return -1;
}

int history_open(struct history **history, const char *path,
                 const struct history_options *options) {
    struct history *h = calloc(1, sizeof *h);
    if (!h || !(h->path = strdup(path))) {
        free(h);
        return complain(EX_UNAVAILABLE, "out of memory");
    }
    h->lock = -1;
    if (options) {
        h->options.keep = options->keep ? options->keep : HISTORY_KEEP;
        h->options.bytes = options->bytes ? options->bytes : HISTORY_BYTES;
        h->keep = h->options.keep;
    }
    if ((options && lock_file(h)) || open_file(h)) {
        int status = complain(EX_IOERR, "%s", h->error);
        history_close(&h);
        return status;
    }
    *history = h;
    return EX_OK;
}

void history_close(struct history **history) {
    struct history *h = *history;
    if (!h)
        return;
    if (h->writing)
        history_commit(h);
    history_rows_close(h);
    history_predictions_close(h);
    sqlite3_close(h->file);
    if (h->lock >= 0)
        close(h->lock);
    while (h->feeds) {
        struct history_feed *feed = h->feeds;
        h->feeds = feed->following;
        free(feed->endpoint);
        free(feed->run_text);
        free(feed);
    }
    free(h->path);
    free(h);
    *history = NULL;
}
