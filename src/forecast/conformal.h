/* Intervals around forecasts, from the errors that a stream's own forecasts have had: adaptive
   conformal inference (Gibbs and Candes, "Adaptive conformal inference under distribution shift",
   2021), column by column.

   An interval is meant to hold the truth in CONFORMAL_COVERAGE of all cases. It reaches from the
   forecast plus a low to the forecast plus a high quantile of the newest CONFORMAL_ERRORS errors
   e = y - p. Which quantiles is learned: a level a begins at 1 - CONFORMAL_COVERAGE, and with each
   truth

       a = a + CONFORMAL_RATE (1 - CONFORMAL_COVERAGE - [the truth was outside])

   so that misses widen the interval and hits narrow it, slowly: the share of misses comes to
   1 - CONFORMAL_COVERAGE whatever the errors are. Of n errors in order, e(1) <= ... <= e(n), the
   bounds are those at rank r = (n + 1) a / 2 from below and from above, between two of them by
   their distance; below rank 1 they go on outwards, by the distance of e(1) and e(n) until rank 0.
   a stays within 0 and CONFORMAL_LEVEL_MOST, and there it is not moved: a truth that is exactly on
   an interval without width says nothing about how wide it should be.

   Everything is computed in the order of the truths, in double; errors are kept as float. Memory is
   allocated when it opens, zero is the state of a stream that begins, and one truth costs two
   searches in, and two moves of, 400 bytes. */
#ifndef RUNNEL_FORECAST_CONFORMAL_H
#define RUNNEL_FORECAST_CONFORMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conformal;
struct error;

#define CONFORMAL_COVERAGE 0.9
#define CONFORMAL_RATE 0.005 /* as in the paper */
#define CONFORMAL_LEVEL_MOST 0.5

enum {
    CONFORMAL_ERRORS = 100, /* kept of a column */
    CONFORMAL_LEAST = 20, /* before there is an interval: rank 1 at the level that it begins with */
    CONFORMAL_STATE = 2,  /* doubles of a column: the level less its beginning, and how many errors
                             there are; from CONFORMAL_ERRORS on plus the place of the oldest */
};

/* For `slots` streams with forecasts of that many columns. */
int conformal_open(struct conformal **conformal, size_t columns, size_t slots, struct error *error);
void conformal_close(struct conformal **conformal);

/* A stream begins in the slot. */
void conformal_begin(struct conformal *conformal, uint32_t slot);

/* The interval of column k around the forecast p: NaN twice while there were too few errors, or p
   is no number. */
struct conformal_bounds {
    double low, high;
};
struct conformal_bounds conformal_bounds(const struct conformal *conformal, uint32_t slot, size_t k,
                                         double p);

/* Whether an interval holds y. */
static inline bool conformal_holds(struct conformal_bounds bounds, double y) {
    return y >= bounds.low && y <= bounds.high;
}

/* The truth y has come, about which p and these bounds were said: the level moves where there were
   bounds, and the error is kept. Both must be numbers. */
void conformal_learn(struct conformal *conformal, uint32_t slot, size_t k, double p,
                     struct conformal_bounds bounds, double y);

/* For checkpoints, of a slot: (columns, CONFORMAL_STATE) and (columns, CONFORMAL_ERRORS). */
double *conformal_state(struct conformal *conformal, uint32_t slot);
float *conformal_errors(struct conformal *conformal, uint32_t slot);

/* Whether they can have come from here. Likewise, after they have been written. */
bool conformal_valid(const struct conformal *conformal, uint32_t slot);
bool conformal_written(struct conformal *conformal, uint32_t slot);

#endif
