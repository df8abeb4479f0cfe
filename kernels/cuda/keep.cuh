/* What stays in shared memory during a plan. A block alone keeps whole arrays: first all
   parameters, then the window's activations, then each moment, as many as there is room for. A
   block of a larger team keeps the strips that it owns: first weights, then moments if all of them
   fit. What does not fit is read through the caches, with the same bits. A short plan keeps
   nothing: it would copy more than it reads. */
#ifndef RUNNEL_CUDA_KEEP_CUH
#define RUNNEL_CUDA_KEEP_CUH

#include "product.cuh"

/* Steps of a plan from which it keeps numbers: each step reads the weights up to three times. */
enum { KEEP_STEPS = 8 };

enum direction { CHIP_IN, CHIP_OUT };

static __device__ __forceinline__ void copy_quads(float *chip, float *memory, size_t numbers,
                                                  enum direction direction) {
    float4 *to = (float4 *)(direction == CHIP_IN ? chip : memory);
    const float4 *from = (const float4 *)(direction == CHIP_IN ? memory : chip);
#pragma unroll 4
    for (size_t i = threadIdx.x; i < numbers / QUAD; i += blockDim.x)
        to[i] = from[i];
}

/* ---- A block alone ---- */

/* Exchanges one array, if there is still room, and points to it. `original` is that in memory. */
static __device__ __forceinline__ void keep_array(float *original, uint32_t numbers,
                                                  enum direction direction, float **array,
                                                  float **chip, float *end) {
    if (!original || (size_t)(end - *chip) < numbers)
        return;
    copy_quads(*chip, original, numbers, direction);
    if (threadIdx.x == 0)
        *array = direction == CHIP_IN ? *chip : original;
    *chip += numbers;
}

static __device__ __forceinline__ void keep_arrays(struct network &n, const struct network &of,
                                                   enum direction direction, float *chip,
                                                   float *end) {
    keep_array(of.parameters, n.counts.parameters, direction, &n.parameters, &chip, end);
    keep_array(of.activations, n.counts.activations, direction, &n.activations, &chip, end);
    for (size_t m = 0; m < MOMENTS_MAX; m++)
        keep_array(of.moments[m], n.counts.moments, direction, &n.moments[m], &chip, end);
    keep_array(of.units, n.counts.units, direction, &n.units, &chip, end);
}

/* ---- A block of a team ---- */

/* How many strips, and moments of them, fit. Strips of the output are the last in the table: they
   are read by steps, by any block, as are all if norms read rows. */
static __device__ __forceinline__ void choose_strips(struct network &n, float *chip,
                                                     const float *end) {
    size_t room = (size_t)(end - chip), moments = 0;
    uint32_t first = n.strips[n.own].before, k = n.own;
    while (k < n.own_end && k < n.out.first && !n.rows_norms &&
           n.strips[k + 1].before - first <= room)
        k++;
    while (moments < MOMENTS_MAX && n.moments[moments])
        moments++;
    n.held = chip;
    n.held_end = k;
    n.held_numbers = n.strips[k].before - first;
    bool all = (k == n.own_end || k == n.out.first) && (1 + moments) * n.held_numbers <= room;
    n.held_moments = all ? (uint32_t)moments : 0;
}

static __device__ __forceinline__ void keep_strips(struct network &n, enum direction direction) {
    for (uint32_t k = n.own; k < n.held_end; k++) {
        const struct strip s = n.strips[k];
        size_t numbers = n.strips[k + 1].before - s.before;
        for (uint32_t m = 0; m <= n.held_moments; m++)
            copy_quads(strip_numbers(n, s, k, m), strip_numbers(n, s, NONE, m), numbers, direction);
    }
}

/* ---- Both ---- */

/* From the start of a plan to its end, in shared memory from `chip` to `end`. `of` is the network
   in memory. */
static __device__ PHASE void keep(const struct network &of, enum direction direction, float *chip,
                                  float *end) {
    struct network &n = block_network();
    if (!n.queue->keep)
        return;
    __syncthreads();
    if (n.team.scope == SCOPE_BLOCK) {
        keep_arrays(n, of, direction, chip, end);
    } else {
        if (direction == CHIP_IN && threadIdx.x == 0)
            choose_strips(n, chip, end);
        __syncthreads();
        keep_strips(n, direction);
    }
    __syncthreads();
}

#endif
