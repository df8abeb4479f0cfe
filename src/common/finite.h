/* Conversion to the range of float, and checks of ranges. */
#ifndef RUNNEL_FINITE_H
#define RUNNEL_FINITE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* Bounds of doubles computed from float values. Stored values stay within them, so that their
   squares and products are finite. */
#define FINITE_VALUE_MOST 1e40  /* a value, a difference of two values, a deviation */
#define FINITE_SQUARE_MOST 1e80 /* a mean of such squares */
#define FINITE_MOST 1e100       /* a quotient, or a sum of squares */

/* Whether all numbers are within -most..most; false for NaN. */
static inline bool finite_within(const double *numbers, size_t count, double most) {
    bool within = true;
    for (size_t n = 0; n < count; n++)
        within &= fabs(numbers[n]) <= most;
    return within;
}

/* Whether all numbers are within -most..most or NaN. */
static inline bool finite_or_nan(const double *numbers, size_t count, double most) {
    bool within = true;
    for (size_t n = 0; n < count; n++)
        within &= !(fabs(numbers[n]) > most);
    return within;
}

/* Whether all are finite. */
static inline bool finite_floats(const float *numbers, size_t count) {
    bool finite = true;
    for (size_t n = 0; n < count; n++)
        finite &= isfinite(numbers[n]) != 0;
    return finite;
}

/* The float nearest to x: the largest finite float where a cast would return infinity. NaN stays
   NaN. */
static inline float finite_float(double x) {
    return fabs(x) > (double)FLT_MAX ? copysignf(FLT_MAX, (float)x) : (float)x;
}

#endif
