/* Quantiles, as Hyndman and Fan number them ("Sample quantiles in statistical packages", 1996). */
#ifndef RUNNEL_QUANTILE_H
#define RUNNEL_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

/* Ascending. */
void quantile_sort(double *values, size_t count);

/* Type 7, the usual one of R and NumPy: the place `share` of the way from the first to the last of
   at least one sorted value, in line between two of them. */
double quantile(const double *sorted /* (count,) */, size_t count, double share);

/* Type 1, of values that were counted in ascending bins: the first bin up to which at least `share`
   of all `total` values lie; `count` if none is. */
size_t quantile_bin(const uint32_t *bins /* (count,) */, size_t count, uint64_t total,
                    double share);

#endif
