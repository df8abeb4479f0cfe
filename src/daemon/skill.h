/* How much better learning is than the simplest forecast (parts/baseline.h), and how each number
   of the targets, each expert and each member does: what `loss` messages carry beside the figures
   of metrics.h, over the same intervals.

   Skill is 1 - loss / baseline, and for losses that are logarithms the difference baseline - loss:
   above 0 it is worth its heat. Examples count whose loss is finite and whose baseline is known. */
#ifndef RUNNEL_SKILL_H
#define RUNNEL_SKILL_H

#include <stddef.h>
#include <stdint.h>

#include "common/fields.h"
#include "learner/learner.h"
#include "model/model.h"

struct error;
struct skill;

/* What the learner has; memory is allocated here alone. */
struct skill_options {
    enum loss loss;
    size_t columns; /* of squared errors; 0 where targets are no such numbers */
    size_t experts; /* and members; 0 without scale: forecast */
};

int skill_open(struct skill **skill, const struct skill_options *options, struct error *error);
void skill_close(struct skill **skill);

/* Begin again: nothing has been scored. Sums of columns and experts are the learner's, cleared here
   alone. */
void skill_begin(struct skill *skill, struct learner *learner);

/* One more example. */
void skill_add(struct skill *skill, const struct learned *learned);

/* Close the open interval; put it into a report first, unless that is NULL. Rows of the report are
   the skill's, until the next report; those of experts have no names yet. */
void skill_close_interval(struct skill *skill, struct learner *learner, struct loss_fields *report);

/* Report over the last complete interval and the open one together, and change nothing. */
void skill_recent(struct skill *skill, const struct learner *learner, struct loss_fields *report);

/* The skill over examples whose losses and baselines have these sums; NAN where it says nothing. */
double skill_over(enum loss loss, double loss_sum, double baseline_sum, uint64_t examples);

#endif
