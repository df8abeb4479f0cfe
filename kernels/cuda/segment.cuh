/* What stands around a segment's run of steps: its start and its end. */
#ifndef RUNNEL_CUDA_SEGMENT_CUH
#define RUNNEL_CUDA_SEGMENT_CUH

#include "network.cuh"

/* Take the next segment of the queue and make it current: score the step before it, forget, keep
   the inputs of its `steps` steps. */
cudaError_t launch_begin(const struct network *n, uint32_t steps, unsigned threads,
                         cudaStream_t stream);

/* Give back outputs and scores of the run, and keep the states. */
cudaError_t launch_finish(const struct network *n, uint32_t steps, unsigned threads,
                          cudaStream_t stream);

#endif
