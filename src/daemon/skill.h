/* Compares learning with the simplest forecast (parts/baseline.h), and scores each column of the
   targets, each expert and each member: fields of `loss` messages, over the intervals of metrics.h.

   Skill is 1 - loss / baseline; for losses that are logarithms it is baseline - loss. Above 0
   learning is better. An example counts if its loss is finite and its baseline known. */
#ifndef RUNNEL_SKILL_H
#define RUNNEL_SKILL_H

#include <stddef.h>
#include <stdint.h>

#include "common/fields.h"
#include "learner/learner.h"
#include "model/model.h"

struct error;
struct skill;

/* The size of the learner's results; skill_open allocates all memory. */
struct skill_options {
    enum loss loss;
    size_t columns; /* columns with squared errors; 0 if targets are not numbers */
    size_t experts; /* experts and members; 0 without scale: forecast */
    const struct architecture *architecture; /* its list of outputs is reported */
};

int skill_open(struct skill **skill, const struct skill_options *options, struct error *error);
void skill_close(struct skill **skill);

/* Starts from scratch; only this module clears the learner's sums of columns, experts and outputs.
 */
void skill_begin(struct skill *skill, struct learner *learner);

/* Adds an example. */
void skill_add(struct skill *skill, const struct learned *learned);

/* Closes the open interval, after reporting it unless `report` is NULL. Rows of the report are
   valid until the next report; those of experts have no names yet. */
void skill_close_interval(struct skill *skill, struct learner *learner, struct loss_fields *report);

/* Reports the last complete interval and the open one together. */
void skill_recent(struct skill *skill, const struct learner *learner, struct loss_fields *report);

/* Computes the skill from sums of losses and baselines; NAN if it is undefined. */
double skill_over(enum loss loss, double loss_sum, double baseline_sum, uint64_t examples);

#endif
