/* The statistics of tables, in double, without allocations. NaN marks missing numbers. */
#ifndef RUNNEL_REPORT_STATISTICS_H
#define RUNNEL_REPORT_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

struct statistics_sample {
    size_t count;     /* of present numbers */
    double mean;      /* NaN without numbers */
    double deviation; /* deviation of a sample, over count - 1; NaN with fewer than two */
    double least, greatest;
};
struct statistics_sample statistics_of(const double *values /* (count,) */, size_t count);

/* The rank of each value among all: 1 is the best. Equal values share the mean of their ranks;
   values that are not finite share the last ones. */
void statistics_ranks(const double *values /* (count,) */, size_t count, bool larger_better,
                      double *ranks /* (count,) */);

/* Student's t-test of pairs: whether the mean of `differences` is zero. */
struct statistics_test {
    size_t pairs; /* with a difference */
    double mean;  /* of the differences */
    /* two-sided; NaN with fewer than two pairs, or if all have the same difference. 1 if no pair
       differs. */
    double p;
};
struct statistics_test statistics_paired(const double *differences /* (count,) */, size_t count);

/* A difference with a smaller p is significant. */
#define STATISTICS_LIKELY 0.05

/* P(|T| >= |t|) of Student's distribution. */
double statistics_student(double t, double degrees);

/* Holm's (1979) adjustment of several tests in place: the probability of a false finding among
   all of them stays below the chosen p. NaN values stay NaN, and do not count as tests. */
void statistics_holm(double *p /* (count,) */, size_t count);

#endif
