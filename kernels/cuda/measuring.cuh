/* Resources for measuring a device: ceilings.cu by the host's clock, ceilings_rates.cu by the
   device's. */
#ifndef RUNNEL_CUDA_MEASURING_CUH
#define RUNNEL_CUDA_MEASURING_CUH

#include "device.cuh"

enum {
    RATE_THREADS = 512,
    RATE_BLOCKS = 4, /* of each multiprocessor */
};

struct measuring {
    struct cuda_figures *figures;
    struct error *error;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    float *from, *to;    /* (copied,) bytes each */
    float *out;          /* (blocks, threads) of the rates' kernels */
    unsigned *pinned;    /* ping, and pong one cache line later */
    size_t copied, read; /* bytes */
};

int measuring_fail(struct measuring *m, const char *what, cudaError_t status);

/* Sorts them. */
double measuring_median(double *values, size_t count);

static inline unsigned rate_blocks(const struct measuring *m) {
    return RATE_BLOCKS * (unsigned)m->figures->device.multiprocessors;
}

/* Configuration of a launch; the attribute, if any, must outlive it. */
static inline cudaLaunchConfig_t launch_of(const struct measuring *m, unsigned blocks,
                                           unsigned threads) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.stream = m->stream;
    return config;
}

/* ---- ceilings_rates.cu ---- */

/* Barriers of a grid and of a cluster; copies, reads of the cache, and multiply-adds. */
int measure_barriers(struct measuring *m);
int measure_rates(struct measuring *m);

#endif
