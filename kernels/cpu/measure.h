/* Statistics of one step of one layer, from the network's arrays. */
#ifndef RUNNEL_CPU_MEASURE_H
#define RUNNEL_CPU_MEASURE_H

#include <stddef.h>

#include "engine/engine.h"

struct kernels;
struct network;
struct update_result;

/* `activity` is the block of activities.h. measure_begin keeps norms of the starting weights;
   measure_growth finds the layer whose weights have grown most since. */
void measure_begin(const struct kernels *kernels, const struct network *n, double *activity);
void measure_growth(const struct kernels *kernels, const struct network *n, double *activity,
                    struct update_result *result);

/* Fills `layers` (layer_count,) from the step at `position` of the ring, and the activity. */
void measure_step(const struct kernels *kernels, const struct network *n, double *activity,
                  size_t position, struct layer_statistics *layers);

#endif
