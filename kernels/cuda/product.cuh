/* Products with strips of matrices. Each sum has one order, whatever block or step it is for. */
#ifndef RUNNEL_CUDA_PRODUCT_CUH
#define RUNNEL_CUDA_PRODUCT_CUH

#include "network.cuh"

enum {
    ROWS_AT_ONCE = 4,   /* rows of a product whose loads are in flight together */
    WIDE_VECTOR = 8192, /* numbers from which a vector is read in place, not from shared memory */
};

/* out[row] = bias[row] + W[row] x, and the column of the skip path's weights that a one-hot symbol
   selects. Pointers are to the strip's first row. */
struct product {
    const float *weight, *bias; /* (rows, ld), (rows,) or NULL */
    const float *chosen;        /* (rows, ld_chosen), of which the first column is used, or NULL */
    const float *x;             /* (ld,) */
    uint32_t ld, ld_chosen;
    float *out;   /* (rows,) */
    float *inbox; /* (rows,) of every block of a cluster, for the same numbers, or NULL */
    uint32_t blocks;
};

/* COUNT rows at once, from row `first` on, `step` apart; a warp's work. Rows at or beyond `end`
   are computed with the last row's weights, and not stored. Bound by the bytes of the weights. */
template <int COUNT>
DEVICE void multiply_rows(const struct product &p, uint32_t first, uint32_t step, uint32_t end) {
    const float4 *rows[COUNT];
    float4 sums[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        uint32_t row = first + k * step < end ? first + k * step : end - 1;
        rows[k] = (const float4 *)(p.weight + (size_t)row * p.ld);
        sums[k] = make_float4(0, 0, 0, 0);
    }
    const float4 *x = (const float4 *)p.x;
#pragma unroll 2
    for (uint32_t i = lane_index(); i < p.ld / QUAD; i += LANES) {
        float4 b = x[i];
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            add_products(&sums[k], rows[k][i], b);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        float sum = warp_sum(quad_sum(sums[k]));
        uint32_t row = first + k * step;
        if (row >= end)
            continue;
        float out = p.bias ? sum + p.bias[row] : sum;
        if (p.chosen)
            out += p.chosen[(size_t)row * p.ld_chosen];
        if (lane_index() == 0)
            p.out[row] = out;
        if (p.inbox && lane_index() < p.blocks)
            put(p.inbox + row, lane_index(), out);
    }
}

DEVICE void multiply(const struct product &p, uint32_t rows) {
    uint32_t warps = blockDim.x / LANES, row = warp_index();
    for (; row < rows && rows - row > warps; row += ROWS_AT_ONCE * warps)
        multiply_rows<ROWS_AT_ONCE>(p, row, warps, rows);
    if (row < rows)
        multiply_rows<1>(p, row, warps, rows);
}

/* W_ih x + b_ih with a one-hot x: a column. */
DEVICE void copy_column(const struct product &p, uint32_t rows, uint32_t column) {
    for (uint32_t row = threadIdx.x; row < rows; row += blockDim.x) {
        float out = p.weight[(size_t)row * p.ld + column] + p.bias[row];
        p.out[row] = out;
        for (uint32_t rank = 0; rank < p.blocks && p.inbox; rank++)
            put(p.inbox + row, rank, out);
    }
}

/* out[c] = sum over `rows` rows of W[row][c] d[row], for the first `columns` columns of W (rows,
   ld), a strip. `d` (rows,) and `sums` (4 threads,) are in shared memory. */
struct transposed {
    const float *weight, *d;
    float *sums, *out;
    float *inbox; /* see struct product */
    uint32_t ld, columns, rows, blocks;
};

/* Threads have four columns each, and the rows in turns. Bound by the bytes of the weights. Every
   thread of the block must call it. */
DEVICE void multiply_transposed(const struct transposed &p) {
    uint32_t quads = (p.columns + QUAD - 1) / QUAD, across = blockDim.x;
    while (across / 2 >= quads && across > 1)
        across /= 2;
    uint32_t turns = blockDim.x / across, turn = threadIdx.x / across;
    for (uint32_t begin = 0; begin < quads; begin += across) {
        uint32_t quad = begin + threadIdx.x % across;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
        for (uint32_t row = turn; row < p.rows && quad < quads; row += turns) {
            float4 w = *(const float4 *)(p.weight + (size_t)row * p.ld + quad * QUAD);
            float x = p.d[row];
            sum.x += w.x * x;
            sum.y += w.y * x;
            sum.z += w.z * x;
            sum.w += w.w * x;
        }
        __syncthreads(); /* the previous sums may still be read */
        ((float4 *)p.sums)[threadIdx.x] = sum;
        __syncthreads();
        for (uint32_t c = threadIdx.x; c < across * QUAD && begin * QUAD + c < p.columns;
             c += blockDim.x) {
            float total = 0;
            for (uint32_t k = 0; k < turns; k++)
                total += p.sums[k * across * QUAD + c];
            p.out[begin * QUAD + c] = total;
            for (uint32_t rank = 0; rank < p.blocks && p.inbox; rank++)
                put(p.inbox + begin * QUAD + c, rank, total);
        }
    }
}

/* Its sums, in floats. */
enum { TRANSPOSED_SUMS = QUAD * PLAY_THREADS };

/* A strip's weights (rows, ld), its own block's; with `moment` k + 1 its k-th moment, or NULL. */
DEVICE float *strip_numbers(const struct network &n, const struct strip &s, uint32_t index,
                            uint32_t moment) {
    const struct network_layer &l = n.layers[s.layer];
    uint32_t offset = s.matrix == MATRIX_IH   ? l.weight_ih
                      : s.matrix == MATRIX_HH ? l.weight_hh
                                              : n.output_weight;
    uint32_t ld = s.matrix == MATRIX_IH ? l.ld_ih : s.matrix == MATRIX_HH ? l.ld_hh : n.ld_output;
    float *numbers = moment ? n.moments[moment - 1] : n.parameters;
    if (index >= n.own && index < n.held_end && moment <= n.held_moments)
        return n.chip + (size_t)moment * n.held_numbers + (s.before - n.strips[n.own].before);
    return numbers ? numbers + offset + (size_t)s.first * ld : NULL;
}

#endif
