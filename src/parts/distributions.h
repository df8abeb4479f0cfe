/* With scale: forecast and distribution.enabled: a predictive distribution of each column and
   horizon (forecast/distribution.h). Scores and quantiles are notes beside the pairs and steps of
   truth.h. */
#ifndef RUNNEL_DISTRIBUTIONS_H
#define RUNNEL_DISTRIBUTIONS_H

#include <stddef.h>

#include "forecast/distribution.h"

struct part_host;

/* Exponential moving averages over the scored numbers of all streams, with this decay for all
   numbers of a step together. */
enum { DISTRIBUTIONS_PIT_BINS = 20, DISTRIBUTIONS_INTERVALS = 4 };
#define DISTRIBUTIONS_RECENT 0.998

struct distributions_recent {
    double weight;
    double pit[DISTRIBUTIONS_PIT_BINS];   /* shares times weight */
    double held[DISTRIBUTIONS_INTERVALS]; /* of central intervals of 50, 90, 99, 99.9% */
};

/* Returns the published levels (count,); NULL without distributions. */
const double *distributions_levels(const struct part_host *host, size_t *count);

/* The largest |z| of the columns of the step scored last, at the nearest horizon; NaN: none. NULL:
   no distributions. */
const double *distributions_z(const struct part_host *host);

/* Returns the numbers beside a pair: (columns,) scores, NaN where nothing was issued, then the
   quantiles (columns, levels) that were published; and beside a step: quantiles (horizons, columns,
   levels). */
size_t distributions_pair_notes(const struct part_host *host);
size_t distributions_step_notes(const struct part_host *host);

/* Returns only zeros without distributions. */
struct distributions_recent distributions_recent(const struct part_host *host);

/* One sentence about the recent histogram of PITs: calibrated, too narrow, too wide or shifted;
   NULL with too few truths. */
const char *distributions_calibration(const struct part_host *host);

#endif
