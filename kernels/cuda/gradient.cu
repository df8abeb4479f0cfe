#include "gradient.cuh"

#include "tile.cuh"

enum {
    SQUARES_THREADS = 256,
    SQUARES_WARPS = SQUARES_THREADS / LANES,
    NORM_BLOCKS_MAX = 64,      /* of a tensor */
    SLICE = LANES * QUAD,      /* columns of a vector per warp */
    SQUARES_NUMBERS = 1 << 14, /* numbers of a formed gradient per block */
    SQUARES_BLOCKS_MAX = 1 << 10,
};

/* ---- The norm without the gradient ---- */

/* A_t . A_s, by a warp, in double: the sum over t and s cancels too much for float. */
static __device__ double inner_product(const struct network &n, const struct factor &f, uint32_t t,
                                       uint32_t s, uint32_t count) {
    if (f.kind == FACTOR_SYMBOL) {
        const uint32_t *ids = (const uint32_t *)(activations_of(n) + f.offset);
        return ids[t] == ids[s];
    }
    const float4 *a = (const float4 *)(activations_of(n) + f.offset + (size_t)t * f.stride);
    const float4 *b = (const float4 *)(activations_of(n) + f.offset + (size_t)s * f.stride);
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
static __device__ __forceinline__ void pair_of(uint32_t item, uint32_t *t, uint32_t *s) {
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
static __device__ __forceinline__ double
vector_squares(const struct network &n, const struct walked &w, uint32_t item, uint32_t length) {
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

/* Blocks: (some, tensors). Bound by the latency of its inner products. */
static __global__ void __launch_bounds__(SQUARES_THREADS, RESIDENT_BLOCKS)
    norm(const __grid_constant__ struct network n, const struct walked *tensors, uint32_t length) {
    const struct walked &w = tensors[blockIdx.y];
    bool vector = w.a.kind == FACTOR_ONE;
    uint32_t items = vector ? (w.columns + SLICE - 1) / SLICE : length * (length + 1) / 2;
    if (w.pull != NONE) /* see pulled_squares */
        items = 0;
    double squares = 0;
    for (uint32_t item = blockIdx.x * SQUARES_WARPS + warp_index(); item < items;
         item += gridDim.x * SQUARES_WARPS)
        squares += vector ? vector_squares(n, w, item, length) : matrix_squares(n, w, item);
    double sum = block_sum(lane_index() == 0 ? squares : 0.0, (double *)shared_memory);
    if (threadIdx.x == 0)
        squares_of(n)[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* The squares of tensors with a part through their deviations: computed by tiles. One block per
   tile. */
static __global__ void __launch_bounds__(TILE_THREADS)
    pulled_squares(const __grid_constant__ struct network n, const struct walked *tensors,
                   uint32_t count, uint32_t length, uint32_t before) {
    const struct walked &w = *tensor_of(tensors, count, blockIdx.x);
    double squares = 0;
    if (w.pull != NONE) {
        struct tile tile = tile_of(w, blockIdx.x);
        float4 sums[TILE_ROWS];
        make_tile(n, w, tile, length, 1.0f, sums, shared_memory);
#pragma unroll
        for (int k = 0; k < TILE_ROWS; k++)
            if (in_tensor(w, tile, k))
                squares +=
                    ((double)sums[k].x * (double)sums[k].x +
                     (double)sums[k].y * (double)sums[k].y) +
                    ((double)sums[k].z * (double)sums[k].z + (double)sums[k].w * (double)sums[k].w);
    }
    double sum = block_sum(squares, (double *)shared_memory);
    if (threadIdx.x == 0)
        squares_of(n)[before + blockIdx.x] = sum;
}

/* ---- A formed gradient ---- */

static bool by_blas(const struct walked *w) {
    return w->a.kind == FACTOR_ARRAY && w->b.kind == FACTOR_ARRAY;
}

/* The part without cuBLAS: vectors, and products with symbols. */
static __global__ void __launch_bounds__(TILE_THREADS)
    form(const __grid_constant__ struct network n, const struct walked *tensors, uint32_t count,
         uint32_t length) {
    const struct walked &w = *tensor_of(tensors, count, blockIdx.x);
    if (w.a.kind == FACTOR_ARRAY && w.b.kind == FACTOR_ARRAY)
        return;
    struct tile tile = tile_of(w, blockIdx.x);
    float4 sums[TILE_ROWS];
    make_tile(n, w, tile, length, 1.0f, sums, shared_memory);
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++)
        if (in_tensor(w, tile, k))
            *(float4 *)(gradient_of(n) + w.offset + (size_t)(tile.row + k) * w.ld + tile.column) =
                sums[k];
}

/* The result of cuBLAS, minus the part through the deviations. */
static __global__ void __launch_bounds__(TILE_THREADS)
    take_off_pulls(const __grid_constant__ struct network n, const struct walked *tensors,
                   uint32_t count) {
    const struct walked &w = *tensor_of(tensors, count, blockIdx.x);
    if (w.pull == NONE || w.a.kind != FACTOR_ARRAY || w.b.kind != FACTOR_ARRAY)
        return;
    struct tile tile = tile_of(w, blockIdx.x);
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++)
        if (in_tensor(w, tile, k))
            take_off(n, w, tile.row + k, tile.column, 1.0f,
                     (float4 *)(gradient_of(n) + w.offset + (size_t)(tile.row + k) * w.ld +
                                tile.column));
}

/* G (rows, ld) = A^T B of one member: for several at once cuBLAS might use another order of
   sums. */
static cudaError_t multiply_by_blas(const struct network *n, const struct gradient_plan *plan,
                                    const struct walked *w, uint32_t length, uint32_t member) {
    const float *activations = (const float *)(n->arenas[member] + grains(n->at.activations));
    float *gradient = (float *)(n->arenas[member] + grains(n->at.gradient));
    return blas_multiply(plan->blas, w->rows, w->ld, length, activations + w->a.offset, w->a.stride,
                         activations + w->b.offset, w->b.stride, gradient + w->offset);
}

/* Bound by the bytes of the gradient. */
static __global__ void __launch_bounds__(SQUARES_THREADS)
    formed_squares(const __grid_constant__ struct network n, size_t quads) {
    const float4 *gradient = (const float4 *)gradient_of(n);
    double sum = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < quads;
         i += (size_t)gridDim.x * blockDim.x) {
        float4 g = gradient[i];
        sum += ((double)g.x * (double)g.x + (double)g.y * (double)g.y) +
               ((double)g.z * (double)g.z + (double)g.w * (double)g.w);
    }
    sum = block_sum(sum, (double *)shared_memory);
    if (threadIdx.x == 0)
        squares_of(n)[blockIdx.x] = sum;
}

static uint32_t squares_blocks(const struct gradient_plan *plan) {
    size_t blocks = (plan->numbers + SQUARES_NUMBERS - 1) / SQUARES_NUMBERS;
    return (uint32_t)(blocks < SQUARES_BLOCKS_MAX ? blocks : SQUARES_BLOCKS_MAX);
}

static cudaError_t form_gradient(const struct network *n, const struct gradient_plan *plan,
                                 uint32_t length, uint32_t *partials, cudaStream_t stream) {
    struct launch l = {dim3(plan->tiles, 1, n->members), TILE_THREADS, TILE_SHARED * sizeof(float),
                       stream};
    cudaError_t status = launch_kernel(form, &l, *n, plan->tensors, plan->count, length);
    for (uint32_t k = 0; k < plan->count; k++)
        for (uint32_t m = 0; m < n->members && by_blas(&plan->host[k]) && !status; m++)
            status = multiply_by_blas(n, plan, &plan->host[k], length, m);
    if (plan->pulls && !status) {
        struct launch tiles = {dim3(plan->tiles, 1, n->members), TILE_THREADS, 0, stream};
        status = launch_kernel(take_off_pulls, &tiles, *n, plan->tensors, plan->count);
    }
    if (status)
        return status;
    *partials = squares_blocks(plan);
    struct launch all = {dim3(*partials, 1, n->members), SQUARES_THREADS, SCRATCH * sizeof(float),
                         stream};
    return launch_kernel(formed_squares, &all, *n, plan->numbers / QUAD);
}

/* ---- The interface ---- */

bool gradient_is_formed(const struct gradient_plan *plan, uint32_t length) {
    return plan->blas && length >= GEMM_STEPS;
}

uint32_t gradient_partials(const struct gradient_plan *plan) {
    uint32_t blocks = squares_blocks(plan), others = plan->count * NORM_BLOCKS_MAX + plan->tiles;
    return blocks > others ? blocks : others;
}

/* Blocks per tensor, for the longest list of items. */
static uint32_t norm_blocks(const struct gradient_plan *plan, uint32_t length) {
    uint32_t items = length * (length + 1) / 2;
    for (uint32_t k = 0; k < plan->count; k++) {
        const struct walked *w = &plan->host[k];
        uint32_t slices = w->a.kind == FACTOR_ONE ? (w->columns + SLICE - 1) / SLICE : 0;
        items = slices > items ? slices : items;
    }
    uint32_t blocks = (items + SQUARES_WARPS - 1) / SQUARES_WARPS;
    return blocks < NORM_BLOCKS_MAX ? blocks : NORM_BLOCKS_MAX;
}

cudaError_t launch_gradient(const struct network *n, const struct gradient_plan *plan,
                            uint32_t length, uint32_t *partials, cudaStream_t stream) {
    if (gradient_is_formed(plan, length))
        return form_gradient(n, plan, length, partials, stream);
    uint32_t blocks = norm_blocks(plan, length);
    uint32_t before = blocks * plan->count;
    *partials = before + (plan->pulls ? plan->tiles : 0);
    struct launch l = {dim3(blocks, plan->count, n->members), SQUARES_THREADS,
                       SCRATCH * sizeof(float), stream};
    cudaError_t status = launch_kernel(norm, &l, *n, plan->tensors, length);
    if (status || !plan->pulls)
        return status;
    struct launch tiles = {dim3(plan->tiles, 1, n->members), TILE_THREADS,
                           TILE_SHARED * sizeof(float), stream};
    return launch_kernel(pulled_squares, &tiles, *n, plan->tensors, plan->count, length, before);
}
