/* Recursive least squares with forgetting, in double: weights W (outputs, inputs) so that W phi is
   near the targets, the newer ones counting more.

     r = P phi;  q = phi . r;  gain = r / (keep + q);  W += error gain^T;
     P = (P - r r^T / (keep + q)) / keep

   W begins at 0, P at 1 / prior times the identity: the prior of each weight is 0 with precision
   `prior`. P stays symmetric to the last bit: it is updated by products of equal factors. While its
   trace is above 10^4 an input nothing is forgotten, and where q is no number, or beyond 10^12, P
   begins again: what is never excited must not grow for ever.

   P's bytes bound it, so that they are read and written once a step: what a step takes off P,
   t = r / sqrt(keep + q), is kept, and taken off when the next one forms its product.

   Plain data: a description, and a block of numbers that the caller keeps: P (inputs, stride), W
   (outputs, stride), t (stride,), 1 / keep. Rows are padded to `stride` with zeros, always. */
#ifndef RUNNEL_FORECAST_LEAST_SQUARES_H
#define RUNNEL_FORECAST_LEAST_SQUARES_H

#include <stdbool.h>
#include <stddef.h>

/* From which on P begins again, and above which nothing is forgotten: of q, of the trace an input.
 */
#define LEAST_SQUARES_Q_MOST 1e12
#define LEAST_SQUARES_TRACE_MOST 1e4

struct least_squares {
    size_t inputs, outputs;
    size_t stride; /* inputs, padded: numbers in a row of P, of W, of phi */
    double keep;   /* what an observation counts one step later */
    double prior;
};

struct least_squares least_squares_of(size_t inputs, size_t outputs, double keep, double prior);

/* Numbers in a block, and in `work`. */
size_t least_squares_size(const struct least_squares *ls);
size_t least_squares_work(const struct least_squares *ls);

/* Whether a block can have come from here: P is bounded by its trace, and W by it. */
bool least_squares_valid(const struct least_squares *ls, const double *block);

void least_squares_begin(const struct least_squares *ls, double *block);

/* W of a block, (outputs, stride). */
double *least_squares_weights(const struct least_squares *ls, double *block);

/* out = W phi: phi (stride,), zero beyond inputs; out (outputs,). */
void least_squares_predict(const struct least_squares *ls, const double *block, const double *phi,
                           double *out);

/* error (outputs,): target less what was predicted from phi; NaN where nothing was observed: W
   stays there. `work` (least_squares_work,) is scratch. */
void least_squares_learn(const struct least_squares *ls, double *block, const double *phi,
                         const double *error, double *work);

#endif
