/* Forward over a run of steps, or over a window again. */
#ifndef RUNNEL_CUDA_FORWARD_CUH
#define RUNNEL_CUDA_FORWARD_CUH

#include "network.cuh"

/* All sums, hidden states and outputs of `steps` steps: steps + layers launches, one more
   where W_ih of layer 0 is large. In wave w layer k is at step w - k, so that each wave needs only
   what the one before it computed. */
cudaError_t launch_forward(const struct network *n, enum steps_of of, uint32_t steps,
                           unsigned threads, cudaStream_t stream);

/* Outputs of a window's learned steps alone, from the h that is there. */
cudaError_t launch_outputs(const struct network *n, uint32_t length, unsigned threads,
                           cudaStream_t stream);

/* The most shared memory of all these, in bytes. */
size_t forward_shared(const struct network *n);

#endif
