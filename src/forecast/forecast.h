/* What a stream's own numbers say of its next ones, without a network (scale: forecast): units for
   each column, a lag at which it repeats, and experts, cheap forecasts that the network's is
   compared and mixed with. All of it depends on the stream's examples alone, is computed in double,
   step by step, and is the same on every machine's instruction set.

   All forecasts are *changes*: p says x + ds p, where ds is the root mean square change of the
   column over as many steps. Each horizon has a unit and experts of its own, and says what it would
   say alone. docs/explanation/forecasts.md has the formulas. Rooms above use this header, mixture.h and
   least_squares.h.

   Memory is allocated when it opens: a state of doubles for each slot, which a checkpoint copies.
 */
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
    EXPERTS, /* how many there are */
};

const char *expert_name(enum expert expert);

/* Sets of experts are bits, 1 << EXPERT_last and so on. */
#define EXPERTS_ALL ((1u << EXPERTS) - 1)

/* How many are in a set, and which is number n of them. */
size_t experts_count(unsigned experts);
enum expert experts_at(unsigned experts, size_t n);

/* Bounds of what is learned from and given to a network. */
#define FORECAST_FEATURE_MOST 8.0 /* changes, or deviations */
#define FORECAST_CHANGE_MOST 5.0  /* of a target in changes */

/* Within -most..most. */
static inline double forecast_clip(double a, double most) {
    return a > most ? most : a < -most ? -most : a;
}

/* Of one horizon h. Arrays are the forecaster's and stay until its next step; all (columns,) but
   `experts`. */
struct forecast_horizon {
    bool settles;    /* the step h before waited for this x: the next four are about that one */
    const double *y; /* the change to this x, in its ds; NaN: not observed, or a column's first */
    const double *level; /* (x - mean) / sd, in its scale; NaN likewise */
    const double *base;  /* what ar12 had said of y; 0 without that expert */
    const double *last;  /* the x that y is the change from; NaN where nothing was ever seen */

    const double *ds;
    const double *v; /* 1: the change to the next x one lag ago, in ds; else what the value was one
                        whole period before the one that is forecast; 0 while there is no lag */
    const double *ar12;    /* that expert's forecast; 0 without it */
    const double *experts; /* (experts of the set, columns) */
};

/* What is to be learned of a step whose last target has come. */
struct forecast_closed {
    bool learn;                     /* else the arrays say nothing */
    const double *y, *level, *base; /* as above */
};

/* What one step says. */
struct forecast_step {
    uint64_t number;                   /* of the stream's steps, from 0 on */
    const struct forecast_horizon *of; /* (horizons,) */
    bool closes;                       /* the step of the furthest horizon before has all targets */
    const struct forecast_closed *closed; /* (horizons,) them */

    const double *x;      /* missing values held; 0 where nothing was ever seen, */
    const double *unseen; /* NaN there, else 0: to be added to a forecast of it */
    const double *mean, *sd;
    const double *z, *u; /* (x - mean) / sd, and the change to this x in ds, within 8 */
};

/* For `slots` streams with x of that many columns; `ahead` (horizons,) steps, ascending. */
int forecaster_open(struct forecaster **forecaster, size_t columns, unsigned experts,
                    const size_t *ahead, size_t horizons, size_t slots, struct error *error);
void forecaster_close(struct forecaster **forecaster);

/* The state of a slot, for checkpoints: (forecaster_size,). */
size_t forecaster_size(const struct forecaster *forecaster);
double *forecaster_state(struct forecaster *forecaster, uint32_t slot);

/* Whether a state can have come from a forecaster, with so many steps that wait for targets in the
   networks beside it. */
bool forecaster_state_valid(const struct forecaster *forecaster, const double *state, size_t open);

/* A stream begins in the slot. */
void forecaster_begin(struct forecaster *forecaster, uint32_t slot);

/* One more x (columns,) of a stream, maybe unaligned, NaN = missing. With `learn` the experts learn
 * from it. */
void forecaster_take(struct forecaster *forecaster, uint32_t slot, const void *x, bool learn,
                     struct forecast_step *step);

#endif
