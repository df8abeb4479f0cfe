/* A tile of a gradient, computed from its factors: each thread has TILE_ROWS rows of one float4. */
#ifndef RUNNEL_CUDA_TILE_CUH
#define RUNNEL_CUDA_TILE_CUH

#include "network.cuh"

enum factor_kind {
    FACTOR_ONE,    /* 1: the tensor is a vector, treated as one row */
    FACTOR_ARRAY,  /* (window, stride) in the block of activations */
    FACTOR_SYMBOL, /* 1 at the step's symbol, else 0; (window,) symbols there */
};

struct factor {
    enum factor_kind kind;
    uint32_t offset, stride;
};

enum {
    TILE_STEPS = 16,      /* steps of the window that are staged at once */
    TILE_BITS = 11,       /* PLAY_THREADS * TILE_ROWS = 2^11 */
    COLUMN_BITS = 2,      /* QUAD = 2^2 */
    FORM_STEPS = 32,      /* windows from this length on store their gradient */
    NORM_PIECES_MAX = 64, /* of a tensor's norm */
    SLICE = LANES * QUAD, /* columns of a vector in a piece's item */
};
static_assert(PLAY_THREADS * TILE_ROWS == 1 << TILE_BITS && QUAD == 1 << COLUMN_BITS,
              "tiles are powers of two");

/* A tensor for the gradient and the optimizer, in tiles. */
struct walked {
    uint32_t offset, rows, columns, ld; /* offset in the block of parameters, and sizes */
    struct factor a, b;
    uint32_t
        /* (rows,) in the block of activations: factor of the tensor that is subtracted; NONE */
        pull;
    uint32_t quad_bits, column_tiles, first_tile;
    bool dealt; /* in strips, of a tile's rows each */
};

/* Rows and columns of a tile: powers of two. */
BOTH uint32_t tile_rows(uint32_t quad_bits) {
    return 1u << (TILE_BITS - quad_bits);
}

BOTH uint32_t tile_columns(uint32_t quad_bits) {
    return QUAD << quad_bits;
}

/* The tile's width for rows of that many numbers. */
BOTH uint32_t quad_bits_of(uint32_t ld) {
    uint32_t bits = QUAD_BITS_MIN;
    while (bits < QUAD_BITS_MAX && tile_columns(bits) < ld)
        bits++;
    return bits;
}

struct tile {
    uint32_t first_row, first_column; /* of the tile */
    uint32_t row, column;             /* indices of this thread's first row and float4 */
    uint32_t rows, columns;           /* of a whole tile */
};

/* The tensor of a tile: the last one whose first tile is not beyond it. */
DEVICE const struct walked *tensor_of(const struct walked *tensors, uint32_t count, uint32_t tile) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (tensors[middle].first_tile <= tile)
            low = middle;
        else
            high = middle;
    }
    return tensors + low;
}

DEVICE struct tile tile_of(const struct walked &w, uint32_t number) {
    struct tile t;
    uint32_t at = number - w.first_tile;
    t.rows = tile_rows(w.quad_bits);
    t.columns = tile_columns(w.quad_bits);
    t.first_row = at / w.column_tiles * t.rows;
    t.first_column = at % w.column_tiles * t.columns;
    t.row = t.first_row + (threadIdx.x >> w.quad_bits) * TILE_ROWS;
    t.column = t.first_column + (threadIdx.x & ((1u << w.quad_bits) - 1)) * QUAD;
    return t;
}

/* Whether this thread's row k is in the tensor. */
DEVICE bool in_tensor(const struct walked &w, const struct tile &t, int k) {
    return t.row + k < w.rows && t.column < w.ld;
}

DEVICE float factor_at(const struct network &n, const struct factor &f, uint32_t t,
                       uint32_t index) {
    switch (f.kind) {
    case FACTOR_ARRAY:
        return n.activations[f.offset + (size_t)t * f.stride + index];
    case FACTOR_SYMBOL:
        return ((const uint32_t *)(n.activations + f.offset))[t] == index;
    default:
        return 1;
    }
}

/* The part of a float4 of the gradient that passes through the deviations. */
DEVICE void take_off(const struct network &n, const struct walked &w, uint32_t row, uint32_t column,
                     float factor, float4 *gradient) {
    float pull = factor * n.activations[w.pull + row];
    float4 weight = *(const float4 *)(n.parameters + w.offset + (size_t)row * w.ld + column);
    gradient->x -= pull * weight.x;
    gradient->y -= pull * weight.y;
    gradient->z -= pull * weight.z;
    gradient->w -= pull * weight.w;
}

/* Shared memory of make_tile, in floats. */
enum {
    TILE_SHARED = TILE_STEPS * ((1 << (TILE_BITS - QUAD_BITS_MIN)) + (QUAD << QUAD_BITS_MAX)),
};

/* sums[k] = factor times the gradient of row k. Uses shared memory from `shared` on; every
   thread of the block must call it. */
DEVICE void make_tile(const struct network &n, const struct walked &w, const struct tile &tile,
                      uint32_t length, float factor, float4 (&sums)[TILE_ROWS], float *shared) {
    float *a = shared, *b = shared + TILE_STEPS * tile.rows;
    uint32_t row_bits = TILE_BITS - w.quad_bits, column_bits = w.quad_bits + COLUMN_BITS;
    const float *my_a = a + (tile.row - tile.first_row);
    const float *my_b = b + (tile.column - tile.first_column);
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++)
        sums[k] = make_float4(0, 0, 0, 0);
    for (uint32_t begin = 0; begin < length; begin += TILE_STEPS) {
        uint32_t steps = length - begin < TILE_STEPS ? length - begin : TILE_STEPS;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < steps * tile.rows; i += blockDim.x) {
            uint32_t row = tile.first_row + (i & (tile.rows - 1)), t = begin + (i >> row_bits);
            a[i] = row < w.rows ? factor * factor_at(n, w.a, t, row) : 0.0f;
        }
        for (uint32_t i = threadIdx.x; i < steps * tile.columns; i += blockDim.x) {
            uint32_t column = tile.first_column + (i & (tile.columns - 1));
            uint32_t t = begin + (i >> column_bits);
            b[i] = column < w.columns ? factor_at(n, w.b, t, column) : 0.0f;
        }
        __syncthreads();
        for (uint32_t t = 0; t < steps; t++) {
            float4 x = *(const float4 *)(my_a + t * tile.rows);
            float4 y = *(const float4 *)(my_b + t * tile.columns);
            const float rows[TILE_ROWS] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int k = 0; k < TILE_ROWS; k++) {
                sums[k].x += rows[k] * y.x;
                sums[k].y += rows[k] * y.y;
                sums[k].z += rows[k] * y.z;
                sums[k].w += rows[k] * y.w;
            }
        }
    }
    if (w.pull == NONE)
        return;
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++)
        if (in_tensor(w, tile, k))
            take_off(n, w, tile.row + k, tile.column, factor, &sums[k]);
}

#endif
