/* Substitutes for missing numbers: model.input.missing. */
#ifndef RUNNEL_MISSING_H
#define RUNNEL_MISSING_H

#include <stdint.h>

struct part_host;

/* Returns the last observed x (x_size,) of the stream in a slot, NaN before the first. NULL without
   missing: hold, and with scale: forecast, whose experts store it. */
float *missing_held(const struct part_host *host, uint32_t slot);

#endif
