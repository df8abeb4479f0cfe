#include "journal_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/wire.h"

/* Up to this size all pages are checked, in a few seconds. In a larger file, only the table of
   streams is checked, and a replay checks entries. */
static const sqlite3_int64 WHOLE_CHECK_BYTES = 1 << 30;

/* ---- The write-ahead log: https://sqlite.org/fileformat2.html#walformat ----

   SQLite reads the frames of the log up to the first invalid one, and silently ignores the rest.
   That is correct for a transaction that was being written at a loss of power: the one before it
   had been synced. Further transactions after it would have been synced too, so they indicate
   damage. */

enum {
    LOG_HEADER = 32,
    FRAME_HEADER = 24,
    SALTS = 8,
    LOG_MAGIC = 0x377F0682, /* lowest bit: big-endian checksums */
    PAGE_MIN = 512,
    PAGE_MAX = 65536,
};

struct log {
    int file;
    bool big;
    uint32_t page;
    unsigned char salts[SALTS];
    uint32_t sums[2];
    unsigned char *frame;
};

static uint32_t big_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void add_up(struct log *log, const unsigned char *bytes, size_t size) {
    for (size_t n = 0; n < size; n += 8) {
        uint32_t pair[2] = {big_endian(bytes + n), big_endian(bytes + n + 4)};
        if (!log->big)
            memcpy(pair, bytes + n, sizeof pair);
        log->sums[0] += pair[0] + log->sums[1];
        log->sums[1] += pair[1] + log->sums[0];
    }
}

static bool sums_are(const struct log *log, const unsigned char *bytes) {
    return log->sums[0] == big_endian(bytes) && log->sums[1] == big_endian(bytes + 4);
}

/* Returns whether the header is whole; `empty`: only zeros, never written. */
static bool read_header(struct log *log, bool *empty) {
    unsigned char header[LOG_HEADER] = {0};
    static const unsigned char zeros[LOG_HEADER];
    ssize_t size = pread(log->file, header, sizeof header, 0);
    *empty = size < LOG_HEADER || !memcmp(header, zeros, sizeof header);
    if (*empty)
        return true;
    uint32_t magic = big_endian(header);
    log->big = magic & 1;
    log->page = big_endian(header + 8);
    if ((magic & ~1u) != LOG_MAGIC || log->page < PAGE_MIN || log->page > PAGE_MAX)
        return false;
    memcpy(log->salts, header + 16, SALTS);
    add_up(log, header, 24);
    return sums_are(log, header + 24);
}

/* Frames of a transaction that was cut off have the salts of the log; leftovers of an earlier round
   have others. Less than a frame's header counts as nothing. -1 with errno. */
static int find_tail(struct log *log, struct journal_tail *tail) {
    const unsigned char *frame = log->frame;
    const size_t size = FRAME_HEADER + log->page;
    ssize_t got;
    bool valid = true;
    for (off_t at = LOG_HEADER; (got = pread(log->file, log->frame, size, at)) >= FRAME_HEADER;
         at += (off_t)size) {
        bool whole = got == (ssize_t)size;
        bool ours = !memcmp(frame + 8, log->salts, SALTS);
        bool ends = big_endian(frame + 4) != 0;
        if (valid && whole) {
            add_up(log, frame, 8);
            add_up(log, frame + FRAME_HEADER, log->page);
        }
        valid = valid && whole && ours && big_endian(frame) != 0 && sums_are(log, frame + 16);
        if (valid)
            tail->torn = !ends;
        else if (ours)
            tail->torn = true;
        tail->transactions += !valid && ours && ends && whole;
    }
    return got < 0 ? -1 : 0;
}

static int check_open_log(struct log *log, const char *path, bool has_file,
                          struct journal_tail *tail, struct error *error) {
    bool empty;
    if (!read_header(log, &empty))
        return journal_damaged(error, path, "invalid header of its write-ahead log");
    if (empty)
        return 0;
    if (!has_file)
        return journal_damaged(error, path, "it is empty, but its write-ahead log is not");
    log->frame = malloc(FRAME_HEADER + log->page);
    if (!log->frame)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the journal %s", path);
    int status = find_tail(log, tail);
    if (status)
        error_set(error, EX_IOERR, "the log of the journal %s cannot be read: %s", path,
                  strerror(errno));
    free(log->frame);
    return status;
}

