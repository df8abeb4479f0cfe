/* What a process keeps in memory, and how often this one asks for more. */
#ifndef RUNNEL_BENCH_MEMORY_H
#define RUNNEL_BENCH_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct config;
struct model;

/* Calls of malloc and its kin by this program's own code since it began. The linker puts the
   counter between (--wrap, see Makefile.am). */
uint64_t bench_allocations(void);

/* Bytes that malloc has handed out to the whole process, libraries included; 0 where the C library
   does not report. */
size_t bench_heap(void);

/* Resident bytes of a process, now and at most so far; 0 when there is no such process. */
struct resident {
    size_t now, peak;
};
struct resident bench_resident(pid_t process);

/* parameters x (1 + optimizer blocks + gradient) + windows of `streams` streams, with several
   members for each of them, + 48 MB */
size_t bench_memory_bound(const struct config *config, const struct model *model, size_t streams,
                          size_t members);

#endif
