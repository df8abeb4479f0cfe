#include "journal_read.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/database.h"
#include "common/error.h"
#include "common/threads.h"
#include "common/wire.h"
#include "journal_check.h"
#include "journal_queue.h"

/* ---- Finding streams ---- */

static int read_error(struct journal_reading *reading, struct error *error) {
    return journal_sql_error(error, reading->file, reading->path, "read");
}

int journal_read_open(struct journal_reading *reading, struct error *error) {
    static const char sql[] =
        "SELECT epoch, sequence, position, time, crc FROM streams WHERE key = ? "
        "AND producer = ?";
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    if (database_open(&reading->file, reading->path, flags, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(reading->file, JOURNAL_BUSY_MS) != SQLITE_OK ||
        sqlite3_prepare_v3(reading->file, sql, -1, SQLITE_PREPARE_PERSISTENT, &reading->look_up,
                           NULL) != SQLITE_OK)
        return read_error(reading, error);
    sqlite3_extended_result_codes(reading->file, 1);
    return 0;
}

void journal_read_close(struct journal_reading *reading) {
    sqlite3_finalize(reading->look_up);
    sqlite3_close(reading->file);
    reading->look_up = NULL;
    reading->file = NULL;
}

int journal_look_up(struct journal_reading *reading, const char *key, size_t key_size,
                    uint64_t producer, struct journal_last *last, struct error *error) {
    sqlite3_stmt *look_up = reading->look_up;
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
            status = journal_damaged(error, reading->path, "invalid sequence of a stream");
    } else if (code != SQLITE_DONE) {
        status = read_error(reading, error);
    }
    sqlite3_reset(look_up);
    return status;
}

int journal_read_has(struct journal_reading *reading, const char *key, size_t key_size,
                     struct error *error) {
    static const char sql[] = "SELECT 1 FROM streams WHERE key = ? LIMIT 1";
    sqlite3_stmt *has;
    if (sqlite3_prepare_v2(reading->file, sql, -1, &has, NULL) != SQLITE_OK)
        return read_error(reading, error);
    sqlite3_bind_blob(has, 1, key_size ? key : "", (int)key_size, SQLITE_STATIC);
    int code = sqlite3_step(has), found = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        found = read_error(reading, error);
    sqlite3_finalize(has);
    return found;
}

int journal_read_age(struct journal_reading *reading, double *time, struct error *error) {
    static const char sql[] = "SELECT time FROM streams ORDER BY position DESC LIMIT 1";
    sqlite3_stmt *newest;
    *time = clock_unix();
    if (sqlite3_prepare_v2(reading->file, sql, -1, &newest, NULL) != SQLITE_OK)
        return read_error(reading, error);
    int code = sqlite3_step(newest), status = 0;
    if (code == SQLITE_ROW)
        *time = (double)sqlite3_column_int64(newest, 0);
    else if (code != SQLITE_DONE)
        status = read_error(reading, error);
    sqlite3_finalize(newest);
    return status;
}

int journal_read_has_kind(struct journal_reading *reading, uint64_t after, enum journal_kind kind,
                          struct error *error) {
    static const char sql[] =
        "SELECT 1 FROM blocks WHERE last > ? AND " JOURNAL_HAS_COMMAND " AND kinds & ? LIMIT 1";
    sqlite3_stmt *look;
    if (sqlite3_prepare_v2(reading->file, sql, -1, &look, NULL) != SQLITE_OK)
        return read_error(reading, error);
    sqlite3_bind_int64(look, 1, (sqlite3_int64)after);
    sqlite3_bind_int64(look, 2, (sqlite3_int64)1 << kind);
    int code = sqlite3_step(look);
    int status = code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : read_error(reading, error);
    sqlite3_finalize(look);
    return status;
}

/* Reads a row of JOURNAL_BLOCK_COLUMNS; returns whether its checksum is right. Its pointers are
   valid until the next row. */
