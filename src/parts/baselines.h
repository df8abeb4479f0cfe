/* The loss of the simplest forecast (baseline.h) of each score. */
#ifndef RUNNEL_BASELINES_H
#define RUNNEL_BASELINES_H

#include <stddef.h>
#include <stdint.h>

struct part_host;

/* Returns the baseline's prediction of a score's target, (outputs / horizons,) in the form of
   prediction_of; NULL without a baseline. Only when outputs are wanted. */
const double *baselines_prediction(const struct part_host *host, size_t score);

/* The first `known` classes take part from now on; an id becomes another class, which no stream has
   had. */
void baselines_set_classes(const struct part_host *host, size_t known);
void baselines_forget_class(const struct part_host *host, uint32_t id);

#endif
