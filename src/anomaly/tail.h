/* How unlikely a feature is, from the stream's own history without a model: -log10 of the
   probability that a value is at least as large.

   The history is a histogram over log2 of the feature, with TAIL_WIDTH bins per doubling. It
   forgets: each value multiplies every bin by 2000 / 2001. With m(i) the mass of bin i, M of all
   bins, and `upper` the highest bin with M(i >= upper) >= 5% of M, the probability of a feature in
   bin n is

     n <= upper:  (M(i > n) + m(n) / 2 + 1 / 2) / (M + 1)
     n > upper:   (M(i > upper) + m(upper) / 2) / M * exp(-(u - upper - 1/2) / slope)

   where u is the feature's place in bins. The slope (of a Pareto tail, in bins) is Hill's estimate
   with a prior: (sum of m(i) (i - upper) over i > upper + 60 * 0.3 * 8) / (M(i > upper) + 60). */
#ifndef RUNNEL_TAIL_H
#define RUNNEL_TAIL_H

#include <stdbool.h>

#include "histogram.h"

enum {
    TAIL_BINS = 640,
    TAIL_WIDTH = 8,  /* bins per doubling */
    TAIL_ZERO = 320, /* the bin of 1 */
};
#define TAIL_GROWTH (2001.0 / 2000)

/* Doubles only, so that a checkpoint can copy it. */
struct tail {
    struct histogram sums;
    double mass[TAIL_BINS];
};

void tail_begin(struct tail *tail);

/* Whether it has enough values (more than 20, less the forgotten ones). */
bool tail_knows(const struct tail *tail);

/* >= 0; 0 while it has too few values. The feature is >= 0; infinity counts as the highest
   bin. */
double tail_unlikeliness(const struct tail *tail, double feature);

void tail_learn(struct tail *tail, double feature);

/* The same, with a mass of `share` (0 to 1) and another growth (histogram.h). */
void tail_learn_share(struct tail *tail, double feature, double share, double growth);

/* The middle of the bin that contains the median; 0 without values. */
double tail_median(const struct tail *tail);

/* Whether a state from a checkpoint is valid. */
bool tail_valid(const struct tail *tail);

#endif
