/* The journal: every example in the order of learning, and every command that changes learning, in
   an SQLite file in the state directory.

   An appended entry gets the next position: 1, 2, 3 and so on, without gaps, for the life of the
   state directory. A committed entry is durable. With JOURNAL_FULL it survives a loss of power if
   the disk honours fsync. With JOURNAL_NORMAL and JOURNAL_OFF it survives a kill, not always a loss
   of power, which with JOURNAL_OFF can damage the file. The last (epoch, sequence) of every stream
   and producer is in a table of its own, committed with the entry. It outlives the entry, the
   stream's state and checkpoints, until producers_keep newer ones or producers_days have followed.

   The learning thread calls these functions. It waits for the disk only if the queue is full or the
   function waits by definition. The journal's own thread commits the appended entries in batches:
   at most JOURNAL_BATCH_ENTRIES that have waited for JOURNAL_BATCH_NS; single entries do not wait.
   Appending allocates nothing.

   After a disk error nothing becomes durable any more: journal_poll returns the error, and the
   journal can only be closed. Acknowledged entries are in the file; later ones can be.

   docs/reference/journal.md has the schema and queries: other programs may read the file at
   any time. */
#ifndef RUNNEL_JOURNAL_H
#define RUNNEL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/example.h"
#include "config/config.h"
#include "journal_block.h"

struct error;
struct journal;

enum {
    JOURNAL_BATCH_ENTRIES = 4096,
    JOURNAL_BATCH_NS = 2000000,     /* an entry waits this long for others, unless it is single */
    JOURNAL_QUEUE_BYTES = 16 << 20, /* memory of the queue, in addition to two largest examples */
    /* Key, x and y of one example: SQLite allows a little less than twice this in a row. */
    JOURNAL_EXAMPLE_BYTES = 512 << 20,
    JOURNAL_COMMAND_BYTES = 1 << 20, /* text of one command with its zero */
    JOURNAL_PARTITIONS = 4096,       /* partitions of brokers with a place */
    JOURNAL_PARTITION_NAME = 320,    /* bytes of a partition's name with its zero */
    JOURNAL_KEYS = 1 << 16,          /* streams and producers whose last sequence is in memory */
};

#define JOURNAL_NAME "journal.sqlite"    /* SQLite adds -wal and -shm while it is open */
#define JOURNAL_MARK_NAME "journal.mark" /* the durable position */

struct journal_options {
    enum journal_sync sync;
    uint64_t keep; /* JOURNAL_KEEP_*, or bytes: the oldest entries are deleted above this size */
    size_t input_bytes; /* x and y of one step, or atom */
    size_t target_bytes;
    bool messages, target_messages; /* x, and y, of a step are atoms, as many as their bytes */
    size_t words_bytes;             /* words of one example; 0: no words */
    size_t steps_max;               /* maximum of steps or atoms in one example */
    const char *name;               /* the daemon's, for messages */
    const char *digest;             /* the configuration's: see struct config */
    /* The digest of an earlier configuration of the checkpoint, or NULL: its journal must end at
       the checkpoint. */
    const char *before;
    bool remember; /* keep checksums of the newest numbered examples, for journal_seen */
    /* Streams and producers whose numbers are kept; 0 = all, otherwise at least
       JOURNAL_PRODUCERS_MIN. */
    uint64_t producers_keep;
    uint64_t producers_days; /* days since their last example; 0 = forever */
    bool places;             /* keep the places of a broker's partitions */
    uint64_t checkpoint;     /* its position: a new file begins after it */
    bool accept_short;       /* accept a file that ends before the checkpoint or the mark */
};

