/* The mean of several daemons' parameters. */
#ifndef RUNNEL_FLEET_AVERAGE_H
#define RUNNEL_FLEET_AVERAGE_H

#include <stddef.h>

/* Sums in double, in the order in which they are added; begins with all zeros. */
struct fleet_average {
    double *sums; /* (count,) */
    size_t count, added;
};

void fleet_average_add(struct fleet_average *average, const float *values /* (count,) */);

/* Rounded once. */
void fleet_average_mean(const struct fleet_average *average, float *values /* (count,) */);

#endif
