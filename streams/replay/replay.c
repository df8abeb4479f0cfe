/* runnel-replay: sends the examples of a daemon's journal to another daemon. This file has the
   options and the main loop. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/base64.h"
#include "common/clock.h"
#include "common/database.h"
#include "common/error.h"
#include "common/text.h"
#include "common/wire.h"
#include "runnel.h"
#include "store/journal_block.h"
#include "streams/feed.h"
#include "streams/feed_delivery.h"
#include "streams/feed_streams.h"

/* ---- Journal ----

   Reads the journal of a daemon (docs/reference/journal.md), which may be
   running. It copies a block of entries and closes the read before it returns them: a long read
   would keep the daemon's write-ahead log from being reused. */

/* An example or a command. Pointers are valid until the next read. */
struct replay_entry {
    uint64_t position;
    double time; /* Unix time when the daemon received it */
    enum journal_kind kind;
    const char *command;       /* its JSON; NULL: it is an example */
    struct stream stream;      /* its name */
    bool numbered;             /* the header has epoch and sequence */
    struct wire_header header; /* flags and the producer's time */
    const void *words;         /* if its flags include words */
    size_t words_size;
    struct wire_label label; /* the labelled example, if its flags include a label */
    const void *x, *y;       /* y NULL = none */
    size_t x_size, y_size, steps;
};

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
    bool kinds; /* blocks list their kinds of entries: not an earlier format */
    struct journal_unpacker unpacker; /* of the last block */
    char *bytes;                      /* (capacity,) bytes of that block */
    size_t capacity;
};

static int file_error(const struct replay_journal *journal, struct error *error) {
    int code = sqlite3_errcode(journal->file) & 0xFF;
    if (code == SQLITE_CANTOPEN)
        return error_set(error, EX_NOINPUT,
                         "%s: cannot open: %s; reading needs a writable directory", journal->path,
                         sqlite3_errmsg(journal->file));
    return error_set(error, code == SQLITE_NOTADB ? EX_DATAERR : EX_IOERR, "%s: cannot read: %s",
                     journal->path, database_message(journal->file));
}

/* Reads the numbers of a statement's single row. Returns -1 also without a row. */
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
        return error_set(error, EX_DATAERR, "%s: not a journal of runneld, but another SQLite file",
                         journal->path);
    if (format < JOURNAL_FORMAT_OLDEST || format > JOURNAL_FORMAT)
        return error_set(error, EX_DATAERR,
                         "%s: format %lld is not supported, only %d to %d; use the runnel-replay "
                         "of the version that wrote it",
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
        return error_set(error, EX_DATAERR, "%s: the table journal is damaged", journal->path);
    journal->oldest = (uint64_t)ends[0];
    journal->newest = (uint64_t)ends[1];
    if (sqlite3_prepare_v2(journal->file, LOOK_UP, -1, &journal->look_up, NULL) != SQLITE_OK)
        return file_error(journal, error);
    return 0;
}

static void replay_journal_close(struct replay_journal **pointer) {
    struct replay_journal *journal = *pointer;
    if (!journal)
        return;
    sqlite3_finalize(journal->look_up);
    sqlite3_close(journal->file);
    free(journal->bytes);
    free(journal);
    *pointer = NULL;
}

/* Opens the file, or journal.sqlite in a directory. Fails with EX_NOINPUT if it does not exist,
   EX_DATAERR if it is not a journal or has another format. */
static int replay_journal_open(struct replay_journal **result, const char *path,
                               struct error *error) {
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
        error_set(error, EX_NOINPUT, "%s: cannot open: %s", journal->path,
                  reason ? error_of_file(reason) : sqlite3_errmsg(journal->file));
    } else {
        sqlite3_busy_timeout(journal->file, BUSY_MS);
        if (prepare(journal, error) == 0)
            return 0;
    }
    replay_journal_close(result);
    return -1;
}

static int damaged(const struct replay_journal *journal, uint64_t position, struct error *error) {
    return error_set(error, EX_DATAERR, "%s: entry %llu is damaged", journal->path,
                     (unsigned long long)position);
}

