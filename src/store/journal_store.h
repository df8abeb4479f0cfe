/* The journal's file: its tables and statements, checksums, and files of earlier formats; checks
   that its names still refer to it. The journal's thread writes with it. */
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
    JOURNAL_BUSY_MS = 10000, /* timeout for another program's write; none should write at all */
};

/* The one row of the table `journal`. */
struct journal_totals {
    char name[CONFIG_NAME_SIZE];
    char digest[CONFIG_DIGEST_SIZE];
    enum journal_sync sync; /* setting of the last write */
    uint64_t oldest;        /* newest + 1 without entries */
    uint64_t newest;
    uint64_t streams; /* rows of the table `streams` */
};

/* The file that a name refers to. */
struct journal_identity {
    dev_t device;
    ino_t inode;
};

/* The writing connection and its statements. */
struct journal_store {
    const char *path;
    sqlite3 *file;
    int format; /* the file's format; journal_store_prepare makes it JOURNAL_FORMAT */
    sqlite3_stmt *begin, *commit, *insert, *update_stream, *insert_stream, *delete_stream, *expire,
        *prunable, *prune, *totals, *place;
    sqlite3_stmt *pages, *free_pages;
    int log_frames; /* pages in the write-ahead log after the last commit */
    int log_tried;  /* log_frames when the log was last moved into the file */
    struct journal_identity file_identity, log_identity; /* identities of the opened files */
};

/* The statements that create the tables. */
extern const char journal_tables[];
extern const char journal_streams[];  /* the table of streams with its index */
extern const char journal_commands[]; /* the index of blocks with commands */
extern const char journal_view[];     /* the view */

extern const char *const journal_sync_words[];

/* Checks whether the file exists or must be created; refuses to create one next to a leftover
   log. */
int journal_store_find(const char *path, bool *is_new, struct error *error);

/* Creates the file; it gets its name only when it is complete. */
int journal_store_create(const char *path, const struct journal_totals *totals,
                         struct error *error);

/* journal_store_open opens the file for writing and checks only its format. The log stays
   unchanged, even by journal_store_close, until journal_store_prepare. That cuts off a `torn`
   transaction and migrates a file of an earlier format. */
int journal_store_open(struct journal_store *store, const char *path, enum journal_sync sync,
                       struct error *error);
int journal_store_prepare(struct journal_store *store, bool torn, struct error *error);
void journal_store_close(struct journal_store *store, bool failed);

int journal_store_begin(struct journal_store *store, struct error *error);
int journal_store_commit(struct journal_store *store, struct error *error);
int journal_store_insert(struct journal_store *store, const struct journal_block *block,
                         struct error *error);

/* Updates the stream's row; `added` returns whether it is new. */
int journal_store_stream(struct journal_store *store, const struct journal_record *record,
                         bool *added, struct error *error);

/* Writes a partition's row. */
int journal_store_place(struct journal_store *store, const char *name,
                        const struct journal_place *place, struct error *error);

/* Deletes the stream's numbers; `*removed` returns the number of rows. */
int journal_store_forget(struct journal_store *store, const char *key, size_t key_size,
                         uint64_t *removed, struct error *error);

/* Deletes rows of streams older than the Unix time `before`, among the `most` rows with the oldest
   examples; `*removed` returns their number. */
int journal_store_expire(struct journal_store *store, uint64_t most, int64_t before,
                         uint64_t *removed, struct error *error);

/* Deletes the blocks that end at or before a position; `*pruned` returns the position of the last
   entry deleted, 0 = none. */
int journal_store_prune(struct journal_store *store, uint64_t position, uint64_t *pruned,
                        struct error *error);
int journal_store_totals(struct journal_store *store, const struct journal_totals *totals,
                         struct error *error);

/* Returns the bytes of used pages. */
int journal_store_used(struct journal_store *store, uint64_t *bytes, struct error *error);

/* Moves a long log into the file. */
int journal_store_move_log(struct journal_store *store, struct error *error);

/* Reports a failed call on `file`: damage (EX_IOERR, with the way out) or a disk error. `doing`:
   "written". Returns -1. */
int journal_sql_error(struct error *error, sqlite3 *file, const char *path, const char *doing);

/* Reports damage: "FILE is damaged: WHAT; ..." with the way out. Returns -1. */
int journal_damaged(struct error *error, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

uint32_t journal_totals_checksum(const struct journal_totals *totals);
uint32_t journal_stream_checksum(const struct journal_record *record, int format);

/* Migrates the file to JOURNAL_FORMAT in one transaction: a kill leaves it unchanged. */
int journal_migrate(struct journal_store *store, struct error *error);

/* Syncs the log of a connection, which commits do not do with JOURNAL_NORMAL. */
int journal_sync_log(sqlite3 *file, const char *path, struct error *error);

/* Reads the rows of the table of places, one call for each; -1 ends the reading. The table exists
   only if a broker was read; `wanted` creates it. */
typedef int journal_visit_place(void *context, const char *name, const struct journal_place *place,
                                struct error *error);
int journal_store_places(struct journal_store *store, bool wanted, journal_visit_place *visit,
                         void *context, struct error *error);

/* Record the identities of the files, then check from any thread whether the names still refer to
   them: a removed or replaced file accepts writes that are lost. */
int journal_store_identify(struct journal_store *store, struct error *error);
int journal_store_look(const struct journal_store *store, struct error *error);
bool journal_store_is_removed(const struct journal_store *store);

/* Writes a file that has lost its name again. */
int journal_store_save(struct journal_store *store, struct error *error);

#endif
