/* The negative log probability of the target's class, in nats. */
#ifndef RUNNEL_LOSSES_SOFTMAX_H
#define RUNNEL_LOSSES_SOFTMAX_H

#include "losses.h"

static const struct loss_kind softmax_kind = {
    .name = "softmax",
    .what = "cross-entropy of one class among `size`; predicts probabilities",
    .class_id = true,
    .metrics = METRIC_ACCURACY | METRIC_BITS,
    .baseline = BASELINE_CLASSES,
    .parts = {{NULL, EXTENT_NUMBERS, MEANS_SHARE, UNIT_NONE}},
};

/* One class's term of the sum over all K, with `most` the largest activation. The gradient of a
   class is its term's share of the sum, minus 1 for the target's class. Below the range of
   float32 the term and its gradient are 0 (formula_exp ends at e^-87). */
FORMULA float softmax_term(float a, float most) {
    float x = a - most;
    return x < -87.0f ? 0.0f : formula_exp(x);
}

/* -log softmax(a)_y = log sum_k e^(a_k - m) + m - a_y with m = max a; of the class: a_y */
FORMULA double softmax_loss(double sum, float most, float of_class) {
    return log(sum) + ((double)most - (double)of_class);
}

#endif
