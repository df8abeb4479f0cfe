/* What the parts of the journal share: journal.c (the learning thread's side), journal_append.c
   (its entries, and what is known of streams' numbers), journal_queue.c (the entries on their way
   to the other thread), journal_block.c (entries as a row of the file), journal_write.c (the other
   thread), journal_store.c (the file and its statements), journal_schema.c (its tables),
   journal_look.c (whether the files are still there), journal_migrate.c (files of earlier formats),
   journal_save.c (writing them again when they are not), journal_mark.c (how far it was durable),
   journal_check.c (checks when it is opened), journal_read.c (looking up, and syncing),
   journal_recent.c (what the newest examples were), journal_replay.c (replaying),
   journal_places.c (how far partitions of a broker are). */
#ifndef RUNNEL_JOURNAL_INTERNAL_H
#define RUNNEL_JOURNAL_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/wire.h"
#include "config/config.h"
#include "journal.h"
#include "journal_block.h"
#include "journal_queue.h"
#include "journal_recent.h"
#include "common/streams.h"

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

/* What streams are found by in memory: the producer, then the key. */
struct journal_key {
    size_t size;
    char bytes[STREAMS_KEY_MAX];
};
_Static_assert(STREAMS_KEY_MAX >= sizeof(uint64_t) + WIRE_KEY_MAX, "a producer and a key");

static inline void journal_key(struct journal_key *to, const char *key, size_t key_size,
                               uint64_t producer) {
    memcpy(to->bytes, &producer, sizeof producer);
    if (key_size)
        memcpy(to->bytes + sizeof producer, key, key_size);
    to->size = sizeof producer + key_size;
}

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
};

/* What is known of a recently used stream; streams' slots number them. */
struct journal_last {
    uint32_t epoch;
    uint64_t sequence, position;
};

/* A partition of a broker. */
struct journal_partition {
    char name[JOURNAL_PARTITION_NAME];
    struct journal_place place;          /* durable; position 0: none. Under the mutex */
    const struct journal_record *newest; /* of the batch; the journal's thread's */
};

struct journal_identity {
    dev_t device;
    ino_t inode;
};

struct journal {
    char path[JOURNAL_PATH_SIZE];
    enum journal_sync sync;
    uint64_t keep;
    size_t input_bytes, target_bytes, largest;

    /* The learning thread's. */
    struct journal_found found;
    struct journal_identity file_identity, log_identity; /* as they were opened */
    struct streams *keys;
    struct journal_key judged;     /* that was looked for last, size 0: none */
    uint32_t judged_slot;          /* of keys, or STREAMS_NONE */
    struct journal_last *lasts;    /* (JOURNAL_KEYS,) */
    struct journal_recent *recent; /* NULL: not to be remembered */
    uint64_t appended;
    double day;         /* Unix time */
    uint64_t day_asked; /* at that ns; 0 = never */
    sqlite3 *reading;
    sqlite3_stmt *look_up;

    /* Shared under the mutex; `work` wakes the journal's thread, `done` the learning thread. */
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    bool synchronized; /* the three above have been made */
    struct journal_queue queue;
    bool stop, hurry; /* hurry: commit without waiting for more entries */
    bool alone;       /* the newest batch had one entry */
    uint64_t prunable, skip_to, oldest, producers;
    unsigned holds;            /* nothing is pruned */
    bool busy;                 /* with a transaction */
    char forget[WIRE_KEY_MAX]; /* the stream that goes with the next transaction */
    size_t forget_size;
    bool forgets;
    bool failed;
    struct error error;

    struct journal_partition *partitions[JOURNAL_PARTITIONS]; /* (partition_count,) none goes */
    uint32_t partition_count;

    int event;
    _Atomic uint64_t durable, expired;
    bool started;
    pthread_t thread;

    char mark_path[JOURNAL_PATH_SIZE];
    int mark;

    /* The journal's thread's, once it has been started. */
    uint64_t marked; /* what is in the mark; 0 = nothing */
    struct journal_store store;
    struct journal_totals totals;
    uint64_t producers_keep, producers_days;
    double age_began;   /* of the clock that ages count by: where it was, Unix seconds, */
    uint64_t age_since; /* and when, CLOCK_MONOTONIC in ns */
    int64_t expiry_due; /* by age: of that clock */
    struct streams *batch_keys;
    const struct journal_record **batch_newest; /* (JOURNAL_BATCH_ENTRIES,) by slot of batch_keys */
    struct journal_packer packer;
    struct journal_partition *moved[JOURNAL_BATCH_ENTRIES]; /* (moved_count,) of the batch */
    size_t moved_count;
};

