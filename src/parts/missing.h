/* What stands for numbers that are missing: model.input.missing. */
#ifndef RUNNEL_MISSING_H
#define RUNNEL_MISSING_H

#include <stdint.h>

struct part_host;

/* The last observed x (x_size,) of the stream in a slot, NaN where none yet; NULL without
   missing: hold, and with scale: forecast, whose experts keep it. */
float *missing_held(const struct part_host *host, uint32_t slot);

#endif
