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

#endif