static bool read_block(sqlite3_stmt *row, struct journal_block *block) {
    *block = (struct journal_block){
        .last = (uint64_t)sqlite3_column_int64(row, JOURNAL_LAST),
        .count = (size_t)sqlite3_column_int64(row, JOURNAL_COUNT),
        .about = (const char *)sqlite3_column_text(row, JOURNAL_ABOUT),
        .about_size = (size_t)sqlite3_column_bytes(row, JOURNAL_ABOUT),
        .data = sqlite3_column_blob(row, JOURNAL_DATA),
        .data_size = (size_t)sqlite3_column_bytes(row, JOURNAL_DATA),
        .kinds = (uint32_t)sqlite3_column_int64(row, JOURNAL_BLOCK_KINDS),
    };
    return block->about && block->kinds &&
           sqlite3_column_int64(row, JOURNAL_CRC) == journal_block_checksum(block);
}

/* Ignores unreadable blocks: only journal_replay needs them and reports them. Blocks are read
   newest first, records within one oldest first. This order only decides which records of a block
   are replaced first if they share a full row. */
static size_t remember_block(struct journal_recent *recent, const struct journal_block *block) {
    struct journal_unpacker unpacker;
    struct journal_record record;
    journal_unpacker_begin(&unpacker, block);
    while (journal_unpacker_next(&unpacker, &record) == 1)
        if (record.kind == JOURNAL_EXAMPLE && record.numbered)
            journal_recent_put_older(recent, &record);
    return block->about_size + block->data_size;
}

void journal_read_recent(struct journal_reading *reading, struct journal_recent *recent) {
    enum { BYTES_MAX = 64 << 20, ENTRIES_MAX = JOURNAL_RECENT_PLACES / 4 };
    static const char sql[] = "SELECT " JOURNAL_BLOCK_COLUMNS " FROM blocks ORDER BY last DESC";
    struct journal_block block;
    sqlite3_stmt *row;
    size_t bytes = 0, entries = 0;
    if (sqlite3_prepare_v2(reading->file, sql, -1, &row, NULL) != SQLITE_OK)
        return;
    while (bytes < BYTES_MAX && entries < ENTRIES_MAX && sqlite3_step(row) == SQLITE_ROW &&
           read_block(row, &block)) {
        bytes += remember_block(recent, &block);
        entries += block.count;
    }
    sqlite3_finalize(row);
}

/* ---- Replaying ----

   A thread reads and checks entries while the caller visits earlier ones, so that the caller waits
   for the file only if that is slower. */

enum {
    REPLAY_BYTES = 2 << 20, /* entries that have been read, or one largest */
    REPLAY_BATCH = 256,     /* entries visited between two checks of the other thread */
};

struct reader {
    struct journal_reading *reading;
    sqlite3_stmt *totals, *row;
    uint64_t after;
    int status;
    struct error error;

    /* Shared under the mutex; `filled` wakes the caller. `emptied` wakes the thread after half of
       the entries have been visited, because waking costs as much as learning several entries. */
    pthread_mutex_t mutex;
    pthread_cond_t filled, emptied;
    struct journal_queue queue;
    size_t full; /* entries when the queue was full; 0 = not full */
    bool finished, abandoned;
};

/* ---- The thread ---- */

static const char BLOCKS[] =
    "SELECT " JOURNAL_BLOCK_COLUMNS " FROM blocks WHERE last > ? ORDER BY last";

/* A row for each step, or those of one message. */
static bool rows_fit(size_t size, size_t row, size_t steps, bool message) {
    if (message && steps)
        return steps == 1 && size && size % row == 0;
    return size == steps * row;
}

/* Returns whether the example fits this daemon. */
static bool fits(const struct journal_reading *reading, const struct journal_record *r) {
    size_t steps = r->flags & WIRE_LABEL ? 0 : r->steps;
    return journal_record_bytes(r) <= reading->largest &&
           (r->kind != JOURNAL_EXAMPLE ||
            (r->steps > 0 && r->steps <= EXAMPLE_STEPS_MAX &&
             rows_fit(r->x_size, reading->input_bytes, steps, reading->messages) &&
             (!r->y ||
              rows_fit(r->y_size, reading->target_bytes, r->steps, reading->target_messages))));
}

