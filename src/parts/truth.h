/* Predictions and their truths. A prediction is kept until its truth arrives, with its interval;
   then both become a pair for the observer, and the interval learns (forecast/conformal.h). Each
   stream has its own state.

   All of it happens when the plan is played, in the order of the examples, with or without
   observers: pairs never depend on when a subscriber connects. Memory is allocated on opening; only
   an example that spans plans needs more. */
#ifndef RUNNEL_TRUTH_H
#define RUNNEL_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct truth;

/* Shapes, fixed on opening. */
struct truth_shape {
    size_t slots;
    size_t open;     /* waiting predictions of a stream, at most */
    size_t horizons; /* horizons of a step: each has its own prediction, intervals and truth */
    size_t numbers;  /* numbers in a prediction of one horizon */
    size_t columns;  /* columns with an interval, the first of a prediction; 0 = none */
    bool keeps;      /* otherwise predictions are not kept but passed again with their truth */
    size_t targets;  /* numbers in a truth */
    /* Forecasts of experts and members for a prediction of one horizon; 0 = none. */
    size_t experts;
    size_t pair_notes, step_notes; /* numbers that another part keeps with a pair and a step */
    size_t steps, scores;          /* maximum between two calls of truth_clear */
};

/* The step of a prediction. */
struct truth_step {
    uint64_t example; /* its number since the start of learning */
    double time;      /* its header's; 0 = unknown */
    size_t step;      /* its number in the example, from 0 */
};

int truth_open(struct truth **truth, const struct truth_shape *shape, struct error *error);
void truth_close(struct truth **truth);

/* A stream begins in the slot. */
void truth_begin(struct truth *truth, uint32_t slot);

/* Adds a prediction of a step: prediction (horizons, numbers), experts (horizons, experts) or NULL.
   Beyond `open` predictions the oldest is dropped. `report` adds its interval to truth_bounds. */
void truth_add_prediction(struct truth *truth, uint32_t slot, const struct truth_step *step,
                          const double *prediction, const double *experts, bool report);

/* Adds the truth (targets,) of a horizon of the prediction that is `age` predictions old: NaN = not
   observed. `again` (numbers,): the prediction if it is not kept, or NULL. `baseline` (numbers,):
   that of the baseline, or NULL. `learn` updates intervals, `report` adds a pair. Ignored without
   the prediction, as after an old checkpoint. */
struct truth_score {
    double loss;
    const double *target, *again, *baseline;
    size_t horizon;
    bool learn, report;
};
void truth_add_target(struct truth *truth, uint32_t slot, size_t age,
                      const struct truth_score *score);

/* ---- Pairs of prediction and truth ---- */

/* A prediction with its truth, valid until the next truth_clear. */
struct truth_pair {
    struct truth_step step; /* the prediction's step */
    size_t horizon;
    double loss;
    const double *prediction; /* (numbers,) */
    const double *baseline;   /* (numbers,) NaN = none */
    const double *bounds;     /* (columns, 2) low and high, NaN = none; or NULL */
    const double *target;     /* (targets,) NaN = not observed; a class: its number */
    const double *experts;    /* (experts,) or NULL */
    const double *notes;      /* (pair_notes,) */
};
size_t truth_count(const struct truth *truth);
struct truth_pair truth_pair(const struct truth *truth, size_t n);

/* Returns the reported intervals of step `step`: (horizons, columns, 2); NULL without intervals. */
const double *truth_bounds(const struct truth *truth, size_t step);

/* Return where another part writes the notes of the next pair, or of a reported step. */
double *truth_next_notes(const struct truth *truth);
double *truth_step_notes(const struct truth *truth, size_t step);

const struct truth_shape *truth_shape(const struct truth *truth);

/* Clears pairs and intervals, except those from these on, which belong to an unfinished example and
   become the first. Makes room for as many more as the shape has. -1: out of memory, only after an
   example that spans plans. */
int truth_clear(struct truth *truth, size_t scores, size_t steps);

/* Returns the number of steps with reported intervals. */
size_t truth_steps(const struct truth *truth);

/* ---- Coverage of intervals ---- */

/* Counts over all numbers with an interval, of all streams. */
struct truth_coverage {
    double numbers, held;              /* counts since the start of learning */
    double recent_weight, recent_held; /* the same, exponentially weighted by TRUTH_RECENT */
};
#define TRUTH_RECENT 0.998 /* per truth: about the newest 500 count */

struct truth_coverage truth_coverage(const struct truth *truth);
void truth_write_coverage(struct truth *truth, const struct truth_coverage *coverage);

/* The shares; NaN before the first truth. */
double truth_held(const struct truth_coverage *coverage);
double truth_held_recently(const struct truth_coverage *coverage);

/* ---- For checkpoints ---- */

/* The state of a slot: waiting predictions, and levels and errors of intervals, perhaps none. */
struct truth_state {
    double *predictions, *levels;
    float *errors;
    size_t predictions_size, levels_size, errors_size;
};
struct truth_state truth_state(struct truth *truth, uint32_t slot);

/* Return whether the state is valid; truth_written: after it has been written. */
bool truth_valid(const struct truth *truth, uint32_t slot);
bool truth_written(struct truth *truth, uint32_t slot);

#endif
