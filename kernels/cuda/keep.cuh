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

enum chip_copy { CHIP_IN, CHIP_OUT };

DEVICE void copy_quads(float *chip, float *memory, size_t numbers, enum chip_copy copy) {
    float4 *to = (float4 *)(copy == CHIP_IN ? chip : memory);
    const float4 *from = (const float4 *)(copy == CHIP_IN ? memory : chip);
#pragma unroll 4
    for (size_t i = threadIdx.x; i < numbers / QUAD; i += blockDim.x)
        to[i] = from[i];
}

/* ---- A block alone ---- */

/* Exchanges one array with its original, if there is still room, and points to it. */
DEVICE void keep_array(struct network &n, float *const *original, uint32_t numbers,
                       enum chip_copy copy, float **chip) {
    if (!*original || (size_t)(n.chip_end - *chip) < numbers)
        return;
    copy_quads(*chip, *original, numbers, copy);
    size_t field = (const char *)original - (const char *)n.original;
    if (threadIdx.x == 0)
        *(float **)((char *)&n + field) = copy == CHIP_IN ? *chip : *original;
    *chip += numbers;
}

DEVICE void keep_arrays(struct network &n, enum chip_copy copy) {
    const struct network &of = *n.original;
    float *chip = n.chip;
    keep_array(n, &of.parameters, n.counts.parameters, copy, &chip);
    keep_array(n, &of.activations, n.counts.activations, copy, &chip);
    for (size_t m = 0; m < MOMENTS_MAX; m++)
        keep_array(n, &of.moments[m], n.counts.moments, copy, &chip);
    keep_array(n, &of.units, n.counts.units, copy, &chip);
}

/* ---- A block of a team ---- */

/* How many strips, and moments of them, fit. Strips of the output are the last in the table: they
   are read by steps, by any block, as are all if norms read rows. */
DEVICE void choose_strips(struct network &n) {
    size_t room = (size_t)(n.chip_end - n.chip), moments = 0;
    uint32_t first = n.strips[n.own].before, k = n.own;
    while (k < n.own_end && k < n.out.first && !n.rows_norms &&
           n.strips[k + 1].before - first <= room)
        k++;
    while (moments < MOMENTS_MAX && n.moments[moments])
        moments++;
    n.held_end = k;
    n.held_numbers = n.strips[k].before - first;
    bool all = (k == n.own_end || k == n.out.first) && (1 + moments) * n.held_numbers <= room;
    n.held_moments = all ? (uint32_t)moments : 0;
}

DEVICE void keep_strips(struct network &n, enum chip_copy copy) {
    for (uint32_t k = n.own; k < n.held_end; k++) {
        const struct strip s = n.strips[k];
        size_t numbers = n.strips[k + 1].before - s.before;
        for (uint32_t m = 0; m <= n.held_moments; m++)
            copy_quads(strip_numbers(n, s, k, m), strip_numbers(n, s, NONE, m), numbers, copy);
    }
}

/* ---- Both ---- */

/* At the start of a plan, and at its end. */
PHASE void keep(enum chip_copy copy) {
    struct network &n = block_network();
    if (!n.queue->keep)
        return;
    __syncthreads();
    if (n.team.scope == SCOPE_BLOCK) {
        keep_arrays(n, copy);
    } else {
        if (copy == CHIP_IN && threadIdx.x == 0)
            choose_strips(n);
        __syncthreads();
        keep_strips(n, copy);
    }
    __syncthreads();
}

#endif
