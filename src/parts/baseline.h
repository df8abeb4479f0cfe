/* The loss of the simplest forecast on the same targets, which a network has to beat
   (docs/explanation/forecasts.md, "Skill"). The loss selects the forecast (enum loss_baseline).

   One baseline serves all streams, each with its own state, a row of doubles by slot. It does no
   scaling: the caller passes forecast and target in the unit in which the network learns. */
#ifndef RUNNEL_BASELINE_H
#define RUNNEL_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

struct baseline;
struct error;

/* Variance of a normal before the first error, and its minimum, in the square of the network's
   unit. */
#define BASELINE_VARIANCE_FIRST 1.0
#define BASELINE_VARIANCE_LEAST 1e-6

/* `size` counts numbers of a target, or classes without the end of a message. `next`: the target is
   the next x, and the last one is known. */
int baseline_open(struct baseline **baseline, enum loss_baseline kind, bool next, size_t size,
                  size_t slots, struct error *error);
void baseline_close(struct baseline **baseline);

/* A stream begins in the slot; baseline_lost: the state of a stream there was not saved. */
void baseline_begin(struct baseline *baseline, uint32_t slot);
void baseline_lost(struct baseline *baseline, uint32_t slot);

/* CLASSES, MESSAGE: only the first `known` classes and the last one are in use.
   baseline_forget_class: an id becomes another class, which the slot's stream has never had. */
void baseline_set_classes(struct baseline *baseline, size_t known);
void baseline_forget_class(struct baseline *baseline, uint32_t slot, size_t id);

/* The state of a slot (baseline_size,) for checkpoints, and whether it is valid. */
size_t baseline_size(const struct baseline *baseline);
double *baseline_state(struct baseline *baseline, uint32_t slot);
bool baseline_state_valid(const struct baseline *baseline, const double *state);

/* VALUE, NORMAL: returns the forecast of number k of the next target, in the unit of targets; NAN
   if it is unknown. */
double baseline_value(const struct baseline *baseline, uint32_t slot, size_t k);

/* Return all forecasts (size,), with 0 for an unknown mean. baseline_scaled returns those of `next`
   as the network received them: 0 for unknown values, NAN after baseline_lost. */
const double *baseline_values(const struct baseline *baseline, uint32_t slot);
const double *baseline_scaled(const struct baseline *baseline, uint32_t slot);

/* NORMAL: returns its standard deviation, in the network's unit. */
double baseline_deviation(const struct baseline *baseline, uint32_t slot, size_t k);

/* CLASSES, RATES: returns probabilities (size,). */
void baseline_probabilities(const struct baseline *baseline, uint32_t slot, double *numbers);

/* Scores a target y (size,), or a message (model.h), and its forecast p (size,), which only VALUE
   and NORMAL use, in the network's unit. Returns the mean loss over observed numbers; NAN if p is
   NAN at one of them. Then adds the target to errors, classes and rates. */
double baseline_score(struct baseline *baseline, uint32_t slot, const union value *y,
                      const double *p);

/* VALUE, NORMAL: set the basis of the next score. baseline_see_last: x (count,) is the last value,
   and z its scaled form for the network. baseline_see_target: y (size,) is added to the mean. Both
   are float32, perhaps unaligned, NaN = missing. */
void baseline_see_last(struct baseline *baseline, uint32_t slot, const void *x,
                       const union value *z, size_t count);
void baseline_see_target(struct baseline *baseline, uint32_t slot, const void *y);

/* VALUE of an unscaled mean: combines baseline_score and baseline_see_target, which most
   configurations need at every step. errors (size,): forecast less y. */
double baseline_score_mean(struct baseline *baseline, uint32_t slot, const void *y, double *errors);

#endif
