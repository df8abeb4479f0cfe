/* scale: forecast. Experts and networks side by side, mixed (docs/explanation/forecasts.md). */
#ifndef RUNNEL_EXPERTS_H
#define RUNNEL_EXPERTS_H

#include <stddef.h>

struct part_host;

/* The name of one that is mixed, of host->forecasts: experts, then members. */
const char *experts_name(const struct part_host *host, size_t n);

#endif
