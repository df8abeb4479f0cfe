/* Statistics of layers and updates: activities.h. */
#ifndef RUNNEL_CUDA_MEASURE_CUH
#define RUNNEL_CUDA_MEASURE_CUH

#include "network.cuh"

/* Norms of the layers' matrices, the first numbers of `changes`: between two optimizers, which need
   `changes` (2, tiles). Before the first update they are those of the start. The functions below
   need them. */
cudaError_t launch_norms(const struct network *n, uint32_t tiles, unsigned threads,
                         cudaStream_t stream);

/* Statistics of each layer at the current segment's step; one launch. */
cudaError_t launch_measure(const struct network *n, unsigned threads, cudaStream_t stream);

/* After the forward and the losses of an update's window, with the parameters after it. */
cudaError_t launch_probe(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream);

#endif