/* Returns false if the caller has ended the replay. */
static bool hand_over(struct reader *reader, const struct journal_record *record) {
    struct journal_record *place = NULL;
    pthread_mutex_lock(&reader->mutex);
    while (!reader->abandoned && !(place = journal_queue_place(&reader->queue, record->size))) {
        reader->full = reader->queue.count;
        pthread_cond_signal(&reader->filled);
        while (!reader->abandoned && reader->full)
            pthread_cond_wait(&reader->emptied, &reader->mutex);
    }
    pthread_mutex_unlock(&reader->mutex);
    if (!place)
        return false;
    journal_queue_write(place, record);
    pthread_mutex_lock(&reader->mutex);
    journal_queue_put(&reader->queue, place);
    if (reader->queue.count == REPLAY_BATCH)
        pthread_cond_signal(&reader->filled);
    pthread_mutex_unlock(&reader->mutex);
    return true;
}

static int damaged_block(const struct reader *reader, const struct journal_block *block,
                         struct error *error) {
    return journal_damaged(error, reader->reading->path, "invalid block of %zu %s up to %" PRIu64,
                           block->count, block->count == 1 ? "entry" : "entries", block->last);
}

/* Passes the block's entries after `after` on. 1: all; 0: the caller has ended the replay. */
static int hand_over_block(struct reader *reader, const struct journal_block *block,
                           struct error *error) {
    struct journal_unpacker unpacker;
    struct journal_record record;
    int got;
    journal_unpacker_begin(&unpacker, block);
    while ((got = journal_unpacker_next(&unpacker, &record)) == 1) {
        if (!fits(reader->reading, &record))
            return damaged_block(reader, block, error);
        if (record.position <= reader->after)
            continue;
        record.size = journal_queue_size(journal_record_bytes(&record));
        if (!hand_over(reader, &record))
            return 0;
        reader->after = record.position;
    }
    return got == 0 ? 1 : damaged_block(reader, block, error);
}

static int read_entries(struct reader *reader) {
    struct journal_reading *reading = reader->reading;
    struct error *error = &reader->error;
    struct journal_block block;
    uint64_t before = 0; /* last entry of the previous block */
    int code, handed;
    while ((code = sqlite3_step(reader->row)) == SQLITE_ROW) {
        bool whole = read_block(reader->row, &block);
        uint64_t first = block.last - block.count + 1;
        if (before ? first != before + 1 : first > reader->after + 1)
            return journal_damaged(error, reading->path,
                                   "entry %" PRIu64 " is followed by entry %" PRIu64, reader->after,
                                   first);
        if (!whole)
            return damaged_block(reader, &block, error);
        handed = hand_over_block(reader, &block, error);
        if (handed != 1)
            return handed;
        before = block.last;
    }
    return code == SQLITE_DONE ? 0 : read_error(reading, error);
}

static int read_all(struct reader *reader) {
    struct journal_reading *reading = reader->reading;
    struct error *error = &reader->error;
    if (sqlite3_step(reader->totals) != SQLITE_ROW)
        return read_error(reading, error);
    uint64_t oldest = (uint64_t)sqlite3_column_int64(reader->totals, 0);
    uint64_t newest = (uint64_t)sqlite3_column_int64(reader->totals, 1);
    if (journal_check_range(reading->path, reader->after, oldest, newest, error))
        return -1;
    sqlite3_bind_int64(reader->row, 1, (sqlite3_int64)reader->after);
    if (read_entries(reader))
        return -1;
    if (reader->after != newest && !reader->abandoned)
        return journal_damaged(error, reading->path,
                               "its entries end with %" PRIu64 ", expected %" PRIu64, reader->after,
                               newest);
    return 0;
}

static void *reader_thread(void *context) {
    struct reader *reader = context;
    threads_unpin();
    int status = read_all(reader);
    pthread_mutex_lock(&reader->mutex);
    reader->status = status;
    reader->finished = true;
    pthread_cond_signal(&reader->filled);
    pthread_mutex_unlock(&reader->mutex);
    return NULL;
}

/* ---- The caller ---- */

