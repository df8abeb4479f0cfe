#include "journal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/streams.h"
#include "common/threads.h"
#include "common/wire.h"
#include "journal_check.h"
#include "journal_mark.h"
#include "journal_numbers.h"
#include "journal_queue.h"
#include "journal_read.h"
#include "journal_recent.h"
#include "journal_store.h"

/* A partition of a broker. */
struct journal_partition {
    char name[JOURNAL_PARTITION_NAME];
    struct journal_place place; /* durable; position 0: none. Under the mutex */
    /* the batch's newest record; belongs to the journal's thread */
    const struct journal_record *newest;
};

struct journal {
    char path[JOURNAL_PATH_SIZE];
    enum journal_sync sync;
    uint64_t keep;

    /* These belong to the learning thread. */
    struct journal_found found;
    struct journal_numbers numbers;
    struct journal_recent *recent; /* NULL: disabled */
    uint64_t appended;
    double day;         /* Unix time */
    uint64_t day_asked; /* CLOCK_MONOTONIC in ns of the reading; 0 = never */
    struct journal_reading reading;

    /* Shared under the mutex; `work` wakes the journal's thread, `done` the learning thread. */
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    struct journal_queue queue;
    bool stop, hurry; /* hurry: commit without waiting for more entries */
    bool alone;       /* the newest batch had one entry */
    uint64_t prunable, skip_to, oldest, producers;
    unsigned holds;            /* above 0: nothing is pruned */
    bool busy;                 /* a transaction is in progress */
    char forget[WIRE_KEY_MAX]; /* the stream to forget in the next transaction */
    size_t forget_size;
    bool forgets;
    bool failed;
    struct error error;

    /* (partition_count,) none is removed */
    struct journal_partition *partitions[JOURNAL_PARTITIONS];
    uint32_t partition_count;

    int event;
    _Atomic uint64_t durable, expired;
    bool started;
    pthread_t thread;

    /* These belong to the journal's thread once it has started. */
    struct journal_mark mark;
    struct journal_store store;
    struct journal_totals totals;
    uint64_t producers_keep, producers_days;
    double age_began;   /* value of the age clock at age_since, Unix seconds */
    uint64_t age_since; /* start of the age clock, CLOCK_MONOTONIC in ns */
    int64_t expiry_due; /* time of the next expiry, by the age clock */
    struct streams *batch_keys;
    const struct journal_record **batch_newest; /* (JOURNAL_BATCH_ENTRIES,) by slot of batch_keys */
    struct journal_packer packer;
    struct journal_partition *moved[JOURNAL_BATCH_ENTRIES]; /* (moved_count,) of the batch */
    size_t moved_count;
};

/* ---- Partitions of a broker ----

   Each has a row of the table `places`, written in the transaction of the entries that move it. */

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
    journal->partitions[journal->partition_count] = added; /* records with this number follow */
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

/* ---- The journal's thread: batches from the queue into the file ---- */

static struct journal_place place_of(const struct journal_record *record) {
    return (struct journal_place){.epoch = record->epoch,
                                  .sequence = record->sequence,
                                  .count = record->count,
                                  .position = record->position};
}

static void note_place(struct journal *journal, const struct journal_record *record) {
    struct journal_partition *partition = of(journal, record->partition);
    if (!partition->newest)
        journal->moved[journal->moved_count++] = partition;
    partition->newest = record;
}

static int write_places(struct journal *journal, struct error *error) {
    for (size_t n = 0; n < journal->moved_count; n++) {
        const struct journal_place place = place_of(journal->moved[n]->newest);
        if (journal_store_place(&journal->store, journal->moved[n]->name, &place, error))
            return -1;
    }
    return 0;
}

static void settle_places(struct journal *journal) {
    for (size_t n = 0; n < journal->moved_count; n++) {
        journal->moved[n]->place = place_of(journal->moved[n]->newest);
        journal->moved[n]->newest = NULL;
    }
    journal->moved_count = 0;
}

/* Minimum pruned at once, in addition to twice the new entries: more than a block, to make
   progress. */
enum { PRUNE_ENTRIES = 2 * JOURNAL_BLOCK_ENTRIES };

/* Rows of streams deleted at once, in addition to the new ones; seconds between two checks of
   ages. */
enum { EXPIRE_ROWS = 512, EXPIRY_SECONDS = 60, SECONDS_A_DAY = 86400 };

