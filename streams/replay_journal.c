#include "replay_journal.h"

#include <libdeflate.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

enum {
    APPLICATION_ID = 1381322316, /* "RUNL" */
    FORMAT = 1,
    BUSY_MS = 10000,
    PATH_SIZE = 4096,
};

enum { EXAMPLE = 1, COMMAND = 2 }; /* entries.kind */

struct replay_journal {
    char path[PATH_SIZE];
    sqlite3 *file;
    sqlite3_stmt *look_up;
    uint64_t oldest, newest;
    char *bytes; /* of the entry handed out last (capacity,) */
    size_t capacity;
};

static int file_error(const struct replay_journal *journal, struct feed_error *error) {
    int code = sqlite3_errcode(journal->file) & 0xFF;
    if (code == SQLITE_CANTOPEN)
        return feed_fail(error, EX_NOINPUT,
                         "%s: cannot be opened: %s; reading needs a directory that can be written",
                         journal->path, sqlite3_errmsg(journal->file));
    return feed_fail(error, code == SQLITE_NOTADB ? EX_DATAERR : EX_IOERR, "%s: cannot be read: %s",
                     journal->path, sqlite3_errmsg(journal->file));
}

/* The numbers of the statement's one row; -1 also when there is none. */
static int read_numbers(struct replay_journal *journal, const char *sql, int count,
                        sqlite3_int64 *numbers, struct feed_error *error) {
    sqlite3_stmt *statement = NULL;
    bool good = sqlite3_prepare_v2(journal->file, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;
    for (int i = 0; good && i < count; i++)
        numbers[i] = sqlite3_column_int64(statement, i);
    if (!good)
        file_error(journal, error);
    sqlite3_finalize(statement);
    return good ? 0 : -1;
}

static int check_format(struct replay_journal *journal, struct feed_error *error) {
    sqlite3_int64 application, format;
    if (read_numbers(journal, "PRAGMA application_id", 1, &application, error) < 0 ||
        read_numbers(journal, "PRAGMA user_version", 1, &format, error) < 0)
        return -1;
    if (application != APPLICATION_ID)
        return feed_fail(error, EX_DATAERR, "%s: it is an SQLite file, but no journal of runneld",
                         journal->path);
    if (format != FORMAT)
        return feed_fail(error, EX_DATAERR,
                         "%s: its format is %lld, and this program knows only %d: use that of the "
                         "version that wrote it",
                         journal->path, (long long)format, FORMAT);
    return 0;
}

static int prepare(struct replay_journal *journal, struct feed_error *error) {
    static const char LOOK_UP[] =
        "SELECT time, kind, stream, epoch, sequence, stamp, flags, steps, "
        "x, y, command, crc FROM entries WHERE position = ?";
    sqlite3_int64 ends[2];
    if (check_format(journal, error) < 0 ||
        read_numbers(journal, "SELECT oldest, newest FROM journal", 2, ends, error) < 0)
        return -1;
    journal->oldest = (uint64_t)ends[0];
    journal->newest = (uint64_t)ends[1];
    if (sqlite3_prepare_v2(journal->file, LOOK_UP, -1, &journal->look_up, NULL) != SQLITE_OK)
        return file_error(journal, error);
    return 0;
}

int replay_journal_open(struct replay_journal **result, const char *path,
                        struct feed_error *error) {
    struct replay_journal *journal = *result = calloc(1, sizeof *journal);
    struct stat status;
    if (!journal)
        return feed_no_memory(error);
    bool directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    snprintf(journal->path, sizeof journal->path, "%s%s", path, directory ? "/journal.sqlite" : "");
    if (sqlite3_open_v2(journal->path, &journal->file, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        feed_fail(error, EX_NOINPUT, "%s: cannot be opened: %s", journal->path,
                  sqlite3_errmsg(journal->file));
    } else {
        sqlite3_busy_timeout(journal->file, BUSY_MS);
        if (prepare(journal, error) == 0)
            return 0;
    }
    replay_journal_close(result);
    return -1;
}

void replay_journal_close(struct replay_journal **pointer) {
    struct replay_journal *journal = *pointer;
    if (!journal)
        return;
    sqlite3_finalize(journal->look_up);
    sqlite3_close(journal->file);
    free(journal->bytes);
    free(journal);
    *pointer = NULL;
}

uint64_t replay_journal_oldest(const struct replay_journal *journal) {
    return journal->oldest;
}

uint64_t replay_journal_newest(const struct replay_journal *journal) {
    return journal->newest;
}

enum { TIME, KIND, STREAM, EPOCH, SEQUENCE, STAMP, FLAGS, STEPS, X, Y, TEXT, CRC };

static size_t size_of(sqlite3_stmt *row, int column) {
    return (size_t)sqlite3_column_bytes(row, column);
}

static uint32_t add(uint32_t checksum, sqlite3_stmt *row, int column) {
    const void *bytes = sqlite3_column_blob(row, column);
    size_t size = size_of(row, column);
    return size ? (uint32_t)libdeflate_crc32(checksum, bytes, size) : checksum;
}

static uint64_t bits(double number) {
    uint64_t value;
    memcpy(&value, &number, sizeof value);
    return value;
}

/* CRC-32 over the numbers of the row and the lengths, 64 bits each, and what is that long; of a
   command the text stands for x. */
static bool is_whole(sqlite3_stmt *row, const struct replay_entry *entry) {
    bool command = sqlite3_column_int(row, KIND) == COMMAND;
    int x = command ? TEXT : X;
    const uint64_t numbers[] = {
        entry->position,      bits(entry->time),        (uint64_t)sqlite3_column_int64(row, KIND),
        entry->numbered,      entry->header.epoch,      entry->header.sequence,
        entry->header.flags,  bits(entry->header.time), entry->steps,
        size_of(row, STREAM), size_of(row, x),          size_of(row, Y)};
    uint32_t checksum = (uint32_t)libdeflate_crc32(0, (const void *)numbers, sizeof numbers);
    checksum = add(add(add(checksum, row, STREAM), row, x), row, Y);
    return (uint64_t)sqlite3_column_int64(row, CRC) == checksum;
}

/* Copy one column behind `used` bytes of the buffer; the end is made a text's. */
static const void *copy(struct replay_journal *journal, sqlite3_stmt *row, int column,
                        size_t *used) {
    char *to = journal->bytes + *used;
    size_t size = size_of(row, column);
    if (size)
        memcpy(to, sqlite3_column_blob(row, column), size);
    to[size] = '\0';
    *used += size + 1;
    return to;
}

static int copy_all(struct replay_journal *journal, sqlite3_stmt *row, struct replay_entry *entry,
                    struct feed_error *error) {
    size_t size = size_of(row, X) + size_of(row, Y) + size_of(row, TEXT) + 3, used = 0;
    if (size > journal->capacity) {
        char *grown = realloc(journal->bytes, size);
        if (!grown)
            return feed_no_memory(error);
        journal->bytes = grown;
        journal->capacity = size;
    }
    entry->x_size = size_of(row, X);
    entry->y_size = size_of(row, Y);
    entry->x = copy(journal, row, X, &used);
    entry->y = copy(journal, row, Y, &used);
    entry->command = copy(journal, row, TEXT, &used);
    if (sqlite3_column_type(row, Y) == SQLITE_NULL)
        entry->y = NULL;
    if (sqlite3_column_int(row, KIND) == EXAMPLE)
        entry->command = NULL;
    return 0;
}

static int take(struct replay_journal *journal, sqlite3_stmt *row, struct replay_entry *entry,
                struct feed_error *error) {
    const char *key = sqlite3_column_blob(row, STREAM);
    int kind = sqlite3_column_int(row, KIND);
    entry->time = sqlite3_column_double(row, TIME);
    entry->numbered = sqlite3_column_type(row, SEQUENCE) != SQLITE_NULL;
    entry->header = (struct wire_header){.flags = (uint8_t)sqlite3_column_int(row, FLAGS),
                                         .epoch = (uint32_t)sqlite3_column_int64(row, EPOCH),
                                         .sequence = (uint64_t)sqlite3_column_int64(row, SEQUENCE),
                                         .time = sqlite3_column_double(row, STAMP)};
    entry->steps = (size_t)sqlite3_column_int64(row, STEPS);
    if ((kind != EXAMPLE && kind != COMMAND) || !is_whole(row, entry) ||
        stream_name(&entry->stream, key ? key : "", size_of(row, STREAM)))
        return feed_fail(error, EX_DATAERR, "%s: entry %llu is damaged", journal->path,
                         (unsigned long long)entry->position);
    return copy_all(journal, row, entry, error);
}

int replay_journal_read(struct replay_journal *journal, uint64_t position,
                        struct replay_entry *entry, struct feed_error *error) {
    sqlite3_stmt *row = journal->look_up;
    sqlite3_bind_int64(row, 1, (sqlite3_int64)position);
    int code = sqlite3_step(row), status;
    *entry = (struct replay_entry){.position = position};
    if (code == SQLITE_ROW)
        status = take(journal, row, entry, error);
    else if (code == SQLITE_DONE)
        status = feed_fail(error, EX_DATAERR,
                           "%s: entry %llu is not there any more; with state.journal.keep: all it "
                           "would be",
                           journal->path, (unsigned long long)position);
    else
        status = file_error(journal, error);
    sqlite3_reset(row);
    return status;
}