int journal_check_log(const char *path, struct journal_tail *tail, struct error *error) {
    char name[JOURNAL_PATH_SIZE + 8];
    struct stat file;
    *tail = (struct journal_tail){0};
    if (stat(path, &file))
        return error_set(error, EX_IOERR, "the journal %s cannot be opened: %s", path,
                         strerror(errno));
    snprintf(name, sizeof name, "%s-wal", path);
    struct log log = {.file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (log.file < 0 && errno != ENOENT)
        return error_set(error, EX_IOERR, "the journal's log %s cannot be opened: %s", name,
                         strerror(errno));
    int status = 0;
    if (log.file >= 0) {
        struct stat about;
        if (fstat(log.file, &about) || !S_ISREG(about.st_mode))
            status = error_set(error, EX_IOERR, "the journal's log %s is not a regular file", name);
        else
            status = check_open_log(&log, path, file.st_size > 0, tail, error);
        close(log.file);
    }
    if (!status && file.st_size == 0)
        return journal_damaged(error, path, "it is empty");
    return status;
}

/* ---- Tables ---- */

static sqlite3_stmt *prepare(struct journal_store *store, const char *sql, struct error *error) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(store->file, sql, -1, &statement, NULL) == SQLITE_OK)
        return statement;
    /* The schema's format is known, so a missing table is damage. */
    if (sqlite3_errcode(store->file) == SQLITE_ERROR)
        journal_damaged(error, store->path, "%s", sqlite3_errmsg(store->file));
    else
        journal_sql_error(error, store->file, store->path, "read");
    return NULL;
}

static void copy_text(sqlite3_stmt *statement, int column, char *text, size_t size) {
    const unsigned char *found = sqlite3_column_text(statement, column);
    snprintf(text, size, "%s", found ? (const char *)found : "");
}

static bool read_totals(sqlite3_stmt *row, struct journal_totals *totals) {
    char sync[16];
    copy_text(row, 0, totals->name, sizeof totals->name);
    copy_text(row, 1, totals->digest, sizeof totals->digest);
    copy_text(row, 2, sync, sizeof sync);
    for (totals->sync = JOURNAL_FULL; strcmp(sync, journal_sync_words[totals->sync]);)
        if (++totals->sync > JOURNAL_OFF)
            return false;
    totals->oldest = (uint64_t)sqlite3_column_int64(row, 3);
    totals->newest = (uint64_t)sqlite3_column_int64(row, 4);
    totals->streams = (uint64_t)sqlite3_column_int64(row, 5);
    /* Positions are int64 in the file, with room for more. */
    return totals->newest <= INT64_MAX / 2 && totals->oldest <= totals->newest + 1 &&
           totals->oldest > 0 && sqlite3_column_int64(row, 6) == journal_totals_checksum(totals);
}

int journal_check_totals(struct journal_store *store, struct journal_totals *totals,
                         struct error *error) {
    sqlite3_stmt *row = prepare(
        store, "SELECT name, digest, sync, oldest, newest, streams, crc FROM journal", error);
    if (!row)
        return -1;
    int status = 0, code = sqlite3_step(row);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = journal_sql_error(error, store->file, store->path, "read");
    else if (code == SQLITE_DONE || !read_totals(row, totals))
        status = journal_damaged(error, store->path, "invalid row in its table journal");
    sqlite3_finalize(row);
    return status;
}

