/* The negative log density of each number under a normal distribution, whose mean and log variance
   are the activations. */
#ifndef RUNNEL_LOSSES_GAUSSIAN_H
#define RUNNEL_LOSSES_GAUSSIAN_H

#include "losses.h"

/* e^500 times the square of any float is still finite in double. */
#define GAUSSIAN_EXPONENT_MAX 500.0

static const struct loss_kind gaussian_kind = {
    .name = "gaussian",
    .what = "negative log density of a normal; predicts mean and standard deviation",
    .metrics = METRIC_RMSE,
    .baseline = BASELINE_NORMAL,
    .parts = {{"mean", EXTENT_NUMBERS, MEANS_ITSELF, UNIT_LEVEL},
              {"sd", EXTENT_NUMBERS, MEANS_ROOT_OF_EXPONENTIAL, UNIT_WIDTH}},
};

/* -log N(y; mean, e^logvar) = (log 2 pi + logvar + (y - mean)^2 e^-logvar) / 2 */
FORMULA double gaussian_number(const float *a, size_t stride, float y, double *gradient) {
    float mean = a[0], logvar = a[stride];
    double d = (double)mean - (double)y;
    double exponent = -(double)logvar;
    double precision = exp(exponent < GAUSSIAN_EXPONENT_MAX ? exponent : GAUSSIAN_EXPONENT_MAX);
    gradient[0] = d * precision;
    gradient[1] = 0.5 * (1.0 - d * d * precision);
    return 0.5 * (LOG_2PI + (double)logvar + d * d * precision);
}

#endif
