/* The scaling of numbers of x and of targets: model.input.scale and model.output.scale. */
#ifndef RUNNEL_SCALING_H
#define RUNNEL_SCALING_H

#include <stdbool.h>

#include "scaler.h"

struct part_host;

/* Return the current scaler of inputs, and of targets that are not inputs; NULL: not scaled. */
struct scaler *scaling_scaler(const struct part_host *host);
struct scaler *scaling_target_scaler(const struct part_host *host);

/* Return mean or deviation of the example in this row of the plan: of x (x_size,) or of the columns
   that are targets; of targets (target_size,), before the example's own. NULL: not scaled. */
const double *scaling_row(const struct part_host *host, size_t row, bool deviation);
const double *scaling_target_row(const struct part_host *host, size_t row, bool deviation);

#endif
