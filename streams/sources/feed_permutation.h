/* Permutations of pixels, labels and symbols that are drawn again every so many examples: streams
   that change forever. */
#ifndef RUNNEL_FEED_PERMUTATION_H
#define RUNNEL_FEED_PERMUTATION_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct permutation {
    uint64_t every; /* examples between two draws; 0: the numbers stay */
    uint64_t random, examples;
    size_t size;
    uint32_t *to; /* (size,) */
};

/* Sets (count,) numbers to 0..count-1 in a random order (Fisher and Yates). */
void permutation_draw(uint32_t *numbers, size_t count, uint64_t *random);

/* `every` is set. */
int permutation_open(struct permutation *permutation, size_t size, uint64_t seed,
                     struct error *error);
void permutation_close(struct permutation *permutation);

/* Call before each example. */
void permutation_advance(struct permutation *permutation);

#endif
