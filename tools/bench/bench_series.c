#include "bench_series.h"

#include "common/clock.h"
#include "common/quantile.h"

enum { READINGS = 1000 };

void series_add(struct series *series, double value) {
    series->values[series->count++ % SERIES_MAX] = value;
}

static size_t sort(struct series *series) {
    size_t kept = series->count < SERIES_MAX ? series->count : SERIES_MAX;
    quantile_sort(series->values, kept);
    return kept;
}

double series_quantile(struct series *series, double share) {
    size_t kept = sort(series);
    return kept ? quantile(series->values, kept, share) : 0;
}

struct figure series_figure(struct series *series, double quiet) {
    const double *sorted = series->values;
    size_t kept = sort(series);
    if (kept == 0)
        return (struct figure){0};
    double median = quantile(sorted, kept, 0.5);
    double quartiles = quantile(sorted, kept, 0.75) - quantile(sorted, kept, 0.25);
    return (struct figure){
        .quiet = quantile(sorted, kept, quiet),
        .median = median,
        .minimum = sorted[0],
        .maximum = sorted[kept - 1],
        .spread = median > 0 ? quartiles / median : 0,
    };
}

void stopwatch_open(struct stopwatch *stopwatch, bool wall) {
    double costs[READINGS];
    *stopwatch = (struct stopwatch){.clock = wall ? clock_seconds : clock_thread_seconds};
    stopwatch_lap(stopwatch);
    for (size_t i = 0; i < READINGS; i++)
        costs[i] = stopwatch_lap(stopwatch);
    quantile_sort(costs, READINGS);
    stopwatch->cost = quantile(costs, READINGS, QUIET);
}

double stopwatch_lap(struct stopwatch *stopwatch) {
    double now = stopwatch->clock(), seconds = now - stopwatch->last - stopwatch->cost;
    stopwatch->last = now;
    return seconds;
}
