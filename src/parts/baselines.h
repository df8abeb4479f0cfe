/* The loss of the simplest forecast (baseline.h) of each score. */
#ifndef RUNNEL_BASELINES_H
#define RUNNEL_BASELINES_H

#include <stddef.h>
#include <stdint.h>

struct part_host;

/* Returns the baseline's prediction of a score's target, (scored,) in the form of
   prediction_of; NULL without a baseline. Only when outputs are wanted. */
const double *baselines_prediction(const struct part_host *host, size_t score);

/* Baselines use the first `known` classes from now on. baselines_forget_class removes an id from
   the counts of all streams, because it becomes another class. */
void baselines_set_classes(const struct part_host *host, size_t known);
void baselines_forget_class(const struct part_host *host, uint32_t id);

#endif
