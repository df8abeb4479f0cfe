/* The network's x of a step, and a target, in the form of the plan's rows (model.h). Only the
   learner includes this. */
#ifndef RUNNEL_LEARNER_INPUT_H
#define RUNNEL_LEARNER_INPUT_H

#include "parts/part.h"

/* Fills step->input (features,) from its x, and sets the targets in x. step->values: a buffer
 * (x_size,), or step->input. */
void learner_fill_input(struct part_host *host, struct step *step);

/* A y that is a message becomes such a row (target_size,). */
void learner_fill_target(const struct model *model, struct example *example, union value *row);

#endif
