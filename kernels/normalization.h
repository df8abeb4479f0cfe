/* Arithmetic of the norms, for one number: g x + b, x = (a - mean) rstd. Norms differ in the
   source of mean and rstd (kernels/norms/); for a group of numbers it is eq. 3 of Ba, Kiros and
   Hinton (2016). */
#ifndef RUNNEL_NORMALIZATION_H
#define RUNNEL_NORMALIZATION_H

#include <float.h>

#include "formulas.h"

#define NORMALIZATION_EPSILON 1e-5f

/* 1 / deviation, from the biased variance of a. */
FORMULA float normalization_rstd(float variance) {
    return 1.0f / sqrtf(variance + NORMALIZATION_EPSILON);
}

FORMULA float normalization_apply(float x, float gain, float bias) {
    return gain * x + bias;
}

/* x, with mean and rstd of a unit; and the gradient of a from d, that of g x + b, if neither
   depends on a. */
FORMULA float normalization_of_unit(float a, float mean, float rstd) {
    return (a - mean) * rstd;
}

FORMULA float normalization_unit_backward(float d, float gain, float rstd) {
    return d * gain * rstd;
}

/* The factor of a unit's weights w that is subtracted from their gradient, with rstd = 1 /
   sqrt(|w|^2 + epsilon): g d_gain rstd^2, where d_gain = sum of d x is the gain's own gradient.
   It follows from dL/drstd = g sum of d a = g d_gain / rstd, and drstd/dw = -rstd^3 w. */
FORMULA float normalization_rows_pull(float gain, float d_gain, float rstd) {
    return gain * d_gain * rstd * rstd;
}

/* A running statistic after an update; `found` is that of the update's steps. */
FORMULA float normalization_moved(float running, float found, float momentum) {
    return (1.0f - momentum) * running + momentum * found;
}

/* Whether running statistics move towards the new ones: values that are not finite would stay in
   them. */
FORMULA bool normalization_moves(float mean, float variance) {
    return mean - mean == 0 && variance <= FLT_MAX;
}

/* The gradient of a from d, that of g x + b, with mean and deviation of a's own group: mean =
   mean(d g), product = mean(d g x). */
FORMULA float normalization_group_backward(float d, float gain, float x, float mean, float product,
                                           float rstd) {
    return rstd * (d * gain - mean - x * product);
}

#endif
