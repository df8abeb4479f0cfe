#include "matrix.h"

#include <string.h>

#include "vector.h"

enum {
    WIDE = MATRIX_PANEL / LANES, /* vectors across a panel */
    NARROW = MATRIX_PAD / LANES,
    /* independent sums over the columns of a narrow panel hide the latency of an addition */
    CHAINS = 4,
    TILE_ROWS = 4, /* vectors of rows in a tile of products that share operands */
    /* columns, or steps, of such a tile: accumulators, one column and broadcasts fill 16
       registers */
    TILE = 3,
    NARROW_TILE = NARROW < 4 ? 8 / NARROW : TILE, /* columns of a narrow gradient's tile */
    HALF = MATRIX_GROUP / 2,                      /* columns, and */
    STEPS = LANES == 16 ? 4 : 2, /* steps of a tile of W^T d: sums that the registers hold */
    AHEAD = 8,       /* columns that a single step's product prefetches if the matrix is */
    LARGE = 1 << 16, /* larger than this, and so in the third cache */
    LINE = LANES < 16 ? 16 / LANES : 1, /* vectors per cache line */
    GROUP = MATRIX_GROUP,
    /* vectors of one step's accumulators: enough to hide the latency of a multiply-add, and few
       enough for the registers */
    FULL = 8,
    TOGETHER = WIDE < FULL ? FULL / WIDE : 1, /* panels, if the matrix is */
    SMALL = 1 << 14, /* not larger than this, and so mostly in the first cache */
};

/* `steps` steps by `vectors` vectors of rows, of several panels if they are more than WIDE:
   constants at each call, so that the compiler unrolls both loops and keeps the accumulators in
   registers. */
INLINE void project_tile(const float *restrict w, size_t columns, const float *restrict bias,
                         const float *const *x, float *const *y, size_t row, const int steps,
                         const int vectors, const bool ahead) {
    vector sum[TILE][FULL];
    for (int t = 0; t < steps; t++)
        for (int v = 0; v < vectors; v++)
            sum[t][v] = vector_broadcast(0.0f);
    if (bias)
        for (int t = 0; t < steps; t++)
            for (int v = 0; v < vectors; v++)
                sum[t][v] = vector_load(bias + row + v * LANES);
    for (size_t c = 0; c < columns; c++, w += MATRIX_PANEL) {
        vector a[TILE];
        for (int t = 0; t < steps; t++)
            a[t] = vector_broadcast(x[t][c]);
        if (ahead)
            for (int v = 0; v < vectors; v += LINE)
                __builtin_prefetch(w + AHEAD * MATRIX_PANEL + v * LANES);
        for (int v = 0; v < vectors; v++) {
            const size_t panel = (size_t)(v / WIDE) * columns * MATRIX_PANEL;
            vector column = vector_load(w + panel + v % WIDE * LANES);
            if (steps > 1)
                column = vector_hold(column);
            for (int t = 0; t < steps; t++)
                sum[t][v] += column * a[t];
        }
    }
    for (int t = 0; t < steps; t++)
        for (int v = 0; v < vectors; v++)
            vector_store(y[t] + row + v * LANES, sum[t][v]);
}

INLINE void project_narrow(const float *restrict w, size_t columns, const float *restrict bias,
                           const float *restrict x, float *restrict y) {
    vector sum[CHAINS][NARROW];
    for (int k = 0; k < CHAINS; k++)
        for (int v = 0; v < NARROW; v++)
            sum[k][v] = vector_broadcast(0.0f);
    size_t c = 0;
    for (; c + CHAINS <= columns; c += CHAINS)
        for (int k = 0; k < CHAINS; k++) {
            vector a = vector_broadcast(x[c + k]);
            for (int v = 0; v < NARROW; v++)
                sum[k][v] += vector_load(w + (c + k) * MATRIX_PAD + v * LANES) * a;
        }
    for (; c < columns; c++) {
        vector a = vector_broadcast(x[c]);
        for (int v = 0; v < NARROW; v++)
            sum[0][v] += vector_load(w + c * MATRIX_PAD + v * LANES) * a;
    }
    for (int v = 0; v < NARROW; v++) {
        vector all = (sum[0][v] + sum[1][v]) + (sum[2][v] + sum[3][v]);
        if (bias)
            all += vector_load(bias + v * LANES);
        vector_store(y + v * LANES, all);
    }
}

