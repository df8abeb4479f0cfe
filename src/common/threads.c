#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "clock.h"
#include "denormals.h"
#include "error.h"

enum {
    LINE = 64,  /* bytes of a cache line: each variable that several threads write has its own */
    LOOKS = 32, /* polls between two readings of the clock */
    PATIENCE = 50000, /* ns that a thread polls for work, or for its end, before it sleeps */
    NAME_SIZE = 16,   /* size of a thread's name, with its terminating zero */
};

/* A number that several threads read. */
struct line {
    _Alignas(LINE) atomic_uint_least64_t number;
};

struct helper {
    struct threads *threads;
    pthread_t thread;
    size_t index; /* 1.. */
};

/* A part's ticket is twice the number of its piece, plus one while nobody has taken it. A thread
   that takes it by compare-and-swap knows that the piece is the current one: the piece cannot
   end before its part. */
struct threads {
    threads_part *play;
    void *context;
    atomic_size_t parts;
    struct line piece; /* number of the newest piece, from 1 on */
    struct line left;  /* number of unfinished parts */
    struct line sleepers;
    atomic_bool waiting; /* the caller sleeps until all parts are done */
    atomic_bool ends;
    struct line tickets[THREADS_PARTS_MAX];

    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    size_t count, started;
    /* each thread is pinned to one of `cpus`; the caller has been pinned */
    bool pinned, caller_pinned;
    int cpus[THREADS_MAX];
    struct helper helpers[THREADS_MAX];
};

static _Thread_local bool within; /* the thread is within a part */

/* ---- CPUs ---- */

/* The CPUs at the start of the process: a pinned thread asks for them, too. */
static cpu_set_t allowed;
static atomic_bool any_pinned;
static pthread_once_t allowed_once = PTHREAD_ONCE_INIT;

static void note_allowed(void) {
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return;
    CPU_ZERO(&allowed);
    CPU_SET(0, &allowed);
}

size_t threads_cpus(int *cpus) {
    pthread_once(&allowed_once, note_allowed);
    size_t count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < THREADS_CPUS_MAX; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        if (cpus)
            cpus[count] = cpu;
        count++;
    }
    return count ? count : 1;
}

void threads_unpin(void) {
    if (atomic_load(&any_pinned))
        pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
}

static void pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    /* The CPU was available when the pool was opened. If it no longer is, any CPU will do. */
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static int check_cpus(const int *cpus, size_t count, struct error *error) {
    pthread_once(&allowed_once, note_allowed);
    for (size_t n = 0; n < count; n++)
        if (cpus[n] < 0 || cpus[n] >= CPU_SETSIZE || !CPU_ISSET(cpus[n], &allowed))
            return error_set(error, EX_CONFIG,
                             "CPU %d is not available; this process may use %zu CPUs (see "
                             "Cpus_allowed_list in /proc/self/status)",
                             cpus[n], threads_cpus(NULL));
    return 0;
}

/* ---- Waiting ---- */

