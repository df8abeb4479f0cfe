/* The squared error of each number: the target is real, and the prediction is the activation. */
#ifndef RUNNEL_LOSSES_SQUARED_H
#define RUNNEL_LOSSES_SQUARED_H

#include "losses.h"

static const struct loss_kind squared_kind = {
    .name = "squared",
    .what = "mean squared error; predicts numbers",
    .metrics = METRIC_RMSE,
    .squares = true,
    .baseline = BASELINE_VALUE,
    .parts = {{NULL, EXTENT_NUMBERS, MEANS_ITSELF, UNIT_LEVEL}},
};

/* (a - y)^2 */
FORMULA double squared_number(const float *a, size_t stride, float y, double *gradient) {
    (void)stride;
    double d = (double)a[0] - (double)y;
    gradient[0] = 2.0 * d;
    return d * d;
}

#endif
