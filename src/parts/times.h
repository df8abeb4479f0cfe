/* Features of an example's time: model.input.time (docs/reference/time.md). */
#ifndef RUNNEL_TIMES_H
#define RUNNEL_TIMES_H

#include <stdint.h>

struct part_host;

/* Returns how many examples had an earlier time than their stream's previous one since the start of
   learning; 0 without model.input.time. */
uint64_t times_backwards(const struct part_host *host);

#endif
