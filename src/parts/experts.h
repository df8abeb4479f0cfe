/* scale: forecast. A mixture of experts and networks (docs/explanation/forecasts.md). */
#ifndef RUNNEL_EXPERTS_H
#define RUNNEL_EXPERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct part_host;

/* Returns the name of forecast n of host->forecasts: experts, then members. */
const char *experts_name(const struct part_host *host, size_t n);

/* A step of the plan, once it has been played, in original units. */
struct experts_step {
    uint32_t slot;
    bool learn;
    uint64_t number;        /* its number in the stream: 0 is the first */
    const double *combined; /* (horizons, columns) forecasts */
    const double *experts;  /* (horizons, count, columns) those of experts and members */
    size_t count;
};
struct experts_step experts_step(const struct part_host *host, size_t step);

/* Returns the root mean square changes (columns,) over a horizon, at that step. */
const double *experts_changes(const struct part_host *host, size_t step, size_t horizon);

#endif
