/* Products with weight matrices at batch size one.

   A weight matrix W has R rows (outputs, padded to a multiple of MATRIX_PAD) and C columns
   (inputs). It is stored in panels of MATRIX_PANEL rows, and the rest in panels of MATRIX_PAD; each
   panel is stored column by column. W x reads memory once in order, and adds columns into
   accumulators in registers; W^T d reads the same memory, and sums over long columns. One layout
   serves both directions, so the cache holds a layer's weights once.

   Padding rows are always zero. Each output's sum has a fixed order, independent of the number of
   steps that are computed together: a recomputed window has the bits of its single steps.

   Each product can compute a part of its outputs, so that threads can share it (split.h): rows
   between the beginnings of two panels, or columns that begin at a multiple of MATRIX_GROUP and
   end at one or at the matrix's end. The part does not affect the bits of a number. */
#ifndef RUNNEL_CPU_MATRIX_H
#define RUNNEL_CPU_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

#include "isa.h"

enum {
    MATRIX_PANEL = 64,
    MATRIX_PAD = 16,
    MATRIX_GROUP = 8, /* columns whose sums of W^T d are finished together */
};

/* Numbers from..end. */
struct range {
    size_t from, end;
};

static inline size_t matrix_pad(size_t n) {
    return (n + MATRIX_PAD - 1) / MATRIX_PAD * MATRIX_PAD;
}

/* The index of row r, column c in a matrix of `rows` (padded) and `columns`. */
static inline size_t matrix_index(size_t rows, size_t columns, size_t r, size_t c) {
    size_t wide = rows / MATRIX_PANEL * MATRIX_PANEL;
    size_t width = r < wide ? MATRIX_PANEL : MATRIX_PAD;
    size_t first =
        r < wide ? r / MATRIX_PANEL * MATRIX_PANEL : wide + (r - wide) / MATRIX_PAD * MATRIX_PAD;
    return first * columns + c * width + (r - first);
}

/* Rows up to `end` in wide panels. */
static inline size_t matrix_wide(size_t rows, size_t end) {
    size_t wide = rows / MATRIX_PANEL * MATRIX_PANEL;
    return end < wide ? end : wide;
}

/* The panel that begins at that row, the number of panels, and the first row of a panel. */
static inline size_t matrix_panel(size_t rows, size_t row) {
    size_t wide = matrix_wide(rows, row);
    return wide / MATRIX_PANEL + (row - wide) / MATRIX_PAD;
}

static inline size_t matrix_panels(size_t rows) {
    return matrix_panel(rows, rows);
}

static inline size_t matrix_panel_row(size_t rows, size_t panel) {
    size_t wide = rows / MATRIX_PANEL;
    return panel <= wide ? panel * MATRIX_PANEL : wide * MATRIX_PANEL + (panel - wide) * MATRIX_PAD;
}

#ifdef ISA
/* y[t] = W x[t] + bias for `count` steps; bias (rows,) may be NULL. x: count pointers to
   (columns,); y: count pointers to (rows,). Bound by the bytes of W. */
void matrix_project(const float *w, size_t rows, size_t columns, const float *bias,
                    const float *const *x, float *const *y, size_t count, struct range part);

/* y = W x + bias for one step. Panels, and the columns of matrix_transposed, are processed in
   ascending order or, with `turn`, in descending order, with the same bits. Alternating between
   steps finds the data of the previous step in the first cache. */
void matrix_multiply(const float *w, size_t rows, size_t columns, const float *bias, const float *x,
                     float *y, bool turn, struct range part);

/* out = W^T d: d (rows,), out (columns,). Bound by the bytes of W. */
void matrix_transposed(const float *w, size_t rows, size_t columns, const float *d, float *out,
                       bool turn, struct range part);

/* out[t] = W^T d[t] for `count` steps: d (count, rows), out (count, stride). Bound by
   arithmetic. */
void matrix_transposed_many(const float *w, size_t rows, size_t columns, const float *d, float *out,
                            size_t stride, size_t count, struct range part);

/* gradient = sum over t of d[t] x[t]^T, in W's layout: d (count, rows), x: count pointers to
   (columns,). `pack` is scratch of count * MATRIX_PANEL. squares[panel] += the panel's squares.
   Bound by arithmetic. */
void matrix_gradient(float *gradient, size_t rows, size_t columns, const float *d,
                     const float *const *x, size_t count, float *pack, double *squares,
                     struct range part);

/* y = sign * column c of W + bias: the product with a one-hot vector; the sign is 1 or -1. */
void matrix_copy_column(const float *w, size_t rows, size_t columns, size_t c, float sign,
                        const float *bias, float *y);

/* y += sign * column c of W. */
void matrix_add_from_column(const float *w, size_t rows, size_t columns, size_t c, float sign,
                            float *y);

/* Column c of the gradient += sign * d (rows,). */
void matrix_add_column(float *gradient, size_t rows, size_t columns, size_t c, float sign,
                       const float *d);
#endif

#endif
