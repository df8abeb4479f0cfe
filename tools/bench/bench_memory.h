/* Memory of a process, and the number of allocations of this one. */
#ifndef RUNNEL_BENCH_MEMORY_H
#define RUNNEL_BENCH_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct config;
struct model;

/* Calls of malloc and similar functions by this program's own code so far. The linker inserts
   the counter (--wrap, see Makefile.am). */
uint64_t bench_allocations(void);

/* Bytes that malloc has given to the whole process, including libraries; 0 if the C library does
   not report them. */
size_t bench_heap(void);

/* Resident bytes of a process, now and at most so far; 0 if the process does not exist. */
struct resident {
    size_t now, peak;
};
struct resident bench_resident(pid_t process);

/* parameters x (1 + optimizer blocks + gradient) + windows of `streams` streams, for each
   member, + 48 MB */
size_t bench_memory_bound(const struct config *config, const struct model *model, size_t streams,
                          size_t members);

#endif
