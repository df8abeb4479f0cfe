/* Measures the ceilings of one core: multiply-adds, and reads and updates of data in each cache
   and in memory. */
#ifndef RUNNEL_BENCH_MACHINE_H
#define RUNNEL_BENCH_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "bench_series.h"

struct ceilings;
struct error;

enum machine_level { LEVEL_L1, LEVEL_L2, LEVEL_L3, LEVEL_MEMORY, LEVELS };

enum { MACHINE_NAME_SIZE = 64 };

struct machine {
    char processor[MACHINE_NAME_SIZE];
    const struct ceilings *loops; /* loops of the engine's instruction set */
    size_t capacity[LEVELS];      /* bytes; memory: SIZE_MAX */
    bool reported;                /* the machine reports its caches' sizes; else assumed */
    size_t buffer_size[LEVELS];   /* bytes read to measure that level */
    void *mapped[LEVELS];
    float *buffers[LEVELS]; /* pointers into `mapped`; NULL until the first round */
    struct stopwatch stopwatch;
    struct series multiply_add;   /* operations per second, two per multiply-add */
    struct series read[LEVELS];   /* bytes per second */
    struct series update[LEVELS]; /* bytes per second, read and written together */
};

/* `machine` must be all zero. `instructions`: the engine's name of an instruction set. */
void machine_open(struct machine *machine, const char *instructions);

/* Measures everything, some 50 ms. -1 if out of memory. */
int machine_round(struct machine *machine, struct error *error);
void machine_close(struct machine *machine);

/* The ceilings from all rounds. */
struct machine_figures {
    struct figure multiply_add, read[LEVELS], update[LEVELS];
};
struct machine_figures machine_figures(struct machine *machine);

extern const char *const machine_level_names[LEVELS];

#endif
