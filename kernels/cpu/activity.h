/* Activity of units and growth of weights: kernels/activities.h. */
#ifndef RUNNEL_CPU_ACTIVITY_H
#define RUNNEL_CPU_ACTIVITY_H

#include "network.h"

/* Before learning begins: keeps the norms of the starting weights. */
void activity_begin(const struct network *n, double *block);

/* After an update whose newest step is at that position. */
void activity_add(const struct network *n, double *block, size_t position);

void activity_read(const struct network *n, const double *block, size_t layer,
                   struct layer_statistics *s);

/* The largest growth of a layer's weights, and that layer. */
void activity_growth(const struct network *n, const double *block, struct update_result *result);

#endif