/* The number of steps or columns of the next tile: TILE, or two where one would be left over. */
INLINE size_t next_tile(size_t left) {
    return left == 2 || left == 4 ? 2 : left >= TILE ? TILE : 1;
}

/* One panel for at least two steps. */
static void project_panel(const float *w, size_t columns, const float *bias, const float *const *x,
                          float *const *y, size_t row, size_t count) {
    enum { PART = TILE_ROWS * LANES };
    for (size_t t = 0, tile; t < count; t += tile) {
        tile = next_tile(count - t);
        for (size_t part = 0; part < MATRIX_PANEL; part += PART)
            if (tile == TILE)
                project_tile(w + part, columns, bias, x + t, y + t, row + part, TILE, TILE_ROWS,
                             false);
            else
                project_tile(w + part, columns, bias, x + t, y + t, row + part, 2, TILE_ROWS,
                             false);
    }
}

/* `panels` panels for one step. */
INLINE void multiply_panels(const float *w, size_t columns, const float *bias, const float *x,
                            float *y, size_t row, const int panels, const bool ahead) {
    enum { PART = WIDE < FULL ? WIDE : FULL };
    for (size_t part = 0; part < WIDE; part += PART)
        project_tile(w + part * LANES, columns, bias, &x, &y, row + part * LANES, 1, panels * PART,
                     ahead);
}

void matrix_multiply(const float *w, size_t rows, size_t columns, const float *bias, const float *x,
                     float *y, bool turn, struct range part) {
    size_t wide = matrix_wide(rows, part.end),
           panels = (wide - matrix_wide(rows, part.from)) / MATRIX_PANEL;
    size_t row = part.from > wide ? part.from : wide;
    bool ahead = rows * columns > LARGE, small = rows * columns <= SMALL;
    for (size_t i = 0, tile; i < panels; i += tile) {
        tile = small && panels - i >= TOGETHER ? TOGETHER : 1;
        size_t first = part.from + (turn ? panels - tile - i : i) * MATRIX_PANEL;
        const float *panel = w + first * columns;
        if (ahead)
            multiply_panels(panel, columns, bias, x, y, first, 1, true);
        else if (tile == 1)
            multiply_panels(panel, columns, bias, x, y, first, 1, false);
        else
            multiply_panels(panel, columns, bias, x, y, first, TOGETHER, false);
    }
    for (; row < part.end; row += MATRIX_PAD)
        project_narrow(w + row * columns, columns, bias ? bias + row : NULL, x, y + row);
}

void matrix_project(const float *w, size_t rows, size_t columns, const float *bias,
                    const float *const *x, float *const *y, size_t count, struct range part) {
    size_t row = part.from, wide = matrix_wide(rows, part.end);
    if (count == 1) {
        matrix_multiply(w, rows, columns, bias, *x, *y, false, part);
        return;
    }
    for (; row < wide; row += MATRIX_PANEL)
        project_panel(w + row * columns, columns, bias, x, y, row, count);
    for (; row < part.end; row += MATRIX_PAD)
        for (size_t t = 0; t < count; t++)
            project_narrow(w + row * columns, columns, bias ? bias + row : NULL, x[t], y[t] + row);
}

/* sum[t][k] += column k of a panel times d[t], for `columns` columns and `steps` steps
   (constants). */
