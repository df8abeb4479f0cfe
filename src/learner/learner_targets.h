/* Targets, what is said before they come, and what it is measured by. For learner*.c alone, as part
   of learner_internal.h. */
#ifndef RUNNEL_LEARNER_TARGETS_H
#define RUNNEL_LEARNER_TARGETS_H

#include <math.h>

#include "baseline.h"
#include "learner.h"
#include "truth.h"

struct cursor;
struct learner;
struct planned;

/* ---- What is kept ---- */

/* What a planned step says beside what networks are given: learner_forecast.c. */
struct said {
    uint32_t slot;
    bool learn;      /* from the targets that its x is */
    uint64_t number; /* of its stream's steps: 0 begins */
};

/* What the simplest forecast would have lost: learner_baseline.c. Memory of the plan, by score. */
struct judged {
    double *losses;   /* (scores,) */
    double *errors;   /* (scores, target_size) what it said less what came, in original units, where
                         targets are numbers */
    double *said;     /* (scores, K / horizons) what it said, likewise and as prediction.h has it:
                         only when outputs are wanted */
    double *forecast; /* (2, target_size) of the next score */
};

/* ---- Targets of the one network (learner_targets.c) ---- */

bool targets_open(struct learner *learner, size_t slots);
void targets_close(struct learner *learner);
bool targets_plan_open(struct learner *learner);

/* A stream begins; an example does, in this row of the plan: what it brings given is scaled by. */
void targets_begin(struct learner *learner, uint32_t slot);
void targets_example(struct learner *learner, const struct example *example, size_t row);

/* Mean or deviation (target_row,) that targets of an example in this row of the plan are predicted
   with; NULL: they are not scaled. */
const double *targets_scale(const struct learner *learner, size_t row, bool deviation);

/* Before its STEP: score and close what waits for an x, as it came and as the network sees it. */
void targets_next(struct learner *learner, uint32_t slot, const struct example *example,
                  const void *x, const union value *input, struct planned *planned);

/* After it: keep what its targets will be compared with. */
void targets_keep(struct learner *learner, uint32_t slot, const struct example *example,
                  const union value *input, const struct planned *planned);

/* Step t of an example has been planned: given, its target is there; later, the oldest of too many
   open steps gives up. */
int targets_given(struct learner *learner, uint32_t slot, const struct example *example, size_t t,
                  struct planned **planned, struct error *error);

/* Tell that a label changes nothing; `steps`: of the example that it is for. */
void label_refuse(const struct learner_observer *observer, const struct example *label,
                  enum label_refusal reason, size_t steps);

/* Take a label. */
int targets_label(struct learner *learner, const struct example *example, struct planned **planned,
                  struct error *error);

/* The sequence ends: open steps have no targets any more. */
int targets_end(struct learner *learner, uint32_t slot, struct planned **planned,
                struct error *error);

/* ---- scale: forecast (learner_forecast.c) ---- */

int forecast_open(struct learner *learner, const struct config *config, struct error *error);
void forecast_close(struct learner *learner);

/* The plan's part; false when out of memory. Bytes that a step takes. */
bool forecast_plan_open(struct learner *learner);
size_t forecast_plan_bytes(const struct learner *learner);

/* A stream begins. */
void forecast_begin(struct learner *learner, uint32_t slot);

/* Plan one step, x (I,) float32, maybe unaligned, for all members. */
void forecast_take(struct learner *learner, uint32_t slot, const void *x, bool learn,
                   struct planned *planned);

/* The plan has been played: what step number `step` of it said and scored, for its example. */
void forecast_give(struct learner *learner, struct planned *example, size_t step);

/* What is said of a finished example, (T, forecast_row); gather what a plan has of one that spans
   several. */
const double *forecast_of(const struct learner *learner, const struct planned *example,
                          size_t first_step);
int forecast_gather(struct learner *learner, const struct planned *example, size_t first_step,
                    struct error *error);

/* ---- Predictions beside their truths (learner_truth.c) ---- */

void beside_close(struct learner *learner);

/* Whether every step's outputs are needed, for what was said is kept. */
bool beside_wants_outputs(const struct learner *learner);

/* Plan: something is said at a step; the truth (target_size,), maybe unaligned and in original
   units, comes of what was said `age` steps before the newest, of that horizon. Nothing without
   truths. */
void plan_said(struct learner *learner, struct planned *planned, uint32_t slot);
void plan_truth(struct learner *learner, struct planned *planned, uint32_t slot, size_t age,
                size_t horizon, const void *target, bool learn);

/* The step of an example whose results are given next. */
struct truth_step beside_step(const struct learner *learner, const struct planned *example);

/* The plan has been played: what was said, and the truths that came, for their example, of which
   `learned` has scale and outputs of this plan. `first_score` is that of its first truth. */
void give_truths(struct learner *learner, struct planned *example, const struct learned *learned,
                 struct cursor *cursor, size_t first_score);

/* ---- What the simplest forecast would have lost (learner_baseline.c) ---- */

int learner_baseline_open(struct learner *learner, size_t slots, struct error *error);
void learner_baseline_close(struct learner *learner);

/* The plan's part; false when out of memory. */
bool learner_baseline_plan_open(struct learner *learner);

/* While planning, right before plan_score: the next score's target, of the step open at that place,
   as scaled and not yet relative to anything, and as it came, float32, maybe unaligned. */
void learner_baseline_score(struct learner *learner, uint32_t slot, size_t place, size_t horizon,
                            const union value *target, const void *came);

/* While planning, with a step of the one network: x as it came, and as the network is given it. */
void learner_baseline_step(struct learner *learner, uint32_t slot, const void *x,
                           const union value *input);

/* When the plan has been played, of the next score: add what it would have lost; its errors
   (target_size,); what it had said of that target, (K / horizons,) as prediction_of says it, NULL
   where there is none. */
void learner_judge(struct learner *learner, struct planned *example, size_t score);
const double *learner_baseline_errors(const struct learner *learner, size_t score);
const double *learner_baseline_said(const struct learner *learner, size_t score);

/* An observed number of a target, in original units: error of the prediction, and of the baseline;
   where that is not known, it counts as no better and no worse. */
static inline void judge_number(struct column_error *column, double error, double of_baseline) {
    double square = error * error;
    column->squared += square;
    column->absolute += fabs(error);
    column->baseline += of_baseline == of_baseline ? of_baseline * of_baseline : square;
    column->observed++;
}

#endif
