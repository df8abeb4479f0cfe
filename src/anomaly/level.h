/* Level scores how far several columns are, together, from how they usually stand to each other:
   T^2 of smoothed values, with a normal that is not learned from what it doubts. The equations are
   in docs/explanation/anomalies.md. */
#ifndef RUNNEL_LEVEL_H
#define RUNNEL_LEVEL_H

#include <stdbool.h>
#include <stddef.h>

/* Common to all streams. */
struct level {
    size_t columns;
    double keep;
    double *shares; /* (columns,) of the newest step with a doubt */
};

bool level_open(struct level *level, size_t columns, double half); /* false: out of memory */
void level_close(struct level *level);

/* A stream's level_size doubles. All zero is a new stream; another `half` starts from scratch. */
struct level_state;
size_t level_size(size_t columns);

/* NaN while unknown: with fewer than two columns that have a value now, and had 50 before. The
   first two also for the first 171 steps. */
struct level_result {
    double score, unlikeliness; /* the latter does not fall with the number of steps */
    double doubt;               /* 1: as far as usual */
};

/* The next step, x (columns,), NaN = missing. Without `learn` it is only scored and smoothed. */
struct level_result level_take(struct level *level, struct level_state *state, const float *x,
                               bool learn);

/* Smoothed values (columns,) of the newest step. */
void level_smoothed(const struct level *level, const struct level_state *state, double *smoothed);

/* Learns smoothed values (steps, columns) as normal, each step as `share` of all that is known. */
void level_mark_normal(struct level *level, struct level_state *state, const double *smoothed,
                       size_t steps, double share);

/* Whether a state from a checkpoint is valid. */
bool level_valid(const struct level *level, struct level_state *state);

#endif