static int check_pages(struct journal_store *store, struct error *error) {
    struct stat file = {0};
    stat(store->path, &file);
    sqlite3_stmt *check =
        prepare(store,
                file.st_size <= WHOLE_CHECK_BYTES ? "PRAGMA quick_check(1)"
                                                  : "PRAGMA quick_check('streams')",
                error);
    if (!check)
        return -1;
    int status = 0, code = sqlite3_step(check);
    const char *result = code == SQLITE_ROW ? (const char *)sqlite3_column_text(check, 0) : "";
    if (code != SQLITE_ROW)
        status = journal_sql_error(error, store->file, store->path, "read");
    else if (strcmp(result, "ok")) {
        if (!strncmp(result, "***", strlen("***"))) /* a title; the error is in the next line */
            result += strcspn(result, "\n") + (strchr(result, '\n') != NULL);
        status = journal_damaged(error, store->path, "%.*s", (int)strcspn(result, "\n"), result);
    }
    sqlite3_finalize(check);
    return status;
}

/* Checks the entries at both ends against the totals. */
static int check_ends(struct journal_store *store, const struct journal_totals *totals,
                      struct error *error) {
    sqlite3_stmt *ends = prepare(store,
                                 "SELECT (SELECT last - count + 1 FROM blocks ORDER BY last "
                                 "LIMIT 1), (SELECT max(last) FROM blocks)",
                                 error);
    if (!ends)
        return -1;
    int status = 0;
    if (sqlite3_step(ends) != SQLITE_ROW) {
        status = journal_sql_error(error, store->file, store->path, "read");
    } else {
        bool none = sqlite3_column_type(ends, 0) == SQLITE_NULL;
        uint64_t oldest = none ? totals->newest + 1 : (uint64_t)sqlite3_column_int64(ends, 0);
        uint64_t newest = none ? totals->newest : (uint64_t)sqlite3_column_int64(ends, 1);
        if (oldest != totals->oldest || newest != totals->newest)
            status = journal_damaged(error, store->path,
                                     "expected entries %" PRIu64 " to %" PRIu64 ", got %" PRIu64
                                     " to %" PRIu64,
                                     totals->oldest, totals->newest, oldest, newest);
    }
    sqlite3_finalize(ends);
    return status;
}

/* Other programs read the view; nothing else checks it. */
static int check_view(struct journal_store *store, struct error *error) {
    sqlite3_stmt *view =
        prepare(store, "SELECT sql FROM sqlite_schema WHERE name = 'entries'", error);
    if (!view)
        return -1;
    int status = 0, code = sqlite3_step(view);
    const char *sql = code == SQLITE_ROW ? (const char *)sqlite3_column_text(view, 0) : NULL;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = journal_sql_error(error, store->file, store->path, "read");
    else if (!sql || strcmp(sql, journal_view))
        status = journal_damaged(error, store->path, "invalid definition of its view entries");
    sqlite3_finalize(view);
    return status;
}

static bool is_valid_stream(sqlite3_stmt *row, const struct journal_totals *totals, int format) {
    const void *key = sqlite3_column_blob(row, 0);
    const struct journal_record stream = {
        .key = key ? key : "",
        .key_size = (size_t)sqlite3_column_bytes(row, 0),
        .epoch = (uint32_t)sqlite3_column_int64(row, 1),
        .sequence = (uint64_t)sqlite3_column_int64(row, 2),
        .position = (uint64_t)sqlite3_column_int64(row, 3),
        .producer = (uint64_t)sqlite3_column_int64(row, 5),
        .time = (double)sqlite3_column_int64(row, 6),
    };
    return stream.key_size <= WIRE_KEY_MAX && stream.position <= totals->newest &&
           sqlite3_column_int64(row, 4) == journal_stream_checksum(&stream, format);
}

static int check_streams(struct journal_store *store, const struct journal_totals *totals,
                         struct error *error) {
    sqlite3_stmt *row =
        prepare(store,
                store->format >= JOURNAL_FORMAT_PRODUCERS
                    ? "SELECT key, epoch, sequence, position, crc, producer, time FROM streams"
                    : "SELECT key, epoch, sequence, position, crc, 0, 0 FROM streams",
                error);
    if (!row)
        return -1;
    uint64_t count = 0;
    int status = 0, code;
    while (!status && (code = sqlite3_step(row)) == SQLITE_ROW) {
        count++;
        if (!is_valid_stream(row, totals, store->format))
            status = journal_damaged(error, store->path, "invalid sequences of its streams");
    }
    if (!status && code != SQLITE_DONE)
        status = journal_sql_error(error, store->file, store->path, "read");
    else if (!status && count != totals->streams)
        status = journal_damaged(error, store->path,
                                 "expected the sequences of %" PRIu64 " streams, got %" PRIu64,
                                 totals->streams, count);
    sqlite3_finalize(row);
    return status;
}

