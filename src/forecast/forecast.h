/* Forecasts of a stream from its own values, without a network (scale: forecast): a unit for each
   column, a lag at which it repeats, and experts, simple forecasts to compare and mix with the
   network's. They depend only on the stream's examples, are computed in double, step by step, and
   are the same with every instruction set.

   All forecasts are *changes*: p means x + ds p, where ds is the root mean square change of the
   column over that many steps. Each horizon has its own unit and experts, independent of the
   others. docs/explanation/forecasts.md has the formulas. Other rooms use this header, mixture.h
   and least_squares.h.

   Memory is allocated at opening: a state of doubles for each slot, which a checkpoint copies. */
#ifndef RUNNEL_FORECAST_H
#define RUNNEL_FORECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct forecaster;

enum { FORECAST_HORIZONS_MAX = 16 };

enum expert {
#define EXPERT(name, what, ...) EXPERT_##name,
#include "experts.def"
    EXPERTS,
};

const char *expert_name(enum expert expert);

/* A set of experts has the bits 1 << EXPERT_last and so on. EXPERTS_ALL: those that need no known
   columns; the others follow them. */
#define EXPERTS_ALL ((1u << EXPERT_known) - 1)

/* The number of experts in a set, and number n of them. */
size_t experts_count(unsigned experts);
enum expert experts_at(unsigned experts, size_t n);

/* Bounds of a network's inputs and targets. */
#define FORECAST_FEATURE_MOST 8.0 /* changes, or deviations */
#define FORECAST_CHANGE_MOST 5.0  /* limit of a target in changes */

/* Within -most..most. */
static inline double forecast_clip(double a, double most) {
    return a > most ? most : a < -most ? -most : a;
}

/* Forecasts of one horizon h. The forecaster owns the arrays until its next step; all are
   (columns,) except `experts`. */
struct forecast_horizon {
    bool settles; /* the step h before waited for this x; the next four fields describe that step */
    /* the change to this x, in its ds; NaN: not observed, or a column's first value */
    const double *y;
    const double *level; /* (x - mean) / sd, in its scale, or NaN */
    const double *base;  /* the forecast of y by ar12; 0 without that expert */
    const double *last;  /* the x before the change y; NaN without any value */

    const double *ds;
    /* 1: the change to the next x one lag ago, in ds; else the value one whole period before the
       forecast one; 0 without a lag */
    const double *v;
    const double *ar12;    /* that expert's forecast; 0 without it */
    const double *experts; /* (experts of the set, columns) */
};

/* The targets of a step to be learned, after the last one arrived. */
struct forecast_closed {
    bool learn;                     /* false: the arrays are unused */
    const double *y, *level, *base; /* as above */
};

/* The forecasts of one step. */
struct forecast_step {
    uint64_t number;                   /* number of the stream's step, from 0 */
    const struct forecast_horizon *of; /* (horizons,) */
    bool closes; /* the step before by the furthest horizon now has all targets */
    const struct forecast_closed *closed; /* (horizons,) its targets */

    const double *x;      /* missing values held; 0 without any value */
    const double *unseen; /* NaN there, else 0: add it to a forecast */
    const double *mean, *sd;
    const double *z, *u; /* (x - mean) / sd, and the change to this x in ds, within 8 */
    /* (known, horizons + 1) values at the horizons and now, from the first one in units of the
       largest distance, within 1 */
    const double *known;
};

/* Opens `slots` streams with x of that many columns; `ahead` (horizons,) steps, ascending. In x
   follow the values of `known` columns at the horizons: (known, horizons). */
int forecaster_open(struct forecaster **forecaster, size_t columns, size_t known, unsigned experts,
                    const size_t *ahead, size_t horizons, size_t slots, struct error *error);
void forecaster_close(struct forecaster **forecaster);

/* The state of a slot, for checkpoints: (forecaster_size,). */
size_t forecaster_size(const struct forecaster *forecaster);
double *forecaster_state(struct forecaster *forecaster, uint32_t slot);

/* Whether a state is valid, with that many steps waiting for targets in the networks. */
bool forecaster_state_valid(const struct forecaster *forecaster, const double *state, size_t open);

/* A stream begins in the slot. */
void forecaster_begin(struct forecaster *forecaster, uint32_t slot);

/* The next x (columns,) of a stream, possibly unaligned, NaN = missing. With `learn` the experts
   learn from it. */
void forecaster_take(struct forecaster *forecaster, uint32_t slot, const void *x, bool learn,
                     struct forecast_step *step);

#endif
