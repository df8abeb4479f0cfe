#include "replay_journal.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/database.h"

enum {
    BUSY_MS = 10000,
    PATH_SIZE = 4096,
};

struct replay_journal {
    char path[PATH_SIZE];
    sqlite3 *file;
    struct database_clock clock;
    sqlite3_stmt *look_up;
    uint64_t oldest, newest;
    bool kinds; /* blocks say which kinds they have: the format is not an earlier one */
    struct journal_unpacker unpacker; /* of the block read last, */
    char *bytes;                      /* which is here (capacity,) */
    size_t capacity;
};

static int file_error(const struct replay_journal *journal, struct error *error) {
    int code = sqlite3_errcode(journal->file) & 0xFF;
    if (code == SQLITE_CANTOPEN)
        return error_set(error, EX_NOINPUT,
                         "%s: cannot be opened: %s; reading needs a directory that can be written",
                         journal->path, sqlite3_errmsg(journal->file));
    return error_set(error, code == SQLITE_NOTADB ? EX_DATAERR : EX_IOERR, "%s: cannot be read: %s",
                     journal->path, database_message(journal->file));
}

/* The numbers of the statement's one row; -1 also when there is none. */
static int read_numbers(struct replay_journal *journal, const char *sql, int count,
                        sqlite3_int64 *numbers, struct error *error) {
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

static int check_format(struct replay_journal *journal, struct error *error) {
    sqlite3_int64 application, format;
    if (read_numbers(journal, "PRAGMA application_id", 1, &application, error) < 0 ||
        read_numbers(journal, "PRAGMA user_version", 1, &format, error) < 0)
        return -1;
    if (application != JOURNAL_ID)
        return error_set(error, EX_DATAERR, "%s: it is an SQLite file, but no journal of runneld",
                         journal->path);
    if (format < JOURNAL_FORMAT_OLDEST || format > JOURNAL_FORMAT)
        return error_set(error, EX_DATAERR,
                         "%s: its format is %lld, and this program knows %d to %d: use that of the "
                         "version that wrote it",
                         journal->path, (long long)format, JOURNAL_FORMAT_OLDEST, JOURNAL_FORMAT);
    journal->kinds = format >= JOURNAL_FORMAT_KINDS;
    return 0;
}

static int prepare(struct replay_journal *journal, struct error *error) {
    static const char LOOK_UP[] = "SELECT " JOURNAL_BLOCK_COLUMNS_OLDEST " FROM blocks "
                                  "WHERE last >= ? ORDER BY last LIMIT 1";
    sqlite3_int64 ends[2];
    if (check_format(journal, error) < 0 ||
        read_numbers(journal, "SELECT oldest, newest FROM journal", 2, ends, error) < 0)
        return -1;
    if (ends[0] < 1 || ends[1] < ends[0] - 1 || ends[1] > INT64_MAX / 2)
        return error_set(error, EX_DATAERR, "%s: its table journal is damaged", journal->path);
    journal->oldest = (uint64_t)ends[0];
    journal->newest = (uint64_t)ends[1];
    if (sqlite3_prepare_v2(journal->file, LOOK_UP, -1, &journal->look_up, NULL) != SQLITE_OK)
        return file_error(journal, error);
    return 0;
}

int replay_journal_open(struct replay_journal **result, const char *path, struct error *error) {
    struct replay_journal *journal = *result = calloc(1, sizeof *journal);
    struct stat status;
    if (!journal)
        return error_no_memory(error);
    bool directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    snprintf(journal->path, sizeof journal->path, "%s%s", path, directory ? "/journal.sqlite" : "");
    journal->clock.limit = DATABASE_READ_SECONDS;
    if (database_open(&journal->file, journal->path, SQLITE_OPEN_READONLY, &journal->clock) !=
        SQLITE_OK) {
        int reason = sqlite3_system_errno(journal->file);
        error_set(error, EX_NOINPUT, "%s: cannot be opened: %s", journal->path,
                  reason ? strerror(reason) : sqlite3_errmsg(journal->file));
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

const char *replay_journal_path(const struct replay_journal *journal) {
    return journal->path;
}

uint64_t replay_journal_oldest(const struct replay_journal *journal) {
    return journal->oldest;
}

uint64_t replay_journal_newest(const struct replay_journal *journal) {
    return journal->newest;
}

static int damaged(const struct replay_journal *journal, uint64_t position, struct error *error) {
    return error_set(error, EX_DATAERR, "%s: entry %llu is damaged", journal->path,
                     (unsigned long long)position);
}

/* No block has the entry: it was pruned since the opening, if the journal says so. */
static int gone(struct replay_journal *journal, uint64_t position, struct error *error) {
    sqlite3_int64 oldest;
    if (read_numbers(journal, "SELECT oldest FROM journal", 1, &oldest, error) < 0)
        return -1;
    if (position >= (uint64_t)oldest)
        return damaged(journal, position, error);
    return error_set(
        error, EX_DATAERR,
        "%s: entry %llu is not there any more; with state.journal.keep: all it would be",
        journal->path, (unsigned long long)position);
}

/* A copy of the row's text and bytes. */
static int copy_block(struct replay_journal *journal, sqlite3_stmt *row,
                      struct journal_block *block, struct error *error) {
    const void *about = sqlite3_column_blob(row, JOURNAL_ABOUT),
               *data = sqlite3_column_blob(row, JOURNAL_DATA);
    size_t size = block->about_size + block->data_size;
    if (size > journal->capacity) {
        char *grown = realloc(journal->bytes, size);
        if (!grown)
            return error_no_memory(error);
        journal->bytes = grown;
        journal->capacity = size;
    }
    block->about = journal->bytes;
    block->data = journal->bytes + block->about_size;
    if (block->about_size)
        memcpy(journal->bytes, about, block->about_size);
    if (block->data_size)
        memcpy(journal->bytes + block->about_size, data, block->data_size);
    return 0;
}

static int take_block(struct replay_journal *journal, sqlite3_stmt *row, uint64_t position,
                      struct error *error) {
    struct journal_block block = {
        .last = (uint64_t)sqlite3_column_int64(row, JOURNAL_LAST),
        .count = (size_t)sqlite3_column_int64(row, JOURNAL_COUNT),
        .about_size = (size_t)sqlite3_column_bytes(row, JOURNAL_ABOUT),
        .data_size = (size_t)sqlite3_column_bytes(row, JOURNAL_DATA),
    };
    if (copy_block(journal, row, &block, error) < 0)
        return -1;
    if (sqlite3_column_int64(row, JOURNAL_CRC) != journal_block_checksum(&block))
        return damaged(journal, position, error);
    if (block.last - block.count >= position)
        return gone(journal, position, error);
    journal_unpacker_begin(&journal->unpacker, &block);
    return 0;
}

/* Get the block that has the position, and let go of the file. */
static int read_block(struct replay_journal *journal, uint64_t position, struct error *error) {
    sqlite3_stmt *row = journal->look_up;
    sqlite3_bind_int64(row, 1, (sqlite3_int64)position);
    int code = sqlite3_step(row), status;
    journal->unpacker = (struct journal_unpacker){.next = NULL};
    if (code == SQLITE_ROW)
        status = take_block(journal, row, position, error);
    else if (code == SQLITE_DONE)
        status = gone(journal, position, error);
    else
        status = file_error(journal, error);
    sqlite3_reset(row);
    return status;
}

/* The entry, its block read again unless it is one of those that come next. */
static int find_record(struct replay_journal *journal, uint64_t position,
                       struct journal_record *record, struct error *error) {
    const struct journal_unpacker *unpacker = &journal->unpacker;
    uint64_t next = unpacker->block.last - unpacker->block.count + 1 + unpacker->done;
    if (position < next || position > unpacker->block.last)
        if (read_block(journal, position, error) < 0)
            return -1;
    do
        if (journal_unpacker_next(&journal->unpacker, record) != 1)
            return damaged(journal, position, error);
    while (record->position < position);
    return 0;
}

int replay_journal_find(struct replay_journal *journal, uint64_t from, enum journal_kind kind,
                        uint64_t *first, uint64_t *last, struct error *error) {
    static const char FIND[] = "SELECT last, count FROM blocks WHERE last >= ?1 "
                               "AND " JOURNAL_HAS_COMMAND " AND kinds & ?2 ORDER BY last LIMIT 1";
    static const char NEXT[] = "SELECT last, count FROM blocks WHERE last >= ?1 "
                               "ORDER BY last LIMIT 1";
    sqlite3_stmt *look = NULL;
    if (sqlite3_prepare_v2(journal->file, journal->kinds ? FIND : NEXT, -1, &look, NULL) !=
        SQLITE_OK)
        return file_error(journal, error);
    sqlite3_bind_int64(look, 1, (sqlite3_int64)from);
    if (journal->kinds)
        sqlite3_bind_int64(look, 2, (sqlite3_int64)1 << kind);
    int code = sqlite3_step(look);
    if (code == SQLITE_ROW) {
        *last = (uint64_t)sqlite3_column_int64(look, 0);
        *first = *last - (uint64_t)sqlite3_column_int64(look, 1) + 1;
        *first = *first < from ? from : *first;
    } else if (code != SQLITE_DONE) {
        file_error(journal, error);
    }
    sqlite3_finalize(look);
    return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : -1;
}

int replay_journal_read(struct replay_journal *journal, uint64_t position,
                        struct replay_entry *entry, struct error *error) {
    struct journal_record record;
    *entry = (struct replay_entry){.position = position};
    if (find_record(journal, position, &record, error) < 0)
        return -1;
    entry->time = record.time;
    entry->kind = record.kind;
    if (record.kind != JOURNAL_EXAMPLE) {
        entry->command = record.x;
        if (record.kind == JOURNAL_COMMAND)
            entry->kind = journal_command_kind(record.x, record.x_size);
        return 0;
    }
    if (stream_name(&entry->stream, record.key, record.key_size))
        return damaged(journal, position, error);
    entry->numbered = record.numbered;
    entry->header = (struct wire_header){.flags = record.flags,
                                         .epoch = record.epoch,
                                         .sequence = record.sequence,
                                         .time = record.stamp,
                                         .producer = record.producer};
    entry->label = record.label;
    entry->words = record.words;
    entry->words_size = record.words_size;
    entry->steps = record.steps;
    entry->x = record.x;
    entry->x_size = record.x_size;
    entry->y = record.y;
    entry->y_size = record.y_size;
    return 0;
}
