/* Statistics of a layer at one step, from an engine's arrays. */
#ifndef RUNNEL_STATISTICS_H
#define RUNNEL_STATISTICS_H

#include "engine/engine.h"

/* Running sums for mean, deviation and extremes. */
struct tally {
    double count, sum, squares, minimum, maximum;
};

/* `rows` rows of `size` numbers each, `stride` apart. */
struct values {
    const float *at;
    size_t rows, size, stride;
};

/* A layer at a measured step; without rows: it does not have these numbers. */
struct measured {
    struct values summed_inputs, summed_recurrent, hidden, cell;
    struct values gain[PLACES], bias[PLACES];
    struct tally running_mean, running_var;
    const double *activity; /* its numbers: enum activity_number, and rows */
    double age, norm;       /* updates in `activity`; norm of its matrices */
};

void tally_numbers(struct tally *t, struct values n);

void statistics_compute(const struct measured *from, struct layer_statistics *to);

#endif
