/* Repeated measurements of one quantity, and their summary. */
#ifndef RUNNEL_BENCH_SERIES_H
#define RUNNEL_BENCH_SERIES_H

#include <stddef.h>

enum { SERIES_MAX = 1024 };

struct series {
    double values[SERIES_MAX];
    size_t count;
};

/* Ignores values after SERIES_MAX. */
void series_add(struct series *series, double value);

struct figure {
    double median;
    double minimum, maximum;
    double spread; /* distance of the quartiles / median */
};

/* All zero for an empty series. Sorts the values. */
struct figure series_figure(struct series *series);

/* ---- Latencies of single examples ----

   Each value is kept: a mean would hide rare ones, such as examples with an update. */

enum { LATENCIES_MAX = 1 << 17 };

struct latencies {
    double *values; /* (LATENCIES_MAX,) */
    size_t count;
};

/* -1 if out of memory. */
int latencies_open(struct latencies *latencies);
void latencies_close(struct latencies *latencies);

/* Ignores values after LATENCIES_MAX. */
void latencies_add(struct latencies *latencies, double value);

/* The value at or below which the share `part` of all values is; 0 without values. Sorts the
   values. */
double latencies_quantile(struct latencies *latencies, double part);

#endif
