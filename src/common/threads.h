/* Threads that share one piece of work after the other: the caller's own, and a pool of helpers.

   A piece is cut into parts, which say by their numbers what they do, so that no result depends on
   who plays which. Part n belongs to one thread, the same for every piece with so many parts, so
   that a core finds in its caches what it had there; what its thread has not begun, another takes.
   So the caller waits only for parts that were begun, and a helper that sleeps costs no time.

   A helper that finds nothing looks for more during some tens of microseconds, then sleeps. It has
   a name, blocks all signals, and takes denormal numbers for zero. Nothing here allocates but
   threads_open. */
#ifndef RUNNEL_THREADS_H
#define RUNNEL_THREADS_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct threads;

enum {
    THREADS_MAX = 64,       /* threads of a pool, the caller's among them; */
    THREADS_PARTS_MAX = 64, /* parts of a piece */
    THREADS_CPUS_MAX = 1024,
};

typedef void threads_part(void *context, size_t part);

/* A pool of `count` threads, 1..THREADS_MAX, the caller's among them. With `cpus` (count,) each is
   pinned to one of these, the caller's own thread by threads_pin_caller. -1 (EX_OSERR; EX_CONFIG: a
   CPU that this process may not use). */
int threads_open(struct threads **threads, size_t count, const int *cpus, struct error *error);

/* How many; of no pool (NULL) one. */
size_t threads_count(const struct threads *threads);

/* Play parts 0..parts-1, parts <= THREADS_PARTS_MAX, and return when all are done. One thread asks
   at a time. Within a part, or without a pool, the parts are played one after the other. */
void threads_run(struct threads *threads, threads_part *play, void *context, size_t parts);

/* Pin the calling thread, unless it has been or none are. What it starts from then on inherits
   that: threads_unpin. */
void threads_pin_caller(struct threads *threads);

void threads_close(struct threads **threads);

/* Numbers first..end of `count` that are the share of a part: as equal as they can be. */
static inline size_t threads_share(size_t count, size_t part, size_t parts) {
    return count / parts * part + (part < count % parts ? part : count % parts);
}

/* CPUs that this process may use, into `cpus` (THREADS_CPUS_MAX,) unless that is NULL. At least
   one is counted. */
size_t threads_cpus(int *cpus);

/* The calling thread, which one that is pinned has started, may use all of them again. */
void threads_unpin(void);

#endif
