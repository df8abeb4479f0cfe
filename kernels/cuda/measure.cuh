/* Statistics. */
#ifndef RUNNEL_CUDA_MEASURE_CUH
#define RUNNEL_CUDA_MEASURE_CUH

#include "network.cuh"

/* Of each layer at the current segment's step; one launch. */
cudaError_t launch_measure(const struct network *n, unsigned threads, cudaStream_t stream);

/* At age 0: keeps the norms of the starting weights. */
cudaError_t launch_activity_begin(const struct network *n, unsigned threads, cudaStream_t stream);

/* After the forward and the losses of an update's window, with the parameters after it. */
cudaError_t launch_probe(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream);

#endif