INLINE void transposed_panel(const float *w, size_t width, const float *d, size_t rows,
                             const int columns, const int steps, const int vectors, vector *sum) {
#pragma GCC unroll 2 /* more is slower with few registers */
    for (int v = 0; v < vectors; v++) {
        vector part[STEPS];
        for (int t = 0; t < steps; t++)
            part[t] = vector_load(d + (size_t)t * rows + v * LANES);
        for (int k = 0; k < columns; k++) {
            vector column = vector_load(w + (size_t)k * width + v * LANES);
            if (steps > 1)
                column = vector_hold(column);
            for (int t = 0; t < steps; t++)
                sum[t * columns + k] += column * part[t];
        }
    }
}

INLINE void transposed_columns(const float *w, size_t rows, size_t columns, const float *d,
                               size_t c, const int group, const int steps, vector *sum) {
    for (int k = 0; k < group * steps; k++)
        sum[k] = vector_broadcast(0.0f);
    size_t row = 0;
    for (; row + MATRIX_PANEL <= rows; row += MATRIX_PANEL)
        transposed_panel(w + row * columns + c * MATRIX_PANEL, MATRIX_PANEL, d + row, rows, group,
                         steps, WIDE, sum);
    for (; row < rows; row += MATRIX_PAD)
        transposed_panel(w + row * columns + c * MATRIX_PAD, MATRIX_PAD, d + row, rows, group,
                         steps, NARROW, sum);
}

void matrix_transposed(const float *w, size_t rows, size_t columns, const float *d, float *out,
                       bool turn, struct range part) {
    size_t groups = (part.end - part.from) / GROUP;
    for (size_t i = 0; i < groups; i++) {
        vector sum[GROUP];
        size_t c = part.from + (turn ? groups - 1 - i : i) * GROUP;
        transposed_columns(w, rows, columns, d, c, GROUP, 1, sum);
        vector_sums8(sum, out + c);
    }
    for (size_t c = part.from + groups * GROUP; c < part.end; c++) {
        vector sum[1];
        transposed_columns(w, rows, columns, d, c, 1, 1, sum);
        out[c] = vector_sum(sum[0]);
    }
}

/* The sums of HALF columns for each of `steps` steps (2, or STEPS). */
INLINE void transposed_tile(const float *w, size_t rows, size_t columns, const float *d, size_t c,
                            const int steps, float *sums) {
    vector sum[HALF * STEPS];
    transposed_columns(w, rows, columns, d, c, HALF, steps, sum);
    for (int k = 0; k < HALF * steps; k += GROUP)
        vector_sums8(sum + k, sums + k);
}

void matrix_transposed_many(const float *w, size_t rows, size_t columns, const float *d, float *out,
                            size_t stride, size_t count, struct range part) {
    size_t whole = part.end / HALF * HALF, even = count / 2 * 2;
    for (size_t c = part.from; c < whole; c += HALF)
        for (size_t t = 0, steps; t < even; t += steps) {
            float sums[HALF * STEPS];
            steps = even - t < STEPS ? 2 : STEPS;
            if (steps == STEPS)
                transposed_tile(w, rows, columns, d + t * rows, c, STEPS, sums);
            else
                transposed_tile(w, rows, columns, d + t * rows, c, 2, sums);
            for (size_t k = 0; k < steps; k++)
                memcpy(out + (t + k) * stride + c, sums + k * HALF, sizeof(float) * HALF);
        }
    for (size_t t = whole < part.end ? 0 : even; t < count; t++)
        matrix_transposed(w, rows, columns, d + t * rows, out + t * stride, false,
                          (struct range){t < even ? whole : part.from, part.end});
}

/* `columns` columns by `vectors` vectors of a panel of the gradient; adds its squares to
   `squares`. */