/* The work of one transaction. */
struct task {
    struct journal_queue queue; /* a copy from when the batch was taken */
    size_t count;
    uint64_t prune; /* entries up to this position may be deleted; 0 = none */
    uint64_t skip_to;
    bool forgets; /* forget the stream in journal->forget */
    const struct journal_record *last;
};

/* Under the mutex: waits until the oldest entry has waited long enough, or there are enough
   entries. A single entry after another single one does not wait: its sender probably waits for the
   answer. */
static void gather(struct journal *journal) {
    if (journal->alone && journal->queue.count == 1)
        return;
    const struct journal_record *oldest = journal_queue_next(&journal->queue, NULL);
    uint64_t until = oldest->appended + JOURNAL_BATCH_NS;
    const struct timespec time = {.tv_sec = (time_t)(until / NS_PER_SECOND),
                                  .tv_nsec = (long)(until % NS_PER_SECOND)};
    while (!journal->stop && !journal->hurry && journal->queue.count < JOURNAL_BATCH_ENTRIES)
        if (pthread_cond_timedwait(&journal->work, &journal->mutex, &time) == ETIMEDOUT)
            return;
}

/* Returns false when the journal is being closed and nothing is left to do. */
static bool next_task(struct journal *journal, struct task *task, uint64_t pruned) {
    while (!journal->stop && !journal->queue.count && !journal->skip_to &&
           (journal->holds || journal->prunable <= pruned))
        pthread_cond_wait(&journal->work, &journal->mutex);
    if (journal->queue.count)
        gather(journal);
    else if (journal->stop)
        return false;
    *task = (struct task){.queue = journal->queue, .skip_to = journal->skip_to};
    task->count = journal->queue.count;
    /* the stream is forgotten together with its command */
    task->forgets = journal->forgets && task->count > 0;
    if (task->count > JOURNAL_BATCH_ENTRIES)
        task->count = JOURNAL_BATCH_ENTRIES;
    if (journal->prunable > pruned && !journal->holds)
        task->prune = journal->prunable;
    journal->busy = true;
    return true;
}

static void settle(struct journal *journal, const struct task *task) {
    journal->busy = false;
    if (task->count)
        journal_queue_drop(&journal->queue, task->count, task->last);
    if (task->count)
        journal->alone = task->count == 1;
    if (!journal->queue.count)
        journal->hurry = false;
    if (task->skip_to)
        journal->skip_to = 0;
    if (task->forgets)
        journal->forgets = false;
    settle_places(journal);
    journal->oldest = journal->totals.oldest;
    journal->producers = journal->totals.streams;
    atomic_store(&journal->durable, journal->totals.newest);
    pthread_cond_broadcast(&journal->done);
}

static void stop_at(struct journal *journal, const struct error *error) {
    journal->busy = false;
    journal->failed = true;
    journal->error = *error;
    pthread_cond_broadcast(&journal->done);
}

/* The clock for ages of streams' rows: it runs from the newest row on, and only while the journal
   is open. The system's clock can jump, for example when NTP sets it, and must not expire a
   producer that waits for an answer. */
static double age_clock(const struct journal *journal) {
    return journal->age_began + (double)(clock_ns() - journal->age_since) / (double)NS_PER_SECOND;
}

/* Keeps the newest record of each of the batch's streams, by slots of batch_keys. */
static void note_newest(struct journal *journal, const struct journal_record *record) {
    struct journal_key key;
    journal_key(&key, record->key, record->key_size, record->producer);
    uint32_t slot = streams_find(journal->batch_keys, key.bytes, key.size);
    if (slot == STREAMS_NONE)
        slot = streams_add(journal->batch_keys, key.bytes, key.size);
    journal->batch_newest[slot] = record;
}

static int write_streams(struct journal *journal, struct error *error) {
    struct streams *keys = journal->batch_keys;
    double now = age_clock(journal);
    for (uint32_t slot = streams_oldest(keys); slot != STREAMS_NONE;
         slot = streams_newer(keys, slot)) {
        bool added;
        struct journal_record record = *journal->batch_newest[slot];
        record.time = now;
        if (journal_store_stream(&journal->store, &record, &added, error))
            return -1;
        journal->totals.streams += added;
    }
    streams_clear(keys);
    return 0;
}

static int write_block(struct journal *journal, struct error *error) {
    const struct journal_block *block = journal_packer_end(&journal->packer);
    if (journal_store_insert(&journal->store, block, error))
        return -1;
    journal->totals.newest = block->last;
    journal_packer_begin(&journal->packer);
    return 0;
}

