#include "units.cuh"

#include "cells.cuh"

enum { BLOCKS_MAX = 64 }; /* of a layer */

/* ---- Through the rows ---- */

/* One block per layer and place: each row's pull, from the sum over the window of its gain's
   gradient. Bound by latency. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    make_pulls(const __grid_constant__ struct network n, uint32_t length) {
    const struct network_layer &l = n.layers[blockIdx.x];
    uint32_t place = blockIdx.y;
    if (l.source != SOURCE_ROWS || (place == PLACE_HH && !l.apart))
        return;
    for (uint32_t row = threadIdx.x; row < l.rows; row += blockDim.x) {
        float d_gain = 0;
        for (uint32_t t = 0; t < length; t++)
            d_gain += activations_of(n)[l.d_gain[place] + (size_t)t * l.rows + row];
        activations_of(n)[l.pull + place * l.rows + row] = normalization_rows_pull(
            parameters_of(n)[l.gain[place] + row], d_gain, unit_scale(n, l, place, 0, row).rstd);
    }
}

cudaError_t launch_pulls(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream) {
    struct launch l = {dim3(n->layer_count, 2, n->members), threads, 0, stream};
    return n->rows_norms ? launch_kernel(make_pulls, &l, *n, length) : cudaSuccess;
}

/* ---- Running statistics ---- */

/* The value that was normalized at a place for unit i, at a position of the ring. */
static __device__ __forceinline__ float value_at(const struct network &n,
                                                 const struct network_layer &l, uint32_t place,
                                                 uint32_t position, uint32_t i) {
    struct layer_step s = layer_at(n, l, position);
    if (place == PLACE_INNER)
        return s.inner[i];
    if (place == PLACE_HH)
        return s.sum_hh[i];
    return l.states > 0 && !l.apart ? s.sum_ih[i] + s.sum_hh[i] : s.sum_ih[i];
}

/* Moves a unit's statistics towards those of the window's steps `from`..`end`, which have the
   same age: m = mean of a, v = mean of (a - old mean)^2. */
static __device__ void absorb_steps(const struct network &n, const struct network_layer &l,
                                    uint32_t place, uint32_t age, uint32_t from, uint32_t end,
                                    uint32_t i, float momentum) {
    uint32_t width = units_width(l, place);
    float *mean = units_of(n) + unit_numbers(l, place) + (size_t)age * width + i;
    float *var = mean + (size_t)l.ages * width, sum = 0, squares = 0, steps = (float)(end - from);
    for (uint32_t t = from; t < end; t++) {
        float a = value_at(n, l, place, ring_position(n, current_of(n)->window, t), i),
              d = a - *mean;
        sum += a;
        squares += d * d;
    }
    if (!normalization_moves(sum / steps, squares / steps))
        return;
    *mean = normalization_moved(*mean, sum / steps, momentum);
    *var = normalization_moved(*var, squares / steps, momentum);
}

/* One block per layer and place. Ages never decrease within a window. Bound by latency. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    absorb(const __grid_constant__ struct network n) {
    const struct segment *s = current_of(n);
    const struct network_layer &l = n.layers[blockIdx.x];
    uint32_t place = blockIdx.y;
    if (!state_of(n)->applied || l.source != SOURCE_RUNNING || (place == PLACE_HH && !l.apart) ||
        (place == PLACE_INNER && !l.finishes))
        return;
    const float *state = slot_of(n, s) + n.slot.before + (size_t)s->window * n.slot.state;
    float momentum = queue_of(n)->momentum[blockIdx.x];
    for (uint32_t i = threadIdx.x; i < units_width(l, place); i += blockDim.x)
        for (uint32_t from = s->length - s->closed, end; from < s->length; from = end) {
            uint32_t age = age_of(n, l, state, from);
            for (end = from + 1; end < s->length && age_of(n, l, state, end) == age; end++)
                ;
            absorb_steps(n, l, place, age, from, end, i, momentum);
        }
}

cudaError_t launch_absorb(const struct network *n, unsigned threads, cudaStream_t stream) {
    struct launch l = {dim3(n->layer_count, PLACES, n->members), threads, 0, stream};
    return n->running_norms ? launch_kernel(absorb, &l, *n) : cudaSuccess;
}

/* ---- Deviations, and factors ---- */