/* ---- journal_schema.c ---- */

/* The statements that make tables, */
extern const char journal_tables[];
extern const char journal_streams[];  /* that of streams apart, with its index, */
extern const char journal_commands[]; /* the index of blocks with commands, */
extern const char journal_view[];     /* and the view */

extern const char journal_places[]; /* that of places, made when a broker is read */

/* ---- journal_places.c ---- */

/* Read the rows that there are, and make the table if there is none and `wanted`. */
int journal_places_open(struct journal *journal, bool wanted, struct error *error);
void journal_places_close(struct journal *journal);

/* The journal's thread: the record moves its partition; write the rows of those that have moved;
   (under the mutex) what was written is durable. */
void journal_places_note(struct journal *journal, const struct journal_record *record);
int journal_places_write(struct journal *journal, struct error *error);
void journal_places_settle(struct journal *journal);

/* ---- journal_store.c ---- */

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
uint32_t journal_place_checksum(const char *name, const struct journal_place *place);
uint32_t journal_stream_checksum(const struct journal_record *record, int format);

/* ---- journal_migrate.c ---- */

/* Bring the file to JOURNAL_FORMAT, in one transaction: what is killed meanwhile leaves the file as
   it was. */
int journal_migrate(struct journal_store *store, struct error *error);

/* ---- journal_check.c ---- */

/* What the log holds after the place from which SQLite ignores it. */
struct journal_tail {
    bool torn;        /* a transaction that is not whole, or several */
    int transactions; /* whose end is there: 1 may have been written when the power failed */
};

/* Before the file is opened. */
int journal_check_log(const char *path, struct journal_tail *tail, struct error *error);

/* Read the totals, and compare all that recovery and duplicates depend on with them. */
int journal_check_totals(struct journal_store *store, struct journal_totals *totals,
                         struct error *error);
int journal_check_contents(struct journal_store *store, const struct journal_totals *totals,
                           struct error *error);

/* ---- journal_look.c ---- */

int journal_look_open(struct journal *journal, struct error *error);

/* ---- journal_mark.c ---- */

int journal_mark_open(struct journal *journal, const char *directory, struct error *error);
void journal_mark_close(struct journal *journal);
int journal_mark_write(struct journal *journal, uint64_t position, struct error *error);

/* The same, also for a position below what it has: waits for the disk. */
int journal_mark_reset(struct journal *journal, uint64_t position, struct error *error);

/* Whether all entries are there that the mark and the checkpoint have, and those after it. */
int journal_check_end(const struct journal *journal, const struct journal_options *options,
                      struct error *error);

/* Whether the entries after `after` are all there, at both ends. */
int journal_check_range(const struct journal *journal, uint64_t after, uint64_t oldest,
                        uint64_t newest, struct error *error);

/* ---- journal_read.c ---- */

int journal_read_open(struct journal *journal, struct error *error);

/* The time of the row of `streams` that was written last; now when there is none. */
int journal_read_age(struct journal *journal, double *time, struct error *error);
void journal_read_close(struct journal *journal);

/* Look into the file: 1, 0 or -1 as journal_last. */
int journal_look_up(struct journal *journal, const char *key, size_t key_size, uint64_t producer,
                    struct journal_last *last, struct error *error);

/* Whether the file has any numbers of the stream: 1, 0 or -1. */
int journal_read_has(struct journal *journal, const char *key, size_t key_size,
                     struct error *error);

/* Remember the newest numbered entries of the file, as far as they can be read: a bounded number.
 */
void journal_read_recent(struct journal *journal);

/* Sync the log of either connection, which commits do not with JOURNAL_NORMAL. */
int journal_sync_log(sqlite3 *file, const char *path, struct error *error);

/* The row of JOURNAL_BLOCK_COLUMNS; whether it is as it was written. Its pointers are valid until
   the next one. */
bool journal_read_block(sqlite3_stmt *row, struct journal_block *block);

/* The sentence of a failed call of the reading connection. Returns -1. */
int journal_read_error(struct journal *journal, struct error *error);

/* ---- journal.c ---- */

/* Ends the journal's thread, if it runs. */
void journal_stop(struct journal *journal);

/* ---- journal_write.c ---- */

/* Write what is in the queue. The thread must have ended, and no transaction have failed. */
int journal_write_rest(struct journal *journal, struct error *error);

void *journal_write_thread(void *journal);

#endif
