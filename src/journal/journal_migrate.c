/* Files of earlier formats. Format 2 had no producers: its streams' numbers become those of
   producer 0, which is what its senders are taken for now. Before format 4 all commands had one
   kind: blocks that have commands are written again, with the kinds of these. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "journal_internal.h"

/* ---- Streams ---- */

/* stream_crc(key, producer, epoch, sequence, position, time) of a row as it is written now. */
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
    /* How long ago rows were used is not known: their age counts from now on, one second for rows
       and checksums. */
    const sqlite3_int64 now = (sqlite3_int64)clock_unix();
    return sqlite3_mprintf("ALTER TABLE streams RENAME TO streams_before;"
                           "%s"
                           "INSERT INTO streams SELECT key, 0, epoch, sequence, position, %lld,"
                           " stream_crc(key, 0, epoch, sequence, position, %lld)"
                           " FROM streams_before;"
                           "DROP TABLE streams_before;",
                           journal_streams, now, now);
}

/* ---- Kinds ---- */

/* The text of an entry with its kind, which follows "[TIME,". Returns its end. */
static char *put_entry(char *to, const char *text, const char *end, unsigned kind) {
    const char *digit = memchr(text + 2, ',', (size_t)(end - text - 2));
    size_t before = (size_t)(++digit - text);
    memcpy(to, text, before);
    to += before + (size_t)sprintf(to + before, "%u", kind);
    size_t rest = (size_t)(end - digit - 1);
    memcpy(to, digit + 1, rest);
    return to + rest;
}

/* `about` of the block with the kinds of its commands, to be freed. NULL: it has none, or it is
   damaged, which is for a replay to report, or out of memory (*no_memory). */
static char *put_kinds(struct journal_block *block, bool *no_memory) {
    enum { DIGITS = 2 }; /* that a kind has more at most, and a list's end */
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

/* block_about, block_crc, block_kinds(last, count, about, data, crc): what the row becomes; NULL
   when it stays as it is. */
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

/* ---- The file ---- */

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
                                 "brought to the format of this version");
    log_info("brought the journal %s from format %d to format %d", store->path, store->format,
             JOURNAL_FORMAT);
    store->format = JOURNAL_FORMAT;
    return 0;
}
