/* Normalization over the units of one group of one step: g * x + b with x = (a - mean) /
   sqrt(mean((a - mean)^2) + epsilon), where mean is the group's, or 0 if the norm is not
   centred. */
#ifndef RUNNEL_CPU_NORM_H
#define RUNNEL_CPU_NORM_H

#include <stdbool.h>
#include <stddef.h>

#include "isa.h"

/* Results of a normalization, for backward and for statistics. */
struct norm_scale {
    float mean;
    float rstd; /* 1 / sqrt(var + epsilon) */
};

#ifdef ISA
/* `length` includes padding, where a and `mask` are 0 (elsewhere 1); `units` counts the others. */
struct norm_scale norm_measure(const float *a, const float *mask, size_t length, size_t units,
                               bool centred);

/* Computes dz, the gradient of a, from d, the gradient of g * x + b; dz may be d. Adds to the
   gradients of gain and bias: d_gain += d x, d_bias += d, dz = rstd (d g - mean(d g) -
   x mean(d g x)), the first mean only if the norm is centred. */
void normalize_backward(const float *d, const float *a, const float *gain, struct norm_scale scale,
                        const float *mask, size_t length, size_t units, bool centred, float *dz,
                        float *d_gain, float *d_bias);

/* Sum of squares of n numbers, n a multiple of 16. */
double sum_of_squares(const float *a, size_t n);
#endif

#endif
