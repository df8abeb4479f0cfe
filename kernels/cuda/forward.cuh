/* Forward over a run of steps, or over a window again. */
#ifndef RUNNEL_CUDA_FORWARD_CUH
#define RUNNEL_CUDA_FORWARD_CUH

#include "network.cuh"

/* All sums, hidden states and outputs of `steps` steps: steps + layers launches, and one more if
   W_ih of layer 0 is large. In wave w layer k is at step w - k, so that each wave needs only
   results of the previous one. */
cudaError_t launch_forward(const struct network *n, enum steps_of of, uint32_t steps,
                           unsigned threads, cudaStream_t stream);

/* Only outputs of a window's learned steps, from their stored h. */
cudaError_t launch_outputs(const struct network *n, uint32_t length, unsigned threads,
                           cudaStream_t stream);

/* The largest shared memory of these launches, in bytes. */
size_t forward_shared(const struct network *n);

#endif
