/* What a network's outputs mean: the prediction of one step, as the contract's table of losses has
   it, in the units of the example.

   Numbers, as many as the network has outputs (model.outputs):
     squared    size: a
     gaussian   size means, then size standard deviations
     softmax    size probabilities
     bernoulli  size probabilities
     mixture    the end's probability; then by rows of `components`: weights, mean1, mean2, sd1,
                sd2, correlations */
#ifndef RUNNEL_PREDICTION_H
#define RUNNEL_PREDICTION_H

#include "model/model.h"

struct learned;

/* The prediction of one horizon, from the outputs that were made for it. */
void prediction_of_horizon(const struct model *model, const struct learned *learned,
                           const float *outputs, double *numbers /* (outputs / horizons,) */);

/* The prediction at step t of an example whose outputs were asked for. NaN: what has not been
   observed yet has no mean, and what has not varied yet no standard deviation. */
void prediction_of(const struct model *model, const struct learned *learned, size_t t,
                   double *numbers /* (model.outputs,) */);

#endif
