/* Values that lie far outside of all others: none that a sensor means. */
#ifndef RUNNEL_WILD_H
#define RUNNEL_WILD_H

#include <stddef.h>

/* Welford (1962): d = x - mean; mean += d / n; squares += d (x - mean), with the new mean; `count`
   is n. Returns the new sum of squares. */
static inline double welford(double value, double count, double *mean, double squares) {
    double difference = value - *mean;
    *mean += difference / count;
    return squares + difference * (value - *mean);
}

/* How far from their median one of the values may be that is none of the wild: up to `most` that
   lie more than a thousand deviations away from the mean of all nearer ones. INFINITY: none is
   wild. The values are put into the order of their distance from the median. */
double wild_distance(double *values, size_t count, size_t most, double *median);

#endif
