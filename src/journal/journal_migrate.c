/* Files of earlier formats. Format 2 had no producers: its streams' numbers become those of
   producer 0, which is what its senders are taken for now; its blocks stay as they are. */
#include <assert.h>

#include "common/clock.h"
#include "common/log.h"
#include "journal_internal.h"

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

int journal_migrate(struct journal_store *store, struct error *error) {
    assert(store->format == JOURNAL_FORMAT_OLDEST);
    sqlite3_create_function_v2(store->file, "stream_crc", 6, SQLITE_UTF8, NULL, stream_crc, NULL,
                               NULL, NULL);
    /* How long ago rows were used is not known: their age counts from now on, one second for rows
       and checksums. */
    const sqlite3_int64 now = (sqlite3_int64)clock_unix();
    char *sql =
        sqlite3_mprintf("BEGIN IMMEDIATE;"
                        "ALTER TABLE streams RENAME TO streams_before;"
                        "%s"
                        "INSERT INTO streams SELECT key, 0, epoch, sequence, position, %lld,"
                        " stream_crc(key, 0, epoch, sequence, position, %lld)"
                        " FROM streams_before;"
                        "DROP TABLE streams_before; DROP VIEW entries; %s;"
                        "PRAGMA user_version = %d;"
                        "COMMIT;",
                        journal_streams, now, now, journal_view, JOURNAL_FORMAT);
    int code = sql ? sqlite3_exec(store->file, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code != SQLITE_OK)
        return journal_sql_error(error, store->file, store->path,
                                 "brought to the format of this version");
    log_info("brought the journal %s from format %d to format %d", store->path, store->format,
             JOURNAL_FORMAT);
    store->format = JOURNAL_FORMAT;
    return 0;
}