int journal_check_contents(struct journal_store *store, const struct journal_totals *totals,
                           struct error *error) {
    /* An earlier format gets a new view. */
    if (check_pages(store, error) ||
        (store->format == JOURNAL_FORMAT && check_view(store, error)) ||
        check_ends(store, totals, error))
        return -1;
    return check_streams(store, totals, error);
}

int journal_check_range(const char *path, uint64_t after, uint64_t oldest, uint64_t newest,
                        struct error *error) {
    if (after + 1 >= oldest && after <= newest)
        return 0;
    return error_set(error, EX_IOERR,
                     "the journal %s has the entries %" PRIu64 " to %" PRIu64
                     ", but the checkpoint ends with entry %" PRIu64
                     ": restore a journal and a checkpoint that belong together, or move %s and "
                     "its -wal away to resume from the checkpoint alone",
                     path, oldest, newest, after, JOURNAL_NAME);
}

/* ---- The journal beside its configuration, checkpoint and mark ---- */

/* A journal without an entry belongs to no configuration, so that one can change before the first
   example. The mark reveals a log that was left out of a copy. */
static bool is_unused(const struct journal_totals *totals, uint64_t mark) {
    return totals->newest == 0 && totals->streams == 0 && mark == 0;
}

int journal_check_owner(const char *path, const struct journal_totals *totals, uint64_t mark,
                        const struct journal_options *options, struct error *error) {
    if (!strcmp(totals->digest, options->digest) || is_unused(totals, mark))
        return 0;
    if (options->before && !strcmp(totals->digest, options->before)) {
        if (totals->newest <= options->checkpoint)
            return 0;
        return error_set(
            error, EX_CONFIG,
            "the journal %s has %" PRIu64
            " entr%s after the checkpoint, learned with another window, stride, rule or optimizer: "
            "start with those settings, stop the daemon (runnel-ctl shutdown), then change them",
            path, totals->newest - options->checkpoint,
            totals->newest - options->checkpoint == 1 ? "y" : "ies");
    }
    return error_set(error, EX_CONFIG,
                     "the journal %s has another model or learning configuration (%s, digest %s; "
                     "this one is %s): use that configuration, set another state.directory, or "
                     "move this directory away, checkpoints and journal together",
                     path, totals->name, totals->digest, options->digest);
}

#define ACCEPT "start once with --accept-short-journal"

int journal_check_end(const char *path, const struct journal_totals *totals, uint64_t mark,
                      const struct journal_options *options, struct error *error) {
    uint64_t newest = totals->newest;
    if (newest < options->checkpoint && options->accept_short)
        return 0;
    if (newest < options->checkpoint)
        return error_set(
            error, EX_IOERR,
            "the journal %s ends at entry %" PRIu64 ", before the checkpoint's entry %" PRIu64
            ": restore the journal that belongs to the checkpoint, with its -wal, or " ACCEPT
            " to continue after the checkpoint; missing examples must be sent again",
            path, newest, options->checkpoint);
    if (journal_check_range(path, options->checkpoint, totals->oldest, newest, error))
        return -1;
    if (newest < mark && totals->sync == JOURNAL_FULL && !options->accept_short)
        return error_set(error, EX_IOERR,
                         "the journal %s ends at entry %" PRIu64 ", but entries up to %" PRIu64
                         " were acknowledged according to %s: its write-ahead log was cut off or "
                         "left out of a copy; restore the journal with its -wal, or " ACCEPT
                         ": the missing examples are lost unless they are sent again",
                         path, newest, mark, JOURNAL_MARK_NAME);
    return 0;
}
