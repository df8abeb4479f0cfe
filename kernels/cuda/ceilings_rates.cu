/* Speeds by the device's clock: barriers, and bytes and operations per second. */
#include "measuring.cuh"

#include <cooperative_groups.h>

namespace groups = cooperative_groups;

enum {
    REPEATS = 9, /* number of each measurement: their median counts */
    ROUNDS_MAX = 1 << 20,
    BARRIER_THREADS = 128,
    CLUSTER_BLOCKS = 8, /* the most that every device with clusters supports */
    CLUSTER_CAPABILITY = 9,
    CHAINS = 8, /* independent multiply-adds of a thread */
};

static const double SLICE = 0.004, MILLISECONDS = 1e-3; /* seconds */

typedef cudaError_t enqueue_rounds(struct measuring *m, unsigned rounds);

/* ---- Kernels ---- */

static __global__ void __launch_bounds__(BARRIER_THREADS) meet_in_grid(unsigned rounds) {
    groups::grid_group grid = groups::this_grid();
    for (unsigned round = 0; round < rounds; round++)
        grid.sync();
}

/* Each block passes a number to the next one, through its shared memory, (2,). With two
   alternating places one barrier per round keeps a number from being overwritten before it is
   read. */
static __global__ void __launch_bounds__(BARRIER_THREADS)
    pass_in_cluster(unsigned rounds, float *out /* (blocks,) */) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    groups::cluster_group cluster = groups::this_cluster();
    unsigned rank = cluster.block_rank();
    float *next = cluster.map_shared_rank(shared_memory, (rank + 1) % cluster.num_blocks());
    float number = (float)rank;
    cluster.sync();
    for (unsigned round = 0; round < rounds; round++) {
        if (threadIdx.x == 0)
            next[round & 1] = number;
        cluster.sync();
        number = shared_memory[round & 1];
    }
    cluster.sync(); /* no block leaves while another may still write to it */
    if (threadIdx.x == 0)
        out[rank] = number;
#else
    (void)rounds, (void)out;
#endif
}

/* Reads all of x `rounds` times. A block reads another slice each time, so that none is in its
   multiprocessor's cache. */
static __global__ void __launch_bounds__(RATE_THREADS)
    read_all(const float4 *x /* (n,) */, size_t n, unsigned rounds,
             float *out /* (blocks, threads) */) {
    size_t slice = n / gridDim.x;
    float sum = 0;
    for (unsigned round = 0; round < rounds; round++) {
        const float4 *mine = x + (blockIdx.x + round) % gridDim.x * slice;
#pragma unroll 4
        for (size_t i = threadIdx.x; i < slice; i += blockDim.x) {
            float4 four = mine[i];
            sum += four.x + four.y + four.z + four.w;
        }
    }
    out[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

static __global__ void __launch_bounds__(RATE_THREADS)
    multiply_add(unsigned rounds, float *out /* (blocks, threads) */) {
    float x[CHAINS], a = 0.999f, b = (float)threadIdx.x;
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
        x[i] = (float)i;
    for (unsigned round = 0; round < rounds; round++)
#pragma unroll
        for (int i = 0; i < CHAINS; i++)
            x[i] = fmaf(x[i], a, b);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
        sum += x[i];
    out[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/* ---- Rounds ---- */

static cudaError_t enqueue_barriers(struct measuring *m, unsigned rounds) {
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config =
        launch_of(m, (unsigned)m->figures->device.multiprocessors, BARRIER_THREADS);
    config.attrs = &together;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, meet_in_grid, rounds);
}

static cudaError_t enqueue_exchanges(struct measuring *m, unsigned rounds) {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = CLUSTER_BLOCKS;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = launch_of(m, CLUSTER_BLOCKS, BARRIER_THREADS);
    config.dynamicSmemBytes = 2 * sizeof(float);
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, pass_in_cluster, rounds, m->out);
}

static cudaError_t enqueue_copies(struct measuring *m, unsigned rounds) {
    cudaError_t status = cudaSuccess;
    for (unsigned round = 0; round < rounds && status == cudaSuccess; round++)
        status = cudaMemcpyAsync(m->to, m->from, m->copied, cudaMemcpyDeviceToDevice, m->stream);
    return status;
}

static cudaError_t enqueue_reads(struct measuring *m, unsigned rounds) {
    cudaLaunchConfig_t config = launch_of(m, rate_blocks(m), RATE_THREADS);
    return cudaLaunchKernelEx(&config, read_all, (const float4 *)m->from, m->read / sizeof(float4),
                              rounds, m->out);
}

static cudaError_t enqueue_multiply_adds(struct measuring *m, unsigned rounds) {
    cudaLaunchConfig_t config = launch_of(m, rate_blocks(m), RATE_THREADS);
    return cudaLaunchKernelEx(&config, multiply_add, rounds, m->out);
}

/* The device's seconds for `rounds` rounds. */
static cudaError_t time_rounds(struct measuring *m, enqueue_rounds *enqueue, unsigned rounds,
                               double *seconds) {
    float milliseconds = 0;
    cudaError_t status = cudaEventRecord(m->begin, m->stream);
    if (status == cudaSuccess)
        status = enqueue(m, rounds);
    if (status == cudaSuccess)
        status = cudaEventRecord(m->end, m->stream);
    if (status == cudaSuccess)
        status = cudaEventSynchronize(m->end);
    if (status == cudaSuccess)
        status = cudaEventElapsedTime(&milliseconds, m->begin, m->end);
    *seconds = MILLISECONDS * (double)milliseconds;
    return status;
}

/* Seconds per round, with enough rounds that the launch is negligible. */
static int measure_round(struct measuring *m, const char *what, enqueue_rounds *enqueue,
                         double *seconds) {
    double times[REPEATS];
    unsigned rounds = 1;
    cudaError_t status = time_rounds(m, enqueue, rounds, times); /* also loads the kernel */
    for (; status == cudaSuccess; rounds *= 2) {
        status = time_rounds(m, enqueue, rounds, times);
        if (times[0] >= SLICE || rounds >= ROUNDS_MAX)
            break;
    }
    for (int i = 0; i < REPEATS && status == cudaSuccess; i++)
        status = time_rounds(m, enqueue, rounds, &times[i]);
    if (status != cudaSuccess)
        return measuring_fail(m, what, status);
    *seconds = measuring_median(times, REPEATS) / rounds;
    return 0;
}

int measure_barriers(struct measuring *m) {
    struct cuda_figures *f = m->figures;
    if (measure_round(m, "its grid barrier", enqueue_barriers, &f->grid_barrier))
        return -1;
    if (f->device.capability_major < CLUSTER_CAPABILITY)
        return 0;
    return measure_round(m, "an exchange in a cluster", enqueue_exchanges, &f->cluster);
}

int measure_rates(struct measuring *m) {
    struct cuda_figures *f = m->figures;
    double copy = 0, read = 0, operations = 0;
    if (measure_round(m, "copies", enqueue_copies, &copy) ||
        measure_round(m, "reads of its cache", enqueue_reads, &read) ||
        measure_round(m, "multiply-adds", enqueue_multiply_adds, &operations))
        return -1;
    size_t slice = m->read / sizeof(float4) / rate_blocks(m); /* as read_all cuts them */
    f->copy = 2.0 * (double)m->copied / copy;
    f->cache_read = (double)(sizeof(float4) * slice * rate_blocks(m)) / read;
    f->multiply_add = 2.0 * CHAINS * RATE_THREADS * rate_blocks(m) / operations;
    return 0;
}
