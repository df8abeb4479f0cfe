/* Statistics of each layer at the current segment's step; one launch. */
#ifndef RUNNEL_CUDA_MEASURE_CUH
#define RUNNEL_CUDA_MEASURE_CUH

#include "network.cuh"

cudaError_t launch_measure(const struct network *n, unsigned threads, cudaStream_t stream);

#endif
