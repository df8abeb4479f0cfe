/* Values far outside of all others, which no sensor measures. */
#ifndef RUNNEL_WILD_H
#define RUNNEL_WILD_H

#include <stddef.h>

/* Welford (1962): d = x - mean; mean += d / n; squares += d (x - mean), with the new mean;
   `count` is n. Returns the new sum of squares. */
static inline double welford(double value, double count, double *mean, double squares) {
    double difference = value - *mean;
    *mean += difference / count;
    return squares + difference * (value - *mean);
}

/* The largest distance from the median of a value that is not wild. Up to `most` values are wild
   if they lie more than a thousand deviations away from the mean of all nearer ones. INFINITY:
   no value is wild. Sorts the values by distance from the median. */
double wild_distance(double *values, size_t count, size_t most, double *median);

#endif
