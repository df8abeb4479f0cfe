/* scale: forecast. A mixture of experts and networks (docs/explanation/forecasts.md). */
#ifndef RUNNEL_EXPERTS_H
#define RUNNEL_EXPERTS_H

#include <stddef.h>

struct part_host;

/* Returns the name of forecast n of host->forecasts: experts, then members. */
const char *experts_name(const struct part_host *host, size_t n);

/* What was predicted at step n of the plan, once it has been played, in original units. */
struct experts_forecasts {
    const double *combined; /* (horizons, columns) */
    const double *experts;  /* (horizons, count, columns) of each expert and member */
    size_t count;
};
struct experts_forecasts experts_forecasts(const struct part_host *host, size_t step);

/* The root mean square changes (columns,) over a horizon, at that step. */
const double *experts_changes(const struct part_host *host, size_t step, size_t horizon);

#endif
