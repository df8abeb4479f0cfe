/* What is said in the end: the forecasts of experts and members put together, column by column, by
   polynomially weighted averages (ML-Poly: Gaillard, Stoltz and van Erven, "A second-order bound
   with excess losses", 2014), which has no rate to choose: the mean of one mixture for squared and
   one for absolute loss. All forecasts are changes: p says x + ds p.

   One mixture serves all streams, each with a state of its own, a row of doubles by slot. Each
   horizon has weights of its own, and what was said of it is kept until its target comes. */
#ifndef RUNNEL_FORECAST_MIXTURE_H
#define RUNNEL_FORECAST_MIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct mixture;

/* What the prediction is: the mixture, the mean of all, the one whose smoothed loss is lowest, or
   one of them (COMBINE_ONE + its number). */
enum combine { COMBINE_MLPOLY, COMBINE_AVERAGE, COMBINE_BEST, COMBINE_ONE };

/* `ahead` (horizons,) steps, ascending. */
int mixture_open(struct mixture **mixture, size_t columns, size_t forecasts, unsigned combine,
                 const size_t *ahead, size_t horizons, size_t slots, struct error *error);
void mixture_close(struct mixture **mixture);

/* The state of a slot, for checkpoints: (mixture_size,). */
size_t mixture_size(const struct mixture *mixture);
double *mixture_state(struct mixture *mixture, uint32_t slot);

/* Whether a state can have come from a mixture. */
bool mixture_state_valid(const struct mixture *mixture, const double *state);

/* A stream begins: all weights are equal. */
void mixture_begin(struct mixture *mixture, uint32_t slot);

/* What a target said of the forecast before it. */
struct mixture_score {
    double loss;          /* mean over observed columns of (p - y)^2, each at most 900 */
    double baseline;      /* the same of the last value: of y^2 */
    double squared_error; /* sum of (ds (p - y))^2: in original units */
    size_t observed;      /* columns */

    /* Until the next target. In original units, NAN where y is: errors (columns,), ds (p - y), and
       those of the last value. Of each forecast (forecasts,) its loss, and its weight before this
       target, means over observed columns. */
    const double *errors, *of_last, *losses, *weights;
};

/* With that step of the stream, counted from 0, the target of what was said the horizon's steps
   before has come: y (columns,) in changes, NaN = not observed. Weights move if `learn`. */
struct mixture_score mixture_learn(struct mixture *mixture, uint32_t slot, size_t horizon,
                                   uint64_t step, const double *y, bool learn);

/* At that step take forecasts q (forecasts, columns) and their unit ds (columns,); p (columns,) is
   what is said. */
void mixture_predict(struct mixture *mixture, uint32_t slot, size_t horizon, uint64_t step,
                     const double *q, const double *ds, double *p);

/* The weights now, (forecasts, columns): the mean of both mixtures'. */
void mixture_weights(struct mixture *mixture, uint32_t slot, size_t horizon, double *weights);

#endif
