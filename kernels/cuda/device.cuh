/* Error messages of CUDA calls, and reductions over a block.
   Reductions have a fixed order, so that every run gives the same bits. */
#ifndef RUNNEL_CUDA_DEVICE_CUH
#define RUNNEL_CUDA_DEVICE_CUH

#include <cuda_runtime.h>
#include <stdint.h>
#include <sysexits.h>

extern "C" {
#include "common/error.h"
#include "engine/cuda_module.h"
#include "engine/engine.h"
}

enum {
    LANES = 32,
    WARPS_MAX = 32,
    QUAD = 4,
    PLAY_THREADS = 512, /* of a block */
    SUMS_MAX = 8,       /* that block_sums reduces at once */
    /* Shared memory begins with the scratch of reductions: floats. */
    SCRATCH = SUMS_MAX * WARPS_MAX * sizeof(double) / sizeof(float),
};

/* All shared memory is dynamic, set at the launch. */
extern __shared__ __align__(16) float shared_memory[];

/* The device of the configuration; see cuda_module.h. It does not start work on the device, and
   free_memory stays 0. */
int cuda_probe(const char *device, struct cuda_device *found, struct error *error);

/* `measure` of cuda_module.h, in tools/bench/cuda. */
int cuda_measure(const char *device, struct cuda_figures *figures, struct error *error);

/* Selects that device for this thread, and sets its free memory. */
int cuda_select(struct cuda_device *device, struct error *error);

/* 0, or -1 with "WHAT: the device's reason". */
int cuda_check(cudaError_t status, const char *what, struct error *error);

/* ---- Inside a kernel ---- */

/* Functions of the kernel, and those that the host calls, too. */
#define DEVICE static __device__ __forceinline__
#define BOTH static __host__ __device__ __forceinline__

/* A part of the kernel between barriers: a call, so that it may use all registers. */
#define PHASE static __device__ __attribute__((noinline, unused))

DEVICE unsigned lane_index() {
    return threadIdx.x % LANES;
}

DEVICE unsigned warp_index() {
    return threadIdx.x / LANES;
}

/* sum += a b, elementwise; and the sum of a float4. All products of weights use these, so that
   equal numbers give equal bits everywhere. */
DEVICE void add_products(float4 *sum, float4 a, float4 b) {
    sum->x += a.x * b.x;
    sum->y += a.y * b.y;
    sum->z += a.z * b.z;
    sum->w += a.w * b.w;
}

DEVICE float quad_sum(float4 a) {
    return (a.x + a.y) + (a.z + a.w);
}

template <typename Number> DEVICE Number warp_sum(Number value) {
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

/* Replaces each thread's `values` by their sums over the block: a tree over each warp's lanes,
   then the warps in order. Every thread of the block must call it. */
template <int COUNT, typename Number>
DEVICE void block_sums(Number (&values)[COUNT], Number *scratch) {
    static_assert(COUNT <= SUMS_MAX, "the scratch is too small");
    unsigned warps = blockDim.x / LANES;
    __syncthreads(); /* the previous call may still read the scratch */
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        values[k] = warp_sum(values[k]);
        if (lane_index() == 0)
            scratch[k * WARPS_MAX + warp_index()] = values[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        Number sum = 0;
        for (unsigned warp = 0; warp < warps; warp++)
            sum += scratch[k * WARPS_MAX + warp];
        values[k] = sum;
    }
}

template <typename Number> DEVICE Number block_sum(Number value, Number *scratch) {
    Number values[1] = {value};
    block_sums(values, scratch);
    return values[0];
}

/* The largest; NaN if any is NaN. */
template <typename Number> DEVICE Number block_maximum(Number value, Number *scratch) {
    unsigned warps = blockDim.x / LANES;
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        Number other = __shfl_xor_sync(0xffffffffu, value, distance);
        value = other > value || other != other ? other : value;
    }
    __syncthreads();
    if (lane_index() == 0)
        scratch[warp_index()] = value;
    __syncthreads();
    for (unsigned warp = 0; warp < warps; warp++) {
        Number other = scratch[warp];
        value = other > value || other != other ? other : value;
    }
    return value;
}

#endif
