/* The start and the end of a segment's run of steps. */
#ifndef RUNNEL_CUDA_SEGMENT_CUH
#define RUNNEL_CUDA_SEGMENT_CUH

#include "network.cuh"

/* Makes the next segment of the queue the current one: scores the step before it, forgets, and
   stores the inputs of its `steps` steps. */
cudaError_t launch_begin(const struct network *n, uint32_t steps, unsigned threads,
                         cudaStream_t stream);

/* Returns outputs and scores of the run, and stores the states. */
cudaError_t launch_finish(const struct network *n, uint32_t steps, unsigned threads,
                          cudaStream_t stream);

#endif
