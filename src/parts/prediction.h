/* The prediction of one step from a network's outputs, by the contract's table of losses, in the
   units of the example.

   It has as many numbers as the network has outputs (model.outputs):
     squared    size: a
     gaussian   size means, then size standard deviations
     softmax    size probabilities; with preset: symbols those of the most probable, else 0
     bernoulli  size probabilities
     mixture    the end's probability; then by rows of `components`: weights, mean1, mean2, sd1,
   sd2, correlations */
#ifndef RUNNEL_PREDICTION_H
#define RUNNEL_PREDICTION_H

#include "model/model.h"

struct learned;

/* `outputs` (scored,) are those of a head that is not late. */
void prediction_of_head(const struct model *model, const struct learned *learned, size_t head,
                        const float *outputs, double *numbers /* (scored,) */);

/* Computes the prediction at step t of an example whose outputs were requested. A mean is NaN
   before the first observation, a standard deviation before the first change. Late heads have
   none here. */
void prediction_of(const struct model *model, const struct learned *learned, size_t t,
                   double *numbers /* (model.outputs,) */);

/* Returns the quantiles of that prediction: (model.outputs, levels). */
const double *prediction_quantiles(const struct learned *learned, size_t t);

#endif
