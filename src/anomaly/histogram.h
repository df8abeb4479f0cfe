/* A histogram that forgets: each new value multiplies all bins by 1 / growth. Instead of shrinking
   the bins, the mass of a new value grows, and all masses are divided now and then. */
#ifndef RUNNEL_HISTOGRAM_H
#define RUNNEL_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Doubles only, so that a checkpoint can copy it; the masses of the bins follow in its owner. All
   zero is a new stream. */
struct histogram {
    double weight; /* of the next value */
    double total;  /* sum of all masses */
    double top;    /* highest bin with mass */
};

/* `bins`: size of `mass`; `share`: mass of this value, 0 to 1. */
void histogram_learn(struct histogram *histogram, double *mass, size_t bins, size_t bin,
                     double share, double growth);

/* Whether a state from a checkpoint is valid. */
bool histogram_valid(const struct histogram *histogram, const double *mass, size_t bins);

#endif
