/* The journal's file: its tables and statements, its checksums, files of earlier formats, and
   whether its names still lead to it. The journal's thread writes through it. */
#ifndef RUNNEL_JOURNAL_STORE_H
#define RUNNEL_JOURNAL_STORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"
#include "journal.h"
#include "journal_block.h"

enum {
    JOURNAL_PATH_SIZE = CONFIG_PATH_SIZE + 64,
    JOURNAL_BUSY_MS = 10000, /* that another program's write may take; none should write at all */
};

/* The one row of the table `journal`. */
struct journal_totals {
    char name[CONFIG_NAME_SIZE];
    char digest[CONFIG_DIGEST_SIZE];
    enum journal_sync sync; /* in effect when it was last written to */
    uint64_t oldest;        /* newest + 1 when there are no entries */
    uint64_t newest;
    uint64_t streams; /* rows of the table `streams` */
};

/* What a name leads to. */
struct journal_identity {
    dev_t device;
    ino_t inode;
};

/* The writing connection and its statements. */
struct journal_store {
    const char *path;
    sqlite3 *file;
    int format; /* of the file, until journal_store_prepare has made it JOURNAL_FORMAT */
    sqlite3_stmt *begin, *commit, *insert, *update_stream, *insert_stream, *delete_stream, *expire,
        *prunable, *prune, *totals, *place;
    sqlite3_stmt *pages, *free_pages;
    int log_frames; /* in the write-ahead log, as of the last commit */
    int log_tried;  /* likewise, as it was last moved into the file */
    struct journal_identity file_identity, log_identity; /* as they were opened */
};

/* The statements that make tables, */
extern const char journal_tables[];
extern const char journal_streams[];  /* that of streams apart, with its index, */
extern const char journal_commands[]; /* the index of blocks with commands, */
extern const char journal_view[];     /* and the view */

extern const char *const journal_sync_words[];

/* Whether there is a file to open, or one to create: not beside what another has left. */
int journal_store_find(const char *path, bool *is_new, struct error *error);

/* Create the file so that it has its name only when it is whole. */
int journal_store_create(const char *path, const struct journal_totals *totals,
                         struct error *error);

/* Open the file for writing; nothing in it has been looked at but its format. The log is kept as it
   is, even by journal_store_close, until journal_store_prepare, which cuts off a `torn` transaction
   and brings a file of an earlier format to today's. */
int journal_store_open(struct journal_store *store, const char *path, enum journal_sync sync,
                       struct error *error);
int journal_store_prepare(struct journal_store *store, bool torn, struct error *error);
void journal_store_close(struct journal_store *store, bool failed);

int journal_store_begin(struct journal_store *store, struct error *error);
int journal_store_commit(struct journal_store *store, struct error *error);
int journal_store_insert(struct journal_store *store, const struct journal_block *block,
                         struct error *error);

/* Update the stream's row; `added` says that there was none. */
int journal_store_stream(struct journal_store *store, const struct journal_record *record,
                         bool *added, struct error *error);

/* Write a partition's row. */
int journal_store_place(struct journal_store *store, const char *name,
                        const struct journal_place *place, struct error *error);

/* Delete all that is kept of the stream's numbers; `*removed` becomes the rows that there were. */
int journal_store_forget(struct journal_store *store, const char *key, size_t key_size,
                         uint64_t *removed, struct error *error);

/* Of the `most` rows of streams whose newest examples are the oldest, delete those from before the
   Unix time `before`; `*removed` becomes how many. */
int journal_store_expire(struct journal_store *store, uint64_t most, int64_t before,
                         uint64_t *removed, struct error *error);

/* Delete the blocks that end at a position or before it; `*pruned` becomes the position of the last
   entry deleted, 0 when there was none. */
int journal_store_prune(struct journal_store *store, uint64_t position, uint64_t *pruned,
                        struct error *error);
int journal_store_totals(struct journal_store *store, const struct journal_totals *totals,
                         struct error *error);

/* Bytes of pages that hold something. */
int journal_store_used(struct journal_store *store, uint64_t *bytes, struct error *error);

/* Move the log into the file if it has grown long. */
int journal_store_move_log(struct journal_store *store, struct error *error);

/* The sentence of a failed call on `file`: damage (EX_IOERR, with the way out) or an error of the
   disk. `doing`: "written". Returns -1. */
int journal_sql_error(struct error *error, sqlite3 *file, const char *path, const char *doing);

/* Damage: "FILE is damaged: WHAT; ..." with the way out. Returns -1. */
int journal_damaged(struct error *error, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

uint32_t journal_totals_checksum(const struct journal_totals *totals);
uint32_t journal_stream_checksum(const struct journal_record *record, int format);

/* Bring the file to JOURNAL_FORMAT, in one transaction: what is killed meanwhile leaves the file as
   it was. */
int journal_migrate(struct journal_store *store, struct error *error);

/* Sync the log of either connection, which commits do not with JOURNAL_NORMAL. */
int journal_sync_log(sqlite3 *file, const char *path, struct error *error);

/* Read the rows of the table of places, one call a row, -1 ends them: the table is there only where
   a broker was read. Make it if there is none and `wanted`. */
typedef int journal_visit_place(void *context, const char *name, const struct journal_place *place,
                                struct error *error);
int journal_store_places(struct journal_store *store, bool wanted, journal_visit_place *visit,
                         void *context, struct error *error);

/* Note which files the names lead to; then, from any thread, whether they still do: a file that was
   removed or replaced takes every byte that is written to it, and gives none back. */
int journal_store_identify(struct journal_store *store, struct error *error);
int journal_store_look(const struct journal_store *store, struct error *error);
bool journal_store_is_removed(const struct journal_store *store);

/* Write the file again, which has lost its name. */
int journal_store_save(struct journal_store *store, struct error *error);

#endif
