/* Activity of units, growth of weights and plasticity: see activities.h. The newest step of an
   update is the last of its window. */
#ifndef RUNNEL_CUDA_ACTIVITY_CUH
#define RUNNEL_CUDA_ACTIVITY_CUH

#include "activities.h"
#include "cells.cuh"

static __device__ __forceinline__ double *activity_head(const struct network &n, uint32_t layer) {
    double *head = activity_of(n) + 1;
    for (uint32_t k = 0; k < layer; k++)
        head += activity_numbers(n.layers[k].size);
    return head;
}

/* Norm of a layer's matrices, by a block; the padding of rows is zero. */
static __device__ __forceinline__ double weights_norm(const struct network &n,
                                                      const struct network_layer &l) {
    double squares = 0;
    const float *ih = parameters_of(n) + l.weight_ih, *hh = parameters_of(n) + l.weight_hh;
    for (size_t i = threadIdx.x; i < (size_t)l.rows * l.ld_ih; i += blockDim.x)
        squares += (double)ih[i] * (double)ih[i];
    for (size_t i = threadIdx.x; l.recurrent && i < (size_t)l.rows * l.ld_hh; i += blockDim.x)
        squares += (double)hh[i] * (double)hh[i];
    return sqrt(block_sum(squares, (double *)shared_memory));
}

/* At age 0: keeps the norms of the starting weights. */
cudaError_t launch_activity_begin(const struct network *n, unsigned threads, cudaStream_t stream);

/* After the forward and the losses of an update's window, with the parameters after it. */
cudaError_t launch_probe(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream);

#endif