static int write_entries(struct journal *journal, struct task *task, struct error *error) {
    journal_packer_begin(&journal->packer);
    for (size_t n = 0; n < task->count; n++) {
        task->last = journal_queue_next(&task->queue, task->last);
        while (!journal_packer_add(&journal->packer, task->last))
            if (write_block(journal, error))
                return -1;
        if (task->last->partition)
            note_place(journal, task->last);
        else if (task->last->numbered)
            note_newest(journal, task->last);
    }
    if (task->count && write_block(journal, error))
        return -1;
    return write_places(journal, error) ? -1 : write_streams(journal, error);
}

/* Deletes some whole blocks: few enough that no entry waits long for its commit, and more than are
   added. `*pruned` returns the position up to which nothing is left to do. */
static int prune(struct journal *journal, const struct task *task, uint64_t *pruned,
                 struct error *error) {
    struct journal_totals *totals = &journal->totals;
    uint64_t used, gone, last = totals->oldest + PRUNE_ENTRIES + 2 * task->count - 1;
    if (!task->prune)
        return 0;
    if (journal->keep != JOURNAL_KEEP_CHECKPOINT) {
        if (journal_store_used(&journal->store, &used, error))
            return -1;
        if (used <= journal->keep)
            last = 0;
    }
    if (last == 0 || totals->oldest > task->prune) {
        *pruned = task->prune;
        return 0;
    }
    if (last > task->prune)
        last = task->prune;
    if (journal_store_prune(&journal->store, last, &gone, error))
        return -1;
    if (gone)
        totals->oldest = gone + 1;
    else
        *pruned = task->prune;
    return 0;
}

/* Deletes some numbers of streams and producers that are too many or too old. JOURNAL_PRODUCERS_MIN
   protects those of this transaction. */
static int expire(struct journal *journal, const struct task *task, struct error *error) {
    struct journal_totals *totals = &journal->totals;
    int64_t now = (int64_t)age_clock(journal);
    uint64_t most = EXPIRE_ROWS + task->count, removed = 0, too_old = 0;
    uint64_t excess = totals->streams > journal->producers_keep && journal->producers_keep
                          ? totals->streams - journal->producers_keep
                          : 0;
    if (excess && journal_store_expire(&journal->store, excess < most ? excess : most, INT64_MAX,
                                       &removed, error))
        return -1;
    if (journal->producers_days && now >= journal->expiry_due) {
        int64_t before = now - (int64_t)journal->producers_days * SECONDS_A_DAY;
        if (journal_store_expire(&journal->store, EXPIRE_ROWS, before, &too_old, error))
            return -1;
        journal->expiry_due = too_old ? now : now + EXPIRY_SECONDS;
    }
    totals->streams -= removed + too_old;
    atomic_fetch_add(&journal->expired, removed + too_old);
    return 0;
}

static int skip_to(struct journal *journal, const struct task *task, struct error *error) {
    uint64_t gone;
    if (!task->skip_to)
        return 0;
    journal->totals.newest = task->skip_to;
    journal->totals.oldest = task->skip_to + 1;
    return journal_store_prune(&journal->store, task->skip_to, &gone, error);
}

/* The learning thread waits and appends only the command. */
static int forget_stream(struct journal *journal, const struct task *task, struct error *error) {
    uint64_t removed;
    if (!task->forgets)
        return 0;
    if (journal_store_forget(&journal->store, journal->forget, journal->forget_size, &removed,
                             error))
        return -1;
    journal->totals.streams -= removed;
    return 0;
}

static int perform(struct journal *journal, struct task *task, uint64_t *pruned,
                   struct error *error) {
    struct journal_store *store = &journal->store;
    if (journal_store_begin(store, error) || skip_to(journal, task, error) ||
        write_entries(journal, task, error) || forget_stream(journal, task, error) ||
        expire(journal, task, error) || prune(journal, task, pruned, error) ||
        journal_store_totals(store, &journal->totals, error))
        return -1;
    return journal_store_commit(store, error);
}

