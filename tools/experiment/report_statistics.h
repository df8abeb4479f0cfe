/* The statistics of tables: all in double, nothing is allocated. A number that is NaN is not there.
 */
#ifndef RUNNEL_REPORT_STATISTICS_H
#define RUNNEL_REPORT_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

struct statistics_sample {
    size_t count;     /* of those that are there */
    double mean;      /* NaN of none */
    double deviation; /* of a sample, over count - 1; NaN with less than two */
    double least, greatest;
};
struct statistics_sample statistics_of(const double *values /* (count,) */, size_t count);

/* The place of each value among all: 1 is the best. Equal values share the mean of their places;
   those that are not finite share the last ones. */
void statistics_ranks(const double *values /* (count,) */, size_t count, bool larger_better,
                      double *ranks /* (count,) */);

/* Student's t-test of pairs: whether the mean of `differences` is zero. */
struct statistics_test {
    size_t pairs; /* with a difference that is there */
    double mean;  /* of the differences */
    double p;     /* two-sided; NaN with less than two pairs, or when they all differ by the same:
                     then there is nothing to judge by. 1 when no pair differs. */
};
struct statistics_test statistics_paired(const double *differences /* (count,) */, size_t count);

/* A difference with a smaller p is taken for one. */
#define STATISTICS_LIKELY 0.05

/* P(|T| >= |t|) of Student's distribution. */
double statistics_student(double t, double degrees);

/* Holm's (1979) adjustment of several tests in place: the chance of one false finding among all of
   them stays below the p at which one stops. Those that are NaN stay so, and are no tests. */
void statistics_holm(double *p /* (count,) */, size_t count);

#endif
