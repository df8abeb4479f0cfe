/* The optimizer's step. */
#ifndef RUNNEL_CUDA_OPTIMIZER_CUH
#define RUNNEL_CUDA_OPTIMIZER_CUH

#include "activities.h"
#include "cells.cuh"
#include "gradient.cuh"
#include "updates.h"

/* Every block decides alike, before its tiles. */
PHASE void check_update() {
    const struct network &n = block_network();
    uint32_t length = n.current->length, partials = gradient_partials(n, length);
    double sums[2] = {0, 0}; /* squares, loss */
    for (uint32_t i = threadIdx.x; i < partials; i += blockDim.x)
        sums[0] += n.squares[i];
    for (uint32_t t = threadIdx.x; t < length; t += blockDim.x)
        sums[1] += n.losses[t];
    block_sums(sums, (double *)shared_memory);
    double squares = sums[0] < 0 ? 0 : sums[0]; /* cancellation may leave less than 0 */
    if (threadIdx.x > 0)
        return;
    struct decision &v = n.decision;
    v.norm = sqrt(squares);
    v.loss = sums[1];
    v.factor = update_clip_factor(n.queue->clip, v.norm);
    v.applies = update_applies(sums[1], squares, v.factor);
}

/* One number's step, with its moments in and out; `kept` of them exist. */
DEVICE float step(const struct optimizer_numbers &o, size_t kept, float weight, float gradient,
                  float *const *moments) {
    switch (o.kind) {
#define OPTIMIZER(name)                                                                            \
case OPTIMIZER_##name:                                                                             \
    return name##_step(&o.of.name, kept, weight, gradient, moments);
#include "kinds.def"
    case OPTIMIZERS:
        break;
    }
    return weight;
}

/* Sums of squares: of the change, and of the weights before it. */
struct change {
    float squares, before;
};

/* One number of four. `start` is the starting value, or NULL. */
template <float float4::*LANE>
DEVICE void change_number(const struct optimizer_numbers &o, size_t kept, const float4 *start,
                          float4 *weight, float4 gradient, float4 (&moments)[MOMENTS_MAX],
                          struct change *c) {
    float *at[MOMENTS_MAX];
#pragma unroll
    for (size_t m = 0; m < MOMENTS_MAX; m++)
        at[m] = &(moments[m].*LANE);
    float before = weight->*LANE, next = step(o, kept, before, gradient.*LANE, at);
    if (start)
        next = optimizer_pull(o.pull, next, start->*LANE);
    next = update_next(before, gradient.*LANE, next);
    float d = next - before;
    weight->*LANE = next;
    c->squares += d * d;
    c->before += before * before;
}

/* Four numbers of the block's tensor from `at` on, with gradient g. Numbers of the optimizer are
   read where they are used: they would need many registers. */
DEVICE void change_quad(const struct network &n, size_t at, float4 g, struct change *c) {
    const struct optimizer_numbers &o = n.state->numbers;
    const struct stored &stored = n.stored;
    const float4 *start = stored.start ? (const float4 *)(stored.start + at) : NULL;
    float4 *weights = (float4 *)(stored.weights + at), w = *weights, moments[MOMENTS_MAX] = {};
    size_t kept = 0;
#pragma unroll
    for (size_t m = 0; m < MOMENTS_MAX; m++)
        if (stored.moments[m]) {
            moments[m] = *(const float4 *)(stored.moments[m] + at);
            kept++;
        }
    change_number<&float4::x>(o, kept, start, &w, g, moments, c);
    change_number<&float4::y>(o, kept, start, &w, g, moments, c);
    change_number<&float4::z>(o, kept, start, &w, g, moments, c);
    change_number<&float4::w>(o, kept, start, &w, g, moments, c);
    *weights = w;
#pragma unroll
    for (size_t m = 0; m < MOMENTS_MAX; m++)
        if (stored.moments[m])
            *(float4 *)(stored.moments[m] + at) = moments[m];
}

/* This thread's rows of a tile's gradient, in shared memory (rows, threads): computed there, or
   read. */
DEVICE void stage_tile(const struct network &n, const struct walked &w, const struct tile &tile,
                       float factor) {
    float4 made[TILE_ROWS], *staged = (float4 *)(shared_memory + WORKSPACE);
    bool formed = n.current->length >= FORM_STEPS;
    if (!formed)
        make_tile(n, w, tile, n.current->length, factor, made, shared_memory + WORKSPACE);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++) {
        size_t at = w.offset + (size_t)(tile.row + k) * w.ld + tile.column;
        if (formed && in_tensor(w, tile, k)) {
            float4 g = *(const float4 *)(n.gradient + at);
            made[k] = make_float4(g.x * factor, g.y * factor, g.z * factor, g.w * factor);
        }
        staged[k * PLAY_THREADS + threadIdx.x] = made[k];
    }
}

/* The tile's numbers. Stores the sums of its changes. */
PHASE void change_tile(const struct walked &w, uint32_t number) {
    const struct network &n = block_network();
    struct tile tile = tile_of(w, number);
    struct change c = {0, 0};
    uint32_t first = w.dealt ? tile.first_row : 0;
    stage_tile(n, w, tile, (float)n.decision.factor);
#pragma unroll 1
    for (int k = 0; k < TILE_ROWS; k++)
        if (in_tensor(w, tile, k))
            change_quad(
                n, (size_t)(tile.row + k - first) * w.ld + tile.column,
                ((const float4 *)(shared_memory + WORKSPACE))[k * PLAY_THREADS + threadIdx.x], &c);
    double sums[2] = {(double)c.squares, (double)c.before};
    block_sums(sums, (double *)shared_memory);
    if (threadIdx.x == 0) {
        n.changes[2 * (size_t)number] = sums[0];
        n.changes[2 * (size_t)number + 1] = sums[1];
    }
}