/* Writes the rest of the queue. The thread must have ended without a failed transaction. */
static int write_rest(struct journal *journal, struct error *error) {
    const struct journal_record *record;
    struct task task;
    uint64_t pruned = UINT64_MAX;
    /* Skips entries of the last transaction, if it was not settled. */
    while (journal->queue.count &&
           (record = journal_queue_next(&journal->queue, NULL))->position <= journal->totals.newest)
        journal_queue_drop(&journal->queue, 1, record);
    while (next_task(journal, &task, pruned)) {
        if (perform(journal, &task, &pruned, error))
            return -1;
        settle(journal, &task);
    }
    return journal_mark_write(&journal->mark, journal->totals.newest, error);
}

static void *write_thread(void *context) {
    struct journal *journal = context;
    struct task task;
    struct error error;
    uint64_t pruned = 0;
    pthread_mutex_lock(&journal->mutex);
    while (!journal->failed && next_task(journal, &task, pruned)) {
        pthread_mutex_unlock(&journal->mutex);
        int status = perform(journal, &task, &pruned, &error);
        if (!status)
            status = journal_store_look(&journal->store, &error);
        if (!status)
            status = journal_mark_write(&journal->mark, journal->totals.newest, &error);
        pthread_mutex_lock(&journal->mutex);
        if (!status) {
            settle(journal, &task);
            pthread_mutex_unlock(&journal->mutex);
            eventfd_write(journal->event, 1);
            status = journal_store_move_log(&journal->store, &error);
            pthread_mutex_lock(&journal->mutex);
        }
        if (status) {
            stop_at(journal, &error);
            eventfd_write(journal->event, 1);
        }
    }
    pthread_mutex_unlock(&journal->mutex);
    return NULL;
}

/* ---- Opening ---- */

static size_t largest_example(const struct journal_options *options) {
    size_t step = options->input_bytes + options->target_bytes;
    size_t others = WIRE_KEY_MAX + options->words_bytes;
    if (options->steps_max > (JOURNAL_EXAMPLE_BYTES - others) / step)
        return JOURNAL_EXAMPLE_BYTES;
    return others + options->steps_max * step;
}

