/* Norms whose mean and deviation belong to each unit: made of rows of matrices, or running. */
#ifndef RUNNEL_CUDA_UNITS_CUH
#define RUNNEL_CUDA_UNITS_CUH

#include "network.cuh"

/* After backward: what passes through the deviations, see struct network_layer's `pull`. */
cudaError_t launch_pulls(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream);

/* After the optimizer: running statistics move, if it was applied. */
cudaError_t launch_absorb(const struct network *n, unsigned threads, cudaStream_t stream);

/* Deviations again, after parameters or running statistics have changed. */
cudaError_t launch_refresh(const struct network *n, unsigned threads, cudaStream_t stream);

#endif
