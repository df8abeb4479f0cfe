/* The cross-entropy of each number, a probability in [0, 1], with the sigmoid of its activation. */
#ifndef RUNNEL_LOSSES_BERNOULLI_H
#define RUNNEL_LOSSES_BERNOULLI_H

#include "losses.h"

static const struct loss_kind bernoulli_kind = {
    .name = "bernoulli",
    .what = "cross-entropy of `size` numbers in [0, 1]; predicts probabilities",
    .unit_range = true,
    .metrics = METRIC_ACCURACY | METRIC_BITS,
    .baseline = BASELINE_RATES,
    .parts = {{NULL, EXTENT_NUMBERS, MEANS_PROBABILITY, UNIT_NONE}},
};

/* -y log s(a) - (1 - y) log(1 - s(a)) = max(a, 0) - a y + log(1 + e^-|a|) */
FORMULA double bernoulli_number(const float *a, size_t stride, float y, double *gradient) {
    (void)stride;
    double x = (double)a[0], t = exp(-fabs(x));
    double sigmoid = x >= 0 ? 1.0 / (1.0 + t) : t / (1.0 + t);
    gradient[0] = sigmoid - (double)y;
    return (x > 0 ? x : 0.0) - x * (double)y + log1p(t);
}

#endif
