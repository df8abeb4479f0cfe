#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/database.h"
#include "common/sync.h"
#include "journal_internal.h"

#define CACHE_KIB 4096          /* of pages, a connection */
#define LOG_FRAMES_MAX 250      /* pages, then they go to the file: few: no commit waits long */
#define LOG_BYTES_KEPT 67108864 /* of a log that grew while a reader was busy */

const char *const journal_sync_words[] = {"full", "normal", "off"};

static const char TOTALS[] = "UPDATE journal SET name = ?, digest = ?, sync = ?, oldest = ?, "
                             "newest = ?, streams = ?, crc = ? WHERE id = 1";

/* ---- Errors ---- */

int journal_damaged(struct error *error, const char *path, const char *format, ...) {
    char what[ERROR_TEXT_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return error_set(
        error, EX_IOERR,
        "the journal %s is damaged: %s; restore a whole copy of it, or move it and "
        "%s-wal away to resume from the last checkpoint without what was learned since",
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

/* ---- Checksums ---- */

uint32_t journal_stream_checksum(const struct journal_record *r, int format) {
    enum { NUMBERS_OLDEST = 4 };
    const uint64_t numbers[] = {r->position, r->epoch,    r->sequence,
                                r->key_size, r->producer, (uint64_t)r->time};
    size_t size =
        format >= JOURNAL_FORMAT_PRODUCERS ? sizeof numbers : NUMBERS_OLDEST * sizeof *numbers;
    return journal_checksum(journal_checksum(0, numbers, size), r->key, r->key_size);
}

uint32_t journal_place_checksum(const char *name, const struct journal_place *p) {
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

/* In the order of use: what is deleted first has the lowest positions. */
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
        journal_sql_error(error, store->file, store->path, "read");
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

/* Both are synced, unless with JOURNAL_OFF. */
static int move_log(struct journal_store *store, struct error *error) {
    int code = sqlite3_wal_checkpoint_v2(store->file, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY ? 0 : write_error(store, error);
}

/* Empty the log, for a transaction that is not whole is still in it: what is written next would
   leave some of it standing. While somebody reads, nothing is done. */
static int cut_log(struct journal_store *store, struct error *error) {
    sqlite3_busy_timeout(store->file, 0);
    int code = sqlite3_wal_checkpoint_v2(store->file, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(store->file, JOURNAL_BUSY_MS);
    return code == SQLITE_OK || code == SQLITE_BUSY ? 0 : write_error(store, error);
}

/* While somebody reads, the log may only grow: it is not gone through at every commit. */
int journal_store_move_log(struct journal_store *store, struct error *error) {
    if (store->log_frames < store->log_tried)
        store->log_tried = 0;
    if (store->log_frames - store->log_tried < LOG_FRAMES_MAX)
        return 0;
    store->log_tried = store->log_frames;
    return move_log(store, error);
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

/* Whether the file is a journal, and of this format. */
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
        return journal_damaged(error, store->path, "it is an SQLite file, but no journal");
    if (!known)
        return error_set(
            error, EX_CONFIG,
            "the journal %s was written by another version of runneld, in a format "
            "that this one does not know: continue with that version, or give this one "
            "a directory of its own with state.directory",
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
        return error_set(error, EX_IOERR,
                         "the journal %s cannot be opened: its filesystem has no shared memory, "
                         "which SQLite's write-ahead log needs; give it a local directory with "
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
    /* A process that was killed, or whose sync failed, has left what was never synced, and what is
       there will be called durable. */
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
    enum { FILE_MODE = 0600 };
    static const char *const companions[] = {"", "-journal", "-wal", "-shm"};
    char name[2 * JOURNAL_PATH_SIZE];
    for (size_t n = 0; n < sizeof companions / sizeof *companions; n++) {
        snprintf(name, sizeof name, "%s%s", temporary, companions[n]);
        unlink(name);
    }
    int file = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (file < 0 || close(file))
        return error_set(error, EX_IOERR, "the journal %s cannot be made: %s", path,
                         strerror(errno));
    if (fill(temporary, totals, error))
        return -1;
    if (rename(temporary, path) || sync_directory_of(path))
        return error_set(error, EX_IOERR, "the journal %s cannot be made: %s", path,
                         strerror(errno));
    return 0;
}

int journal_store_find(const char *path, bool *is_new, struct error *error) {
    char log[JOURNAL_PATH_SIZE + 8];
    struct stat left;
    *is_new = access(path, F_OK) != 0;
    snprintf(log, sizeof log, "%s-wal", path);
    if (*is_new && stat(log, &left) == 0 && left.st_size > 0)
        return journal_damaged(error, path, "it is missing, but its write-ahead log %s is there",
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