static int allocate(struct journal *journal, const struct journal_options *options,
                    struct error *error) {
    journal->reading.largest = largest_example(options);
    if (journal->reading.largest < JOURNAL_COMMAND_BYTES)
        journal->reading.largest = JOURNAL_COMMAND_BYTES;
    /* The ring always has room for a largest record before or after the waiting ones. */
    size_t capacity = JOURNAL_QUEUE_BYTES + 2 * journal_queue_size(journal->reading.largest);
    journal->producers_keep = options->producers_keep;
    journal->producers_days = options->producers_days;
    journal->batch_newest = calloc(JOURNAL_BATCH_ENTRIES, sizeof(struct journal_record *));
    /* Without memory statistics SQLite locks less; the call fails if SQLite is already in use. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (journal_numbers_open(&journal->numbers) ||
        streams_open(&journal->batch_keys, JOURNAL_BATCH_ENTRIES, NULL) || !journal->batch_newest ||
        !journal_queue_open(&journal->queue, capacity))
        return error_set(error, EX_UNAVAILABLE, "out of memory for the journal");
    if (options->remember && journal_recent_open(&journal->recent, error))
        return -1;
    journal->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (journal->event < 0)
        return error_set(error, EX_UNAVAILABLE, "the journal cannot be prepared: %s",
                         strerror(errno));
    return 0;
}

/* Records and syncs changed settings before anything else is written: after a loss of power, a file
   with an outdated `full` would be refused, because its mark can be ahead of it. */
static int record_settings(struct journal *journal, const struct journal_options *options,
                           struct error *error) {
    struct journal_store *store = &journal->store;
    struct journal_totals *totals = &journal->totals;
    if (totals->sync == options->sync && !strcmp(totals->name, options->name) &&
        !strcmp(totals->digest, options->digest))
        return 0;
    totals->sync = options->sync;
    snprintf(totals->name, sizeof totals->name, "%s", options->name);
    snprintf(totals->digest, sizeof totals->digest, "%s", options->digest);
    if (journal_store_begin(store, error) || journal_store_totals(store, &journal->totals, error))
        return -1;
    return journal_store_commit(store, error) ? -1
                                              : journal_sync_log(store->file, store->path, error);
}

/* Lowers the mark of an earlier file first: a killed start must not leave a new file that the next
   start refuses. */
static int create(struct journal *journal, const struct journal_options *options,
                  struct error *error) {
    struct journal_totals fresh = {
        .sync = options->sync, .oldest = options->checkpoint + 1, .newest = options->checkpoint};
    snprintf(fresh.name, sizeof fresh.name, "%s", options->name);
    snprintf(fresh.digest, sizeof fresh.digest, "%s", options->digest);
    if (journal_mark_reset(&journal->mark, options->checkpoint, error))
        return -1;
    return journal_store_create(journal->path, &fresh, error);
}

static int read_place(void *context, const char *name, const struct journal_place *place,
                      struct error *error) {
    struct journal *journal = context;
    uint32_t partition = journal_partition(journal, name);
    if (!partition || place->position > journal->totals.newest)
        return journal_damaged(error, journal->path, "invalid places of its partitions");
    of(journal, partition)->place = *place;
    return 0;
}

static int open_file(struct journal *journal, const struct journal_options *options,
                     struct error *error) {
    struct journal_store *store = &journal->store;
    struct journal_tail tail;
    journal->found.marked = journal->mark.position;
    if (journal_store_find(journal->path, &journal->found.is_new, error) ||
        (journal->found.is_new && create(journal, options, error)) ||
        journal_check_log(journal->path, &tail, error) ||
        journal_store_open(store, journal->path, options->sync, error) ||
        journal_check_totals(store, &journal->totals, error) ||
        journal_check_owner(journal->path, &journal->totals, journal->mark.position, options,
                            error) ||
        (!journal->found.is_new && journal_check_end(journal->path, &journal->totals,
                                                     journal->mark.position, options, error)))
        return -1;
    if (journal->totals.sync == JOURNAL_FULL && tail.transactions > 1)
        return journal_damaged(error, journal->path,
                               "%d transactions of its write-ahead log are unreadable",
                               tail.transactions);
    journal->found.torn = tail.torn;
    journal->found.newest = journal->totals.newest;
    if (journal_check_contents(store, &journal->totals, error) ||
        journal_store_prepare(store, tail.torn, error) ||
        record_settings(journal, options, error) ||
        journal_store_places(store, options->places, read_place, journal, error) ||
        journal_read_open(&journal->reading, error) || journal_store_identify(store, error) ||
        journal_read_age(&journal->reading, &journal->age_began, error))
        return -1;
    journal->age_since = clock_ns();
    if (journal->recent)
        journal_read_recent(&journal->reading, journal->recent);
    return 0;
}

static int start(struct journal *journal, struct error *error) {
    journal->appended = journal->totals.newest;
    journal->oldest = journal->totals.oldest;
    journal->producers = journal->totals.streams;
    atomic_store(&journal->durable, journal->totals.newest);
    int status = threads_start(&journal->thread, write_thread, journal);
    journal->started = status == 0;
    if (status)
        return error_set(error, EX_UNAVAILABLE, "cannot start the journal's thread: %s",
                         strerror(status));
    return 0;
}

int journal_open(struct journal **journal, const char *directory,
                 const struct journal_options *options, struct error *error) {
    struct journal *opened = calloc(1, sizeof *opened);
    *journal = opened;
    if (!opened)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the journal");
    opened->event = opened->mark.file = -1;
    opened->sync = options->sync;
    opened->keep = options->keep;
    snprintf(opened->path, sizeof opened->path, "%s/%s", directory, JOURNAL_NAME);
    opened->reading = (struct journal_reading){.path = opened->path,
                                               .input_bytes = options->input_bytes,
                                               .target_bytes = options->target_bytes,
                                               .messages = options->messages,
                                               .target_messages = options->target_messages};
    pthread_mutex_init(&opened->mutex, NULL);
    threads_condition(&opened->work);
    threads_condition(&opened->done);
    if (!allocate(opened, options, error) && !journal_mark_open(&opened->mark, directory, error) &&
        !open_file(opened, options, error) && !start(opened, error))
        return 0;
    journal_close(journal);
    return -1;
}

/* Ends the journal's thread if it runs. */
static void stop_thread(struct journal *journal) {
    if (!journal->started)
        return;
    pthread_mutex_lock(&journal->mutex);
    journal->stop = true;
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(&journal->mutex);
    pthread_join(journal->thread, NULL);
    journal->started = false;
}

void journal_close(struct journal **journal) {
    struct journal *old = *journal;
    *journal = NULL;
    if (!old)
        return;
    stop_thread(old);
    journal_read_close(&old->reading);
    journal_store_close(&old->store, old->failed);
    journal_mark_close(&old->mark);
    pthread_mutex_destroy(&old->mutex);
    pthread_cond_destroy(&old->work);
    pthread_cond_destroy(&old->done);
    if (old->event >= 0)
        close(old->event);
    journal_queue_close(&old->queue);
    journal_numbers_close(&old->numbers);
    streams_close(&old->batch_keys);
    for (uint32_t n = 0; n < old->partition_count; n++)
        free(old->partitions[n]);
    journal_recent_close(&old->recent);
    free(old->batch_newest);
    free(old);
}

struct journal_found journal_found(const struct journal *journal) {
    return journal->found;
}

uint64_t journal_position(const struct journal *journal) {
    return journal->appended;
}

/* ---- Durable entries ---- */

uint64_t journal_durable(const struct journal *journal) {
    return atomic_load(&journal->durable);
}

uint64_t journal_expired(const struct journal *journal) {
    return atomic_load(&journal->expired);
}

int journal_descriptor(const struct journal *journal) {
    return journal->event;
}

/* Under the mutex. */
static int status_of(const struct journal *journal, struct error *error) {
    if (!journal->failed)
        return 0;
    return error_set(error, journal->error.status, "%s", journal->error.text);
}

int journal_poll(struct journal *journal, struct error *error) {
    eventfd_t events;
    eventfd_read(journal->event, &events);
    pthread_mutex_lock(&journal->mutex);
    int status = status_of(journal, error);
    pthread_mutex_unlock(&journal->mutex);
    return status;
}

int journal_sync(struct journal *journal, struct error *error) {
    pthread_mutex_lock(&journal->mutex);
    while (!journal->failed && journal->queue.count) {
        journal->hurry = true;
        pthread_cond_signal(&journal->work);
        pthread_cond_wait(&journal->done, &journal->mutex);
    }
    int status = status_of(journal, error);
    pthread_mutex_unlock(&journal->mutex);
    if (status)
        return -1;
    if (!journal_look(journal, error) &&
        (journal->sync != JOURNAL_NORMAL ||
         journal_sync_log(journal->reading.file, journal->path, error) == 0))
        return 0;
    pthread_mutex_lock(&journal->mutex);
    journal->failed = true;
    journal->error = *error;
    pthread_mutex_unlock(&journal->mutex);
    return -1;
}

int journal_has_stream(struct journal *journal, const char *key, size_t key_size,
                       struct error *error) {
    return journal_sync(journal, error) ? -1
                                        : journal_read_has(&journal->reading, key, key_size, error);
}

/* With an empty queue the command gets a transaction of its own. */
uint64_t journal_forget(struct journal *journal, const char *text, const char *key, size_t key_size,
                        struct error *error) {
    assert(key_size <= WIRE_KEY_MAX);
    if (journal_sync(journal, error))
        return 0;
    pthread_mutex_lock(&journal->mutex);
    memcpy(journal->forget, key, key_size);
    journal->forget_size = key_size;
    journal->forgets = true;
    pthread_mutex_unlock(&journal->mutex);
    uint64_t position = journal_append_command(journal, JOURNAL_FORGET, text);
    if (journal_sync(journal, error))
        return 0;
    journal_numbers_clear(&journal->numbers); /* the file has all of it */
    return position;
}

int journal_skip_to(struct journal *journal, uint64_t position, struct error *error) {
    assert(journal->appended == atomic_load(&journal->durable) && position >= journal->appended);
    pthread_mutex_lock(&journal->mutex);
    journal->skip_to = position;
    journal->appended = position;
    while (!journal->failed && journal->skip_to) {
        pthread_cond_signal(&journal->work);
        pthread_cond_wait(&journal->done, &journal->mutex);
    }
    int status = status_of(journal, error);
    pthread_mutex_unlock(&journal->mutex);
    return status;
}

void journal_prune(struct journal *journal, uint64_t position) {
    if (journal->keep == JOURNAL_KEEP_ALL)
        return;
    pthread_mutex_lock(&journal->mutex);
    if (position > journal->prunable) {
        journal->prunable = position;
        pthread_cond_signal(&journal->work);
    }
    pthread_mutex_unlock(&journal->mutex);
}

void journal_hold(struct journal *journal) {
    pthread_mutex_lock(&journal->mutex);
    journal->holds++;
    while (journal->busy)
        pthread_cond_wait(&journal->done, &journal->mutex);
    pthread_mutex_unlock(&journal->mutex);
}

void journal_let_go(struct journal *journal) {
    pthread_mutex_lock(&journal->mutex);
    journal->holds--;
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(&journal->mutex);
}

void journal_figures(struct journal *journal, struct journal_figures *figures) {
    char log[JOURNAL_PATH_SIZE + 8];
    struct stat file;
    struct statvfs disk;
    *figures = (struct journal_figures){.position = journal->appended};
    snprintf(log, sizeof log, "%s-wal", journal->path);
    if (stat(journal->path, &file) == 0)
        figures->bytes += (uint64_t)file.st_size;
    if (stat(log, &file) == 0)
        figures->bytes += (uint64_t)file.st_size;
    if (statvfs(journal->path, &disk) == 0)
        figures->free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    pthread_mutex_lock(&journal->mutex);
    figures->oldest = journal->oldest;
    figures->durable = atomic_load(&journal->durable);
    figures->producers = journal->producers;
    figures->expired = journal_expired(journal);
    figures->entries = figures->durable + 1 - figures->oldest;
    if (journal->queue.count)
        figures->waiting =
            1e-9 * (double)(clock_ns() - journal_queue_next(&journal->queue, NULL)->appended);
    pthread_mutex_unlock(&journal->mutex);
}

bool journal_is_removed(const struct journal *journal) {
    return journal_store_is_removed(&journal->store);
}

int journal_look(const struct journal *journal, struct error *error) {
    return journal_store_look(&journal->store, error);
}

int journal_has_kind(struct journal *journal, uint64_t after, enum journal_kind kind,
                     struct error *error) {
    return journal_read_has_kind(&journal->reading, after, kind, error);
}

int journal_replay(struct journal *journal, uint64_t after, journal_visit *visit, void *context,
                   struct error *error) {
    return journal_read_all(&journal->reading, after, visit, context, error);
}

int journal_mark(struct journal *journal, struct error *error) {
    return journal_mark_reset(&journal->mark, journal->appended, error);
}

/* The thread has ended, so the rest of the queue is written here. */
int journal_save(struct journal *journal, struct error *error) {
    if (!journal_is_removed(journal))
        return error_set(error, EX_IOERR, "the journal %s is read-only", journal->path);
    stop_thread(journal);
    return write_rest(journal, error) || journal_store_save(&journal->store, error) ? -1 : 0;
}

/* ---- The numbers of streams ---- */

int journal_last(struct journal *journal, const char *key, size_t key_size, uint64_t producer,
                 uint32_t *epoch, uint64_t *sequence, uint64_t *position, struct error *error) {
    struct journal_last last;
    const struct journal_last *known =
        journal_numbers_find(&journal->numbers, key, key_size, producer);
    if (known) {
        last = *known;
    } else {
        int found = journal_look_up(&journal->reading, key, key_size, producer, &last, error);
        if (found != 1)
            return found;
        journal_numbers_put(&journal->numbers, &last, atomic_load(&journal->durable));
    }
    *epoch = last.epoch;
    *sequence = last.sequence;
    *position = last.position;
    return 1;
}

/* ---- Appending ---- */

static bool key_has_room(const struct journal *journal) {
    return journal_numbers_have_room(&journal->numbers, atomic_load(&journal->durable));
}

bool journal_has_room(struct journal *journal) {
    pthread_mutex_lock(&journal->mutex);
    bool room =
        journal_queue_place(&journal->queue, journal_queue_size(journal->reading.largest)) ||
        journal->failed;
    pthread_mutex_unlock(&journal->mutex);
    return room && key_has_room(journal);
}

/* Under the mutex: waits for a place; NULL: the journal has failed. */
static struct journal_record *wait_for_place(struct journal *journal, size_t size) {
    struct journal_record *place = NULL;
    while (!journal->failed &&
           (!key_has_room(journal) || !(place = journal_queue_place(&journal->queue, size)))) {
        journal->hurry = true;
        pthread_cond_signal(&journal->work);
        pthread_cond_wait(&journal->done, &journal->mutex);
    }
    return journal->failed ? NULL : place;
}

/* Writes a large record without the mutex: its place belongs to this thread. */
static void write_record(struct journal *journal, struct journal_record *place,
                         const struct journal_record *record) {
    enum { LARGE = 16384 };
    if (record->size >= LARGE)
        pthread_mutex_unlock(&journal->mutex);
    journal_queue_write(place, record);
    if (record->size >= LARGE)
        pthread_mutex_lock(&journal->mutex);
}

/* Reads the time of day some hundred times a second, not for each entry. */
static double time_of(struct journal *journal, uint64_t now) {
    static const uint64_t often = NS_PER_SECOND / 200;
    if (journal->day_asked == 0 || now - journal->day_asked >= often) {
        journal->day = clock_unix();
        journal->day_asked = now;
    }
    return journal->day + (double)(now - journal->day_asked) / (double)NS_PER_SECOND;
}

/* The record's bytes follow it in this order; `record` has their sizes. */
static uint64_t append(struct journal *journal, struct journal_record *record) {
    record->position = ++journal->appended;
    record->appended = clock_ns();
    record->time = time_of(journal, record->appended);
    record->size = journal_queue_size(journal_record_bytes(record));
    pthread_mutex_lock(&journal->mutex);
    struct journal_record *place = wait_for_place(journal, record->size);
    if (place) {
        write_record(journal, place, record);
        journal_queue_put(&journal->queue, place);
    }
    size_t count = journal->queue.count;
    pthread_mutex_unlock(&journal->mutex);
    /* Wakes the journal's thread, which can be asleep or need not wait any longer. Under the mutex,
       it would wake up only to wait for the mutex. */
    if (count == 1 || count == JOURNAL_BATCH_ENTRIES)
        pthread_cond_signal(&journal->work);
    return record->position;
}

/* Sets every field: clearing the whole record first would double the cost. */
static struct journal_record record_of(const struct journal *journal,
                                       const struct example *example) {
    bool numbered = example->numbered, label = example->label;
    return (struct journal_record){
        .position = 0,
        .time = 0,
        .appended = 0,
        .stamp = isnan(example->time) ? 0 : example->time + 0.0, /* 0 is unknown, NaN absent */
        .sequence = numbered ? example->sequence : 0,
        /* A label without a number still names its example by this producer. */
        .producer = numbered || label ? example->producer : 0,
        .epoch = numbered ? example->epoch : 0,
        .kind = JOURNAL_EXAMPLE,
        .flags =
            (uint8_t)((example->end ? WIRE_END : 0) | (example->learn ? 0 : WIRE_DO_NOT_LEARN) |
                      (label ? WIRE_LABEL : 0) | (example->sparse ? WIRE_SPARSE : 0) |
                      (example->words_size ? WIRE_WORDS : 0)),
        .numbered = numbered,
        .label = {example->label_epoch, example->label_sequence},
        .steps = example->steps,
        .key_size = example->key_size,
        .x_size = example_inputs(example) * journal->reading.input_bytes,
        .y_size = example_targets(example) * journal->reading.target_bytes,
        .words_size = example->words_size,
        .key = example->key_size ? example->key : "",
        .x = example->x,
        .y = example->y,
        .words = example->words,
        .partition = example->partition,
        .count = example->count,
        .size = 0,
    };
}

enum journal_seen journal_seen(const struct journal *journal, const struct example *example) {
    if (!journal->recent)
        return JOURNAL_SEEN_UNKNOWN;
    const struct journal_record record = record_of(journal, example);
    return journal_recent_find(journal->recent, &record);
}

uint64_t journal_append_example(struct journal *journal, const struct example *example) {
    struct journal_record record = record_of(journal, example);
    if (record.key_size > WIRE_KEY_MAX || journal_record_bytes(&record) > journal->reading.largest)
        return 0;
    uint64_t position = append(journal, &record);
    if (record.numbered && !record.partition) {
        journal_numbers_note(&journal->numbers, &record, atomic_load(&journal->durable));
        if (journal->recent)
            journal_recent_put(journal->recent, &record);
    }
    return position;
}

static uint64_t append_command(struct journal *journal, enum journal_kind kind, const char *text,
                               uint32_t partition, const struct journal_place *place) {
    struct journal_record record = {.kind = (uint8_t)kind,
                                    .key = "",
                                    .x = text,
                                    .x_size = strlen(text) + 1,
                                    .partition = partition,
                                    .epoch = place->epoch,
                                    .sequence = place->sequence,
                                    .count = place->count};
    return record.x_size > JOURNAL_COMMAND_BYTES ? 0 : append(journal, &record);
}

uint64_t journal_append_command(struct journal *journal, enum journal_kind kind, const char *text) {
    static const struct journal_place none;
    return append_command(journal, kind, text, 0, &none);
}

uint64_t journal_append_place(struct journal *journal, enum journal_kind kind, const char *text,
                              uint32_t partition, const struct journal_place *place) {
    return append_command(journal, kind, text, partition, place);
}
