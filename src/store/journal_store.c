#include "journal_store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/database.h"
#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"
#include "common/text.h"

enum { FILE_MODE = 0600 };

#define CACHE_KIB 4096 /* pages of a connection */
/* pages in the log before they move to the file; few, so that no commit waits long */
#define LOG_FRAMES_MAX 250
#define LOG_BYTES_KEPT 67108864 /* size of the log after a reader has delayed its use */

const char *const journal_sync_words[] = {"full", "normal", "off"};

static const char TOTALS[] = "UPDATE journal SET name = ?, digest = ?, sync = ?, oldest = ?, "
                             "newest = ?, streams = ?, crc = ? WHERE id = 1";

/* ---- Tables: docs/reference/journal.md explains them ---- */

const char journal_tables[] =
    "CREATE TABLE journal ("
    " id INTEGER PRIMARY KEY CHECK (id = 1),"
    " name TEXT NOT NULL, digest TEXT NOT NULL, sync TEXT NOT NULL,"
    " oldest INTEGER NOT NULL, newest INTEGER NOT NULL, streams INTEGER NOT NULL,"
    " crc INTEGER NOT NULL);"
    "CREATE TABLE blocks ("
    " last INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
    " about TEXT NOT NULL, data BLOB NOT NULL, crc INTEGER NOT NULL, kinds INTEGER NOT NULL);"
    "INSERT INTO journal VALUES (1, '', '', '', 1, 0, 0, 0);";

const char journal_commands[] =
    "CREATE INDEX blocks_with_commands ON blocks (last) WHERE " JOURNAL_HAS_COMMAND ";";

/* The index orders streams by their last use. */
const char journal_streams[] =
    "CREATE TABLE streams ("
    " key BLOB NOT NULL, producer INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL, position INTEGER NOT NULL, time INTEGER NOT NULL,"
    " crc INTEGER NOT NULL, PRIMARY KEY (key, producer)) WITHOUT ROWID;"
    "CREATE INDEX streams_by_position ON streams (position);";

static const char journal_places[] =
    "CREATE TABLE IF NOT EXISTS places ("
    " partition TEXT PRIMARY KEY, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,"
    " count INTEGER NOT NULL, position INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;";

/* For users: runnel's own programs read blocks. */
const char journal_view[] =
    "CREATE VIEW entries AS"
    " WITH fields AS ("
    "  SELECT last - count + 1 + key AS position, data,"
    "  json_extract(value, '$[0]') AS time, json_extract(value, '$[1]') AS kind,"
    "  1 + json_extract(value, '$[2]') AS at, json_extract(value, '$[3]') AS key_size,"
    "  json_extract(value, '$[4]') AS x_size, json_extract(value, '$[5]') AS y_size,"
    "  json_extract(value, '$[6]') AS steps, json_extract(value, '$[7]') AS flags,"
    "  json_extract(value, '$[8]') AS epoch, json_extract(value, '$[9]') AS sequence,"
    "  json_extract(value, '$[10]') AS stamp,"
    "  ifnull(json_extract(value, '$[11]'), 0) AS producer,"
    "  json_extract(value, '$[10]') >> 52 & 2047 AS exponent,"
    "  (json_extract(value, '$[10]') & 4503599627370495) + 4503599627370496 AS mantissa"
    "  FROM blocks, json_each(about))"
    " SELECT position, time / 1e6 AS time, kind,"
    "  CASE kind WHEN 1 THEN substr(data, at, key_size) END AS stream, epoch, sequence,"
    "  CASE WHEN exponent BETWEEN 1013 AND 1075 THEN mantissa * 1.0 / (1 << 1075 - exponent)"
    "   WHEN exponent BETWEEN 1076 AND 1137 THEN mantissa * 1.0 * (1 << exponent - 1075)"
    "   END * CASE WHEN stamp < 0 THEN -1 ELSE 1 END AS stamp,"
    "  flags, steps, CASE kind WHEN 1 THEN substr(data, at + key_size, x_size) END AS x,"
    "  CASE WHEN y_size NOT NULL THEN substr(data, at + key_size + x_size, y_size) END AS y,"
    "  CASE WHEN kind > 1 THEN CAST(substr(data, at, x_size - 1) AS TEXT) END AS command,"
    "  CASE WHEN sequence NOT NULL THEN producer END AS producer"
    " FROM fields";

/* ---- Errors ---- */

int journal_damaged(struct error *error, const char *path, const char *format, ...) {
    char what[ERROR_TEXT_SIZE / 2];
    TEXT_FORMAT(what, sizeof what, format);
    return error_set(error, EX_IOERR,
                     "the journal %s is damaged: %s; restore a copy of it, or move it and %s-wal "
                     "away to resume from the last checkpoint without later examples",
                     path, what, JOURNAL_NAME);
}

