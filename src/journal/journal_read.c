/* Looking up streams. Nothing is read for longer than a call takes: a transaction that is left open
   would keep the write-ahead log from being used again. */
#include <string.h>
#include <sysexits.h>

#include "journal_internal.h"

int journal_read_error(struct journal *journal, struct error *error) {
    return journal_sql_error(error, journal->reading, journal->path, "read");
}

int journal_read_open(struct journal *journal, struct error *error) {
    enum { BUSY_MS = 10000 };
    static const char sql[] = "SELECT epoch, sequence, position, crc FROM streams WHERE key = ?";
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(journal->path, &journal->reading, flags, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(journal->reading, BUSY_MS) != SQLITE_OK ||
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

int journal_look_up(struct journal *journal, const char *key, size_t key_size,
                    struct journal_last *last, struct error *error) {
    sqlite3_stmt *look_up = journal->look_up;
    int status = 0;
    sqlite3_bind_blob(look_up, 1, key_size ? key : "", (int)key_size, SQLITE_STATIC);
    int code = sqlite3_step(look_up);
    if (code == SQLITE_ROW) {
        const struct journal_record record = {
            .key = key,
            .key_size = key_size,
            .epoch = (uint32_t)sqlite3_column_int64(look_up, 0),
            .sequence = (uint64_t)sqlite3_column_int64(look_up, 1),
            .position = (uint64_t)sqlite3_column_int64(look_up, 2),
        };
        *last = (struct journal_last){record.epoch, record.sequence, record.position};
        status = 1;
        if (sqlite3_column_int64(look_up, 3) != journal_stream_checksum(&record))
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

int journal_mentions(struct journal *journal, uint64_t after, const char *text,
                     struct error *error) {
    static const char sql[] = "SELECT 1 FROM blocks WHERE last > ? AND instr(data, ?) LIMIT 1";
    sqlite3_stmt *look;
    if (sqlite3_prepare_v2(journal->reading, sql, -1, &look, NULL) != SQLITE_OK)
        return journal_read_error(journal, error);
    sqlite3_bind_int64(look, 1, (sqlite3_int64)after);
    sqlite3_bind_blob(look, 2, text, (int)strlen(text), SQLITE_STATIC);
    int code = sqlite3_step(look);
    int status = code == SQLITE_ROW    ? 1
                 : code == SQLITE_DONE ? 0
                                       : journal_read_error(journal, error);
    sqlite3_finalize(look);
    return status;
}

int journal_read_sync(struct journal *journal, struct error *error) {
    sqlite3_file *log = NULL;
    sqlite3_file_control(journal->reading, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods && log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) == SQLITE_OK)
        return 0;
    return error_set(error, EX_IOERR, "the write-ahead log of the journal %s cannot be synced",
                     journal->path);
}
