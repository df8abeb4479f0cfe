/* What the simplest forecast would have lost on the same targets: what a network has to be better
   than. Which forecast that is, the loss says (enum loss_baseline); it is made of one stream's own
   targets, unweighted, all of them so far.

     BASELINE_VALUE    the last value (target: next), or the running mean
     BASELINE_NORMAL   the normal around that, whose variance is the running mean square of its
   errors BASELINE_CLASSES  class frequencies, (n + 1) / (N + C) BASELINE_RATES    of each number
   its rate, (sum + 1/2) / (N + 1)

   One baseline serves all streams, each with a state of its own, a row of doubles by slot. Nothing
   here knows of scales: the caller says forecast and target in the unit in which the network
   learns. Cost: a few operations for each number of a target. */
#ifndef RUNNEL_BASELINE_H
#define RUNNEL_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

struct baseline;
struct error;

/* Variance of a normal before there is an error to know it from, and the least there is, in the
   square of the network's unit. */
#define BASELINE_VARIANCE_FIRST 1.0
#define BASELINE_VARIANCE_LEAST 1e-6

/* Numbers of a target, or classes. `next`: the target is the next x, and the last one is known. */
int baseline_open(struct baseline **baseline, enum loss_baseline kind, bool next, size_t size,
                  size_t slots, struct error *error);
void baseline_close(struct baseline **baseline);

/* A stream begins in the slot; nothing is known of one that has been there. */
void baseline_begin(struct baseline *baseline, uint32_t slot);
void baseline_lost(struct baseline *baseline, uint32_t slot);

/* CLASSES: only the first `known` and the last one take part; an id is another class from now on,
   of which the slot's stream has had none. */
void baseline_set_classes(struct baseline *baseline, size_t known);
void baseline_forget_class(struct baseline *baseline, uint32_t slot, size_t id);

/* The state of a slot, for checkpoints: (baseline_size,). Whether one can have come from here. */
size_t baseline_size(const struct baseline *baseline);
double *baseline_state(struct baseline *baseline, uint32_t slot);
bool baseline_state_valid(const struct baseline *baseline, const double *state);

/* VALUE, NORMAL: the forecast of number k of the next target, as targets come: NAN when nothing is
   known. */
double baseline_value(const struct baseline *baseline, uint32_t slot, size_t k);

/* The same of all, (size,), but 0 of a mean that is not known; and of `next` as the network was
   given it: 0 where it was given nothing, NAN where that was lost. */
const double *baseline_values(const struct baseline *baseline, uint32_t slot);
const double *baseline_scaled(const struct baseline *baseline, uint32_t slot);

/* NORMAL: its standard deviation, in the network's unit. */
double baseline_deviation(const struct baseline *baseline, uint32_t slot, size_t k);

/* CLASSES, RATES: probabilities (size,). */
void baseline_probabilities(const struct baseline *baseline, uint32_t slot, double *numbers);

/* A target has come, y (size,) and the forecast p (size,) of it in the network's unit; VALUE and
   NORMAL alone look at p. Returns the loss of that forecast, the mean over observed numbers; NAN
   where p is NAN at one of them. Errors, classes and rates are counted from now on. */
double baseline_score(struct baseline *baseline, uint32_t slot, const union value *y,
                      const double *p);

/* VALUE, NORMAL, what is scored from now on: `next`, x (count,) as it came is the last value, and
   the network was given z of it; else y (size,) as it came counts in the mean. Float32, maybe
   unaligned, NaN = missing. */
void baseline_see_last(struct baseline *baseline, uint32_t slot, const void *x,
                       const union value *z, size_t count);
void baseline_see_target(struct baseline *baseline, uint32_t slot, const void *y);

/* VALUE of a mean, where nothing is scaled: baseline_score and baseline_see_target in one, which
   most configurations need at every step. Errors (size,): what it says less y. */
double baseline_score_mean(struct baseline *baseline, uint32_t slot, const void *y, double *errors);

#endif