INLINE void gradient_tile(float *restrict gradient, size_t width, const float *restrict d,
                          const float *const *x, size_t c, size_t count, const int columns,
                          const int vectors, vector *squares) {
    vector sum[NARROW_TILE][TILE_ROWS];
    for (int k = 0; k < columns; k++)
        for (int v = 0; v < vectors; v++)
            sum[k][v] = vector_broadcast(0.0f);
#pragma GCC unroll 8
    for (size_t t = 0; t < count; t++) {
        const float *xc = x[t] + c;
        vector a[NARROW_TILE];
        for (int k = 0; k < columns; k++)
            a[k] = vector_broadcast(xc[k]);
        for (int v = 0; v < vectors; v++) {
            vector row = vector_load(d + t * width + v * LANES);
            if (columns > 1)
                row = vector_hold(row);
            for (int k = 0; k < columns; k++)
                sum[k][v] += row * a[k];
        }
    }
    for (int k = 0; k < columns; k++)
        for (int v = 0; v < vectors; v++) {
            vector_store(gradient + (size_t)k * width + v * LANES, sum[k][v]);
            squares[v] += sum[k][v] * sum[k][v];
        }
}

/* One panel of `width` rows. d (count, width) packed. */
INLINE double gradient_panel(float *gradient, size_t columns, const float *d, const float *const *x,
                             size_t count, const size_t width, const int vectors) {
    double total = 0;
    for (size_t part = 0; part < width; part += (size_t)vectors * LANES) {
        vector squares[TILE_ROWS];
        for (int v = 0; v < vectors; v++)
            squares[v] = vector_broadcast(0.0f);
        for (size_t c = 0, tile; c < columns; c += tile) {
            float *g = gradient + c * width + part;
            tile = next_tile(columns - c);
            if (width == MATRIX_PAD && columns - c >= NARROW_TILE) {
                tile = NARROW_TILE;
                gradient_tile(g, width, d + part, x, c, count, NARROW_TILE, vectors, squares);
            } else if (tile == TILE)
                gradient_tile(g, width, d + part, x, c, count, TILE, vectors, squares);
            else if (tile == 2)
                gradient_tile(g, width, d + part, x, c, count, 2, vectors, squares);
            else
                gradient_tile(g, width, d + part, x, c, count, 1, vectors, squares);
        }
        for (int v = 0; v < vectors; v++)
            total += (double)vector_sum(squares[v]);
    }
    return total;
}

void matrix_gradient(float *gradient, size_t rows, size_t columns, const float *d,
                     const float *const *x, size_t count, float *pack, double *squares,
                     struct range part) {
    for (size_t row = part.from; row < part.end;) {
        size_t width = row + MATRIX_PANEL <= rows ? MATRIX_PANEL : MATRIX_PAD;
        for (size_t t = 0; t < count; t++)
            for (size_t i = 0; i < width; i += LANES)
                vector_store(pack + t * width + i, vector_load(d + t * rows + row + i));
        float *panel = gradient + row * columns;
        squares[matrix_panel(rows, row)] =
            width == MATRIX_PANEL
                ? gradient_panel(panel, columns, pack, x, count, MATRIX_PANEL, TILE_ROWS)
                : gradient_panel(panel, columns, pack, x, count, MATRIX_PAD, NARROW);
        row += width;
    }
}

void matrix_copy_column(const float *w, size_t rows, size_t columns, size_t c, float sign,
                        const float *bias, float *y) {
    memcpy(y, bias, rows * sizeof *y);
    matrix_add_from_column(w, rows, columns, c, sign, y);
}

void matrix_add_from_column(const float *w, size_t rows, size_t columns, size_t c, float sign,
                            float *y) {
    for (size_t row = 0; row < rows;) {
        size_t width = row + MATRIX_PANEL <= rows ? MATRIX_PANEL : MATRIX_PAD;
        const float *column = w + row * columns + c * width;
        for (size_t i = 0; i < width; i++)
            y[row + i] += sign * column[i];
        row += width;
    }
}

void matrix_add_column(float *gradient, size_t rows, size_t columns, size_t c, float sign,
                       const float *d) {
    for (size_t row = 0; row < rows;) {
        size_t width = row + MATRIX_PANEL <= rows ? MATRIX_PANEL : MATRIX_PAD;
        float *column = gradient + row * columns + c * width;
        for (size_t i = 0; i < width; i++)
            column[i] += sign * d[row + i];
        row += width;
    }
}