/* ---- Activity, beside the tiles ---- */

/* The newest q replaces the oldest, after the products with all of them. A thread has the same
   units throughout. */
static __device__ void add_sample(double *head, const float *h, uint32_t size, double age) {
    static_assert((int)ACTIVITY_RING <= (int)SUMS_MAX, "one reduction");
    const double *m = head + ACTIVITY_HEAD;
    double *ring = head + ACTIVITY_HEAD + 2 * (size_t)size,
           *newest = ring + activity_row(age) * size;
    double sums[ACTIVITY_RING] = {}, square = 0, products = 0;
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        double q = (double)h[i] - m[i];
        for (uint32_t r = 0; r < ACTIVITY_RING; r++)
            sums[r] += q * ring[(size_t)r * size + i];
        square += q * q;
        newest[i] = q;
    }
    block_sums(sums, (double *)shared_memory);
    square = block_sum(square, (double *)shared_memory);
    for (uint32_t r = 0; r < ACTIVITY_RING; r++)
        products += sums[r] * sums[r];
    if (threadIdx.x == 0 && activity_sampled(age) > 0)
        activity_add_sample(head, age, square, products);
}

/* A layer's part of an update that is applied, by a block; `conclude` counts the update. */
static __device__ __attribute__((noinline)) void activity_add(const struct network &n,
                                                              uint32_t layer) {
    const struct network_layer &l = n.layers[layer];
    const struct segment *s = n.current;
    const float *h = layer_at(n, l, ring_position(n, s->window, s->length - 1)).hidden;
    double *head = activity_head(n, layer), age = *n.activity + 1;
    double *m = head + ACTIVITY_HEAD, *a = m + l.size;
    double of_mean = activity_weight(age, ACTIVITY_LEAST_OF_MEAN);
    double of_size = activity_weight(age, ACTIVITY_LEAST_OF_SIZE);
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x) {
        m[i] += of_mean * ((double)h[i] - m[i]);
        a[i] += of_size * (fabs((double)h[i]) - a[i]);
    }
    if (activity_samples(age))
        add_sample(head, h, l.size, age);
}

/* Adds up all results, and reports them: one block, after the others. */
PHASE void conclude() {
    const struct network &n = block_network();
    const struct decision &v = n.decision;
    double sums[2] = {0, 0};
    for (uint32_t i = threadIdx.x; i < n.tiles && v.applies; i += blockDim.x) {
        sums[0] += n.changes[2 * i];
        sums[1] += n.changes[2 * i + 1];
    }
    block_sums(sums, (double *)shared_memory);
    if (threadIdx.x > 0)
        return;
    struct update_result *result = n.queue->updates + n.current->update;
    result->applied = v.applies;
    result->empty = false;
    n.state->applied = v.applies;
    result->gradient_norm = v.norm;
    result->update_ratio = v.applies && sums[1] > 0 ? sqrt(sums[0] / sums[1]) : 0;
    result->squares = v.applies ? sums[1] : 0;
    result->plasticity = NAN;
    result->growth = result->layer = 0;
    n.state->loss = v.loss;
    n.state->updates += v.applies;
    *n.activity += v.applies;
}

/* The numbers that change_tile changes: a tensor's, or a strip's. */
DEVICE void choose_stored(const struct network &n, const struct walked &w, uint32_t index) {
    __syncthreads(); /* the previous ones may still be read */
    if (threadIdx.x == 0) {
        size_t first = w.offset + (index == NONE ? 0 : (size_t)n.strips[index].first * w.ld);
        n.stored.start = n.start ? n.start + first : NULL;
        for (uint32_t m = 0; m <= MOMENTS_MAX; m++) {
            float *of = m ? n.moments[m - 1] : n.parameters;
            float *at = index != NONE ? strip_numbers(n, n.strips[index], index, m)
                        : of          ? of + first
                                      : NULL;
            *(m ? &n.stored.moments[m - 1] : &n.stored.weights) = at;
        }
    }
    __syncthreads();
}

/* The tiles of the block's own strips, and its share of the others; beside them activity. Bound by
   bytes: each parameter and its moments are read and written once. */
PHASE void update_tiles() {
    const struct network &n = block_network();
    for (uint32_t k = n.own; k < n.own_end; k++) {
        const struct strip s = n.strips[k];
        if (s.tensor == NONE)
            continue;
        const struct walked &w = n.tensors[s.tensor];
        choose_stored(n, w, k);
        for (uint32_t c = 0; c < w.column_tiles; c++)
            change_tile(w, w.first_tile + s.number * w.column_tiles + c);
    }
    for (uint32_t i = 0; i < n.tensor_count; i++) {
        const struct walked &w = n.tensors[i];
        uint32_t end = i + 1 < n.tensor_count ? n.tensors[i + 1].first_tile : n.tiles;
        uint32_t late = (w.first_tile + n.team.size - n.team.rank) % n.team.size;
        uint32_t number = w.first_tile + (late ? n.team.size - late : 0);
        if (w.dealt || number >= end)
            continue;
        choose_stored(n, w, NONE);
        for (; number < end; number += n.team.size)
            change_tile(w, number);
    }
    /* the last blocks have the fewest tiles */
    for (uint32_t k = n.team.size - 1 - n.team.rank; k < n.layer_count; k += n.team.size)
        activity_add(n, k);
}

/* One optimizer step: reads and writes each parameter once; its gradient is computed in place, or
   read if it was stored. Nothing changes if loss or gradient is not finite. */
DEVICE void optimize(const struct network &n) {
    check_update();
    __syncthreads();
    if (n.decision.applies)
        update_tiles();
    team_sync();
    if (n.team.rank == 0)
        conclude();
    team_sync();
}

#endif
