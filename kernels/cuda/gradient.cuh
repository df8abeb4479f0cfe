/* The gradient of each tensor, as a sum over the window's steps of outer products: G[row][column] =
   sum over t of A[t][row] B[t][column]. Short windows do not store it: its norm follows from inner
   products of the A and of the B, |G|^2 = sum over t, s of (A_t . A_s) (B_t . B_s), and the
   optimizer computes each element where it uses it. Long windows store it, and take its norm from
   it.

   Weights whose rows determine the deviation of their units have a second part, G[row][column]
   -= pull [row] W[row][column]. It nearly cancels the first part along W, so the norm cannot be
   computed from the parts: short windows compute each element twice, for the norm and for the
   optimizer. */
#ifndef RUNNEL_CUDA_GRADIENT_CUH
#define RUNNEL_CUDA_GRADIENT_CUH

#include "tile.cuh"

enum { SQUARES_WARPS = PLAY_THREADS / LANES };

/* ---- The norm without the gradient ---- */

/* A_t . A_s, by a warp, in double: the sum over t and s cancels too much for float. */
static __device__ double inner_product(const struct network &n, const struct factor &f, uint32_t t,
                                       uint32_t s, uint32_t count) {
    if (f.kind == FACTOR_SYMBOL) {
        const uint32_t *ids = (const uint32_t *)(n.activations + f.offset);
        return ids[t] == ids[s];
    }
    const float4 *a = (const float4 *)(n.activations + f.offset + (size_t)t * f.stride);
    const float4 *b = (const float4 *)(n.activations + f.offset + (size_t)s * f.stride);
    double sum = 0;
#pragma unroll 4
    for (uint32_t i = lane_index(); i < padded(count) / QUAD; i += LANES) {
        float4 x = a[i], y = b[i];
        sum += ((double)x.x * (double)y.x + (double)x.y * (double)y.y) +
               ((double)x.z * (double)y.z + (double)x.w * (double)y.w);
    }
    return warp_sum(sum);
}

/* Pair number `item` of steps, s <= t: item = t (t + 1) / 2 + s. */
DEVICE void pair_of(uint32_t item, uint32_t *t, uint32_t *s) {
    uint32_t row = 0;
    while ((row + 1) * (row + 2) / 2 <= item)
        row++;
    *t = row;
    *s = item - row * (row + 1) / 2;
}

static __device__ double matrix_squares(const struct network &n, const struct walked &w,
                                        uint32_t item) {
    uint32_t t, s;
    pair_of(item, &t, &s);
    double product = inner_product(n, w.a, t, s, w.rows) * inner_product(n, w.b, t, s, w.columns);
    return t == s ? product : 2 * product;
}

/* The squares of a slice of a vector's gradient. */
DEVICE double vector_squares(const struct network &n, const struct walked &w, uint32_t item,
                             uint32_t length) {
    double squares = 0;
    uint32_t end = (item + 1) * SLICE < w.columns ? (item + 1) * SLICE : w.columns;
    for (uint32_t i = item * SLICE + lane_index(); i < end; i += LANES) {
        double sum = 0;
        for (uint32_t t = 0; t < length; t++)
            sum += (double)factor_at(n, w.b, t, i);
        squares += sum * sum;
    }
    return warp_sum(squares);
}

/* Pieces of a tensor's norm, for the longest list of items. */
BOTH uint32_t norm_items(const struct walked &w, uint32_t length) {
    return w.a.kind == FACTOR_ONE ? (w.columns + SLICE - 1) / SLICE : length * (length + 1) / 2;
}

BOTH uint32_t norm_pieces(const struct network &n, uint32_t length) {
    uint32_t items = length * (length + 1) / 2;
    items = n.widest_vector > items ? n.widest_vector : items;
    uint32_t pieces = (items + SQUARES_WARPS - 1) / SQUARES_WARPS;
    return pieces < NORM_PIECES_MAX ? pieces : NORM_PIECES_MAX;
}

/* One of a tensor's `pieces`. Bound by the latency of its inner products. */
DEVICE double norm_piece(const struct network &n, const struct walked &w, uint32_t piece,
                         uint32_t pieces, uint32_t length) {
    double squares = 0;
    /* of tensors with a pull: see tile_squares */
    uint32_t items = w.pull == NONE ? norm_items(w, length) : 0;
    for (uint32_t item = piece * SQUARES_WARPS + warp_index(); item < items;
         item += pieces * SQUARES_WARPS)
        squares += w.a.kind == FACTOR_ONE ? vector_squares(n, w, item, length)
                                          : matrix_squares(n, w, item);
    return block_sum(lane_index() == 0 ? squares : 0.0, (double *)shared_memory);
}

/* ---- The norm by tiles ---- */

DEVICE double quad_squares(float4 g) {
    return ((double)g.x * (double)g.x + (double)g.y * (double)g.y) +
           ((double)g.z * (double)g.z + (double)g.w * (double)g.w);
}

/* The squares of a tile's gradient, which is stored if it is formed. */
DEVICE double tile_squares(const struct network &n, const struct walked &w, uint32_t number,
                           uint32_t length, bool formed) {
    struct tile tile = tile_of(w, number);
    float4 sums[TILE_ROWS];
    double squares = 0;
    make_tile(n, w, tile, length, 1.0f, sums, shared_memory + WORKSPACE);
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++) {
        if (!in_tensor(w, tile, k))
            continue;
        squares += quad_squares(sums[k]);
        if (formed)
            *(float4 *)(n.gradient + w.offset + (size_t)(tile.row + k) * w.ld + tile.column) =
                sums[k];
    }
    return block_sum(squares, (double *)shared_memory);
}

/* ---- Both ---- */

/* The number of partial sums in n.squares. */
BOTH uint32_t gradient_partials(const struct network &n, uint32_t length) {
    if (length >= FORM_STEPS)
        return n.tiles;
    return norm_pieces(n, length) * n.tensor_count + (n.pulls ? n.tiles : 0);
}

/* Partial sums of the gradient's squares; also the gradient, if it is stored. */
PHASE void gradient_norm() {
    const struct network &n = block_network();
    uint32_t length = n.current->length, pieces = norm_pieces(n, length);
    bool formed = length >= FORM_STEPS;
    uint32_t before = formed ? 0 : pieces * n.tensor_count;
    for (uint32_t i = n.team.rank; i < before; i += n.team.size) {
        double sum = norm_piece(n, n.tensors[i / pieces], i % pieces, pieces, length);
        if (threadIdx.x == 0)
            n.squares[i] = sum;
    }
    for (uint32_t i = n.team.rank; i < n.tiles && (formed || n.pulls); i += n.team.size) {
        const struct walked &w = *tensor_of(n.tensors, n.tensor_count, i);
        double sum = formed || w.pull != NONE ? tile_squares(n, w, i, length, formed) : 0;
        if (threadIdx.x == 0)
            n.squares[before + i] = sum;
    }
}

#endif
