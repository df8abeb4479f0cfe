/* The journal: every example in the order in which it is learned, and every command that changes
   learning, in an SQLite file in the state directory.

   An entry gets a position when it is appended: 1, 2, 3 and so on, without gaps, for as long as the
   state directory exists. It is durable once it has been committed: with JOURNAL_FULL a loss of
   power does not undo that if the disk honours fsync; with JOURNAL_NORMAL and JOURNAL_OFF a kill
   does not, but a loss of power may (with JOURNAL_OFF it may damage the file too). The last
   (epoch, sequence) of every stream and producer lives in a table of its own and is committed
   together with the stream's entry; it outlives the entry, the stream's state in memory, and
   checkpoints, until options' producers_keep others or producers_days have come after it.

   One thread, the learning one, calls these functions; it never waits for the disk unless the queue
   is full or the function says that it waits. A second thread, the journal's own, takes what has
   been appended in batches, one transaction each: at most JOURNAL_BATCH_ENTRIES, and whatever has
   been waiting for JOURNAL_BATCH_NS; entries that come one by one do not wait. Appending allocates
   nothing.

   After an error of the disk nothing becomes durable any more: journal_poll says so, and the
   journal can only be closed. What was acknowledged is in the file; entries after it may be.

   docs/explanation/reliability.md has the schema and queries: other programs may read the file meanwhile. */
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
    JOURNAL_BATCH_NS = 2000000, /* an entry waits this long for others, unless they come singly */
    JOURNAL_QUEUE_BYTES = 16 << 20,    /* in memory, and two largest examples */
    JOURNAL_EXAMPLE_BYTES = 512 << 20, /* key, x and y of one example: SQLite takes a little less
                                          than twice this in a row */
    JOURNAL_COMMAND_BYTES = 1 << 20,   /* text of one command, and a zero */
    JOURNAL_PARTITIONS = 4096,         /* of brokers, whose places are kept */
    JOURNAL_PARTITION_NAME = 320,      /* bytes of a partition's name, and a zero */
    JOURNAL_KEYS = 1 << 16, /* streams and producers whose last sequence is kept in memory */
};

#define JOURNAL_NAME "journal.sqlite"    /* SQLite adds -wal and -shm while it is open */
#define JOURNAL_MARK_NAME "journal.mark" /* the position up to which all has been durable */

struct journal_options {
    enum journal_sync sync;
    uint64_t keep;      /* JOURNAL_KEEP_*, or bytes: the oldest go when the file holds more */
    size_t input_bytes; /* x and y of one step */
    size_t target_bytes;
    size_t words_bytes;      /* of one example; 0: there are none */
    size_t steps_max;        /* in one example */
    const char *name;        /* the daemon's, for people */
    const char *digest;      /* of the configuration: see struct config */
    const char *before;      /* NULL, or that of another one that the checkpoint was learned with:
                                a journal of that one has nothing after the checkpoint */
    bool remember;           /* what the newest numbered examples were, for journal_seen */
    uint64_t producers_keep; /* streams and producers whose numbers stay; 0 = all, else not below
                                JOURNAL_PRODUCERS_MIN */
    uint64_t producers_days; /* since their last example; 0 = forever */
    bool places;             /* of a broker's partitions are to be kept */
    uint64_t checkpoint;     /* its position: where a file begins that is created */
    bool accept_short;       /* take a file that ends before the checkpoint, or before the mark */
};

/* Open DIRECTORY/journal.sqlite, or create it (mode 0600). The directory must be locked by this
   process: see checkpoint_open.

   DIRECTORY/journal.mark has the position up to which entries have been called durable: it is
   written before journal_durable says so, and may say less after a loss of power. A file that ends
   before it (written with JOURNAL_FULL; otherwise a loss of power explains that), or before the
   checkpoint, is refused with EX_IOERR unless options.accept_short; then journal_skip_to is due.

   A transaction that was being written when the power failed is removed. Anything else that is
   wrong is damage and refused with EX_IOERR: pages, entries at either end, sequences, write-ahead
   log; entries in between are checked as journal_replay reads them. The sentence names the file and
   the way out; the caller knows which checkpoint there is. EX_CONFIG: the file belongs to another
   configuration or another format. EX_UNAVAILABLE: out of memory, or no thread. */
