/* Statistics of one step of one layer, from what the network keeps of it. */
#ifndef RUNNEL_CPU_MEASURE_H
#define RUNNEL_CPU_MEASURE_H

#include <stddef.h>

#include "engine/engine.h"

struct network;

/* Fill `layers` (layer_count,) from the step at `position` of the ring. */
void measure_step(const struct network *n, size_t position, struct layer_statistics *layers);

#endif
