#include "bench_latency.h"

#include <stdlib.h>

#include "common/quantile.h"

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
