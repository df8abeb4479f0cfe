/* Statistics of one step of one layer, from the network's arrays. */
#ifndef RUNNEL_CPU_MEASURE_H
#define RUNNEL_CPU_MEASURE_H

#include <stddef.h>

#include "engine/engine.h"

struct kernels;
struct network;
struct update_result;

/* measure_begin keeps norms of the starting weights; measure_growth finds the layer whose weights
   have grown most since. */
void measure_begin(const struct kernels *kernels, const struct network *n);
void measure_growth(const struct kernels *kernels, const struct network *n,
                    struct update_result *result);

/* Fills `layers` (layer_count,) from the step at `position` of the ring, and the activity. */
void measure_step(const struct kernels *kernels, const struct network *n, size_t position,
                  struct layer_statistics *layers);

#endif
