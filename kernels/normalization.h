/* Arithmetic of the norms, for one number: g x + b, x = (a - mean) rstd. Where mean and rstd come
   from, norms differ in (kernels/norms/); of a group of numbers it is eq. 3 of Ba, Kiros and Hinton
   (2016). */
#ifndef RUNNEL_NORMALIZATION_H
#define RUNNEL_NORMALIZATION_H

#include "formulas.h"

#define NORMALIZATION_EPSILON 1e-5f

/* 1 / deviation, from the biased variance of a. */
FORMULA float normalization_rstd(float variance) {
    return 1.0f / sqrtf(variance + NORMALIZATION_EPSILON);
}

FORMULA float normalization_apply(float x, float gain, float bias) {
    return gain * x + bias;
}

/* The gradient of a from d, that of g x + b, where mean and deviation are those of a's own group:
   mean = mean(d g), product = mean(d g x). */
FORMULA float normalization_group_backward(float d, float gain, float x, float mean, float product,
                                           float rstd) {
    return rstd * (d * gain - mean - x * product);
}

#endif
