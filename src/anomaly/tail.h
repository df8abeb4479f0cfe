/* How unlikely a feature is, from the stream's own history of it and no model: -log10 of the
   probability that it is at least so large.

   The history is a histogram over log2 of the feature, TAIL_WIDTH bins a doubling, which forgets:
   with each value every bin is multiplied by 2000 / 2001. With m(i) the mass of bin i, M of all,
   and `upper` the highest bin with M(i >= upper) >= 5% of M, the probability of a feature in bin n
   is

       n <= upper:  (M(i > n) + m(n) / 2 + 1 / 2) / (M + 1)
       n > upper:   (M(i > upper) + m(upper) / 2) / M * exp(-(u - upper - 1/2) / slope)

   where u is the feature's place in bins, and the slope (of a Pareto tail, in bins) Hill's estimate
   with a prior: (sum of m(i) (i - upper) over i > upper + 60 * 0.3 * 8) / (M(i > upper) + 60).

   To forget costs nothing: the mass of a new value grows instead, and all is divided now and then.
 */
#ifndef RUNNEL_TAIL_H
#define RUNNEL_TAIL_H

#include <stdbool.h>

enum {
    TAIL_BINS = 640,
    TAIL_WIDTH = 8,  /* bins a doubling */
    TAIL_ZERO = 320, /* the bin of 1 */
};

/* All of them doubles, so that a checkpoint takes it as it is. */
struct tail {
    double weight; /* of the next value */
    double total;  /* sum of mass */
    double top;    /* the highest bin that has any */
    double mass[TAIL_BINS];
};

void tail_begin(struct tail *tail);

/* Whether it has seen enough (more than 20 values, as it forgets) to say anything. */
bool tail_knows(const struct tail *tail);

/* >= 0; 0 while it knows nothing. The feature is >= 0; infinity counts as the highest bin. */
double tail_unlikeliness(const struct tail *tail, double feature);

void tail_learn(struct tail *tail, double feature);

/* Whether what was read from a checkpoint can have been written by this. */
bool tail_valid(const struct tail *tail);

#endif
