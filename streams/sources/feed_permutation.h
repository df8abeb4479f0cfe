/* Permutations of pixels, labels and symbols that are drawn again every so many examples: streams
   that change forever. */
#ifndef RUNNEL_FEED_PERMUTATION_H
#define RUNNEL_FEED_PERMUTATION_H

#include <stdlib.h>

#include "common/error.h"
#include "common/random.h"

struct permutation {
    uint64_t every; /* examples between two draws; 0: the numbers stay */
    uint64_t random, examples;
    size_t size;
    uint32_t *to; /* (size,) */
};

static inline void permutation_set(uint32_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        numbers[i] = (uint32_t)i;
}

/* Sets (count,) numbers to 0..count-1 in a random order (Fisher and Yates). */
static inline void permutation_draw(uint32_t *numbers, size_t count, uint64_t *random) {
    permutation_set(numbers, count);
    for (size_t i = count; i > 1; i--) {
        size_t j = random_below(random, i);
        uint32_t swapped = numbers[i - 1];
        numbers[i - 1] = numbers[j];
        numbers[j] = swapped;
    }
}

/* `every` is set; free `to`. */
static inline int permutation_open(struct permutation *permutation, size_t size, uint64_t seed,
                                   struct error *error) {
    permutation->random = seed;
    permutation->size = size;
    permutation->to = malloc((size + 1) * sizeof *permutation->to);
    if (!permutation->to)
        return error_no_memory(error);
    permutation_set(permutation->to, size);
    return 0;
}

/* Call before each example. */
static inline void permutation_advance(struct permutation *permutation) {
    if (permutation->every && permutation->examples++ % permutation->every == 0)
        permutation_draw(permutation->to, permutation->size, &permutation->random);
}

#endif
