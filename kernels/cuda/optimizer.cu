#include "optimizer.cuh"

#include "activities.h"
#include "cells.cuh"
#include "tile.cuh"
#include "updates.h"

/* Computed by every block before its tile. */
struct decision {
    bool applies;
    double norm;   /* norm of the gradient before clipping */
    double factor; /* of clipping */
    double loss;
};

static __device__ struct decision check_update(const struct network &n, uint32_t partials,
                                               uint32_t length) {
    double sums[2] = {0, 0}; /* squares, loss */
    for (uint32_t i = threadIdx.x; i < partials; i += blockDim.x)
        sums[0] += squares_of(n)[i];
    for (uint32_t t = threadIdx.x; t < length; t += blockDim.x)
        sums[1] += losses_of(n)[t];
    block_sums(sums, (double *)shared_memory);
    double squares = sums[0] < 0 ? 0 : sums[0]; /* cancellation may leave less than 0 */
    struct decision v;
    v.norm = sqrt(squares);
    v.loss = sums[1];
    v.factor = update_clip_factor(queue_of(n)->clip, v.norm);
    v.applies = update_applies(sums[1], squares, v.factor);
    return v;
}

/* Optimizers share a kernel with those that have a similar number of moments: registers for five
   would slow down those with one or two. */
enum { FEW_MOMENTS = 2 };

/* Whether an optimizer with `moments` is in the kernel for at most `most`. */
static __host__ __device__ constexpr bool is_in_kernel(size_t moments, size_t most) {
    return (moments <= FEW_MOMENTS) == (most <= FEW_MOMENTS);
}

/* Blocks per multiprocessor that run at once: fewer blocks leave more registers, so that none is
   spilled. */
static constexpr int resident_blocks(size_t most) {
    return most <= FEW_MOMENTS ? RESIDENT_BLOCKS : RESIDENT_BLOCKS - 1;
}

