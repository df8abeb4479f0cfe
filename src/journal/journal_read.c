/* Looking up streams. Nothing is read for longer than a call takes: a transaction that is left open
   would keep the write-ahead log from being used again. */
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/database.h"
#include "journal_internal.h"

int journal_read_error(struct journal *journal, struct error *error) {
    return journal_sql_error(error, journal->reading, journal->path, "read");
}

int journal_read_open(struct journal *journal, struct error *error) {
    static const char sql[] =
        "SELECT epoch, sequence, position, time, crc FROM streams WHERE key = ? "
        "AND producer = ?";
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    if (database_open(&journal->reading, journal->path, flags, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(journal->reading, JOURNAL_BUSY_MS) != SQLITE_OK ||
        sqlite3_prepare_v3(journal->reading, sql, -1, SQLITE_PREPARE_PERSISTENT, &journal->look_up,
                           NULL) != SQLITE_OK)
        return journal_read_error(journal, error);
    sqlite3_extended_result_codes(journal->reading, 1);
    return 0;
}

void journal_read_close(struct journal *journal) {
    sqlite3_finalize(journal->look_up);
    sqlite3_close(journal->reading);
    journal->look_up = NULL;
    journal->reading = NULL;
}

int journal_look_up(struct journal *journal, const char *key, size_t key_size, uint64_t producer,
                    struct journal_last *last, struct error *error) {
    sqlite3_stmt *look_up = journal->look_up;
    int status = 0;
    sqlite3_bind_blob(look_up, 1, key_size ? key : "", (int)key_size, SQLITE_STATIC);
    sqlite3_bind_int64(look_up, 2, (sqlite3_int64)producer);
    int code = sqlite3_step(look_up);
    if (code == SQLITE_ROW) {
        const struct journal_record record = {
            .key = key,
            .key_size = key_size,
            .producer = producer,
            .epoch = (uint32_t)sqlite3_column_int64(look_up, 0),
            .sequence = (uint64_t)sqlite3_column_int64(look_up, 1),
            .position = (uint64_t)sqlite3_column_int64(look_up, 2),
            .time = (double)sqlite3_column_int64(look_up, 3),
        };
        *last = (struct journal_last){record.epoch, record.sequence, record.position};
        status = 1;
        if (sqlite3_column_int64(look_up, 4) != journal_stream_checksum(&record, JOURNAL_FORMAT))
            status = journal_damaged(error, journal->path,
                                     "the sequence of a stream is not what was written");
    } else if (code != SQLITE_DONE) {
        status = journal_read_error(journal, error);
    }
    sqlite3_reset(look_up);
    return status;
}

int journal_read_has(struct journal *journal, const char *key, size_t key_size,
                     struct error *error) {
    static const char sql[] = "SELECT 1 FROM streams WHERE key = ? LIMIT 1";
    sqlite3_stmt *has;
    if (sqlite3_prepare_v2(journal->reading, sql, -1, &has, NULL) != SQLITE_OK)
        return journal_read_error(journal, error);
    sqlite3_bind_blob(has, 1, key_size ? key : "", (int)key_size, SQLITE_STATIC);
    int code = sqlite3_step(has), found = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        found = journal_read_error(journal, error);
    sqlite3_finalize(has);
    return found;
}

int journal_read_age(struct journal *journal, double *time, struct error *error) {
    static const char sql[] = "SELECT time FROM streams ORDER BY position DESC LIMIT 1";
    sqlite3_stmt *newest;
    *time = clock_unix();
    if (sqlite3_prepare_v2(journal->reading, sql, -1, &newest, NULL) != SQLITE_OK)
        return journal_read_error(journal, error);
    int code = sqlite3_step(newest), status = 0;
    if (code == SQLITE_ROW)
        *time = (double)sqlite3_column_int64(newest, 0);
    else if (code != SQLITE_DONE)
        status = journal_read_error(journal, error);
    sqlite3_finalize(newest);
    return status;
}

int journal_has_kind(struct journal *journal, uint64_t after, enum journal_kind kind,
                     struct error *error) {
    static const char sql[] =
        "SELECT 1 FROM blocks WHERE last > ? AND " JOURNAL_HAS_COMMAND " AND kinds & ? LIMIT 1";
    sqlite3_stmt *look;
    if (sqlite3_prepare_v2(journal->reading, sql, -1, &look, NULL) != SQLITE_OK)
        return journal_read_error(journal, error);
    sqlite3_bind_int64(look, 1, (sqlite3_int64)after);
    sqlite3_bind_int64(look, 2, (sqlite3_int64)1 << kind);
    int code = sqlite3_step(look);
    int status = code == SQLITE_ROW    ? 1
                 : code == SQLITE_DONE ? 0
                                       : journal_read_error(journal, error);
    sqlite3_finalize(look);
    return status;
}

/* What cannot be read is damaged, or not needed: only journal_replay, which needs it, complains.
   Blocks come newest first, records within one oldest first: that decides only which of a block's
   records are forgotten first, where more fall on one row than it has places. */
static size_t remember_block(struct journal *journal, const struct journal_block *block) {
    struct journal_unpacker unpacker;
    struct journal_record record;
    journal_unpacker_begin(&unpacker, block);
    while (journal_unpacker_next(&unpacker, &record) == 1)
        if (record.kind == JOURNAL_EXAMPLE && record.numbered)
            journal_recent_put_older(journal->recent, &record);
    return block->about_size + block->data_size;
}

void journal_read_recent(struct journal *journal) {
    enum { BYTES_MAX = 64 << 20, ENTRIES_MAX = JOURNAL_RECENT_PLACES / 4 };
    static const char sql[] = "SELECT " JOURNAL_BLOCK_COLUMNS " FROM blocks ORDER BY last DESC";
    struct journal_block block;
    sqlite3_stmt *row;
    size_t bytes = 0, entries = 0;
    if (sqlite3_prepare_v2(journal->reading, sql, -1, &row, NULL) != SQLITE_OK)
        return;
    while (bytes < BYTES_MAX && entries < ENTRIES_MAX && sqlite3_step(row) == SQLITE_ROW &&
           journal_read_block(row, &block)) {
        bytes += remember_block(journal, &block);
        entries += block.count;
    }
    sqlite3_finalize(row);
}

int journal_sync_log(sqlite3 *file, const char *path, struct error *error) {
    sqlite3_file *log = NULL;
    sqlite3_file_control(file, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods && log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) == SQLITE_OK)
        return 0;
    return error_set(error, EX_IOERR, "the write-ahead log of the journal %s cannot be synced",
                     path);
}
