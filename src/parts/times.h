/* What of an example's time networks see: model.input.time (docs/reference/time.md). */
#ifndef RUNNEL_TIMES_H
#define RUNNEL_TIMES_H

#include <stdint.h>

struct part_host;

/* Examples whose time was before that of the one before in their stream, since the start of
   learning; 0 without model.input.time. */
uint64_t times_backwards(const struct part_host *host);

#endif