/* One number's step, with its moments in and out; `kept` of them exist. */
template <size_t MOST>
static __device__ __forceinline__ float step(const struct optimizer_numbers &o, size_t kept,
                                             float weight, float gradient, float *const *moments) {
    switch (o.kind) {
#define OPTIMIZER(name)                                                                            \
    case OPTIMIZER_##name:                                                                         \
        if constexpr (is_in_kernel(name##_kind.moments, MOST))                                     \
            return name##_step(&o.of.name, kept, weight, gradient, moments);                       \
        break;
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

/* The number of moments, and the starting values or NULL: read where they are used, since others
   would pay for their registers. */
struct kept {
    size_t moments;
    const float4 *start;
};

/* One number of four. */
template <float float4::*LANE, size_t MOST>
static __device__ __forceinline__ void
change_number(const struct optimizer_numbers &o, struct kept kept, float4 *weight, float4 gradient,
              float4 (&moments)[MOST], struct change *c) {
    float *at[MOST];
#pragma unroll
    for (size_t m = 0; m < MOST; m++)
        at[m] = &(moments[m].*LANE);
    float before = weight->*LANE, next = step<MOST>(o, kept.moments, before, gradient.*LANE, at);
    if (kept.start)
        next = optimizer_pull(o.pull, next, kept.start->*LANE);
    next = update_next(before, gradient.*LANE, next);
    float d = next - before;
    weight->*LANE = next;
    c->squares += d * d;
    c->before += before * before;
}

/* Four numbers of a block of moments, which may be missing. */
static __device__ __forceinline__ float4 load(const struct network &n, uint32_t block, size_t at) {
    return block ? *(const float4 *)(block_of<float>(n, block) + at) : make_float4(0, 0, 0, 0);
}

static __device__ __forceinline__ void store(const struct network &n, uint32_t block, size_t at,
                                             float4 value) {
    if (block)
        *(float4 *)(block_of<float>(n, block) + at) = value;
}

/* Four numbers from `at` on. */
template <size_t MOST>
static __device__ __forceinline__ void change_quad(const struct network &n,
                                                   const struct optimizer_numbers &o, size_t at,
                                                   float4 g, struct change *c) {
    float4 *weights = (float4 *)(parameters_of(n) + at), w = *weights, moments[MOST];
    struct kept kept = {0, NULL};
    if (n.at.start)
        kept.start = (const float4 *)(block_of<float>(n, n.at.start) + at);
#pragma unroll
    for (size_t m = 0; m < MOST; m++) {
        moments[m] = load(n, n.at.moments[m], at);
        kept.moments += n.at.moments[m] != 0;
    }
    change_number<&float4::x, MOST>(o, kept, &w, g, moments, c);
    change_number<&float4::y, MOST>(o, kept, &w, g, moments, c);
    change_number<&float4::z, MOST>(o, kept, &w, g, moments, c);
    change_number<&float4::w, MOST>(o, kept, &w, g, moments, c);
    *weights = w;
#pragma unroll
    for (size_t m = 0; m < MOST; m++)
        store(n, n.at.moments[m], at, moments[m]);
}

static __device__ __forceinline__ float4 scaled(float4 g, float factor) {
    return make_float4(g.x * factor, g.y * factor, g.z * factor, g.w * factor);
}

/* The tile's numbers; the gradient is computed here, or read. */
template <bool FORMED, size_t MOST>
static __device__ __forceinline__ struct change
change_tile(const struct network &n, const struct walked &w, const struct decision &v,
            const struct optimizer_numbers &o, uint32_t length, uint32_t number) {
    struct tile tile = tile_of(w, number);
    struct change c = {0, 0};
    float4 made[TILE_ROWS];
    if (!FORMED)
        make_tile(n, w, tile, length, (float)v.factor, made, shared_memory);
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++) {
        if (!in_tensor(w, tile, k))
            continue;
        size_t at = w.offset + (size_t)(tile.row + k) * w.ld + tile.column;
        float4 g = made[k];
        if (FORMED)
            g = scaled(*(const float4 *)(gradient_of(n) + at), (float)v.factor);
        change_quad<MOST>(n, o, at, g, &c);
    }
    return c;
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

/* A layer's part of an update that is applied, by a block. Its last block counts the update. */
static __device__ __attribute__((noinline)) void activity_add(const struct network &n,
                                                              uint32_t layer) {
    const struct network_layer &l = n.layers[layer];
    const struct segment *s = current_of(n);
    const float *h = layer_at(n, l, ring_position(n, s->window, s->length - 1)).hidden;
    double *head = activity_head(n, layer), age = *activity_of(n) + 1;
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

/* The last block: adds up all results, and reports them. */
static __device__ void conclude(const struct network &n, const struct decision &v, uint32_t tiles) {
    double sums[2] = {0, 0};
    for (uint32_t i = threadIdx.x; i < tiles && v.applies; i += blockDim.x) {
        sums[0] += changes_of(n)[2 * i];
        sums[1] += changes_of(n)[2 * i + 1];
    }
    block_sums(sums, (double *)shared_memory);
    if (threadIdx.x > 0)
        return;
    struct update_result *result = queue_of(n)->updates + current_of(n)->update;
    result->applied = v.applies;
    state_of(n)->applied = v.applies;
    result->gradient_norm = v.norm;
    result->update_ratio = v.applies && sums[1] > 0 ? sqrt(sums[0] / sums[1]) : 0;
    result->squares = v.applies ? sums[1] : 0;
    result->plasticity = NAN;
    result->growth = result->layer = 0;
    state_of(n)->loss = v.loss;
    state_of(n)->updates += v.applies;
    *activity_of(n) += v.applies;
}

/* The blocks take turns at tiles. Bound by bytes: each parameter and its moments are read and
   written once. */
template <bool FORMED, size_t MOST>
static __global__ void __launch_bounds__(TILE_THREADS, resident_blocks(MOST))
    optimize(const __grid_constant__ struct network n, const struct walked *tensors, uint32_t count,
             uint32_t tiles, uint32_t length, uint32_t partials) {
    struct decision v = check_update(n, partials, length);
    const struct optimizer_numbers o = state_of(n)->numbers;
    for (uint32_t number = blockIdx.x; number < tiles && v.applies; number += gridDim.x) {
        const struct walked &w = *tensor_of(tensors, count, number);
        struct change c = change_tile<FORMED, MOST>(n, w, v, o, length, number);
        double sums[2] = {(double)c.squares, (double)c.before};
        block_sums(sums, (double *)shared_memory);
        if (threadIdx.x == 0) {
            changes_of(n)[2 * (size_t)number] = sums[0];
            changes_of(n)[2 * (size_t)number + 1] = sums[1];
        }
    }
    /* The last blocks have the fewest tiles. */
    for (uint32_t k = gridDim.x - 1 - blockIdx.x; k < n.layer_count && v.applies; k += gridDim.x)
        activity_add(n, k);
    if (block_is_last(&state_of(n)->ticket))
        conclude(n, v, tiles);
}

template <size_t MOST>
static cudaError_t launch_kind(const struct network *n, const struct gradient_plan *plan,
                               uint32_t length, uint32_t partials, cudaStream_t stream) {
    static_assert((int)TILE_SHARED >= (int)SCRATCH, "reductions need their scratch");
    size_t floats = TILE_SHARED;
    uint32_t blocks = plan->multiprocessors * resident_blocks(MOST);
    blocks /= n->members ? n->members : 1;
    blocks = blocks < 1 ? 1 : blocks < plan->tiles ? blocks : plan->tiles;
    struct launch l = {dim3(blocks, 1, n->members), TILE_THREADS, floats * sizeof(float), stream};
    return gradient_is_formed(plan, length)
               ? launch_kernel((optimize<true, MOST>), &l, *n, plan->tensors, plan->count,
                               plan->tiles, length, partials)
               : launch_kernel((optimize<false, MOST>), &l, *n, plan->tensors, plan->count,
                               plan->tiles, length, partials);
}

cudaError_t launch_optimizer(const struct network *n, const struct gradient_plan *plan,
                             uint32_t length, uint32_t partials, cudaStream_t stream) {
    return n->at.moments[FEW_MOMENTS] ? launch_kind<MOMENTS_MAX>(n, plan, length, partials, stream)
                                      : launch_kind<FEW_MOMENTS>(n, plan, length, partials, stream);
}
