#include "bench_series.h"

#include <stdlib.h>

void series_add(struct series *series, double value) {
    if (series->count < SERIES_MAX)
        series->values[series->count++] = value;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value that the share `part` of the sorted values lies below, between two of them in line. */
static double quantile(const struct series *series, double part) {
    double place = part * (double)(series->count - 1);
    size_t below = (size_t)place, above = below + 1 < series->count ? below + 1 : below;
    double rest = place - (double)below;
    return series->values[below] * (1 - rest) + series->values[above] * rest;
}

struct figure series_figure(struct series *series) {
    if (series->count == 0)
        return (struct figure){0};
    qsort(series->values, series->count, sizeof *series->values, compare);
    double median = quantile(series, 0.5);
    return (struct figure){
        .median = median,
        .minimum = series->values[0],
        .maximum = series->values[series->count - 1],
        .spread = median > 0 ? (quantile(series, 0.75) - quantile(series, 0.25)) / median : 0,
    };
}