static struct journal_entry entry_of(const struct journal_reading *reading,
                                     const struct journal_record *r) {
    struct journal_entry entry = {.position = r->position, .time = r->time, .kind = r->kind};
    if (r->kind != JOURNAL_EXAMPLE) {
        entry.command = r->x;
        return entry;
    }
    entry.example = (struct example){
        .key = r->key,
        .key_size = r->key_size,
        .steps = r->steps,
        .atoms = reading->messages ? r->x_size / reading->input_bytes : 0,
        .target_atoms = reading->target_messages && r->y ? r->y_size / reading->target_bytes : 0,
        .x = r->x,
        .y = r->y,
        .end = r->flags & WIRE_END,
        .label = r->flags & WIRE_LABEL,
        .sparse = r->flags & WIRE_SPARSE,
        .label_epoch = r->label.epoch,
        .label_sequence = r->label.sequence,
        .learn = !(r->flags & WIRE_DO_NOT_LEARN),
        .numbered = r->numbered,
        .epoch = r->epoch,
        .sequence = r->sequence,
        .producer = r->producer,
        .time = r->stamp,
        .words = r->words,
        .words_size = r->words_size,
    };
    return entry;
}

/* Returns the number of entries to visit in `queue`; 0 = no more. */
static size_t await_entries(struct reader *reader, struct journal_queue *queue) {
    pthread_mutex_lock(&reader->mutex);
    while (!reader->finished && reader->queue.count < REPLAY_BATCH && !reader->full)
        pthread_cond_wait(&reader->filled, &reader->mutex);
    *queue = reader->queue;
    pthread_mutex_unlock(&reader->mutex);
    return queue->count < REPLAY_BATCH ? queue->count : REPLAY_BATCH;
}

static int visit_all(struct reader *reader, journal_visit *visit, void *context,
                     struct error *error) {
    struct journal_queue queue;
    for (size_t count; (count = await_entries(reader, &queue)) > 0;) {
        const struct journal_record *record = NULL;
        for (size_t n = 0; n < count; n++) {
            record = journal_queue_next(&queue, record);
            struct journal_entry entry = entry_of(reader->reading, record);
            if (visit(context, &entry, error))
                return -1;
        }
        pthread_mutex_lock(&reader->mutex);
        journal_queue_drop(&reader->queue, count, record);
        if (reader->full && reader->queue.count <= reader->full / 2) {
            reader->full = 0;
            pthread_cond_signal(&reader->emptied);
        }
        pthread_mutex_unlock(&reader->mutex);
    }
    return 0;
}

static int read_and_visit(struct reader *reader, journal_visit *visit, void *context,
                          struct error *error) {
    pthread_t thread;
    int status = threads_start(&thread, reader_thread, reader);
    if (status)
        return error_set(error, EX_UNAVAILABLE, "cannot start the journal's thread: %s",
                         strerror(status));
    int visited = visit_all(reader, visit, context, error);
    pthread_mutex_lock(&reader->mutex);
    reader->abandoned = true;
    pthread_cond_signal(&reader->emptied);
    pthread_mutex_unlock(&reader->mutex);
    pthread_join(thread, NULL);
    if (!visited && reader->status)
        *error = reader->error;
    return visited || reader->status ? -1 : 0;
}

int journal_read_all(struct journal_reading *reading, uint64_t after, journal_visit *visit,
                     void *context, struct error *error) {
    struct reader reader = {.reading = reading, .after = after};
    sqlite3 *file = reading->file;
    size_t bytes = journal_queue_size(reading->largest);
    int status = -1;
    pthread_mutex_init(&reader.mutex, NULL);
    pthread_cond_init(&reader.filled, NULL);
    pthread_cond_init(&reader.emptied, NULL);
    /* `totals` stays at its row, so that both statements read the same snapshot. */
    if (!journal_queue_open(&reader.queue, bytes < REPLAY_BYTES ? REPLAY_BYTES : bytes))
        error_set(error, EX_UNAVAILABLE, "out of memory for replaying the journal");
    else if (sqlite3_prepare_v2(file, "SELECT oldest, newest FROM journal", -1, &reader.totals,
                                NULL) != SQLITE_OK ||
             sqlite3_prepare_v2(file, BLOCKS, -1, &reader.row, NULL) != SQLITE_OK)
        read_error(reading, error);
    else
        status = read_and_visit(&reader, visit, context, error);
    sqlite3_finalize(reader.row);
    sqlite3_finalize(reader.totals);
    journal_queue_close(&reader.queue);
    pthread_cond_destroy(&reader.emptied);
    pthread_cond_destroy(&reader.filled);
    pthread_mutex_destroy(&reader.mutex);
    return status;
}
