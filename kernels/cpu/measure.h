/* Statistics of one step of one layer, from the network's arrays. */
#ifndef RUNNEL_CPU_MEASURE_H
#define RUNNEL_CPU_MEASURE_H

#include <stddef.h>

#include "engine/engine.h"

struct network;

/* Fills `layers` (layer_count,) from the step at `position` of the ring, and the activity. */
void measure_step(const struct network *n, const double *activity, size_t position,
                  struct layer_statistics *layers);

#endif
