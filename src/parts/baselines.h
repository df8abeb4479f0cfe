/* What the simplest forecast would have lost (baseline.h), score by score. */
#ifndef RUNNEL_BASELINES_H
#define RUNNEL_BASELINES_H

#include <stddef.h>
#include <stdint.h>

struct part_host;

/* What it had said of a score's target, (outputs / horizons,) as prediction_of says it; NULL where
   there is none. Only when outputs are wanted. */
const double *baselines_said(const struct part_host *host, size_t score);

/* The first `known` classes take part from now on. One id is another class, of which no stream has
   had any. */
void baselines_set_classes(const struct part_host *host, size_t known);
void baselines_forget_class(const struct part_host *host, uint32_t id);

#endif
