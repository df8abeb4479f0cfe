/* scale: forecast. Experts and networks side by side, mixed (docs/forecasts.md). */
#ifndef RUNNEL_EXPERTS_H
#define RUNNEL_EXPERTS_H

#include <stddef.h>

struct part_host;

/* How many are mixed, experts and members, and their names; 0 without scale: forecast. */
size_t experts_count_all(const struct part_host *host);
const char *experts_name(const struct part_host *host, size_t n);

#endif
