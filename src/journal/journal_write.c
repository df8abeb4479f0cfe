/* The journal's own thread: batches from the queue into the file. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "journal_internal.h"

/* Pruned at once, besides twice as many as come in: more than a block has, so that it makes
 * progress. */
enum { PRUNE_ENTRIES = 2 * JOURNAL_BLOCK_ENTRIES };

/* Rows of streams deleted at once, besides as many as come in; seconds between two looks at ages.
 */
enum { EXPIRE_ROWS = 512, EXPIRY_SECONDS = 60, SECONDS_A_DAY = 86400 };

/* What one transaction is to do. */
struct task {
    struct journal_queue queue; /* as it was when the batch was taken */
    size_t count;
    uint64_t prune; /* entries up to this position may go; 0 = none */
    uint64_t skip_to;
    bool forgets; /* the stream that journal->forget names */
    const struct journal_record *last;
};

/* ---- Under the mutex ---- */

/* Wait until the oldest entry has waited long enough, unless there are enough entries. One that
   comes alone, as the one before it did, has probably a sender that waits for it: nothing would
   come meanwhile. */
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

/* False: there is nothing left to do and the journal is being closed. */
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
    task->forgets = journal->forgets && task->count > 0; /* together with its command */
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
    journal_places_settle(journal);
    journal->oldest = journal->totals.oldest;
    journal->producers = journal->totals.streams;
    atomic_store(&journal->durable, journal->totals.newest);
    pthread_cond_broadcast(&journal->done);
}

static void fail(struct journal *journal, const struct error *error) {
    journal->busy = false;
    journal->failed = true;
    journal->error = *error;
    pthread_cond_broadcast(&journal->done);
}

static void announce(struct journal *journal) {
    const uint64_t one = 1;
    while (write(journal->event, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* ---- One transaction ---- */

/* The clock that ages of streams' rows count by: from the newest row on it goes only while the
   journal is open. A clock of the system that jumps, as without a battery until NTP has set it,
   must not make a producer old that still waits for an answer. */
static double age_clock(const struct journal *journal) {
    return journal->age_began + (double)(clock_ns() - journal->age_since) / (double)NS_PER_SECOND;
}

/* The newest record of each of the batch's streams, by slots of batch_keys. */
static void note_stream(struct journal *journal, const struct journal_record *record) {
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
            journal_places_note(journal, task->last);
        else if (task->last->numbered)
            note_stream(journal, task->last);
    }
    if (task->count && write_block(journal, error))
        return -1;
    return journal_places_write(journal, error) ? -1 : write_streams(journal, error);
}

/* Delete some of what may go, whole blocks: never many at once, so that no entry waits long for its
   commit, and always more than come in. `*pruned` becomes the position up to which nothing is left
   to do. */
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

/* Delete the numbers of streams and producers that are too many or too old, not many at once. What
   this transaction has written is never among them: JOURNAL_PRODUCERS_MIN. */
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

/* The learning thread waits, and appends nothing but the command meanwhile. */
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

int journal_write_rest(struct journal *journal, struct error *error) {
    const struct journal_record *record;
    struct task task;
    uint64_t pruned = UINT64_MAX;
    /* What the last transaction has written, when it was not settled. */
    while (journal->queue.count &&
           (record = journal_queue_next(&journal->queue, NULL))->position <= journal->totals.newest)
        journal_queue_drop(&journal->queue, 1, record);
    while (next_task(journal, &task, pruned)) {
        if (perform(journal, &task, &pruned, error))
            return -1;
        settle(journal, &task);
    }
    return journal_mark_write(journal, journal->totals.newest, error);
}

void *journal_write_thread(void *context) {
    struct journal *journal = context;
    struct task task;
    struct error error;
    uint64_t pruned = 0;
    pthread_mutex_lock(&journal->mutex);
    while (!journal->failed && next_task(journal, &task, pruned)) {
        pthread_mutex_unlock(&journal->mutex);
        int status = perform(journal, &task, &pruned, &error);
        if (!status)
            status = journal_look(journal, &error);
        if (!status)
            status = journal_mark_write(journal, journal->totals.newest, &error);
        pthread_mutex_lock(&journal->mutex);
        if (!status) {
            settle(journal, &task);
            pthread_mutex_unlock(&journal->mutex);
            announce(journal);
            status = journal_store_move_log(&journal->store, &error);
            pthread_mutex_lock(&journal->mutex);
        }
        if (status) {
            fail(journal, &error);
            announce(journal);
        }
    }
    pthread_mutex_unlock(&journal->mutex);
    return NULL;
}
