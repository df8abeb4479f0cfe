/* With scale: forecast and distribution.enabled: a predictive distribution of each column and
   horizon (forecast/distribution.h). What it publishes stands beside predictions and their truths
   (truth.h): row n here is of truth_pair(n), and step n of the bounds there. */
#ifndef RUNNEL_DISTRIBUTIONS_H
#define RUNNEL_DISTRIBUTIONS_H

#include <stddef.h>

#include "forecast/distribution.h"

struct part_host;

/* How all distributions have done lately: exponential moving averages over scored numbers, decay
   DISTRIBUTIONS_RECENT. */
enum { DISTRIBUTIONS_PIT_BINS = 20, DISTRIBUTIONS_INTERVALS = 4 };
#define DISTRIBUTIONS_RECENT 0.998

struct distributions_recent {
    double weight;
    double pit[DISTRIBUTIONS_PIT_BINS];   /* shares times weight */
    double held[DISTRIBUTIONS_INTERVALS]; /* of central intervals of 50, 90, 99, 99.9% */
    double numbers, held_total[DISTRIBUTIONS_INTERVALS]; /* since the start of learning */
};

/* The levels that are published, (count,); NULL where there is no distribution. */
const double *distributions_levels(const struct part_host *host, size_t *count);

/* Scores (columns,), and the quantiles (columns, levels) that had been published, of truth n: NaN
   where it had no distribution. */
const struct distribution_score *distributions_scores(const struct part_host *host, size_t n);
const double *distributions_scored_quantiles(const struct part_host *host, size_t n);

/* Quantiles issued at step n: (horizons, columns, levels). */
const double *distributions_quantiles(const struct part_host *host, size_t n);

/* Zeros where there is no distribution. */
struct distributions_recent distributions_recent(const struct part_host *host);

#endif
