/* The final prediction: mixes the forecasts of experts and members, column by column, by
   polynomially weighted averages (ML-Poly: Gaillard, Stoltz and van Erven, "A second-order bound
   with excess losses", 2014), which have no rate to choose. It is the mean of one mixture for
   squared and one for absolute loss. All forecasts are changes: p means x + ds p.

   One mixture serves all streams; each has its own state, a row of doubles per slot. Each
   horizon has its own weights, and keeps its prediction until the target arrives. */
#ifndef RUNNEL_FORECAST_MIXTURE_H
#define RUNNEL_FORECAST_MIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct mixture;

/* The prediction: the mixture, the mean of all, the forecast with the lowest smoothed loss, or a
   fixed one (COMBINE_ONE + its number). */
enum combine { COMBINE_MLPOLY, COMBINE_AVERAGE, COMBINE_BEST, COMBINE_ONE };

/* `ahead` (horizons,) steps, ascending. */
int mixture_open(struct mixture **mixture, size_t columns, size_t forecasts, unsigned combine,
                 const size_t *ahead, size_t horizons, size_t slots, struct error *error);
void mixture_close(struct mixture **mixture);

/* The state of a slot, for checkpoints: (mixture_size,). */
size_t mixture_size(const struct mixture *mixture);
double *mixture_state(struct mixture *mixture, uint32_t slot);

/* Whether a state is valid. */
bool mixture_state_valid(const struct mixture *mixture, const double *state);

/* A stream begins: all weights are equal. */
void mixture_begin(struct mixture *mixture, uint32_t slot);

/* The errors of a forecast, computed when its target arrives. */
struct mixture_score {
    double loss;          /* mean over observed columns of (p - y)^2, each at most 900 */
    double baseline;      /* the same of the last value: of y^2 */
    double squared_error; /* sum of (ds (p - y))^2: in original units */
    size_t observed;      /* columns */

    /* Valid until the next target. In original units, NAN where y is: errors (columns,), ds (p -
       y), and those of the last value. Per forecast (forecasts,): its loss, and its weight
       before this target, means over observed columns. */
    const double *errors, *of_last, *losses, *weights;
};

/* Takes the target of a prediction made the horizon's steps before this step of the stream,
   counted from 0: y (columns,) in changes, NaN = not observed. Weights move if `learn`. */
struct mixture_score mixture_learn(struct mixture *mixture, uint32_t slot, size_t horizon,
                                   uint64_t step, const double *y, bool learn);

/* Takes forecasts q (forecasts, columns) of that step and their unit ds (columns,); sets the
   prediction p (columns,). */
void mixture_predict(struct mixture *mixture, uint32_t slot, size_t horizon, uint64_t step,
                     const double *q, const double *ds, double *p);

/* The current weights, (forecasts, columns): the mean of both mixtures'. */
void mixture_weights(struct mixture *mixture, uint32_t slot, size_t horizon, double *weights);

#endif
