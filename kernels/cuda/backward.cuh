/* Backward through a window with sums and states in the ring: from its targets to the gradients
   of all sums, stored for each step; gradient.cuh computes those of the weights from them. */
#ifndef RUNNEL_CUDA_BACKWARD_CUH
#define RUNNEL_CUDA_BACKWARD_CUH

#include "network.cuh"

/* Losses and gradients of the window's targets, and the optimizer's numbers for the update: one
   launch. */
cudaError_t launch_loss(const struct network *n, uint32_t length, unsigned threads,
                        cudaStream_t stream);

/* 1 + length + layers - 1 launches. In wave v the topmost layer is at step length - 1 - v, and
   each lower layer one step later than the layer above. */
cudaError_t launch_backward(const struct network *n, uint32_t length, unsigned threads,
                            cudaStream_t stream);

/* The first of these launches. */
cudaError_t launch_output_backward(const struct network *n, uint32_t length, unsigned threads,
                                   cudaStream_t stream);

/* The largest shared memory of these launches with blocks of `threads`, in bytes. */
size_t backward_shared(const struct network *n, unsigned threads);

/* The shared memory of the output's part. */
size_t output_shared(const struct network *n, unsigned threads);

#endif
