/* Norms with a mean and deviation per unit: from rows of matrices, or running. */
#ifndef RUNNEL_CUDA_UNITS_CUH
#define RUNNEL_CUDA_UNITS_CUH

#include "network.cuh"

/* After backward: the part of gradients through the deviations, see struct network_layer's
   `pull`. */
cudaError_t launch_pulls(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream);

/* After the optimizer: moves running statistics, if it was applied. */
cudaError_t launch_absorb(const struct network *n, unsigned threads, cudaStream_t stream);

/* Recomputes deviations after a change of parameters or running statistics. */
cudaError_t launch_refresh(const struct network *n, unsigned threads, cudaStream_t stream);

#endif
