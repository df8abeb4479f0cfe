/* Intervals around forecasts, from the errors of the stream's own forecasts, column by column:
   adaptive conformal inference. The equations are in docs/explanation/forecasts.md. The level does
   not move at a truth that is exactly on an interval without width, which does not show how wide it
   should be.

   All is computed in the order of the truths, in double; errors are stored as float. Memory is
   allocated at opening; all zero is a new stream. */
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
    CONFORMAL_ERRORS = 100, /* stored per column */
    CONFORMAL_LEAST = 20,   /* before there is an interval: rank 1 at the initial level */
    /* doubles per column: the level minus its initial value, and the number of errors, from
       CONFORMAL_ERRORS on plus the place of the oldest */
    CONFORMAL_STATE = 2,
};

/* Opens `slots` streams with forecasts of that many columns. */
int conformal_open(struct conformal **conformal, size_t columns, size_t slots, struct error *error);
void conformal_close(struct conformal **conformal);

/* A stream begins in the slot. */
void conformal_begin(struct conformal *conformal, uint32_t slot);

/* The interval of column k around the forecast p: NaN twice while there are too few errors, or
   if p is not a number. */
struct conformal_bounds {
    double low, high;
};
struct conformal_bounds conformal_bounds(const struct conformal *conformal, uint32_t slot, size_t k,
                                         double p);

/* Whether an interval contains y. */
static inline bool conformal_holds(struct conformal_bounds bounds, double y) {
    return y >= bounds.low && y <= bounds.high;
}

/* Takes the truth y of a forecast p with these bounds: moves the level if there were bounds, and
   keeps the error. Both must be numbers. */
void conformal_learn(struct conformal *conformal, uint32_t slot, size_t k, double p,
                     struct conformal_bounds bounds, double y);

/* State of a slot, for checkpoints: (columns, CONFORMAL_STATE) and (columns, CONFORMAL_ERRORS). */
double *conformal_state(struct conformal *conformal, uint32_t slot);
float *conformal_errors(struct conformal *conformal, uint32_t slot);

/* Whether the state is valid; call it again after writing the state. */
bool conformal_valid(const struct conformal *conformal, uint32_t slot);
bool conformal_written(struct conformal *conformal, uint32_t slot);

#endif
