#include "quantile.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void quantile_sort(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
}

double quantile(const double *sorted, size_t count, double share) {
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    double rest = place - (double)below;
    return rest > 0 ? sorted[below] * (1 - rest) + sorted[below + 1] * rest : sorted[below];
}

size_t quantile_bin(const uint32_t *bins, size_t count, uint64_t total, double share) {
    uint64_t seen = 0;
    size_t bin = 0;
    while (bin < count && (double)(seen += bins[bin]) < share * (double)total)
        bin++;
    return bin;
}