int journal_open(struct journal **journal, const char *directory,
                 const struct journal_options *options, struct error *error);

/* What journal_open has found. */
struct journal_found {
    bool is_new;     /* nothing: it has created the file */
    bool torn;       /* it has removed a transaction */
    uint64_t newest; /* the last entry */
    uint64_t marked; /* the last one that had been called durable; 0 = unknown */
};

struct journal_found journal_found(const struct journal *journal);

/* The position in the mark of a directory, 0 = unknown. */
uint64_t journal_marked(const char *directory);

/* Let the mark say that what is there is all there is: what is missing is accepted. Waits for the
   disk. Nothing must have been appended since journal_open. */
int journal_mark(struct journal *journal, struct error *error);

/* Waits until everything is durable; after an error at once. */
void journal_close(struct journal **journal);

/* The position of the newest entry, appended or from before; 0 = there has never been one. */
uint64_t journal_position(const struct journal *journal);

/* Continue after `position`: for a journal that ends before the checkpoint, which the caller trusts
   more. Its entries are dropped, the streams' sequences
   stay. Waits until that is durable. Nothing must have been appended since journal_open. */
int journal_skip_to(struct journal *journal, uint64_t position, struct error *error);

/* Whether an append of any size returns without waiting. */
bool journal_has_room(struct journal *journal);

/* Append a copy, wait for room if there is none, and return its position. Returns 0, and appends
   nothing, only when the example has more than JOURNAL_EXAMPLE_BYTES or options' steps_max, or the
   command more than JOURNAL_COMMAND_BYTES. After an error of the disk the entry gets a position and
   is dropped. */
uint64_t journal_append_example(struct journal *journal, const struct example *example);
uint64_t journal_append_command(struct journal *journal, enum journal_kind kind, const char *text);

/* ---- Places in the partitions of a broker, which the daemon reads itself ---- */

/* How far a partition is in the journal: a table has a row of each, which changes in the
   transaction of the entry that changes it. */
struct journal_place {
    uint32_t epoch; /* the numbers of its newest message, */
    uint64_t sequence;
    uint64_t count;    /* how many have come, as far as is known, */
    uint64_t position; /* and the entry that said so */
};

/* The number of a partition, from 1 on, for as long as the journal is open; 0: there are
   JOURNAL_PARTITIONS already, or the name is too long. */
uint32_t journal_partition(struct journal *journal, const char *name);

/* How many numbers there are: first those of the file. The name of one. */
uint32_t journal_partitions(const struct journal *journal);
const char *journal_partition_name(const struct journal *journal, uint32_t partition);

/* The durable place; false: there is none yet. */
bool journal_place(struct journal *journal, uint32_t partition, struct journal_place *place);

/* Append a command after which the partition is at that place (`position` does not count), which
   may be before the one that it had. Returns the position as journal_append_command. */
uint64_t journal_append_place(struct journal *journal, enum journal_kind kind, const char *text,
                              uint32_t partition, const struct journal_place *place);

/* Whether an entry of the stream was numbered, and its numbers are kept: 1 or 0; -1 as
   journal_last. Waits until everything appended is durable. */
int journal_has_stream(struct journal *journal, const char *key, size_t key_size,
                       struct error *error);

/* Append a command that forgets a stream: its numbers are removed in the same transaction. Waits
   until that is durable. Returns the command's position, or 0 after an error of the disk. */
uint64_t journal_forget(struct journal *journal, const char *text, const char *key, size_t key_size,
                        struct error *error);

/* The last numbered entry of a stream and producer, one that is only appended included: 1 and its
   numbers; 0 when there was none; -1 when the file cannot be read or is damaged (EX_IOERR). Reads
   the file when they are not among the JOURNAL_KEYS recently used. */
