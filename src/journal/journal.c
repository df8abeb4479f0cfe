#include "journal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/wire.h"
#include "journal_internal.h"
#include "common/streams.h"

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
    journal->largest = largest_example(options);
    if (journal->largest < JOURNAL_COMMAND_BYTES)
        journal->largest = JOURNAL_COMMAND_BYTES;
    /* Wherever what waits lies in the ring, there is room for a largest one after or before it. */
    size_t capacity = JOURNAL_QUEUE_BYTES + 2 * journal_queue_size(journal->largest);
    journal->lasts = calloc(JOURNAL_KEYS, sizeof *journal->lasts);
    journal->producers_keep = options->producers_keep;
    journal->producers_days = options->producers_days;
    journal->batch_newest = calloc(JOURNAL_BATCH_ENTRIES, sizeof(struct journal_record *));
    /* Without its counts of memory SQLite locks less; refused when somebody uses it already. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (streams_open(&journal->keys, JOURNAL_KEYS, NULL) ||
        streams_open(&journal->batch_keys, JOURNAL_BATCH_ENTRIES, NULL) || !journal->lasts ||
        !journal->batch_newest || !journal_queue_open(&journal->queue, capacity))
        return error_set(error, EX_UNAVAILABLE, "out of memory for the journal");
    if (options->remember && journal_recent_open(&journal->recent, error))
        return -1;
    journal->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (journal->event < 0)
        return error_set(error, EX_UNAVAILABLE, "the journal cannot be prepared: %s",
                         strerror(errno));
    return 0;
}

static int synchronize(struct journal *journal, struct error *error) {
    pthread_condattr_t monotonic;
    int status = pthread_condattr_init(&monotonic);
    if (!status) {
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_mutex_init(&journal->mutex, NULL);
        pthread_cond_init(&journal->work, &monotonic);
        pthread_cond_init(&journal->done, &monotonic);
        pthread_condattr_destroy(&monotonic);
        journal->synchronized = true;
        return 0;
    }
    return error_set(error, EX_UNAVAILABLE, "the journal cannot be prepared: %s", strerror(status));
}

/* With other settings than those it was last written with, the file says so before anything else
   is written to it. That is synced: after a loss of power a file that still said `full` would be
   refused, for its mark may have what was never synced. */
static int take_over(struct journal *journal, const struct journal_options *options,
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

/* Without an entry it belongs to nobody: who changes a configuration before the first example finds
   no fault with it. The mark knows of a log that was left out of a copy. */
static bool is_unused(const struct journal *journal) {
    return journal->totals.newest == 0 && journal->totals.streams == 0 && journal->marked == 0;
}

static int check_owner(const struct journal *journal, const struct journal_options *options,
                       struct error *error) {
    const struct journal_totals *totals = &journal->totals;
    if (!strcmp(totals->digest, options->digest) || is_unused(journal))
        return 0;
    if (options->before && !strcmp(totals->digest, options->before)) {
        if (totals->newest <= options->checkpoint)
            return 0;
        return error_set(error, EX_CONFIG,
                         "the journal %s has %" PRIu64 " entr%s after the checkpoint, learned with "
                         "another window, stride, rule or optimizer: start with those, end the "
                         "daemon (runnel-ctl shutdown), and change them then",
                         journal->path, totals->newest - options->checkpoint,
                         totals->newest - options->checkpoint == 1 ? "y" : "ies");
    }
    return error_set(error, EX_CONFIG,
                     "the journal %s was written with another model or learning configuration "
                     "(%s, digest %s; this one is %s): continue with that configuration, or give "
                     "this one a directory of its own with state.directory, or move this "
                     "directory away, checkpoints and journal together",
                     journal->path, totals->name, totals->digest, options->digest);
}

/* The mark of a file that was there before is lowered first: a start that is killed must not leave
   a new file that it refuses. */
static int create(struct journal *journal, const struct journal_options *options,
                  struct error *error) {
    struct journal_totals fresh = {
        .sync = options->sync, .oldest = options->checkpoint + 1, .newest = options->checkpoint};
    snprintf(fresh.name, sizeof fresh.name, "%s", options->name);
    snprintf(fresh.digest, sizeof fresh.digest, "%s", options->digest);
    if (journal_mark_reset(journal, options->checkpoint, error))
        return -1;
    return journal_store_create(journal->path, &fresh, error);
}

static int open_file(struct journal *journal, const struct journal_options *options,
                     struct error *error) {
    struct journal_store *store = &journal->store;
    struct journal_tail tail;
    journal->found.marked = journal->marked;
    if (journal_store_find(journal->path, &journal->found.is_new, error) ||
        (journal->found.is_new && create(journal, options, error)) ||
        journal_check_log(journal->path, &tail, error) ||
        journal_store_open(store, journal->path, options->sync, error) ||
        journal_check_totals(store, &journal->totals, error) ||
        check_owner(journal, options, error) || journal_check_end(journal, options, error))
        return -1;
    if (journal->totals.sync == JOURNAL_FULL && tail.transactions > 1)
        return journal_damaged(error, journal->path,
                               "%d transactions of its write-ahead log cannot be read",
                               tail.transactions);
    journal->found.torn = tail.torn;
    journal->found.newest = journal->totals.newest;
    if (journal_check_contents(store, &journal->totals, error) ||
        journal_store_prepare(store, tail.torn, error) || take_over(journal, options, error) ||
        journal_places_open(journal, options->places, error) || journal_read_open(journal, error) ||
        journal_look_open(journal, error) || journal_read_age(journal, &journal->age_began, error))
        return -1;
    journal->age_since = clock_ns();
    if (journal->recent)
        journal_read_recent(journal);
    return 0;
}

/* Signals are the main thread's. */
static int start(struct journal *journal, struct error *error) {
    sigset_t all, before;
    journal->appended = journal->totals.newest;
    journal->oldest = journal->totals.oldest;
    journal->producers = journal->totals.streams;
    atomic_store(&journal->durable, journal->totals.newest);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&journal->thread, NULL, journal_write_thread, journal);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    journal->started = status == 0;
    if (status)
        return error_set(error, EX_UNAVAILABLE, "the journal's thread cannot be started: %s",
                         strerror(status));
    return 0;
}

