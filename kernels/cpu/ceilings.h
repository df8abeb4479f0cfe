/* What one core of this machine can do at best: the loops that runnel-bench times to know the
   ceilings that it compares the engine with. Compiled once per instruction set, as the engine's
   arithmetic is. */
#ifndef RUNNEL_CPU_CEILINGS_H
#define RUNNEL_CPU_CEILINGS_H

#include <stddef.h>

#include "isa.h"

enum {
    CEILINGS_PLACES = 4,     /* a buffer is walked at so many places at once, for the prefetchers */
    CEILINGS_MULTIPLE = 128, /* numbers in a buffer are a multiple of this */
};

struct ceilings {
    const char *name; /* of the instruction set */

    /* Independent multiply-adds in registers; returns how many floating point operations were done:
       two each. */
    double (*multiply_add)(size_t rounds);

    /* Read `n` numbers `rounds` times. n is a multiple of CEILINGS_MULTIPLE, p on 64 bytes. */
    void (*read)(const float *p, size_t n, size_t rounds);

    /* x = a x + b in place, likewise: each number is read and written. */
    void (*update)(float *p, size_t n, size_t rounds);
};

extern const struct ceilings ceilings_baseline;
#ifdef RUNNEL_X86
extern const struct ceilings ceilings_avx2, ceilings_avx512;
#endif

#endif
