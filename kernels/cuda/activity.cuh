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

/* Norms of the layers' matrices, the first numbers of `changes` after launch_norms. */
static __device__ __forceinline__ double weights_norm(const struct network &n, uint32_t layer) {
    return changes_of(n)[layer];
}

/* Between two optimizers, which need `changes` (2, tiles). */
cudaError_t launch_norms(const struct network *n, uint32_t tiles, unsigned threads,
                         cudaStream_t stream);

/* At age 0: keeps the norms of the starting weights. After launch_norms, as launch_probe. */
cudaError_t launch_activity_begin(const struct network *n, unsigned threads, cudaStream_t stream);

/* After the forward and the losses of an update's window, with the parameters after it. */
cudaError_t launch_probe(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream);

#endif
