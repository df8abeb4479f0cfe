/* Looking up streams, and replaying. Nothing is read for longer than a call takes: a transaction
   that is left open would keep the write-ahead log from being used again. */
#include <inttypes.h>
#include <string.h>
#include <sysexits.h>

#include "journal_internal.h"
#include "wire.h"

static int read_error(struct journal *journal, struct error *error) {
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
        return read_error(journal, error);
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
        status = read_error(journal, error);
    }
    sqlite3_reset(look_up);
    return status;
}

/* ---- Replaying ---- */

enum { POSITION, TIME, KIND, STREAM, EPOCH, SEQUENCE, STAMP, FLAGS, STEPS, X, Y, COMMAND, CRC };

static const char ENTRIES[] = "SELECT position, time, kind, stream, epoch, sequence, stamp, flags, "
                              "steps, x, y, command, crc FROM entries WHERE position > ? "
                              "ORDER BY position";

/* SQLite gives NULL for bytes of size 0. */
static const void *bytes_of(sqlite3_stmt *row, int column, size_t *size) {
    const void *bytes = sqlite3_column_blob(row, column);
    *size = (size_t)sqlite3_column_bytes(row, column);
    return bytes ? bytes : "";
}

static void read_record(sqlite3_stmt *row, struct journal_record *record) {
    *record = (struct journal_record){
        .position = (uint64_t)sqlite3_column_int64(row, POSITION),
        .time = sqlite3_column_double(row, TIME),
        .kind = (uint8_t)sqlite3_column_int(row, KIND),
    };
    if (record->kind != JOURNAL_EXAMPLE) {
        record->x = sqlite3_column_text(row, COMMAND);
        record->x_size = (size_t)sqlite3_column_bytes(row, COMMAND);
        return;
    }
    record->numbered = sqlite3_column_type(row, SEQUENCE) != SQLITE_NULL;
    record->epoch = (uint32_t)sqlite3_column_int64(row, EPOCH);
    record->sequence = (uint64_t)sqlite3_column_int64(row, SEQUENCE);
    record->stamp = sqlite3_column_double(row, STAMP);
    record->flags = (uint8_t)sqlite3_column_int(row, FLAGS);
    record->steps = (size_t)sqlite3_column_int64(row, STEPS);
    record->key = bytes_of(row, STREAM, &record->key_size);
    record->x = bytes_of(row, X, &record->x_size);
    if (sqlite3_column_type(row, Y) != SQLITE_NULL)
        record->y = bytes_of(row, Y, &record->y_size);
}

/* Whether the record is what was appended, and can be handed on. */
static bool is_whole(const struct journal *journal, sqlite3_stmt *row,
                     const struct journal_record *r) {
    if (sqlite3_column_int64(row, CRC) != journal_record_checksum(r))
        return false;
    if (r->kind == JOURNAL_COMMAND)
        return r->x != NULL;
    return r->kind == JOURNAL_EXAMPLE && r->key_size <= WIRE_KEY_MAX &&
           r->x_size == r->steps * journal->input_bytes &&
           (!r->y || r->y_size == r->steps * journal->target_bytes);
}

static struct journal_entry entry_of(const struct journal_record *r) {
    struct journal_entry entry = {.position = r->position, .time = r->time};
    if (r->kind == JOURNAL_COMMAND) {
        entry.command = r->x;
        return entry;
    }
    entry.example = (struct example){
        .key = r->key,
        .key_size = r->key_size,
        .steps = r->steps,
        .x = r->x,
        .y = r->y,
        .end = r->flags & WIRE_END,
        .learn = !(r->flags & WIRE_DO_NOT_LEARN),
        .numbered = r->numbered,
        .epoch = r->epoch,
        .sequence = r->sequence,
        .time = r->stamp,
    };
    return entry;
}

static int visit_all(struct journal *journal, sqlite3_stmt *row, uint64_t *after,
                     journal_visit *visit, void *context, struct error *error) {
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        struct journal_record record;
        read_record(row, &record);
        if (record.position != *after + 1)
            return journal_damaged(error, journal->path,
                                   "behind entry %" PRIu64 " comes entry %" PRIu64, *after,
                                   record.position);
        if (!is_whole(journal, row, &record))
            return journal_damaged(error, journal->path,
                                   "entry %" PRIu64 " is not what was written", record.position);
        const struct journal_entry entry = entry_of(&record);
        if (visit(context, &entry, error))
            return -1;
        *after = record.position;
    }
    return code == SQLITE_DONE ? 0 : read_error(journal, error);
}

/* Whether the entries behind `after`, and no others, are missing at neither end. */
static int check_range(struct journal *journal, uint64_t after, uint64_t oldest, uint64_t newest,
                       struct error *error) {
    if (after + 1 >= oldest && after <= newest)
        return 0;
    return error_set(error, EX_IOERR,
                     "the journal %s has the entries %" PRIu64 " to %" PRIu64
                     ", but the checkpoint ends with entry %" PRIu64
                     ": put back the journal or the checkpoint that belong together, or move %s "
                     "and its -wal away to go on from the checkpoint alone",
                     journal->path, oldest, newest, after, JOURNAL_NAME);
}

static int replay(struct journal *journal, sqlite3_stmt *totals, sqlite3_stmt *row, uint64_t after,
                  journal_visit *visit, void *context, struct error *error) {
    if (sqlite3_step(totals) != SQLITE_ROW)
        return read_error(journal, error);
    uint64_t oldest = (uint64_t)sqlite3_column_int64(totals, 0);
    uint64_t newest = (uint64_t)sqlite3_column_int64(totals, 1);
    if (check_range(journal, after, oldest, newest, error))
        return -1;
    sqlite3_bind_int64(row, 1, (sqlite3_int64)after);
    if (visit_all(journal, row, &after, visit, context, error))
        return -1;
    if (after != newest)
        return journal_damaged(error, journal->path,
                               "its entries end with %" PRIu64 ", not with %" PRIu64, after,
                               newest);
    return 0;
}

int journal_replay(struct journal *journal, uint64_t after, journal_visit *visit, void *context,
                   struct error *error) {
    sqlite3 *file = journal->reading;
    sqlite3_stmt *totals = NULL, *row = NULL;
    int status = -1;
    /* `totals` stays at its row, so that both statements see the file of one moment. */
    if (sqlite3_prepare_v2(file, "SELECT oldest, newest FROM journal", -1, &totals, NULL) ==
            SQLITE_OK &&
        sqlite3_prepare_v2(file, ENTRIES, -1, &row, NULL) == SQLITE_OK)
        status = replay(journal, totals, row, after, visit, context, error);
    else
        read_error(journal, error);
    sqlite3_finalize(row);
    sqlite3_finalize(totals);
    return status;
}
