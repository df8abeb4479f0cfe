/* How far the partitions of a broker are: a row of the table `places` each, written in the
   transaction of the entries that move it. The table is there only where a broker was read. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "journal_internal.h"

/* ---- Numbers of partitions ---- */

static struct journal_partition *of(const struct journal *journal, uint32_t partition) {
    return journal->partitions[partition - 1];
}

uint32_t journal_partition(struct journal *journal, const char *name) {
    for (uint32_t n = 1; n <= journal->partition_count; n++)
        if (strcmp(of(journal, n)->name, name) == 0)
            return n;
    struct journal_partition *added =
        journal->partition_count < JOURNAL_PARTITIONS && strlen(name) < JOURNAL_PARTITION_NAME
            ? calloc(1, sizeof *added)
            : NULL;
    if (!added)
        return 0;
    strcpy(added->name, name);
    journal->partitions[journal->partition_count] = added; /* records that name it come later */
    return ++journal->partition_count;
}

uint32_t journal_partitions(const struct journal *journal) {
    return journal->partition_count;
}

const char *journal_partition_name(const struct journal *journal, uint32_t partition) {
    return of(journal, partition)->name;
}

bool journal_place(struct journal *journal, uint32_t partition, struct journal_place *place) {
    pthread_mutex_lock(&journal->mutex);
    *place = of(journal, partition)->place;
    pthread_mutex_unlock(&journal->mutex);
    return place->position > 0;
}

/* ---- The journal's thread ---- */

static struct journal_place place_of(const struct journal_record *record) {
    return (struct journal_place){.epoch = record->epoch,
                                  .sequence = record->sequence,
                                  .count = record->count,
                                  .position = record->position};
}

void journal_places_note(struct journal *journal, const struct journal_record *record) {
    struct journal_partition *partition = of(journal, record->partition);
    if (!partition->newest)
        journal->moved[journal->moved_count++] = partition;
    partition->newest = record;
}

int journal_places_write(struct journal *journal, struct error *error) {
    for (size_t n = 0; n < journal->moved_count; n++) {
        const struct journal_place place = place_of(journal->moved[n]->newest);
        if (journal_store_place(&journal->store, journal->moved[n]->name, &place, error))
            return -1;
    }
    return 0;
}

void journal_places_settle(struct journal *journal) {
    for (size_t n = 0; n < journal->moved_count; n++) {
        journal->moved[n]->place = place_of(journal->moved[n]->newest);
        journal->moved[n]->newest = NULL;
    }
    journal->moved_count = 0;
}

/* ---- Opening ---- */

static int read_row(struct journal *journal, sqlite3_stmt *row, struct error *error) {
    const char *name = (const char *)sqlite3_column_text(row, 0);
    const struct journal_place place = {.epoch = (uint32_t)sqlite3_column_int64(row, 1),
                                        .sequence = (uint64_t)sqlite3_column_int64(row, 2),
                                        .count = (uint64_t)sqlite3_column_int64(row, 3),
                                        .position = (uint64_t)sqlite3_column_int64(row, 4)};
    uint32_t partition = name ? journal_partition(journal, name) : 0;
    if (!partition || place.position == 0 || place.position > journal->totals.newest ||
        sqlite3_column_int64(row, 5) != journal_place_checksum(name, &place))
        return journal_damaged(error, journal->path,
                               "the places of its partitions are not what was written");
    of(journal, partition)->place = place;
    return 0;
}

static int prepare(struct journal *journal, const char *sql, sqlite3_stmt **statement,
                   struct error *error) {
    return sqlite3_prepare_v2(journal->store.file, sql, -1, statement, NULL) == SQLITE_OK
               ? 0
               : journal_sql_error(error, journal->store.file, journal->path, "read");
}

/* 1: the table is there; 0; -1. */
static int has_table(struct journal *journal, struct error *error) {
    sqlite3_stmt *look;
    if (prepare(journal, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'places'",
                &look, error))
        return -1;
    int code = sqlite3_step(look), has = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        has = journal_sql_error(error, journal->store.file, journal->path, "read");
    sqlite3_finalize(look);
    return has;
}

static int read_rows(struct journal *journal, struct error *error) {
    sqlite3_stmt *row;
    int status = 0, code;
    if (prepare(journal,
                "SELECT partition, epoch, sequence, count, position, crc FROM places "
                "ORDER BY partition",
                &row, error))
        return -1;
    while (!status && (code = sqlite3_step(row)) == SQLITE_ROW)
        status = read_row(journal, row, error);
    if (!status && code != SQLITE_DONE)
        status = journal_sql_error(error, journal->store.file, journal->path, "read");
    sqlite3_finalize(row);
    return status;
}

int journal_places_open(struct journal *journal, bool wanted, struct error *error) {
    sqlite3 *file = journal->store.file;
    int has = has_table(journal, error);
    if (has < 0 || (has && read_rows(journal, error)))
        return -1;
    if (!wanted)
        return 0;
    if (!has && sqlite3_exec(file, journal_places, NULL, NULL, NULL) != SQLITE_OK)
        return journal_sql_error(error, file, journal->path, "written");
    return sqlite3_prepare_v3(file, "INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?, ?, ?)", -1,
                              SQLITE_PREPARE_PERSISTENT, &journal->store.place, NULL) == SQLITE_OK
               ? 0
               : journal_sql_error(error, file, journal->path, "opened");
}

void journal_places_close(struct journal *journal) {
    for (uint32_t n = 0; n < journal->partition_count; n++)
        free(journal->partitions[n]);
}
