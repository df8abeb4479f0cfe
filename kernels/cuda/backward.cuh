/* Backward through a window whose sums and states stand in the ring: from its targets to the
   gradients of all sums, kept for each step, from which gradient.cuh makes those of the weights. */
#ifndef RUNNEL_CUDA_BACKWARD_CUH
#define RUNNEL_CUDA_BACKWARD_CUH

#include "network.cuh"

/* Losses and gradients of the window's targets, and the optimizer's numbers for the update: one
 * launch.
 */
cudaError_t launch_loss(const struct network *n, uint32_t length, unsigned threads,
                        cudaStream_t stream);

/* 1 + length + layers - 1 launches. In wave v the topmost layer is at step length - 1 - v, each
   layer below one step later than the one above it. */
cudaError_t launch_backward(const struct network *n, uint32_t length, unsigned threads,
                            cudaStream_t stream);

/* The first of these. */
cudaError_t launch_output_backward(const struct network *n, uint32_t length, unsigned threads,
                                   cudaStream_t stream);

/* The most shared memory of all these with blocks of so many threads, in bytes. */
size_t backward_shared(const struct network *n, unsigned threads);

/* Of the output's part. */
size_t output_shared(const struct network *n, unsigned threads);

#endif
