#include "fleet_average.h"

void fleet_average_add(struct fleet_average *average, const float *values) {
    for (size_t n = 0; n < average->count; n++)
        average->sums[n] += (double)values[n];
    average->added++;
}

void fleet_average_mean(const struct fleet_average *average, float *values) {
    for (size_t n = 0; n < average->count; n++)
        values[n] = (float)(average->sums[n] / (double)average->added);
}
