#include "least_squares.h"

#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "common/vectors.h"

struct least_squares least_squares_of(size_t inputs, size_t outputs, double keep, double prior) {
    return (struct least_squares){inputs, outputs, vector_pad(inputs), keep, prior};
}

size_t least_squares_size(const struct least_squares *ls) {
    return (ls->inputs + ls->outputs + 1) * ls->stride + VECTOR_LANES;
}

size_t least_squares_work(const struct least_squares *ls) {
    return ls->stride;
}

double *least_squares_weights(const struct least_squares *ls, double *block) {
    return block + ls->inputs * ls->stride;
}

/* Initializes P, without pending subtractions. */
static void begin_covariance(const struct least_squares *ls, double *p) {
    double *t = p + (ls->inputs + ls->outputs) * ls->stride;
    memset(p, 0, ls->inputs * ls->stride * sizeof *p);
    for (size_t i = 0; i < ls->inputs; i++)
        p[i * ls->stride + i] = 1 / ls->prior;
    memset(t, 0, ls->stride * sizeof *t);
    t[ls->stride] = 1;
}

void least_squares_begin(const struct least_squares *ls, double *block) {
    begin_covariance(ls, block);
    memset(least_squares_weights(ls, block), 0, ls->outputs * ls->stride * sizeof *block);
}

#define WEIGHT_MOST 1e12
#define GROW_MOST 2

bool least_squares_valid(const struct least_squares *ls, const double *block) {
    static const double margin = 100;
    const double most = margin * LEAST_SQUARES_TRACE_MOST * (double)ls->inputs;
    const double *weights = block + ls->inputs * ls->stride,
                 *t = weights + ls->outputs * ls->stride, *grow = t + ls->stride;
    return finite_within(block, ls->inputs * ls->stride, most) &&
           finite_within(weights, ls->outputs * ls->stride, WEIGHT_MOST) &&
           finite_within(t, ls->stride, most) && *grow >= 1 && *grow <= GROW_MOST;
}

/* ---- Products: every sum has a fixed order ---- */

static double dot(const double *restrict a, const double *restrict b, size_t stride) {
    double sums[VECTOR_LANES] = {0};
    for (size_t i = 0; i < stride; i += VECTOR_LANES)
        for (size_t lane = 0; lane < VECTOR_LANES; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) +
           ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* Rows of P, j and the next ones: P = (P - t t^T) grow; r += phi_j P_j. Four of them share a
   pass over t and r. */
VECTOR_BODY void take_rows(size_t stride, double *restrict p, size_t j, const double *restrict t,
                           double grow, const double *restrict phi, double *restrict r) {
    double *restrict a = p + j * stride, *restrict b = a + stride, *restrict c = b + stride,
                     *restrict d = c + stride;
#pragma omp simd
    for (size_t i = 0; i < stride; i++) {
        double w = (a[i] - t[j] * t[i]) * grow, x = (b[i] - t[j + 1] * t[i]) * grow;
        double y = (c[i] - t[j + 2] * t[i]) * grow, z = (d[i] - t[j + 3] * t[i]) * grow;
        a[i] = w;
        b[i] = x;
        c[i] = y;
        d[i] = z;
        r[i] += (phi[j] * w + phi[j + 1] * x) + (phi[j + 2] * y + phi[j + 3] * z);
    }
}

VECTOR_BODY void take_row(size_t stride, double *restrict p, size_t j, const double *restrict t,
                          double grow, const double *restrict phi, double *restrict r) {
    double *restrict a = p + j * stride;
#pragma omp simd
    for (size_t i = 0; i < stride; i++) {
        double w = (a[i] - t[j] * t[i]) * grow;
        a[i] = w;
        r[i] += phi[j] * w;
    }
}

/* P = (P - t t^T) grow, and r = P phi with the new P, as a sum of its rows, which equal its
   columns. Its time is bound by P's bytes, read and written once. */
VECTOR_BODY void pass_body(size_t inputs, size_t stride, double *restrict p,
                           const double *restrict t, double grow, const double *restrict phi,
                           double *restrict r) {
    enum { TOGETHER = 4 };
    size_t j = 0;
    memset(r, 0, stride * sizeof *r);
    for (; j + TOGETHER <= inputs; j += TOGETHER)
        take_rows(stride, p, j, t, grow, phi, r);
    for (; j < inputs; j++)
        take_row(stride, p, j, t, grow, phi, r);
}
VECTOR_CLONES(pass,
              (size_t inputs, size_t stride, double *restrict p, const double *restrict t,
               double grow, const double *restrict phi, double *restrict r),
              (inputs, stride, p, t, grow, phi, r))

/* row += factor r */
VECTOR_BODY void add_body(size_t stride, double *restrict row, const double *restrict r,
                          double factor) {
#pragma omp simd
    for (size_t i = 0; i < stride; i++)
        row[i] += factor * r[i];
}
VECTOR_CLONES(add, (size_t stride, double *restrict row, const double *restrict r, double factor),
              (stride, row, r, factor))

void least_squares_predict(const struct least_squares *ls, const double *block, const double *phi,
                           double *out) {
    const double *weights = block + ls->inputs * ls->stride;
    for (size_t k = 0; k < ls->outputs; k++)
        out[k] = dot(weights + k * ls->stride, phi, ls->stride);
}

static double trace(const struct least_squares *ls, const double *p) {
    double sum = 0;
    for (size_t i = 0; i < ls->inputs; i++)
        sum += p[i * ls->stride + i];
    return sum;
}

void least_squares_learn(const struct least_squares *ls, double *block, const double *phi,
                         const double *error, double *work) {
    double *weights = least_squares_weights(ls, block), *t = weights + ls->outputs * ls->stride;
    double *grow = t + ls->stride, *r = work;
    pass(ls->inputs, ls->stride, block, t, *grow, phi, r);
    double q = dot(phi, r, ls->stride);
    if (!(q >= 0 && q < LEAST_SQUARES_Q_MOST)) {
        begin_covariance(ls, block);
        return;
    }
    double keep = trace(ls, block) > LEAST_SQUARES_TRACE_MOST * (double)ls->inputs ? 1 : ls->keep;
    double share = 1 / (keep + q), root = sqrt(share);
    for (size_t k = 0; k < ls->outputs; k++)
        if (!isnan(error[k]))
            add(ls->stride, weights + k * ls->stride, r, error[k] * share);
    for (size_t i = 0; i < ls->stride; i++)
        t[i] = r[i] * root;
    *grow = 1 / keep;
}
