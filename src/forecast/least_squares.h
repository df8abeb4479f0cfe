/* Recursive least squares with forgetting, in double: weights W (outputs, inputs) so that W phi is
   near the targets, with more weight on newer ones.

     r = P phi;  q = phi . r;  gain = r / (keep + q);  W += error gain^T;
     P = (P - r r^T / (keep + q)) / keep

   W begins at 0, P at 1 / prior times the identity: the prior of each weight is 0 with precision
   `prior`. P stays exactly symmetric, since products of equal factors update it. It does not forget
   while its trace is above 10^4 per input. P begins again if q is not a number, or beyond 10^12:
   directions without excitation must not grow forever.

   The time is bound by P's bytes, so each step reads and writes them once: the term that a step
   subtracts from P, t = r / sqrt(keep + q), is kept, and subtracted when the next step forms its
   product.

   Plain data: a description, and a block of numbers owned by the caller: P (inputs, stride), W
   (outputs, stride), t (stride,), 1 / keep. Rows are padded to `stride` with zeros. */
#ifndef RUNNEL_FORECAST_LEAST_SQUARES_H
#define RUNNEL_FORECAST_LEAST_SQUARES_H

#include <stdbool.h>
#include <stddef.h>

/* Limit of q and of the trace per input: beyond it P begins again, or does not forget. */
#define LEAST_SQUARES_Q_MOST 1e12
#define LEAST_SQUARES_TRACE_MOST 1e4

struct least_squares {
    size_t inputs, outputs;
    size_t stride; /* inputs, padded: numbers in a row of P, of W, of phi */
    double keep;   /* weight of an observation one step later */
    double prior;
};

struct least_squares least_squares_of(size_t inputs, size_t outputs, double keep, double prior);

/* Numbers in a block, and in `work`. */
size_t least_squares_size(const struct least_squares *ls);
size_t least_squares_work(const struct least_squares *ls);

/* Whether a block is valid: P is bounded by its trace, and W by it. */
bool least_squares_valid(const struct least_squares *ls, const double *block);

void least_squares_begin(const struct least_squares *ls, double *block);

/* W of a block, (outputs, stride). */
double *least_squares_weights(const struct least_squares *ls, double *block);

/* out = W phi: phi (stride,), zero beyond inputs; out (outputs,). */
void least_squares_predict(const struct least_squares *ls, const double *block, const double *phi,
                           double *out);

/* error (outputs,): target minus prediction from phi; NaN if not observed: its weights stay
   unchanged. `work` (least_squares_work,) is scratch. */
void least_squares_learn(const struct least_squares *ls, double *block, const double *phi,
                         const double *error, double *work);

#endif