/* Opens DIRECTORY/journal.sqlite, or creates it (mode 0600). This process must have locked the
   directory: see checkpoint_open.

   DIRECTORY/journal.mark has the position that was last reported durable. It is written before
   journal_durable returns the position, and can be older after a loss of power. A file that ends
   before the checkpoint, or with JOURNAL_FULL before the mark, is refused with EX_IOERR unless
   options.accept_short is set; then call journal_skip_to.

   A transaction that was being written at a loss of power is removed. Any other error in pages,
   entries at either end, sequences or write-ahead log is damage (EX_IOERR); journal_replay checks
   the other entries. The error names the file and the way out. EX_CONFIG: the file has another
   configuration or format. EX_UNAVAILABLE: out of memory, or no thread. */
int journal_open(struct journal **journal, const char *directory,
                 const struct journal_options *options, struct error *error);

/* The findings of journal_open. */
struct journal_found {
    bool is_new;     /* the file was created */
    bool torn;       /* an unfinished transaction was removed */
    uint64_t newest; /* the last entry */
    uint64_t marked; /* the last entry reported durable; 0 = unknown */
};

struct journal_found journal_found(const struct journal *journal);

/* Returns the position in the mark of a directory, 0 = unknown. */
uint64_t journal_marked(const char *directory);

/* Sets the mark to the newest entry: missing ones are accepted. Waits for the disk. Nothing may
   have been appended since journal_open. */
int journal_mark(struct journal *journal, struct error *error);

/* Waits until everything is durable; after an error, closes at once. */
void journal_close(struct journal **journal);

/* Returns the position of the newest entry in queue or file; 0 = the journal has never had one. */
uint64_t journal_position(const struct journal *journal);

/* Continues after `position`, if the journal ends before the checkpoint: drops its entries, but
   keeps the streams' sequences. Waits until that is durable. Nothing may have been appended since
   journal_open. */
int journal_skip_to(struct journal *journal, uint64_t position, struct error *error);

/* Returns whether an append of any size returns without waiting. */
bool journal_has_room(struct journal *journal);

/* Appends a copy, waits for room if necessary, and returns its position. Returns 0 and appends
   nothing if the example exceeds JOURNAL_EXAMPLE_BYTES or options' steps_max, or the command
   JOURNAL_COMMAND_BYTES. After a disk error the entry gets a position and is dropped. */
uint64_t journal_append_example(struct journal *journal, const struct example *example);
uint64_t journal_append_command(struct journal *journal, enum journal_kind kind, const char *text);

/* ---- Places in the partitions of a broker that the daemon reads ---- */

/* The place of a partition: a table has one row for each, changed in the transaction of the entry
   that moves it. */
struct journal_place {
    uint32_t epoch; /* the numbers of its newest message */
    uint64_t sequence;
    uint64_t count;    /* messages so far, as far as known */
    uint64_t position; /* the entry that set the place */
};

/* Returns the number of a partition, from 1, valid while the journal is open; 0: JOURNAL_PARTITIONS
   are in use, or the name is too long. */
uint32_t journal_partition(struct journal *journal, const char *name);

/* Returns how many partitions have numbers, those in the file first; the name of one. */
uint32_t journal_partitions(const struct journal *journal);
const char *journal_partition_name(const struct journal *journal, uint32_t partition);

/* Returns the durable place; false: none. */
bool journal_place(struct journal *journal, uint32_t partition, struct journal_place *place);

/* Appends a command that moves the partition to that place (without `position`), forward or back.
   Returns the same as journal_append_command. */
uint64_t journal_append_place(struct journal *journal, enum journal_kind kind, const char *text,
                              uint32_t partition, const struct journal_place *place);

/* Returns whether the file has the numbers of an example of the stream: 1 or 0; -1 as in
   journal_last. Waits until everything appended is durable. */
int journal_has_stream(struct journal *journal, const char *key, size_t key_size,
                       struct error *error);

/* Appends a command that forgets a stream and removes its numbers in the same transaction. Waits
   until that is durable. Returns the command's position, or 0 after a disk error. */
uint64_t journal_forget(struct journal *journal, const char *text, const char *key, size_t key_size,
                        struct error *error);

/* Finds the last numbered entry of a stream and producer, including the queue: 1 and its numbers;
   0: none; -1: the file cannot be read or is damaged (EX_IOERR). Reads the file if they are not
   among the JOURNAL_KEYS recently used. */
