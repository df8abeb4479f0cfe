/* Level scores how far several columns are, together, from how they usually stand to each other. It
   stays large while they do, since it does not learn from the values that it doubts.

   With d columns, H = `half`, and keep = 2^(-1/H):

   - Smoothed value: e_k += (1 - 0.9^(1 + missed_k)) (x_k - e_k), with missed_k the number of
     missing values just before. A column is known after 50 values.
   - Doubt q = z' P z / o, with z_k = (e_k - m_k) / s_k within +-30, over the o known columns that
     have a value; P is the inverse of their correlations with a ridge of 0.1 + d / n.
   - Mean m, products M and weight n learn with the weight w = min(1, (g / q)^2), with g = max(1,
     median of q so far); a column that is not known learns with weight 1.
   - L(q) as in novelty (tail.h), learned from step 150 on with weight 1 / (1 + r / 20)^2: r steps
     ago L began to be at least 1.3, until ten steps are below.
   - Score = max(0, L(q) - 0.4 log10(max(1, t / 1000))).
   - Share of a column: the part of q that would vanish without it; all add up to 1.

   P and the deviations s are computed again when the weight learned since exceeds 1% of n. A step
   without values is not a step. */
#ifndef RUNNEL_LEVEL_H
#define RUNNEL_LEVEL_H

#include <stdbool.h>
#include <stddef.h>

/* Common to all streams. */
struct level {
    size_t columns;
    double keep;
    double *shares; /* (columns,) of the newest step with a doubt; 0: no part in it */
    double *work;
};

/* false: out of memory. */
bool level_open(struct level *level, size_t columns, double half);
void level_close(struct level *level);

/* Doubles of a stream. All zero is a new stream. */
size_t level_size(size_t columns);

/* Each NaN while unknown: fewer than two known columns with a value; or, for `score` and
   `unlikeliness` L(q), too few steps. */
struct level_result {
    double score, unlikeliness, doubt;
};

/* The stream's next step, x (columns,), NaN where a value is missing. Without `learn` it is scored
   and smoothed only. */
struct level_result level_take(struct level *level, double *stream, const float *x, bool learn);

/* Smoothed values of the newest step, (columns,). */
const double *level_smoothed(const double *stream);

/* Learns the smoothed values (steps, columns) of an alarm that was normal. Each step counts as
   `share` of all that is known. */
void level_mark_normal(struct level *level, double *stream, const double *smoothed, size_t steps,
                       double share);

/* Whether a state from a checkpoint is valid. */
bool level_valid(const struct level *level, double *stream);

#endif
