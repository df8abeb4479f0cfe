#include "bench_series.h"

#include <stdlib.h>

#include "common/quantile.h"

void series_add(struct series *series, double value) {
    if (series->count < SERIES_MAX)
        series->values[series->count++] = value;
}

struct figure series_figure(struct series *series) {
    if (series->count == 0)
        return (struct figure){0};
    const double *sorted = series->values;
    quantile_sort(series->values, series->count);
    double median = quantile(sorted, series->count, 0.5);
    double quartiles =
        quantile(sorted, series->count, 0.75) - quantile(sorted, series->count, 0.25);
    return (struct figure){
        .median = median,
        .minimum = sorted[0],
        .maximum = sorted[series->count - 1],
        .spread = median > 0 ? quartiles / median : 0,
    };
}

int latencies_open(struct latencies *latencies) {
    latencies->count = 0;
    latencies->values = malloc(LATENCIES_MAX * sizeof *latencies->values);
    return latencies->values ? 0 : -1;
}

void latencies_close(struct latencies *latencies) {
    free(latencies->values);
    latencies->values = NULL;
}

void latencies_add(struct latencies *latencies, double value) {
    if (latencies->count < LATENCIES_MAX)
        latencies->values[latencies->count++] = value;
}

double latencies_quantile(struct latencies *latencies, double part) {
    if (latencies->count == 0)
        return 0;
    quantile_sort(latencies->values, latencies->count);
    return quantile(latencies->values, latencies->count, part);
}