int journal_open(struct journal **journal, const char *directory,
                 const struct journal_options *options, struct error *error) {
    struct journal *opened = calloc(1, sizeof *opened);
    *journal = opened;
    if (!opened)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the journal");
    opened->event = opened->mark = -1;
    opened->sync = options->sync;
    opened->keep = options->keep;
    opened->input_bytes = options->input_bytes;
    opened->target_bytes = options->target_bytes;
    snprintf(opened->path, sizeof opened->path, "%s/%s", directory, JOURNAL_NAME);
    if (!allocate(opened, options, error) && !synchronize(opened, error) &&
        !journal_mark_open(opened, directory, error) && !open_file(opened, options, error) &&
        !start(opened, error))
        return 0;
    journal_close(journal);
    return -1;
}

void journal_stop(struct journal *journal) {
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
    journal_stop(old);
    journal_read_close(old);
    journal_store_close(&old->store, old->failed);
    journal_mark_close(old);
    if (old->synchronized) {
        pthread_mutex_destroy(&old->mutex);
        pthread_cond_destroy(&old->work);
        pthread_cond_destroy(&old->done);
    }
    if (old->event >= 0)
        close(old->event);
    journal_queue_close(&old->queue);
    streams_close(&old->keys);
    streams_close(&old->batch_keys);
    journal_places_close(old);
    journal_recent_close(&old->recent);
    free(old->lasts);
    free(old->batch_newest);
    free(old);
}

struct journal_found journal_found(const struct journal *journal) {
    return journal->found;
}

uint64_t journal_position(const struct journal *journal) {
    return journal->appended;
}

/* ---- What has become durable ---- */

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
    uint64_t events;
    while (read(journal->event, &events, sizeof events) < 0 && errno == EINTR)
        ;
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
         journal_sync_log(journal->reading, journal->path, error) == 0))
        return 0;
    pthread_mutex_lock(&journal->mutex);
    journal->failed = true;
    journal->error = *error;
    pthread_mutex_unlock(&journal->mutex);
    return -1;
}

int journal_has_stream(struct journal *journal, const char *key, size_t key_size,
                       struct error *error) {
    return journal_sync(journal, error) ? -1 : journal_read_has(journal, key, key_size, error);
}

/* With the queue empty the command is a transaction of its own. */
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
    streams_clear(journal->keys); /* all that it knew is in the file */
    journal->judged.size = 0;
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
