/* The top speeds of one core: loops that runnel-bench times and compares the engine with.
   Compiled once per instruction set, like the engine's arithmetic. */
#ifndef RUNNEL_BENCH_CEILINGS_H
#define RUNNEL_BENCH_CEILINGS_H

#include <stddef.h>

#include "cpu/isa.h"

enum {
    CEILINGS_PLACES = 4,     /* places at which a buffer is read in parallel, for the prefetchers */
    CEILINGS_MULTIPLE = 128, /* the numbers in a buffer are a multiple of this */
};

struct ceilings {
    const char *name; /* of the instruction set */

    /* Independent multiply-adds in registers; returns the number of floating point operations,
       two each. */
    double (*multiply_add)(size_t rounds);

    /* Reads `n` numbers `rounds` times. n is a multiple of CEILINGS_MULTIPLE, p is aligned to 64
       bytes. */
    void (*read)(const float *p, size_t n, size_t rounds);

    /* x = a x + b in place, with the same conditions: reads and writes each number. */
    void (*update)(float *p, size_t n, size_t rounds);
};

extern const struct ceilings ceilings_baseline;
#ifdef RUNNEL_X86
extern const struct ceilings ceilings_avx2, ceilings_avx512;
#endif

#endif