/* The squares of one row of a matrix, by a warp. */
static __device__ __forceinline__ float row_squares(const float *weight, uint32_t ld) {
    float4 sums = make_float4(0, 0, 0, 0);
    for (uint32_t i = lane_index(); i < ld / QUAD; i += LANES) {
        float4 w = ((const float4 *)weight)[i];
        add_products(&sums, w, w);
    }
    return warp_sum(quad_sum(sums));
}

/* Deviations of norms of rows: one warp per row. Bound by the bytes of the matrices. */
static __device__ void refresh_rows(const struct network &n, const struct network_layer &l,
                                    uint32_t place) {
    uint32_t warps = gridDim.x * (blockDim.x / LANES), width = units_width(l, place);
    float *rstd = units_of(n) + unit_numbers(l, place) + (size_t)2 * width;
    for (uint32_t row = blockIdx.x * (blockDim.x / LANES) + warp_index(); row < width;
         row += warps) {
        const float *ih = parameters_of(n) + l.weight_ih + (size_t)row * l.ld_ih;
        const float *hh = parameters_of(n) + l.weight_hh + (size_t)row * l.ld_hh;
        float squares = 0;
        if (place == PLACE_IH)
            squares = row_squares(ih, l.ld_ih);
        if (place == PLACE_HH || (place == PLACE_IH && l.states > 0 && !l.apart))
            squares += row_squares(hh, l.ld_hh);
        if (lane_index() == 0)
            rstd[row] = place == PLACE_INNER ? 1.0f : normalization_rstd(squares);
    }
}

/* Factors of units with their own parameters. One block per layer. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    refresh_factors(const __grid_constant__ struct network n) {
    const struct network_layer &l = n.layers[blockIdx.x];
    uint32_t parameters = 0, size = l.size / l.outputs;
    switch (l.cell) {
#define CELL(name)                                                                                 \
    case CELL_##name:                                                                              \
        parameters = name##_kind.parameters;                                                       \
        break;
#include "kinds.def"
    }
    for (uint32_t i = threadIdx.x; i < size && parameters > 0; i += blockDim.x) {
        struct cell_unit u = {};
        for (uint32_t p = 0; p < parameters; p++)
            u.parameter[p] = parameters_of(n)[l.own_parameters[p] + i];
        cell_factors((enum cell)l.cell, &u);
        for (uint32_t f = 0; f < CELL_FACTORS_MAX; f++)
            units_of(n)[l.units + (size_t)f * size + i] = u.factor[f];
    }
}

/* Blocks: (some, layers and places). */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    refresh(const __grid_constant__ struct network n) {
    const struct network_layer &l = n.layers[blockIdx.y / PLACES];
    uint32_t place = blockIdx.y % PLACES;
    if (l.ages == 0 || (place == PLACE_HH && !l.apart) || (place == PLACE_INNER && !l.finishes))
        return;
    if (l.source == SOURCE_ROWS) {
        refresh_rows(n, l, place);
        return;
    }
    size_t numbers = (size_t)l.ages * units_width(l, place);
    float *var = units_of(n) + unit_numbers(l, place) + numbers, *rstd = var + numbers;
    for (size_t k = (size_t)blockIdx.x * blockDim.x + threadIdx.x; k < numbers;
         k += (size_t)gridDim.x * blockDim.x)
        rstd[k] = normalization_rstd(var[k]);
}

cudaError_t launch_refresh(const struct network *n, unsigned threads, cudaStream_t stream) {
    struct launch l = {dim3(BLOCKS_MAX, n->layer_count * PLACES, n->members), threads, 0, stream};
    cudaError_t status =
        n->rows_norms || n->running_norms ? launch_kernel(refresh, &l, *n) : cudaSuccess;
    l.grid = dim3(n->layer_count, 1, n->members);
    return status || !n->factors ? status : launch_kernel(refresh_factors, &l, *n);
}