int journal_sql_error(struct error *error, sqlite3 *file, const char *path, const char *doing) {
    int code = sqlite3_errcode(file) & 0xFF, reason = sqlite3_system_errno(file);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return journal_damaged(error, path, "%s", sqlite3_errmsg(file));
    if (code == SQLITE_NOMEM)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the journal %s", path);
    const char *why = code == SQLITE_FULL ? "the disk is full" : sqlite3_errmsg(file);
    bool known = (code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && reason;
    return error_set(error, EX_IOERR, "the journal %s cannot be %s: %s%s%s%s", path, doing, why,
                     known ? " (" : "", known ? strerror(reason) : "", known ? ")" : "");
}

static int write_error(struct journal_store *store, struct error *error) {
    return journal_sql_error(error, store->file, store->path, "written");
}

static int read_error(struct journal_store *store, struct error *error) {
    return journal_sql_error(error, store->file, store->path, "read");
}

/* ---- Checksums ---- */

uint32_t journal_stream_checksum(const struct journal_record *r, int format) {
    enum { NUMBERS_OLDEST = 4 };
    const uint64_t numbers[] = {r->position, r->epoch,    r->sequence,
                                r->key_size, r->producer, (uint64_t)r->time};
    size_t size =
        format >= JOURNAL_FORMAT_PRODUCERS ? sizeof numbers : NUMBERS_OLDEST * sizeof *numbers;
    return journal_checksum(journal_checksum(0, numbers, size), r->key, r->key_size);
}

static uint32_t journal_place_checksum(const char *name, const struct journal_place *p) {
    const uint64_t numbers[] = {p->epoch, p->sequence, p->count, p->position};
    return journal_checksum(journal_checksum(0, numbers, sizeof numbers), name, strlen(name));
}

uint32_t journal_totals_checksum(const struct journal_totals *t) {
    const uint64_t numbers[] = {t->sync, t->oldest, t->newest, t->streams};
    uint32_t checksum = journal_checksum(0, numbers, sizeof numbers);
    checksum = journal_checksum(checksum, t->name, strlen(t->name) + 1);
    return journal_checksum(checksum, t->digest, strlen(t->digest));
}

/* ---- Statements ---- */

static int run(struct journal_store *store, sqlite3_stmt *statement, struct error *error) {
    int code = sqlite3_step(statement);
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        write_error(store, error);
    sqlite3_reset(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? 0 : -1;
}

int journal_store_begin(struct journal_store *store, struct error *error) {
    return run(store, store->begin, error);
}

int journal_store_commit(struct journal_store *store, struct error *error) {
    return run(store, store->commit, error);
}

static void bind_bytes(sqlite3_stmt *statement, int column, const void *bytes, size_t size) {
    sqlite3_bind_blob(statement, column, size ? bytes : "", (int)size, SQLITE_STATIC);
}

int journal_store_insert(struct journal_store *store, const struct journal_block *block,
                         struct error *error) {
    sqlite3_stmt *insert = store->insert;
    sqlite3_bind_int64(insert, 1, (sqlite3_int64)block->last);
    sqlite3_bind_int64(insert, 2, (sqlite3_int64)block->count);
    sqlite3_bind_text(insert, 3, block->about, (int)block->about_size, SQLITE_STATIC);
    bind_bytes(insert, 4, block->data, block->data_size);
    sqlite3_bind_int64(insert, 5, journal_block_checksum(block));
    sqlite3_bind_int64(insert, 6, block->kinds);
    return run(store, insert, error);
}

int journal_store_stream(struct journal_store *store, const struct journal_record *record,
                         bool *added, struct error *error) {
    sqlite3_stmt *const statements[] = {store->update_stream, store->insert_stream};
    *added = false;
    for (size_t n = 0; n < 2; n++) {
        bind_bytes(statements[n], 1, record->key, record->key_size);
        sqlite3_bind_int64(statements[n], 2, record->epoch);
        sqlite3_bind_int64(statements[n], 3, (sqlite3_int64)record->sequence);
        sqlite3_bind_int64(statements[n], 4, (sqlite3_int64)record->position);
        sqlite3_bind_int64(statements[n], 5, journal_stream_checksum(record, JOURNAL_FORMAT));
        sqlite3_bind_int64(statements[n], 6, (sqlite3_int64)record->producer);
        sqlite3_bind_int64(statements[n], 7, (sqlite3_int64)record->time);
        if (run(store, statements[n], error))
            return -1;
        if (sqlite3_changes(store->file) > 0)
            break;
        *added = true;
    }
    return 0;
}

int journal_store_place(struct journal_store *store, const char *name,
                        const struct journal_place *place, struct error *error) {
    sqlite3_stmt *put = store->place;
    sqlite3_bind_text(put, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(put, 2, place->epoch);
    sqlite3_bind_int64(put, 3, (sqlite3_int64)place->sequence);
    sqlite3_bind_int64(put, 4, (sqlite3_int64)place->count);
    sqlite3_bind_int64(put, 5, (sqlite3_int64)place->position);
    sqlite3_bind_int64(put, 6, journal_place_checksum(name, place));
    return run(store, put, error);
}

int journal_store_forget(struct journal_store *store, const char *key, size_t key_size,
                         uint64_t *removed, struct error *error) {
    bind_bytes(store->delete_stream, 1, key, key_size);
    if (run(store, store->delete_stream, error))
        return -1;
    *removed = (uint64_t)sqlite3_changes(store->file);
    return 0;
}

/* Deletes in the order of use: the oldest positions first. */
int journal_store_expire(struct journal_store *store, uint64_t most, int64_t before,
                         uint64_t *removed, struct error *error) {
    sqlite3_bind_int64(store->expire, 1, (sqlite3_int64)most);
    sqlite3_bind_int64(store->expire, 2, before);
    if (run(store, store->expire, error))
        return -1;
    *removed = (uint64_t)sqlite3_changes(store->file);
    return 0;
}

int journal_store_totals(struct journal_store *store, const struct journal_totals *totals,
                         struct error *error) {
    sqlite3_stmt *update = store->totals;
    sqlite3_bind_text(update, 1, totals->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(update, 2, totals->digest, -1, SQLITE_STATIC);
    sqlite3_bind_text(update, 3, journal_sync_words[totals->sync], -1, SQLITE_STATIC);
    sqlite3_bind_int64(update, 4, (sqlite3_int64)totals->oldest);
    sqlite3_bind_int64(update, 5, (sqlite3_int64)totals->newest);
    sqlite3_bind_int64(update, 6, (sqlite3_int64)totals->streams);
    sqlite3_bind_int64(update, 7, journal_totals_checksum(totals));
    return run(store, update, error);
}

static int number_of(struct journal_store *store, sqlite3_stmt *statement, uint64_t *number,
                     struct error *error) {
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *number = (uint64_t)sqlite3_column_int64(statement, 0);
    else
        read_error(store, error);
    sqlite3_reset(statement);
    return code == SQLITE_ROW ? 0 : -1;
}

int journal_store_prune(struct journal_store *store, uint64_t position, uint64_t *pruned,
                        struct error *error) {
    sqlite3_bind_int64(store->prunable, 1, (sqlite3_int64)position);
    sqlite3_bind_int64(store->prune, 1, (sqlite3_int64)position);
    if (number_of(store, store->prunable, pruned, error))
        return -1;
    return *pruned ? run(store, store->prune, error) : 0;
}

int journal_store_used(struct journal_store *store, uint64_t *bytes, struct error *error) {
    enum { PAGE_SIZE = 4096 };
    uint64_t pages, free_pages;
    if (number_of(store, store->pages, &pages, error) ||
        number_of(store, store->free_pages, &free_pages, error))
        return -1;
    *bytes = (pages - free_pages) * PAGE_SIZE;
    return 0;
}

/* Syncs both files, except with JOURNAL_OFF. */
static int move_log(struct journal_store *store, struct error *error) {
    int code = sqlite3_wal_checkpoint_v2(store->file, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY ? 0 : write_error(store, error);
}

/* Empties the log, which still contains an unfinished transaction: the next write would overwrite
   only a part of it. Does nothing while another program reads. */
static int cut_log(struct journal_store *store, struct error *error) {
    sqlite3_busy_timeout(store->file, 0);
    int code = sqlite3_wal_checkpoint_v2(store->file, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(store->file, JOURNAL_BUSY_MS);
    return code == SQLITE_OK || code == SQLITE_BUSY ? 0 : write_error(store, error);
}

/* While another program reads, the log can only grow: does not try again at every commit. */
int journal_store_move_log(struct journal_store *store, struct error *error) {
    if (store->log_frames < store->log_tried)
        store->log_tried = 0;
    if (store->log_frames - store->log_tried < LOG_FRAMES_MAX)
        return 0;
    store->log_tried = store->log_frames;
    return move_log(store, error);
}

/* ---- Files of earlier formats ----

   Format 2 has no producers: its numbers become those of producer 0, which its senders now use.
   Before format 4 all commands had one kind: blocks with commands are written again with their
   kinds. */

/* stream_crc(key, producer, epoch, sequence, position, time) computes the checksum of a current
   row. */
static void stream_crc(sqlite3_context *context, int count, sqlite3_value **row) {
    const void *key = sqlite3_value_blob(row[0]);
    assert(count == 6);
    const struct journal_record record = {
        .key = key ? key : "",
        .key_size = (size_t)sqlite3_value_bytes(row[0]),
        .producer = (uint64_t)sqlite3_value_int64(row[1]),
        .epoch = (uint32_t)sqlite3_value_int64(row[2]),
        .sequence = (uint64_t)sqlite3_value_int64(row[3]),
        .position = (uint64_t)sqlite3_value_int64(row[4]),
        .time = (double)sqlite3_value_int64(row[5]),
    };
    sqlite3_result_int64(context, journal_stream_checksum(&record, JOURNAL_FORMAT));
}

static char *streams_sql(void) {
    /* The time of the last use is unknown: ages start now, with the same second for rows and
       checksums. */
    const sqlite3_int64 now = (sqlite3_int64)clock_unix();
    return sqlite3_mprintf("ALTER TABLE streams RENAME TO streams_before;"
                           "%s"
                           "INSERT INTO streams SELECT key, 0, epoch, sequence, position, %lld,"
                           " stream_crc(key, 0, epoch, sequence, position, %lld)"
                           " FROM streams_before;"
                           "DROP TABLE streams_before;",
                           journal_streams, now, now);
}

/* Writes the text of an entry with its kind, which follows "[TIME,". Returns its end. */
static char *put_entry(char *to, const char *text, const char *end, unsigned kind) {
    const char *digit = memchr(text + 2, ',', (size_t)(end - text - 2));
    size_t before = (size_t)(++digit - text);
    memcpy(to, text, before);
    to += before + (size_t)sprintf(to + before, "%u", kind);
    size_t rest = (size_t)(end - digit - 1);
    memcpy(to, digit + 1, rest);
    return to + rest;
}

/* Returns `about` of the block with the kinds of its commands, to be freed. NULL: no commands,
   damaged, which a replay reports, or out of memory (*no_memory). */
static char *put_kinds(struct journal_block *block, bool *no_memory) {
    enum { DIGITS = 2 }; /* additional bytes of a kind and a list's end */
    struct journal_unpacker unpacker;
    struct journal_record record;
    char *about = malloc(block->about_size + DIGITS * block->count + DIGITS), *end = about;
    int got = -1;
    *no_memory = !about;
    journal_unpacker_begin(&unpacker, block);
    for (const char *text; about && (text = unpacker.next) &&
                           (got = journal_unpacker_next(&unpacker, &record)) == 1;) {
        unsigned kind = record.kind;
        if (kind == JOURNAL_COMMAND)
            kind = journal_command_kind(record.x, record.x_size);
        block->kinds |= 1u << kind;
        end = put_entry(end, text, unpacker.next, kind);
    }
    if (got || unpacker.kinds == 1u << JOURNAL_EXAMPLE) {
        free(about);
        return NULL;
    }
    *end++ = ']';
    block->about = about;
    block->about_size = (size_t)(end - about);
    return about;
}

enum answer { ABOUT, CRC, KINDS };

/* block_about, block_crc, block_kinds(last, count, about, data, crc) return the new values of the
   row; NULL: unchanged. */
static void block_answer(sqlite3_context *context, int count, sqlite3_value **row) {
    const enum answer *answer = sqlite3_user_data(context);
    struct journal_block block = {
        .last = (uint64_t)sqlite3_value_int64(row[JOURNAL_LAST]),
        .count = (size_t)sqlite3_value_int64(row[JOURNAL_COUNT]),
        .about = (const char *)sqlite3_value_text(row[JOURNAL_ABOUT]),
        .about_size = (size_t)sqlite3_value_bytes(row[JOURNAL_ABOUT]),
        .data = sqlite3_value_blob(row[JOURNAL_DATA]),
        .data_size = (size_t)sqlite3_value_bytes(row[JOURNAL_DATA]),
    };
    bool no_memory = false;
    assert(count == JOURNAL_CRC + 1);
    if (!block.about || block.count > block.about_size ||
        sqlite3_value_int64(row[JOURNAL_CRC]) != journal_block_checksum(&block))
        return;
    char *about = put_kinds(&block, &no_memory);
    if (no_memory)
        sqlite3_result_error_nomem(context);
    else if (about && *answer == ABOUT)
        sqlite3_result_text(context, about, (int)block.about_size, SQLITE_TRANSIENT);
    else if (about)
        sqlite3_result_int64(context,
                             *answer == CRC ? journal_block_checksum(&block) : block.kinds);
    free(about);
}

#define ROW "(" JOURNAL_BLOCK_COLUMNS_OLDEST ")"
static const char KINDS_SQL[] =
    "ALTER TABLE blocks ADD COLUMN kinds INTEGER NOT NULL DEFAULT " JOURNAL_ONLY_EXAMPLES ";"
    "UPDATE blocks SET about = block_about" ROW ", crc = block_crc" ROW ", kinds = block_kinds" ROW
    " WHERE block_kinds" ROW " NOT NULL;";

static void create_functions(sqlite3 *file) {
    static const enum answer answers[] = {ABOUT, CRC, KINDS};
    static const char *const names[] = {"block_about", "block_crc", "block_kinds"};
    sqlite3_create_function_v2(file, "stream_crc", 6, SQLITE_UTF8, NULL, stream_crc, NULL, NULL,
                               NULL);
    for (size_t n = 0; n < sizeof answers / sizeof *answers; n++)
        sqlite3_create_function_v2(file, names[n], JOURNAL_CRC + 1, SQLITE_UTF8,
                                   (void *)&answers[n], block_answer, NULL, NULL, NULL);
}

int journal_migrate(struct journal_store *store, struct error *error) {
    bool producers = store->format >= JOURNAL_FORMAT_PRODUCERS;
    char *streams = producers ? sqlite3_mprintf("") : streams_sql();
    char *sql = streams ? sqlite3_mprintf("BEGIN IMMEDIATE; %s %s %s DROP VIEW entries; %s;"
                                          "PRAGMA user_version = %d; COMMIT;",
                                          streams, KINDS_SQL, journal_commands, journal_view,
                                          JOURNAL_FORMAT)
                        : NULL;
    create_functions(store->file);
    int code = sql ? sqlite3_exec(store->file, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(streams);
    sqlite3_free(sql);
    if (code != SQLITE_OK)
        return journal_sql_error(error, store->file, store->path,
                                 "migrated to the format of this version");
    log_info("migrated the journal %s from format %d to format %d", store->path, store->format,
             JOURNAL_FORMAT);
    store->format = JOURNAL_FORMAT;
    return 0;
}

/* ---- Places of partitions ---- */

static int read_place(sqlite3_stmt *row, const char *path, journal_visit_place *visit,
                      void *context, struct error *error) {
    const char *name = (const char *)sqlite3_column_text(row, 0);
    const struct journal_place place = {.epoch = (uint32_t)sqlite3_column_int64(row, 1),
                                        .sequence = (uint64_t)sqlite3_column_int64(row, 2),
                                        .count = (uint64_t)sqlite3_column_int64(row, 3),
                                        .position = (uint64_t)sqlite3_column_int64(row, 4)};
    if (name && place.position > 0 &&
        sqlite3_column_int64(row, 5) == journal_place_checksum(name, &place))
        return visit(context, name, &place, error);
    return journal_damaged(error, path, "invalid places of its partitions");
}

/* Returns 1 if the table exists, 0 if not, or -1. */
static int has_table(struct journal_store *store, struct error *error) {
    sqlite3_stmt *look;
    if (sqlite3_prepare_v2(store->file,
                           "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'places'",
                           -1, &look, NULL) != SQLITE_OK)
        return read_error(store, error);
    int code = sqlite3_step(look), has = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        has = read_error(store, error);
    sqlite3_finalize(look);
    return has;
}

static int read_places(struct journal_store *store, journal_visit_place *visit, void *context,
                       struct error *error) {
    sqlite3_stmt *row;
    int status = 0, code;
    if (sqlite3_prepare_v2(store->file,
                           "SELECT partition, epoch, sequence, count, position, crc FROM places "
                           "ORDER BY partition",
                           -1, &row, NULL) != SQLITE_OK)
        return read_error(store, error);
    while (!status && (code = sqlite3_step(row)) == SQLITE_ROW)
        status = read_place(row, store->path, visit, context, error);
    if (!status && code != SQLITE_DONE)
        status = read_error(store, error);
    sqlite3_finalize(row);
    return status;
}

int journal_store_places(struct journal_store *store, bool wanted, journal_visit_place *visit,
                         void *context, struct error *error) {
    int has = has_table(store, error);
    if (has < 0 || (has && read_places(store, visit, context, error)))
        return -1;
    if (!wanted)
        return 0;
    if (!has && sqlite3_exec(store->file, journal_places, NULL, NULL, NULL) != SQLITE_OK)
        return write_error(store, error);
    return sqlite3_prepare_v3(store->file,
                              "INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?, ?, ?)", -1,
                              SQLITE_PREPARE_PERSISTENT, &store->place, NULL) == SQLITE_OK
               ? 0
               : journal_sql_error(error, store->file, store->path, "opened");
}

/* ---- Opening ---- */

static int count_frames(void *context, sqlite3 *file, const char *database, int frames) {
    (void)file;
    (void)database;
    ((struct journal_store *)context)->log_frames = frames;
    return SQLITE_OK;
}

static int execute(struct journal_store *store, const char *sql, struct error *error) {
    if (sqlite3_exec(store->file, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return journal_sql_error(error, store->file, store->path, "opened");
}

static int pragma_is(struct journal_store *store, const char *sql, const char *value, bool *is,
                     struct error *error) {
    sqlite3_stmt *statement;
    *is = false;
    if (sqlite3_prepare_v2(store->file, sql, -1, &statement, NULL) != SQLITE_OK)
        return journal_sql_error(error, store->file, store->path, "opened");
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *is = !strcmp((const char *)sqlite3_column_text(statement, 0), value);
    else
        journal_sql_error(error, store->file, store->path, "opened");
    sqlite3_finalize(statement);
    return code == SQLITE_ROW ? 0 : -1;
}

static int connect_to(struct journal_store *store, const char *path, struct error *error) {
    *store = (struct journal_store){.path = path};
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (database_open(&store->file, path, flags, NULL) != SQLITE_OK)
        return journal_sql_error(error, store->file, path, "opened");
    sqlite3_extended_result_codes(store->file, 1);
    sqlite3_busy_timeout(store->file, JOURNAL_BUSY_MS);
    return 0;
}

/* Checks whether the file is a journal of a known format. */
static int check_format(struct journal_store *store, struct error *error) {
    bool ours, known = false;
    char id[16], format[16];
    snprintf(id, sizeof id, "%d", JOURNAL_ID);
    if (pragma_is(store, "PRAGMA application_id", id, &ours, error))
        return -1;
    for (int n = JOURNAL_FORMAT_OLDEST; n <= JOURNAL_FORMAT && !known; n++) {
        snprintf(format, sizeof format, "%d", n);
        if (pragma_is(store, "PRAGMA user_version", format, &known, error))
            return -1;
        store->format = n;
    }
    if (!ours)
        return journal_damaged(error, store->path, "it is an SQLite file, but not a journal");
    if (!known)
        return error_set(error, EX_CONFIG,
                         "the journal %s has an unknown format of another version of runneld: "
                         "continue with that version, or set another state.directory",
                         store->path);
    return 0;
}

int journal_store_open(struct journal_store *store, const char *path, enum journal_sync sync,
                       struct error *error) {
    char settings[512];
    bool logged;
    if (connect_to(store, path, error))
        return -1;
    sqlite3_db_config(store->file, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    snprintf(settings, sizeof settings,
             "PRAGMA cell_size_check = ON; PRAGMA synchronous = %s; PRAGMA secure_delete = OFF;"
             "PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -%d;"
             "PRAGMA journal_size_limit = %d;",
             journal_sync_words[sync], CACHE_KIB, LOG_BYTES_KEPT);
    if (execute(store, settings, error) || check_format(store, error) ||
        pragma_is(store, "PRAGMA journal_mode = WAL", "wal", &logged, error))
        return -1;
    if (!logged)
        return error_set(
            error, EX_IOERR,
            "the journal %s cannot be opened: its filesystem does not support shared memory, which "
            "SQLite's write-ahead log requires; set a local directory with "
            "state.directory",
            path);
    sqlite3_wal_hook(store->file, count_frames, store);
    return 0;
}

int journal_store_prepare(struct journal_store *store, bool torn, struct error *error) {
    const struct {
        sqlite3_stmt **statement;
        const char *sql;
    } statements[] = {
        {&store->begin, "BEGIN IMMEDIATE"},
        {&store->commit, "COMMIT"},
        {&store->insert, "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?)"},
        {&store->update_stream, "UPDATE streams SET epoch = ?2, sequence = ?3, position = ?4, "
                                "time = ?7, crc = ?5 WHERE key = ?1 AND producer = ?6"},
        {&store->insert_stream, "INSERT INTO streams VALUES (?1, ?6, ?2, ?3, ?4, ?7, ?5)"},
        {&store->delete_stream, "DELETE FROM streams WHERE key = ?"},
        {&store->expire, "DELETE FROM streams WHERE (key, producer) IN (SELECT key, producer "
                         "FROM streams ORDER BY position LIMIT ?1) AND time < ?2"},
        {&store->prunable, "SELECT max(last) FROM blocks WHERE last <= ?"},
        {&store->prune, "DELETE FROM blocks WHERE last <= ?"},
        {&store->totals, TOTALS},
        {&store->pages, "PRAGMA page_count"},
        {&store->free_pages, "PRAGMA freelist_count"},
    };
    /* The last process, if it was killed or its sync failed, can have left data that was never
       synced. The data is about to become durable. */
    sqlite3_db_config(store->file, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    if (move_log(store, error) || (torn && cut_log(store, error)) ||
        (store->format != JOURNAL_FORMAT && journal_migrate(store, error)))
        return -1;
    for (size_t n = 0; n < sizeof statements / sizeof *statements; n++)
        if (sqlite3_prepare_v3(store->file, statements[n].sql, -1, SQLITE_PREPARE_PERSISTENT,
                               statements[n].statement, NULL) != SQLITE_OK)
            return journal_sql_error(error, store->file, store->path, "opened");
    return 0;
}

void journal_store_close(struct journal_store *store, bool failed) {
    for (sqlite3_stmt *left; store->file && (left = sqlite3_next_stmt(store->file, NULL));)
        sqlite3_finalize(left);
    if (store->file && failed)
        sqlite3_db_config(store->file, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(store->file);
    *store = (struct journal_store){.file = NULL};
}

/* ---- Creating ---- */

static int fill(const char *path, const struct journal_totals *totals, struct error *error) {
    struct journal_store store;
    char settings[128];
    int status = -1;
    snprintf(settings, sizeof settings,
             "PRAGMA synchronous = FULL; PRAGMA page_size = 4096; PRAGMA application_id = %d;"
             "PRAGMA user_version = %d;",
             JOURNAL_ID, JOURNAL_FORMAT);
    if (!connect_to(&store, path, error) && !execute(&store, settings, error) &&
        !execute(&store, journal_tables, error) && !execute(&store, journal_streams, error) &&
        !execute(&store, journal_commands, error) && !execute(&store, journal_view, error)) {
        if (sqlite3_prepare_v2(store.file, TOTALS, -1, &store.totals, NULL) == SQLITE_OK)
            status = journal_store_totals(&store, totals, error);
        else
            journal_sql_error(error, store.file, path, "written");
    }
    journal_store_close(&store, false);
    return status;
}

static int make(const char *temporary, const char *path, const struct journal_totals *totals,
                struct error *error) {
    static const char *const companions[] = {"", "-journal", "-wal", "-shm"};
    char name[2 * JOURNAL_PATH_SIZE];
    for (size_t n = 0; n < sizeof companions / sizeof *companions; n++) {
        snprintf(name, sizeof name, "%s%s", temporary, companions[n]);
        unlink(name);
    }
    int file = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (file < 0 || close(file))
        return error_set(error, EX_IOERR, "the journal %s cannot be created: %s", path,
                         strerror(errno));
    if (fill(temporary, totals, error))
        return -1;
    if (rename(temporary, path) || sync_directory_of(path))
        return error_set(error, EX_IOERR, "the journal %s cannot be created: %s", path,
                         strerror(errno));
    return 0;
}

int journal_store_find(const char *path, bool *is_new, struct error *error) {
    char log[JOURNAL_PATH_SIZE + 8];
    struct stat left;
    *is_new = access(path, F_OK) != 0;
    snprintf(log, sizeof log, "%s-wal", path);
    if (*is_new && stat(log, &left) == 0 && left.st_size > 0)
        return journal_damaged(error, path, "missing file, although its write-ahead log %s exists",
                               log);
    return 0;
}

int journal_store_create(const char *path, const struct journal_totals *totals,
                         struct error *error) {
    char temporary[JOURNAL_PATH_SIZE + 8];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    int status = make(temporary, path, totals, error);
    if (status)
        unlink(temporary);
    return status;
}

/* ---- The names ---- */

/* Returns 0 and the file's identity; -1: not found. Does not read the file's times as stat does:
   since Linux 6.13 the next write would change them, and every sync of the log its inode. Old
   seccomp filters deny statx, although the file exists. */
static int identify(const char *path, struct journal_identity *identity) {
    struct statx file;
    struct stat all;
    if (statx(AT_FDCWD, path, 0, STATX_INO, &file) == 0)
        *identity = (struct journal_identity){makedev(file.stx_dev_major, file.stx_dev_minor),
                                              (ino_t)file.stx_ino};
    else if (stat(path, &all) == 0)
        *identity = (struct journal_identity){all.st_dev, all.st_ino};
    else
        return -1;
    return 0;
}

static void log_path(const struct journal_store *store, char path[JOURNAL_PATH_SIZE + 8]) {
    snprintf(path, JOURNAL_PATH_SIZE + 8, "%s-wal", store->path);
}

int journal_store_identify(struct journal_store *store, struct error *error) {
    char path[JOURNAL_PATH_SIZE + 8];
    log_path(store, path);
    if (identify(store->path, &store->file_identity) || identify(path, &store->log_identity))
        return error_set(error, EX_IOERR, "the journal %s or its write-ahead log was not found",
                         store->path);
    return 0;
}

enum found { FOUND, REMOVED, REPLACED };

static enum found find(const char *path, const struct journal_identity *opened) {
    struct journal_identity now;
    if (identify(path, &now))
        return REMOVED;
    return now.device == opened->device && now.inode == opened->inode ? FOUND : REPLACED;
}

static int look(const char *path, const struct journal_identity *opened, struct error *error) {
    enum found found = find(path, opened);
    if (found == FOUND)
        return 0;
    return error_set(error, EX_IOERR,
                     "%s was %s while the daemon ran: no more examples are accepted", path,
                     found == REMOVED ? "removed" : "replaced");
}

bool journal_store_is_removed(const struct journal_store *store) {
    char path[JOURNAL_PATH_SIZE + 8];
    log_path(store, path);
    enum found file = find(store->path, &store->file_identity);
    enum found log = find(path, &store->log_identity);
    return file != REPLACED && log != REPLACED && (file == REMOVED || log == REMOVED);
}

int journal_store_look(const struct journal_store *store, struct error *error) {
    char path[JOURNAL_PATH_SIZE + 8];
    log_path(store, path);
    return look(store->path, &store->file_identity, error) ||
                   look(path, &store->log_identity, error)
               ? -1
               : 0;
}

int journal_sync_log(sqlite3 *file, const char *path, struct error *error) {
    sqlite3_file *log = NULL;
    sqlite3_file_control(file, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods && log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) == SQLITE_OK)
        return 0;
    return error_set(error, EX_IOERR, "the write-ahead log of the journal %s cannot be synced",
                     path);
}

/* ---- Writing a file again that has lost its name ----

   The open file still has every byte, until the process ends. */

static int save_error(const struct journal_store *store, int reason, struct error *error) {
    return error_set(error, EX_IOERR, "the journal %s cannot be written again: %s", store->path,
                     strerror(reason));
}

/* Creates an empty file: SQLite would use another mode. */
static int make_empty(const struct journal_store *store, const char *path, struct error *error) {
    unlink(path);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    return file < 0 || close(file) ? save_error(store, errno, error) : 0;
}

static int copy_to(struct journal_store *store, const char *path, struct error *error) {
    sqlite3 *file = store->file;
    sqlite3_stmt *copy = NULL;
    if (make_empty(store, path, error))
        return -1;
    int code = sqlite3_prepare_v2(file, "VACUUM INTO ?", -1, &copy, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_text(copy, 1, path, -1, SQLITE_STATIC);
        code = sqlite3_step(copy);
    }
    if (code != SQLITE_DONE)
        journal_sql_error(error, file, store->path, "written again");
    sqlite3_finalize(copy);
    return code == SQLITE_DONE ? 0 : -1;
}

static int sync_file(const struct journal_store *store, const char *path, struct error *error) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int status = file < 0 ? -1 : fsync(file), reason = errno;
    if (file >= 0)
        close(file);
    return status ? save_error(store, reason, error) : 0;
}

/* Log and index belong to the removed file: SQLite would apply them to the new one. */
static int replace_name(const struct journal_store *store, const char *from, struct error *error) {
    static const char *const companions[] = {"-wal", "-shm"};
    char name[JOURNAL_PATH_SIZE + 8];
    for (size_t n = 0; n < sizeof companions / sizeof *companions; n++) {
        snprintf(name, sizeof name, "%s%s", store->path, companions[n]);
        if (unlink(name) && errno != ENOENT)
            return save_error(store, errno, error);
    }
    return rename(from, store->path) || sync_directory_of(store->path)
               ? save_error(store, errno, error)
               : 0;
}

int journal_store_save(struct journal_store *store, struct error *error) {
    char temporary[JOURNAL_PATH_SIZE + 8];
    snprintf(temporary, sizeof temporary, "%s.tmp", store->path);
    if (copy_to(store, temporary, error) || sync_file(store, temporary, error) ||
        replace_name(store, temporary, error)) {
        unlink(temporary);
        return -1;
    }
    return 0;
}
