/* scale: forecast. A mixture of experts and networks (docs/explanation/forecasts.md). */
#ifndef RUNNEL_EXPERTS_H
#define RUNNEL_EXPERTS_H

#include <stddef.h>

struct part_host;

/* Returns the name of forecast n of host->forecasts: experts, then members. */
const char *experts_name(const struct part_host *host, size_t n);

#endif
