/* Threads that share one piece of work at a time: the caller's own, and a pool of helpers.

   A piece consists of numbered parts. The number defines the work of a part, so no result
   depends on which thread plays it. Part n belongs to one thread, the same for every piece with
   so many parts, so that the data is in the caches of its core. Other threads take parts that
   their thread has not begun. The caller therefore waits only for parts in progress, and a
   sleeping helper costs no time.

   A helper without work polls for some tens of microseconds, then sleeps. It has a name, blocks
   all signals, and rounds denormal numbers to zero. Only threads_open allocates. */
#ifndef RUNNEL_THREADS_H
#define RUNNEL_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct error;
struct threads;

enum {
    THREADS_MAX = 64,       /* threads of a pool, including the caller's */
    THREADS_PARTS_MAX = 64, /* parts of a piece */
    THREADS_CPUS_MAX = 1024,
};

typedef void threads_part(void *context, size_t part);

/* Open a pool of `count` threads, 1..THREADS_MAX, including the caller's. With `cpus` (count,)
   each is pinned to one of these, the caller's own thread by threads_pin_caller. -1 (EX_OSERR;
   EX_CONFIG: a CPU that this process may not use). */
int threads_open(struct threads **threads, size_t count, const int *cpus, struct error *error);

/* The number of threads; 1 without a pool (NULL). */
size_t threads_count(const struct threads *threads);

/* Play parts 0..parts-1, parts <= THREADS_PARTS_MAX, and return when all are done. Only one
   thread may call it at a time. Within a part, or without a pool, it plays the parts one after
   the other. */
void threads_run(struct threads *threads, threads_part *play, void *context, size_t parts);

/* Pin the calling thread once, if threads are pinned. Its new threads and processes inherit
   this: see threads_unpin. */
void threads_pin_caller(struct threads *threads);

void threads_close(struct threads **threads);

/* The range first..end of `count` numbers for a part: ranges are as equal as possible. */
static inline size_t threads_share(size_t count, size_t part, size_t parts) {
    return count / parts * part + (part < count % parts ? part : count % parts);
}

/* Write the CPUs that this process may use to `cpus` (THREADS_CPUS_MAX,) unless it is NULL.
   Returns their number, at least one. */
size_t threads_cpus(int *cpus);

/* Start a thread that blocks all signals: the caller handles them. Returns 0, or an errno. */
int threads_start(pthread_t *thread, void *(*run)(void *), void *context);

/* Initialize a condition whose timed waits use CLOCK_MONOTONIC. */
void threads_condition(pthread_cond_t *condition);

/* Let the calling thread, started by a pinned thread, use all CPUs again. */
void threads_unpin(void);

#endif