static void rest(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Whether `line` becomes (or, with `leaves`, is no longer) `number` before patience ends. */
static bool comes(const struct line *line, uint64_t number, bool leaves) {
    uint64_t until = clock_ns() + PATIENCE;
    do
        for (int n = 0; n < LOOKS; n++) {
            if ((atomic_load_explicit(&line->number, memory_order_acquire) == number) != leaves)
                return true;
            rest();
        }
    while (clock_ns() < until);
    return false;
}

/* ---- Parts ---- */

/* The thread that finishes the last part wakes the caller. */
static void finish(struct threads *threads) {
    if (atomic_fetch_sub(&threads->left.number, 1) != 1 || !atomic_load(&threads->waiting))
        return;
    pthread_mutex_lock(&threads->mutex);
    pthread_cond_signal(&threads->done);
    pthread_mutex_unlock(&threads->mutex);
}

/* Play the remaining parts of a piece, beginning with this thread's own. `parts` may already be
   that of the next piece: the tickets decide. */
static void play_parts(struct threads *threads, uint64_t piece, size_t index) {
    size_t parts = atomic_load_explicit(&threads->parts, memory_order_relaxed);
    size_t first = threads_share(parts, index, threads->count);
    for (size_t n = 0; n < parts; n++) {
        size_t part = first + n < parts ? first + n : first + n - parts;
        uint64_t open = piece * 2 + 1;
        if (!atomic_compare_exchange_strong(&threads->tickets[part].number, &open, piece * 2))
            continue;
        within = true;
        threads->play(threads->context, part);
        within = false;
        finish(threads);
    }
}

static void sleep_until_work(struct threads *threads, uint64_t piece) {
    pthread_mutex_lock(&threads->mutex);
    atomic_fetch_add(&threads->sleepers.number, 1);
    while (atomic_load(&threads->piece.number) == piece && !atomic_load(&threads->ends))
        pthread_cond_wait(&threads->work, &threads->mutex);
    atomic_fetch_sub(&threads->sleepers.number, 1);
    pthread_mutex_unlock(&threads->mutex);
}

static void *help(void *argument) {
    struct helper *helper = argument;
    struct threads *threads = helper->threads;
    uint64_t piece = 0;
    denormals_to_zero();
    if (threads->pinned)
        pin(threads->cpus[helper->index]);
    while (!atomic_load(&threads->ends)) {
        if (!comes(&threads->piece, piece, true))
            sleep_until_work(threads, piece);
        piece = atomic_load(&threads->piece.number);
        play_parts(threads, piece, helper->index);
    }
    return NULL;
}

static void wake(struct threads *threads) {
    pthread_mutex_lock(&threads->mutex);
    pthread_cond_broadcast(&threads->work);
    pthread_mutex_unlock(&threads->mutex);
}

static void wait_for_all(struct threads *threads) {
    if (comes(&threads->left, 0, false))
        return;
    pthread_mutex_lock(&threads->mutex);
    atomic_store(&threads->waiting, true);
    while (atomic_load(&threads->left.number))
        pthread_cond_wait(&threads->done, &threads->mutex);
    atomic_store(&threads->waiting, false);
    pthread_mutex_unlock(&threads->mutex);
}

void threads_pin_caller(struct threads *threads) {
    if (!threads || !threads->pinned || threads->caller_pinned)
        return;
    atomic_store(&any_pinned, true);
    pin(threads->cpus[0]);
    threads->caller_pinned = true;
}

void threads_run(struct threads *threads, threads_part *play, void *context, size_t parts) {
    if (threads_count(threads) == 1 || parts < 2 || within) {
        for (size_t part = 0; part < parts; part++)
            play(context, part);
        return;
    }
    uint64_t piece = atomic_load(&threads->piece.number) + 1;
    threads->play = play;
    threads->context = context;
    atomic_store_explicit(&threads->parts, parts, memory_order_relaxed);
    atomic_store_explicit(&threads->left.number, parts, memory_order_relaxed);
    for (size_t part = 0; part < parts; part++)
        atomic_store_explicit(&threads->tickets[part].number, piece * 2 + 1, memory_order_release);
    atomic_store(&threads->piece.number, piece);
    if (atomic_load(&threads->sleepers.number))
        wake(threads);
    play_parts(threads, piece, 0);
    wait_for_all(threads);
}

/* ---- Opening and closing ---- */

int threads_start(pthread_t *thread, void *(*run)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

void threads_condition(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static int start(struct threads *threads, size_t index) {
    struct helper *helper = &threads->helpers[index];
    char name[NAME_SIZE];
    *helper = (struct helper){.threads = threads, .index = index};
    int status = threads_start(&helper->thread, help, helper);
    if (status)
        return status;
    threads->started++;
    snprintf(name, sizeof name, "runnel-learn-%zu", index % THREADS_MAX);
    pthread_setname_np(helper->thread, name);
    return 0;
}

int threads_open(struct threads **threads, size_t count, const int *cpus, struct error *error) {
    *threads = NULL;
    if (cpus && check_cpus(cpus, count, error))
        return -1;
    struct threads *opened = aligned_alloc(LINE, sizeof *opened);
    if (!opened)
        return error_set(error, EX_OSERR, "out of memory for %zu threads", count);
    memset(opened, 0, sizeof *opened);
    pthread_mutex_init(&opened->mutex, NULL);
    pthread_cond_init(&opened->work, NULL);
    pthread_cond_init(&opened->done, NULL);
    opened->count = count;
    opened->pinned = cpus != NULL;
    if (cpus)
        memcpy(opened->cpus, cpus, count * sizeof *cpus);
    *threads = opened;
    for (size_t index = 1; index < count; index++) {
        int status = start(opened, index);
        if (!status)
            continue;
        error_set(error, EX_OSERR,
                  "cannot start thread %zu of %zu: %s; use a lower "
                  "learning.threads",
                  index + 1, count, strerror(status));
        threads_close(threads);
        return -1;
    }
    return 0;
}

size_t threads_count(const struct threads *threads) {
    return threads ? threads->count : 1;
}

void threads_close(struct threads **threads) {
    struct threads *old = *threads;
    *threads = NULL;
    if (!old)
        return;
    atomic_store(&old->ends, true);
    wake(old);
    for (size_t index = 1; index <= old->started; index++)
        pthread_join(old->helpers[index].thread, NULL);
    pthread_mutex_destroy(&old->mutex);
    pthread_cond_destroy(&old->work);
    pthread_cond_destroy(&old->done);
    free(old);
}
