#include "feed_permutation.h"

#include <stdlib.h>

#include "common/random.h"

void permutation_draw(uint32_t *numbers, size_t count, uint64_t *random) {
    for (size_t i = 0; i < count; i++)
        numbers[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        size_t j = random_below(random, i);
        uint32_t swapped = numbers[i - 1];
        numbers[i - 1] = numbers[j];
        numbers[j] = swapped;
    }
}

int permutation_open(struct permutation *permutation, size_t size, uint64_t seed,
                     struct error *error) {
    permutation->random = seed;
    permutation->size = size;
    permutation->to = malloc((size + 1) * sizeof *permutation->to);
    for (size_t i = 0; permutation->to && i < size; i++)
        permutation->to[i] = (uint32_t)i;
    return permutation->to ? 0 : error_no_memory(error);
}

void permutation_close(struct permutation *permutation) {
    free(permutation->to);
}

void permutation_advance(struct permutation *permutation) {
    if (permutation->every && permutation->examples++ % permutation->every == 0)
        permutation_draw(permutation->to, permutation->size, &permutation->random);
}
