/* Predictions beside their truths. What was said at a step is kept until its truth comes, with the
   interval around it; then both are told together, and the interval learns from it
   (forecast/conformal.h). Each stream has a state of its own.

   All of it follows the plan's play, in the order of the examples, whoever listens: what is told
   never depends on when somebody began to ask. Memory is allocated when it opens; only an example
   that spans plans makes what is told grow. */
#ifndef RUNNEL_TRUTH_H
#define RUNNEL_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct truth;

/* Shapes, fixed when it opens. */
struct truth_shape {
    size_t slots;
    size_t open;     /* predictions of a stream that wait for their truth, at most */
    size_t horizons; /* of a step: each has a prediction, intervals and a truth of its own */
    size_t numbers;  /* in a prediction of one horizon */
    size_t columns;  /* of them, from the first on, that have an interval; 0 = none have */
    bool keeps;      /* else what was said is not kept but given again with its truth */
    size_t targets;  /* numbers in a truth */
    size_t experts;  /* numbers of what experts and members say beside a prediction of one horizon;
                        0 = none */
    size_t steps, scores; /* that are told between two truth_clear, at most */
};

/* Which step it was. */
struct truth_step {
    uint64_t example; /* its number, counted from the start of learning, */
    double time;      /* its header's; 0 = unknown */
    size_t step;      /* 0.. in it */
};

int truth_open(struct truth **truth, const struct truth_shape *shape, struct error *error);
void truth_close(struct truth **truth);

/* A stream begins in the slot. */
void truth_begin(struct truth *truth, uint32_t slot);

/* This was said at a step: prediction (horizons, numbers), experts (horizons, experts) or NULL. Of
   so many as `open` the oldest goes. With `tell` its interval is told. */
void truth_said(struct truth *truth, uint32_t slot, const struct truth_step *step,
                const double *prediction, const double *experts, bool tell);

/* The truth (targets,) has come of the prediction that was said `age` predictions before the
   newest, of that horizon: NaN where it was not observed. `again` (numbers,): what was said, where
   it is not kept, or NULL. `baseline` (numbers,): what the baseline had said, or NULL. Intervals
   move if `learn`, and it is told if `tell`. What nothing is known of (a checkpoint of before) is
   not told. */
struct truth_score {
    double loss;
    const double *target, *again, *baseline;
    size_t horizon;
    bool learn, tell;
};
void truth_came(struct truth *truth, uint32_t slot, size_t age, const struct truth_score *score);

/* ---- What was told ---- */

/* One truth beside what was said of it. Valid until the next truth_clear. */
struct truth_told {
    struct truth_step said; /* at which step it was said */
    size_t horizon;
    double loss;
    const double *prediction; /* (numbers,) */
    const double *baseline;   /* (numbers,) NaN where there was none */
    const double *bounds;     /* (columns, 2) low and high: NaN where there was none; or NULL */
    const double *target;     /* (targets,) NaN = not observed; a class: its number */
    const double *experts;    /* (experts,) or NULL */
};
size_t truth_count(const struct truth *truth);
struct truth_told truth_told(const struct truth *truth, size_t n);

/* Intervals of what was said, from that step of those told on: (steps, horizons, columns, 2); NULL
   without any. */
const double *truth_bounds(const struct truth *truth, size_t step);

const struct truth_shape *truth_shape(const struct truth *truth);

/* Begin to tell anew, but for what has been told from these on (of an example that is not
   finished): they become the first. There is room for as many steps and scores more as the shape
   has. -1 when out of memory, which only an example can be that spans plans. */
int truth_clear(struct truth *truth, size_t scores, size_t steps);

/* How many steps were told. */
size_t truth_steps(const struct truth *truth);

/* ---- How often intervals hold ---- */

/* Over all numbers that had an interval, of all streams. */
struct truth_coverage {
    double numbers, held;              /* since the start of learning */
    double recent_weight, recent_held; /* likewise, exponentially weighted by truth_recent */
};
#define TRUTH_RECENT 0.998 /* a truth: the newest 500 or so count */

struct truth_coverage truth_coverage(const struct truth *truth);
void truth_write_coverage(struct truth *truth, const struct truth_coverage *coverage);

/* The shares; NaN before there is one. */
double truth_held(const struct truth_coverage *coverage);
double truth_held_recently(const struct truth_coverage *coverage);

/* ---- For checkpoints ---- */

/* What is kept of a slot: what was said and waits for its truth, and of its intervals levels and
   errors, which may be none. */
struct truth_state {
    double *said, *levels;
    float *errors;
    size_t said_size, levels_size, errors_size;
};
struct truth_state truth_state(struct truth *truth, uint32_t slot);

/* Whether it can have come from here. Likewise, after it has been written. */
bool truth_valid(const struct truth *truth, uint32_t slot);
bool truth_written(struct truth *truth, uint32_t slot);

#endif
