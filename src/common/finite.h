/* Into the range of float. */
#ifndef RUNNEL_FINITE_H
#define RUNNEL_FINITE_H

#include <float.h>
#include <math.h>

/* The float next to x: of what lies beyond all of them the last one, where a cast says infinity.
   NaN stays NaN. */
static inline float finite_float(double x) {
    return fabs(x) > (double)FLT_MAX ? copysignf(FLT_MAX, (float)x) : (float)x;
}

#endif