int journal_last(struct journal *journal, const char *key, size_t key_size, uint64_t producer,
                 uint32_t *epoch, uint64_t *sequence, uint64_t *position, struct error *error);

/* Whether an example of this key, producer, epoch and sequence was appended, and was this one. Only
   the newest are remembered (options.remember): also, of those in the file, when it is opened. */
enum journal_seen { JOURNAL_SEEN_UNKNOWN, JOURNAL_SEEN_SAME, JOURNAL_SEEN_OTHER };
enum journal_seen journal_seen(const struct journal *journal, const struct example *example);

/* Streams of producers whose numbers were dropped since the journal was opened: see options. */
uint64_t journal_expired(const struct journal *journal);

/* Everything up to this position is durable. */
uint64_t journal_durable(const struct journal *journal);

/* A file descriptor that is readable when the durable position has moved or the journal has failed
   since the last journal_poll, for the main loop's zmq_poll. */
int journal_descriptor(const struct journal *journal);

/* Make the descriptor unreadable. 0, or -1 after an error of the disk: EX_IOERR, and a sentence
   that names file and reason. */
int journal_poll(struct journal *journal, struct error *error);

/* Wait until everything appended is durable, with JOURNAL_NORMAL over a loss of power too; -1 as
   journal_poll. */
int journal_sync(struct journal *journal, struct error *error);

/* -1 (EX_IOERR) when the file or its log was removed or replaced: what is written to it is lost.
   Each commit and journal_sync look, too, and the journal then fails as after an error of the
   disk. */
int journal_look(const struct journal *journal, struct error *error);

/* Whether file or log have lost their names, and nothing else has taken them. */
bool journal_is_removed(const struct journal *journal);

/* Then: write the file again under its name, with all that has been appended. Waits for the disk.
   Nothing can be done with the journal afterwards but to look up and to close it. EX_IOERR; then
   nothing has the name. */
int journal_save(struct journal *journal, struct error *error);

/* Entries up to this position are in a checkpoint that is safe on disk, and may be deleted as
   options.keep says. The journal's thread deletes them little by little; their pages are used
   again. */
void journal_prune(struct journal *journal, uint64_t position);

/* From here to journal_let_go no entry is dropped, and figures say which the file has. Waits for
   the transaction that is being written. May be nested. */
void journal_hold(struct journal *journal);
void journal_let_go(struct journal *journal);

struct journal_entry {
    uint64_t position;
    double time; /* Unix time at which it was appended */
    enum journal_kind kind;
    const char *command; /* its text, or NULL: it is */
    struct example
        example; /* an example. `received` is 0. Its pointers are valid during the call */
};

/* Returns -1, with a sentence in `error`, to end the replay. The entry is the visit's to change. */
typedef int journal_visit(void *context, struct journal_entry *entry, struct error *error);

/* Visit every durable entry after position `after`, in order. -1 when the visit says so, or when
   an entry is damaged or missing (EX_IOERR): also when the journal begins later, or ends before,
   `after`. */
int journal_replay(struct journal *journal, uint64_t after, journal_visit *visit, void *context,
                   struct error *error);

/* Whether an entry after `after`, or one of its block, is a command of this kind: 1 or 0. An index
   has the answer. -1 when the file cannot be read (EX_IOERR). */
int journal_has_kind(struct journal *journal, uint64_t after, enum journal_kind kind,
                     struct error *error);

struct journal_figures {
    uint64_t bytes;      /* of the file and its write-ahead log */
    uint64_t free_bytes; /* that this user may still write to their filesystem */
    double waiting;      /* seconds since the oldest entry that is not durable was appended, or 0 */
    uint64_t entries;    /* durable ones that are kept, */
    uint64_t oldest;     /* from this position: the newest + 1 when there are none, */
    uint64_t durable;    /* to this one */
    uint64_t position;   /* of the newest appended */
    uint64_t producers;  /* streams of a producer each, whose numbers are kept */
    uint64_t expired;    /* journal_expired */
};

void journal_figures(struct journal *journal, struct journal_figures *figures);

#endif