/* No block has the entry: the journal was pruned, or it is damaged. */
static int gone(struct replay_journal *journal, uint64_t position, struct error *error) {
    sqlite3_int64 oldest;
    if (read_numbers(journal, "SELECT oldest FROM journal", 1, &oldest, error) < 0)
        return -1;
    if (position >= (uint64_t)oldest)
        return damaged(journal, position, error);
    return error_set(error, EX_DATAERR,
                     "%s: entry %llu was pruned meanwhile; state.journal.keep: all would keep it",
                     journal->path, (unsigned long long)position);
}

/* Copies the row's text and bytes. */
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

/* Reads the block that has the position, and closes the read. */
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

/* Finds an entry; reads its block unless it is the current or the next one. */
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

/* Finds the next block, from an entry on, that may have a command of this kind (in an earlier
   format: the next block). Its entries are `first` (>= `from`) to `last`. Returns 1, 0 at the end,
   or -1 as above. */
static int replay_journal_find(struct replay_journal *journal, uint64_t from,
                               enum journal_kind kind, uint64_t *first, uint64_t *last,
                               struct error *error) {
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

/* Reads an entry. Returns -1 with EX_IOERR, or EX_DATAERR if it is damaged or pruned. */
static int replay_journal_read(struct replay_journal *journal, uint64_t position,
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

/* ---- Control ----

   Commands to a daemon's control socket. */

#define ANSWER_SECONDS 60.0

static int await(struct runnel_request *request, struct runnel_error *why, struct error *error) {
    struct runnel_reply reply;
    struct pollfd item = {.fd = runnel_request_descriptor(request), .events = POLLIN};
    int status;
    while ((status = runnel_request_next(request, &reply, why)) == 0) {
        poll(&item, 1, FEED_TICK_MS);
        if (feed_signals)
            return error_set(error, FEED_INTERRUPTED, "interrupted");
    }
    return status;
}

/* Sends the command, a JSON object, and waits until the daemon has executed it. Fails with
   EX_UNAVAILABLE without an answer within a minute, or if the daemon refuses, or with
   FEED_INTERRUPTED. */
static int replay_command(const struct runnel_peer *peer, const char *command,
                          struct error *error) {
    struct runnel_request *request = NULL;
    struct runnel_error why = {0};
    int status = runnel_request_open(&request, peer, command, ANSWER_SECONDS, &why);
    if (status == 0)
        status = await(request, &why, error);
    runnel_request_close(&request);
    if (status >= 0 || why.status == 0)
        return status < 0 ? -1 : 0;
    if (why.status == EX_SOFTWARE)
        return error_set(error, EX_UNAVAILABLE, "%s: the daemon cannot execute %s: %s",
                         peer->endpoint, command, why.text);
    return error_set(error, why.status, "--control: %s", why.text);
}

/* ---- Rollbacks of fleets ----

   A fleet's rollbacks remove examples of a partition that another daemon has learned. Neither those
   examples nor the rollbacks are sent: the receiving daemon learns as if they did not exist, and
   their numbers may be used again. Therefore its positions differ from the journal's. */

/* One partition of a rollback: the producer's examples between two entries with later numbers. */
struct beyond {
    uint64_t after, position;
    uint64_t producer, sequence;
    uint32_t epoch;
};

struct replay_left_out {
    const char *path;
    struct beyond *list;
    size_t count;
    uint64_t *unsent; /* positions from the first on */
    size_t unsent_count, unsent_room;
};

/* ---- Rollbacks of the journal ---- */

static bool read_partition(const json_t *partition, struct beyond *to) {
    const json_t *producer = json_array_get(partition, 0), *epoch = json_array_get(partition, 1);
    const json_t *sequence = json_array_get(partition, 2);
    to->producer = (uint64_t)json_integer_value(producer);
    to->epoch = (uint32_t)json_integer_value(epoch);
    to->sequence = (uint64_t)json_integer_value(sequence);
    return json_is_integer(producer) && json_is_integer(epoch) && json_is_integer(sequence);
}

static int add_all(struct replay_left_out *left_out, const json_t *rollback, uint64_t position,
                   struct error *error) {
    const json_t *partitions = json_object_get(rollback, "beyond");
    size_t n, size = json_array_size(partitions);
    json_t *partition;
    if (size == 0)
        return 0;
    struct beyond *larger =
        realloc(left_out->list, (left_out->count + size) * sizeof *left_out->list);
    if (!larger)
        return error_no_memory(error);
    left_out->list = larger;
    json_array_foreach(partitions, n, partition) {
        struct beyond beyond = {.position = position};
        beyond.after = (uint64_t)json_integer_value(json_object_get(rollback, "to"));
        if (!read_partition(partition, &beyond))
            return error_set(error, EX_DATAERR, "%s: entry %llu is an unknown kind of rollback",
                             left_out->path, (unsigned long long)position);
        left_out->list[left_out->count++] = beyond;
    }
    return 0;
}

/* The removed examples must not have been sent by an earlier call. */
static int take_rollback(struct replay_left_out *left_out, const struct replay_entry *entry,
                         uint64_t oldest, uint64_t first, struct error *error) {
    json_t *rollback = json_loads(entry->command, 0, NULL);
    uint64_t begins = (uint64_t)json_integer_value(json_object_get(rollback, "first"));
    int status = add_all(left_out, rollback, entry->position, error);
    if (status == 0 && json_array_size(json_object_get(rollback, "beyond")) && begins >= oldest &&
        begins < first)
        status = error_set(
            error, EX_DATAERR,
            "%s: entry %llu rolls back examples from entry %llu on, which another daemon of the "
            "fleet has learned; those before --from %llu may already have been sent: replay from "
            "entry %llu on to a daemon without any of them",
            left_out->path, (unsigned long long)entry->position, (unsigned long long)begins,
            (unsigned long long)first, (unsigned long long)oldest);
    json_decref(rollback);
    return status;
}

static int look_at(struct replay_left_out *left_out, struct replay_journal *journal,
                   uint64_t position, uint64_t first, struct error *error) {
    struct replay_entry entry;
    if (replay_journal_read(journal, position, &entry, error))
        return -1;
    if (entry.kind != JOURNAL_ROLLBACK)
        return 0;
    return take_rollback(left_out, &entry, journal->oldest, first, error);
}

static int look_through(struct replay_left_out *left_out, struct replay_journal *journal,
                        uint64_t first, uint64_t last, struct error *error) {
    uint64_t from = first, begin = 0, end = 0;
    int found = 1;
    while (from <= last && found > 0) {
        found = replay_journal_find(journal, from, JOURNAL_ROLLBACK, &begin, &end, error);
        for (; found > 0 && begin <= end && begin <= last; begin++)
            if (look_at(left_out, journal, begin, first, error))
                return -1;
        from = end + 1;
    }
    return found < 0 ? -1 : 0;
}

static void replay_left_out_close(struct replay_left_out **left_out) {
    if (*left_out) {
        free((*left_out)->list);
        free((*left_out)->unsent);
    }
    free(*left_out);
    *left_out = NULL;
}

/* Finds the rollbacks of the entries from `first` to `last`. Fails with EX_DATAERR if the journal
   is damaged, or a rollback removes existing entries before `first`, which an earlier call has
   sent. */
static int replay_left_out_open(struct replay_left_out **left_out, struct replay_journal *journal,
                                const char *path, uint64_t first, uint64_t last,
                                struct error *error) {
    struct replay_left_out *opened = *left_out = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    opened->path = path;
    if (look_through(opened, journal, first, last, error) == 0)
        return 0;
    replay_left_out_close(left_out);
    return -1;
}

/* ---- Entries ---- */

static bool is_beyond(const struct beyond *beyond, const struct replay_entry *entry) {
    const struct wire_header *header = &entry->header;
    if (entry->position <= beyond->after || entry->position >= beyond->position ||
        !entry->numbered || header->producer != beyond->producer)
        return false;
    return header->epoch != beyond->epoch ? header->epoch > beyond->epoch
                                          : header->sequence > beyond->sequence;
}

/* Whether a rollback removes the entry, or the entry is such a rollback. */
static bool replay_left_out_has(const struct replay_left_out *left_out,
                                const struct replay_entry *entry) {
    for (size_t n = 0; n < left_out->count; n++)
        if (entry->command ? left_out->list[n].position == entry->position
                           : is_beyond(&left_out->list[n], entry))
            return true;
    return false;
}

/* Notes an entry that was not sent; call it in order. */
static int replay_left_out_note(struct replay_left_out *left_out, uint64_t position,
                                struct error *error) {
    if (left_out->unsent_count == left_out->unsent_room) {
        size_t room = 2 * left_out->unsent_room + 64;
        uint64_t *larger = realloc(left_out->unsent, room * sizeof *larger);
        if (!larger)
            return error_no_memory(error);
        left_out->unsent = larger;
        left_out->unsent_room = room;
    }
    left_out->unsent[left_out->unsent_count++] = position;
    return 0;
}

/* ---- Positions at the receiver ---- */

/* Counts the entries before a position that were not sent. */
static uint64_t count_before(const struct replay_left_out *left_out, uint64_t position) {
    size_t low = 0, high = left_out->unsent_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (left_out->unsent[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the first sent entry at or after a position; the last one at or before it. */
static json_t *from_on(const struct replay_left_out *left_out, const json_t *position) {
    uint64_t at = (uint64_t)json_integer_value(position);
    return json_integer((json_int_t)(at - count_before(left_out, at)));
}

static json_t *up_to(const struct replay_left_out *left_out, const json_t *position) {
    uint64_t at = (uint64_t)json_integer_value(position);
    return json_integer((json_int_t)(at - count_before(left_out, at + 1)));
}

/* Returns a rollback with the receiver's positions, to be freed; NULL: out of memory. */
static char *replay_left_out_rollback(const struct replay_left_out *left_out, const char *command) {
    json_t *rollback = json_loads(command, 0, NULL);
    json_t *spans = json_object_get(rollback, "spans"), *span;
    size_t n;
    if (json_object_get(rollback, "to"))
        json_object_set_new(rollback, "to", up_to(left_out, json_object_get(rollback, "to")));
    if (json_object_get(rollback, "first"))
        json_object_set_new(rollback, "first",
                            from_on(left_out, json_object_get(rollback, "first")));
    json_array_foreach(spans, n, span) {
        json_array_set_new(span, 0, from_on(left_out, json_array_get(span, 0)));
        json_array_set_new(span, 1, up_to(left_out, json_array_get(span, 1)));
    }
    char *text = rollback ? json_dumps(rollback, JSON_COMPACT) : strdup(command);
    json_decref(rollback);
    return text;
}

/* ---- Import ----

   A command that replaces the learned parameters. The journal names their file, which is in the
   same directory. */

static FILE *open_file(const char *journal, const char *name, char path[PATH_SIZE],
                       struct error *error) {
    const char *slash = strrchr(journal, '/');
    snprintf(path, PATH_SIZE, "%.*s%s", slash ? (int)(slash + 1 - journal) : 0, journal, name);
    FILE *file = strchr(name, '/') ? NULL : fopen(path, "re");
    if (!file)
        error_set(error, EX_NOINPUT, "cannot read %s, which the journal needs: %s", path,
                  strerror(errno));
    return file;
}

static int send_piece(const struct runnel_peer *peer, const unsigned char *bytes, size_t size,
                      uint64_t part, uint64_t parts, struct error *error) {
    static char text[(WIRE_PIECE + 2) / 3 * 4];
    base64_write(bytes, size, text);
    json_t *request =
        json_pack("{s:s, s:I, s:I, s:o}", "command", "import", "part", (json_int_t)part, "parts",
                  (json_int_t)parts, "blob", json_stringn_nocheck(text, base64_size(size)));
    char *command = json_dumps(request, JSON_COMPACT);
    int status = command ? replay_command(peer, command, error) : error_no_memory(error);
    json_decref(request);
    free(command);
    return status;
}

/* Sends the file in pieces; `path` is the journal's. Fails as replay_command does, and with
   EX_NOINPUT. */
static int replay_import(const struct runnel_peer *peer, const char *path, const char *command,
                         struct error *error) {
    static unsigned char piece[WIRE_PIECE];
    char name[PATH_SIZE];
    json_t *import = json_loads(command, 0, NULL);
    const char *file_name = json_string_value(json_object_get(import, "file"));
    uint64_t bytes = (uint64_t)json_integer_value(json_object_get(import, "bytes"));
    uint64_t parts = (bytes + WIRE_PIECE - 1) / WIRE_PIECE;
    FILE *file = open_file(path, file_name ? file_name : "", name, error);
    int status = file ? 0 : -1;
    for (uint64_t part = 1; status == 0 && part <= parts; part++) {
        size_t got = fread(piece, 1, sizeof piece, file);
        if (got == (part < parts ? WIRE_PIECE : bytes - (parts - 1) * WIRE_PIECE))
            status = send_piece(peer, piece, got, part, parts, error);
        else
            status =
                error_set(error, EX_DATAERR, "%s is not the file that the journal needs", name);
    }
    if (file)
        fclose(file);
    json_decref(import);
    return status;
}

/* ---- Run ----

   The loop of runnel-replay: sends the entries of a journal in their order. */

/* With --epoch, examples get new numbers of that epoch. */
struct replay_settings {
    struct feed_call common;
    const char *path;     /* of the journal */
    const char *control;  /* endpoint for commands; NULL: they are only reported */
    double speed;         /* factor of the journal's speed; INFINITY = no limit */
    uint64_t first, last; /* positions */
};

enum {
    UNPACED_EXAMPLES = 256, /* examples between two checks for events, at full speed */
    COMMAND_SHOWN = 200,    /* characters: a command may contain a whole stream state */
};

struct replay {
    const struct replay_settings *settings;
    struct replay_journal *journal;
    struct replay_left_out *left_out;
    struct delivery delivery;
    struct streams streams;         /* and the next number of each */
    uint64_t first, last, position; /* first and last entry to replay; the next one */
    double due, time;               /* when it is due; the journal's time of the entry before */
    uint64_t commands;              /* commands that were not sent */
    bool repeated;                  /* the daemon already has everything, see check_first */
};

static double done(const void *context) {
    const struct replay *replay = context;
    return (double)(replay->position - replay->first) / (double)(replay->last - replay->first + 1);
}

/* Finds the entries to replay and checks that they exist. */
static int find_range(struct replay *replay, struct error *error) {
    const struct replay_settings *settings = replay->settings;
    unsigned long long oldest = replay->journal->oldest;
    unsigned long long newest = replay->journal->newest;
    unsigned long long first = settings->first;
    if (newest < oldest || newest < first)
        return error_set(error, EX_DATAERR, "%s: nothing to replay: the last entry is %llu%s",
                         settings->path, newest, newest < oldest ? ", and none are kept" : "");
    if (first < oldest && settings->common.epoch_given)
        return error_set(error, EX_DATAERR,
                         "%s: the first entry is %llu; earlier ones were pruned; pass --from %llu, "
                         "so that the numbers of --epoch are the same in each call",
                         settings->path, oldest, oldest);
    if (first < oldest)
        progress_warn("%s: entries %llu to %llu were pruned", settings->path, first, oldest - 1);
    if (settings->last != UINT64_MAX && settings->last > newest)
        progress_warn("%s: the last entry is %llu", settings->path, newest);
    replay->first = first < oldest ? oldest : first;
    replay->last = settings->last < newest ? settings->last : newest;
    replay->position = replay->first;
    if (replay->last < replay->first)
        return error_set(error, EX_DATAERR, "%s: nothing to replay: the first entry is %llu",
                         settings->path, oldest);
    return 0;
}

/* Counts a stream's examples for new numbers, from the first replayed one. */
static int renumber(struct replay *replay, struct replay_entry *entry, struct error *error) {
    struct held_stream *held = streams_find(&replay->streams, entry->stream.key, error);
    if (!held)
        return -1;
    entry->numbered = true;
    entry->header.epoch = (uint32_t)replay->settings->common.epoch;
    entry->header.producer = replay->settings->common.to.producer;
    entry->header.sequence = held->stream.sequence++;
    return 0;
}

/* A producer of a pull socket may have used a number twice; a router would treat that as a
   duplicate. */
static int check_number(struct replay *replay, const struct replay_entry *entry,
                        struct error *error) {
    const struct wire_header *header = &entry->header;
    struct held_stream *held = streams_find(&replay->streams, entry->stream.key, error);
    if (!held)
        return -1;
    bool same = header->producer == held->producer; /* the producer of the entry before */
    if (same && (header->epoch < held->epoch ||
                 (header->epoch == held->epoch && header->sequence < held->stream.sequence)))
        return error_set(error, EX_DATAERR,
                         "%s: entry %llu does not have a higher number than the entry before it in "
                         "its stream, so --socket router would treat it as a duplicate; pass "
                         "--epoch to renumber all entries",
                         replay->settings->path, (unsigned long long)entry->position);
    held->epoch = header->epoch;
    held->producer = header->producer;
    held->stream.sequence = header->sequence + 1;
    return 0;
}

/* A repeated call must not send commands a second time. */
static int check_first(struct replay *replay, struct error *error) {
    if (!replay->settings->control || replay->delivery.progress.examples != 1)
        return 0;
    if (delivery_settle(&replay->delivery, error) < 0)
        return -1;
    if (replay->delivery.counts.duplicates == 0)
        return 0;
    if (replay->delivery.counts.outdated > 0)
        return error_set(error, EX_DATAERR,
                         "already learned: the daemon has a greater epoch of this stream than "
                         "entry %llu; pass a greater --epoch to learn these entries again",
                         (unsigned long long)replay->position);
    replay->repeated = true;
    return error_set(error, EX_DATAERR,
                     "the daemon already has entry %llu, and perhaps the commands after it, which "
                     "must not run twice; if an earlier call stopped early, continue with the "
                     "--from that it printed, otherwise everything was sent",
                     (unsigned long long)replay->position);
}

static int send_example(struct replay *replay, struct replay_entry *entry, struct error *error) {
    if (entry->header.flags & WIRE_LABEL && replay->settings->common.epoch_given)
        return error_set(error, EX_DATAERR,
                         "%s: entry %llu is a label for an example by its number in the journal, "
                         "which --epoch changes; replay without --epoch",
                         replay->settings->path, (unsigned long long)entry->position);
    if (replay->settings->common.epoch_given && renumber(replay, entry, error) < 0)
        return -1;
    if (replay->settings->common.to.kind == RUNNEL_ROUTER && !entry->numbered)
        return error_set(error, EX_DATAERR,
                         "%s: entry %llu has no number, which --socket router requires; pass "
                         "--epoch to renumber all entries",
                         replay->settings->path, (unsigned long long)entry->position);
    if (replay->settings->common.to.kind == RUNNEL_ROUTER &&
        !replay->settings->common.epoch_given && check_number(replay, entry, error) < 0)
        return -1;
    const struct wire_header *header = &entry->header;
    const struct runnel_example example = {
        .key = entry->stream.key,
        .key_size = entry->stream.key_size,
        .x = entry->x,
        .y = entry->y,
        .x_size = entry->x_size,
        .y_size = entry->y_size,
        .headed = entry->numbered || header->flags || header->time != 0,
        .flags = header->flags,
        .epoch = header->epoch,
        .sequence = header->sequence,
        .time = header->time,
        .label_epoch = entry->label.epoch,
        .label_sequence = entry->label.sequence,
        .words = entry->words,
        .words_size = entry->words_size,
    };
    runnel_sender_identify(replay->delivery.sender, header->producer);
    if (delivery_send(&replay->delivery, &example, entry->steps, error) < 0)
        return -1;
    return check_first(replay, error);
}

/* Whether it is a place of a broker's partition, which does not affect learning. */
static bool is_place(const struct replay_entry *entry) {
    return entry->kind == JOURNAL_SKIP || entry->kind == JOURNAL_PARTITION;
}

static int carry_out(const struct replay *replay, const struct replay_entry *entry,
                     struct error *error) {
    const struct replay_settings *settings = replay->settings;
    struct runnel_peer peer = {settings->control, settings->common.to.keys.server,
                               settings->common.to.keys.own};
    if (entry->kind == JOURNAL_IMPORT)
        return replay_import(&peer, replay->journal->path, entry->command, error);
    if (entry->kind != JOURNAL_ROLLBACK)
        return replay_command(&peer, entry->command, error);
    char *text = replay_left_out_rollback(replay->left_out, entry->command);
    int status = text ? replay_command(&peer, text, error) : error_no_memory(error);
    free(text);
    return status;
}

/* Sends a command after the daemon has received the examples before it. */
static int send_command(struct replay *replay, const struct replay_entry *entry,
                        struct error *error) {
    if (!replay->settings->control) {
        replay->commands++;
        feed_print("entry %llu is a command and was not sent: %.*s",
                   (unsigned long long)entry->position, COMMAND_SHOWN, entry->command);
        return 0;
    }
    if (delivery_settle(&replay->delivery, error) < 0)
        return -1;
    feed_detail("entry %llu: %.*s", (unsigned long long)entry->position, COMMAND_SHOWN,
                entry->command);
    return carry_out(replay, entry, error);
}

static int send_entry(struct replay *replay, struct replay_entry *entry, struct error *error) {
    if (is_place(entry) || replay_left_out_has(replay->left_out, entry))
        return replay_left_out_note(replay->left_out, entry->position, error);
    return entry->command ? send_command(replay, entry, error) : send_example(replay, entry, error);
}

/* Waits until the entry is due: the time since the entry before, unless a clock was set back. */
static int pace(struct replay *replay, const struct replay_entry *entry, struct error *error) {
    double speed = replay->settings->speed;
    if (isinf(speed)) {
        bool look = entry->position % UNPACED_EXAMPLES == 0;
        return look ? delivery_listen(&replay->delivery, error) : 0;
    }
    if (entry->position > replay->first)
        replay->due += fmax(entry->time - replay->time, 0) / speed;
    replay->time = entry->time;
    return delivery_pause(&replay->delivery, &replay->due, error);
}

static int send_all(struct replay *replay, struct error *error) {
    struct replay_entry entry;
    replay->due = clock_seconds();
    for (; replay->position <= replay->last; replay->position++) {
        if (feed_signals)
            return error_set(error, FEED_INTERRUPTED, "interrupted");
        if (replay_journal_read(replay->journal, replay->position, &entry, error) < 0 ||
            pace(replay, &entry, error) < 0)
            return -1;
        if (send_entry(replay, &entry, error) < 0)
            return -1;
    }
    return 0;
}

/* Prints where another call continues. New numbers start at 0 again, so it needs another epoch. */
static void print_position(const struct replay *replay) {
    char epoch[sizeof " with a greater --epoch"] = "";
    if (replay->settings->common.epoch_given)
        strcpy(epoch, " with a greater --epoch");
    if (replay->delivery.started && replay->position <= replay->last && !replay->repeated)
        feed_print("stopped before entry %llu; continue with --from %llu%s",
                   (unsigned long long)replay->position, (unsigned long long)replay->position,
                   epoch);
}

static void print_repeat(const struct replay *replay, struct error *error) {
    if (error->status == EX_TEMPFAIL && !replay->settings->control)
        text_append(error->text, sizeof error->text,
                    "; to learn them, repeat the call (nothing is learned twice)");
}

static int replay_run(const struct replay_settings *settings, struct error *error) {
    struct replay replay = {.settings = settings, .streams.numbers = 1};
    replay.delivery = (struct delivery){.to = settings->common.to,
                                        .linger = settings->common.linger,
                                        .done = done,
                                        .context = &replay};
    int status = replay_journal_open(&replay.journal, settings->path, error);
    if (status == 0)
        status = find_range(&replay, error);
    if (status == 0)
        status = replay_left_out_open(&replay.left_out, replay.journal, settings->path,
                                      replay.first, replay.last, error);
    if (status == 0) {
        status = delivery_open(&replay.delivery, settings->common.wait, error);
        if (status == 0)
            status = send_all(&replay, error);
        bool stopped = status < 0;
        status = delivery_close(&replay.delivery, status, 0, error);
        if (stopped)
            print_position(&replay);
        if (status < 0)
            print_repeat(&replay, error);
        if (replay.commands)
            feed_print("commands of the journal that were not sent: %llu; see --control",
                       (unsigned long long)replay.commands);
    }
    streams_close(&replay.streams);
    replay_left_out_close(&replay.left_out);
    replay_journal_close(&replay.journal);
    return status;
}

/* ---- Program ---- */

#define SPEED_MIN 1e-6
#define SPEED_MAX 1e9

static int parse_speed(void *values, const struct option_row *row, const char *text,
                       struct error *error) {
    struct replay_settings *s = values;
    char *end;
    if (!strcmp(text, "full") || !strcmp(text, "original")) {
        s->speed = *text == 'f' ? INFINITY : 1;
        return 0;
    }
    s->speed = strtod(text, &end);
    if (end != text && !*end && s->speed >= SPEED_MIN && s->speed <= SPEED_MAX)
        return 0;
    return error_set(error, EX_USAGE,
                     "--%s: expected full, original or a factor in %g..%g, got '%s'", row->name,
                     SPEED_MIN, SPEED_MAX, text);
}

static const struct option_row OPTIONS[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's examples socket (default " WIRE_EXAMPLES ")",
     OPTION_TEXT(struct replay_settings, common.to.endpoint)},
    {"speed", 0, "SPEED", "full (default), original, or a factor: 10 is ten times as fast",
     OPTION_TAKE(parse_speed), .complete = COMPLETE_WORDS, .words = "full original"},
    {"from", 0, "N", "first position (default: the first entry)",
     OPTION_COUNT(struct replay_settings, first, 1, INT64_MAX)},
    {"to", 0, "N", "last position (default: the last entry)",
     OPTION_COUNT(struct replay_settings, last, 1, INT64_MAX)},
    FEED_CALL_EPOCH(struct replay_settings, common,
                    "renumber examples in this epoch (default: the journal's numbers)"),
    FEED_CALL_PRODUCER(struct replay_settings, common,
                       "renumber examples for this producer, up to 16 hexadecimal digits, with "
                       "epoch 0 (default: the journal's; none with --epoch)"),
    {"control", 0, "ENDPOINT",
     "send the journal's commands (set, reset, forget, adopt, import, normal, rollback) to this "
     "socket, in order; requires --socket router (default: only report them)",
     OPTION_TEXT(struct replay_settings, control)},
    FEED_CALL_OPTIONS(struct replay_settings, common),
    OPTIONS_LAST,
};

static int replay(struct replay_settings *s, struct error *error) {
    if (s->control && s->common.to.kind != RUNNEL_ROUTER)
        return error_set(error, EX_USAGE,
                         "--control: requires --socket router, whose acknowledgements show when a "
                         "command is due");
    if (s->last < s->first)
        return error_set(error, EX_USAGE, "--to: must not be before --from");
    if (feed_call_start(&s->common, "runnel-replay", true, error) < 0)
        return -1;
    s->common.epoch_given |= s->common.producer != NULL;
    return replay_run(s, error);
}

int main(int count, char **arguments) {
    struct error error = {0};
    struct replay_settings settings = {
        .common = {FEED_CALL_DEFAULTS}, .speed = INFINITY, .first = 1, .last = UINT64_MAX};
    const struct command_line line = {
        .name = "runnel-replay",
        .operands = "JOURNAL",
        .summary = "Send the examples of a daemon's journal to another daemon, in the order in "
                   "which they were learned. JOURNAL is the file journal.sqlite or its directory.",
        .groups = {{NULL, OPTIONS, &settings}},
        .complete = COMPLETE_FILE,
    };
    char **operands;
    int status = options_parse(&line, count, arguments, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    settings.path = *operands;
    return feed_call_end(&line, replay(&settings, &error), &error);
}