int journal_last(struct journal *journal, const char *key, size_t key_size, uint64_t producer,
                 uint32_t *epoch, uint64_t *sequence, uint64_t *position, struct error *error);

/* Compares an example with an earlier one of the same key, producer, epoch and sequence. Only the
   newest are known (options.remember), including those in the file at journal_open. */
enum journal_seen { JOURNAL_SEEN_UNKNOWN, JOURNAL_SEEN_SAME, JOURNAL_SEEN_OTHER };
enum journal_seen journal_seen(const struct journal *journal, const struct example *example);

/* Returns how many streams of producers have lost their numbers since journal_open (see
   options). */
uint64_t journal_expired(const struct journal *journal);

/* Returns the durable position. */
uint64_t journal_durable(const struct journal *journal);

/* A file descriptor for zmq_poll, readable if the durable position has moved or the journal has
   failed since the last journal_poll. */
int journal_descriptor(const struct journal *journal);

/* Makes the descriptor unreadable. -1 after a disk error: EX_IOERR, with file and reason. */
int journal_poll(struct journal *journal, struct error *error);

/* Waits until everything appended is durable, with JOURNAL_NORMAL even over a loss of power; -1 as
   in journal_poll. */
int journal_sync(struct journal *journal, struct error *error);

/* Returns -1 (EX_IOERR) if the file or its log was removed or replaced: written bytes are lost.
   Each commit and journal_sync also check this, and the journal then fails as after a disk
   error. */
int journal_look(const struct journal *journal, struct error *error);

/* Returns whether file or log have lost their names, and no other files have these names. */
bool journal_is_removed(const struct journal *journal);

/* After that, writes the file again under its name, with all appended entries. Waits for the disk.
   Afterwards the journal can only be read and closed. EX_IOERR: no file has the name. */
int journal_save(struct journal *journal, struct error *error);

/* Entries up to this position are in a checkpoint that is safe on disk: options.keep decides
   whether they are deleted. The journal's thread deletes them gradually, and reuses their pages. */
void journal_prune(struct journal *journal, uint64_t position);

/* Between journal_hold and journal_let_go no entry is dropped, and the figures describe the file.
   Waits for the transaction in progress. May be nested. */
void journal_hold(struct journal *journal);
void journal_let_go(struct journal *journal);

struct journal_entry {
    uint64_t position;
    double time; /* Unix time of appending */
    enum journal_kind kind;
    const char *command; /* the text of a command; NULL: an example */
    /* `received` is 0; pointers are valid during the call. */
    struct example example;
};

/* Returns -1 with an error to end the replay. May change the entry. */
typedef int journal_visit(void *context, struct journal_entry *entry, struct error *error);

/* Visits every durable entry after position `after`, in order. -1: from the visit, or an entry is
   damaged or missing (EX_IOERR), or the journal begins after `after` or ends before it. */
int journal_replay(struct journal *journal, uint64_t after, journal_visit *visit, void *context,
                   struct error *error);

/* Returns whether a block after `after` has a command of this kind: 1 or 0, by an index. -1: the
   file cannot be read (EX_IOERR). */
int journal_has_kind(struct journal *journal, uint64_t after, enum journal_kind kind,
                     struct error *error);

struct journal_figures {
    uint64_t bytes;      /* size of the file and its write-ahead log */
    uint64_t free_bytes; /* available to this user on the filesystem */
    double waiting;      /* age in seconds of the oldest entry that is not durable, or 0 */
    uint64_t entries;    /* durable entries in the file */
    uint64_t oldest;     /* the first of them; newest + 1 without entries */
    uint64_t durable;    /* the last of them */
    uint64_t position;   /* the newest appended entry */
    uint64_t producers;  /* streams of a producer each, with numbers */
    uint64_t expired;    /* see journal_expired */
};

void journal_figures(struct journal *journal, struct journal_figures *figures);

#endif
