/* Repeated measurements of one thing, and what they say together. */
#ifndef RUNNEL_BENCH_SERIES_H
#define RUNNEL_BENCH_SERIES_H

#include <stddef.h>

enum { SERIES_MAX = 1024 };

struct series {
    double values[SERIES_MAX];
    size_t count;
};

/* What is beyond SERIES_MAX is left out. */
void series_add(struct series *series, double value);

struct figure {
    double median;
    double minimum, maximum;
    double spread; /* distance of the quartiles, over the median */
};

/* All zero for an empty series. Sorts the values. */
struct figure series_figure(struct series *series);

/* ---- How long single examples take ----

   One by one: what a mean hides, such as the example that brings the update. */

enum { LATENCIES_MAX = 1 << 17 };

struct latencies {
    double *values; /* (LATENCIES_MAX,) */
    size_t count;
};

/* -1 when out of memory. */
int latencies_open(struct latencies *latencies);
void latencies_close(struct latencies *latencies);

/* What is beyond LATENCIES_MAX is left out. */
void latencies_add(struct latencies *latencies, double value);

/* The value that the share `part` lies at or below; 0 for none. Sorts the values. */
double latencies_quantile(struct latencies *latencies, double part);

#endif
