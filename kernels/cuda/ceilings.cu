#include "ceilings.cuh"

#include <cooperative_groups.h>

#include <stdlib.h>
#include <time.h>

#include "device.cuh"

namespace groups = cooperative_groups;

enum {
    REPEATS = 9, /* of each measurement: their median counts */
    ROUNDS_MAX = 1 << 20,
    CHAIN = 256,            /* further nodes in the long graph */
    LAUNCHES = 100,         /* of the short graph, */
    LAUNCHES_OF_CHAIN = 20, /* and of the long one */
    BARRIER_THREADS = 128,
    CLUSTER_BLOCKS = 8, /* the most that every device with clusters has */
    CLUSTER_CAPABILITY = 9,
    RATE_THREADS = 512,
    RATE_BLOCKS = 4,  /* of each multiprocessor */
    CHAINS = 8,       /* independent multiply-adds of a thread */
    COPY_CACHES = 4,  /* what is copied is so many times the cache, */
    CACHE_SHARE = 2,  /* what is read again and again one part of so many */
    MEMORY_SHARE = 4, /* and no buffer takes more than one part of so many of what is free */
    PINGS = 2000,
    PINGS_WARM = 100,   /* of these: not timed */
    PATIENCE = 1 << 17, /* looks for the next ping, until the kernel gives up */
    LOOKS = 1 << 14,    /* for the answer, between two questions whether the kernel still runs */
};

static const double SLICE = 0.004, MILLISECONDS = 1e-3; /* seconds */
static const size_t LEAST_CACHE = 1 << 20, MOST_COPIED = (size_t)256 << 20, LINE = 128; /* bytes */

/* ---- kernels ---- */

static __global__ void __launch_bounds__(1) do_nothing(void) {
}

static __global__ void __launch_bounds__(RATE_THREADS) fill(float *x /* (n,) */, size_t n) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        x[i] = 1.0f + (float)(i % 1021) / 1024.0f;
}

static __global__ void __launch_bounds__(BARRIER_THREADS) meet_in_grid(unsigned rounds) {
    groups::grid_group grid = groups::this_grid();
    for (unsigned round = 0; round < rounds; round++)
        grid.sync();
}

/* Each block passes a number on to the next one, through its shared memory, (2,). Two places in
   turn: one barrier a round then keeps a number from being overwritten before it was read. */
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
    cluster.sync(); /* nobody leaves while another may still write to it */
    if (threadIdx.x == 0)
        out[rank] = number;
#else
    (void)rounds, (void)out;
#endif
}

/* pong = 1, 2, ... as soon as ping is. Gives up when the next ping does not come. */
static __global__ void __launch_bounds__(1)
    answer(const volatile unsigned *ping, volatile unsigned *pong, unsigned rounds,
           unsigned patience) {
    for (unsigned round = 1; round <= rounds; round++) {
        unsigned left = patience;
        while (*ping < round)
            if (left-- == 0)
                return;
        *pong = round;
        __threadfence_system();
    }
}

/* Read all of x `rounds` times. A block reads another slice each time, so that none comes from its
   multiprocessor's own cache. */
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

/* ---- what is open while measuring ---- */

struct measuring {
    struct cuda_figures *figures;
    struct error *error;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    float *from, *to;    /* (copied,) bytes each */
    float *out;          /* (blocks, threads) of the rates' kernels */
    unsigned *pinned;    /* ping, and a line further pong */
    size_t copied, read; /* bytes */
};

/* One round or more of what is to be timed, enqueued. */
typedef cudaError_t enqueue_rounds(struct measuring *m, unsigned rounds);

static int fail(struct measuring *m, const char *what, cudaError_t status) {
    return error_set(m->error, EX_UNAVAILABLE, "%s: cannot measure %s: %s", m->figures->device.name,
                     what, cudaGetErrorString(status));
}

static double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static unsigned rate_blocks(const struct measuring *m) {
    return RATE_BLOCKS * (unsigned)m->figures->device.multiprocessors;
}

/* blocks and threads of a launch; the attribute, when there is one, must outlive it. */
static cudaLaunchConfig_t shape(const struct measuring *m, unsigned blocks, unsigned threads) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.stream = m->stream;
    return config;
}

/* ---- rounds ---- */

static cudaError_t enqueue_barriers(struct measuring *m, unsigned rounds) {
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config =
        shape(m, (unsigned)m->figures->device.multiprocessors, BARRIER_THREADS);
    config.attrs = &together;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, meet_in_grid, rounds);
}

static cudaError_t enqueue_exchanges(struct measuring *m, unsigned rounds) {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = CLUSTER_BLOCKS;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = shape(m, CLUSTER_BLOCKS, BARRIER_THREADS);
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
    cudaLaunchConfig_t config = shape(m, rate_blocks(m), RATE_THREADS);
    return cudaLaunchKernelEx(&config, read_all, (const float4 *)m->from, m->read / sizeof(float4),
                              rounds, m->out);
}

static cudaError_t enqueue_multiply_adds(struct measuring *m, unsigned rounds) {
    cudaLaunchConfig_t config = shape(m, rate_blocks(m), RATE_THREADS);
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

/* Seconds for one round, when so many follow each other that a launch counts for nothing. */
static int measure_round(struct measuring *m, const char *what, enqueue_rounds *enqueue,
                         double *seconds) {
    double times[REPEATS];
    unsigned rounds = 1;
    cudaError_t status = time_rounds(m, enqueue, rounds, times); /* loads the kernel, too */
    for (; status == cudaSuccess; rounds *= 2) {
        status = time_rounds(m, enqueue, rounds, times);
        if (times[0] >= SLICE || rounds >= ROUNDS_MAX)
            break;
    }
    for (int i = 0; i < REPEATS && status == cudaSuccess; i++)
        status = time_rounds(m, enqueue, rounds, &times[i]);
    if (status != cudaSuccess)
        return fail(m, what, status);
    *seconds = median(times, REPEATS) / rounds;
    return 0;
}

static int measure_barriers(struct measuring *m) {
    struct cuda_figures *f = m->figures;
    if (measure_round(m, "its grid barrier", enqueue_barriers, &f->grid_barrier))
        return -1;
    if (f->device.capability_major < CLUSTER_CAPABILITY)
        return 0;
    return measure_round(m, "an exchange in a cluster", enqueue_exchanges, &f->cluster);
}

static int measure_rates(struct measuring *m) {
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

/* ---- graphs ---- */

/* A chain of empty nodes. `graph` is freed here in any case. */
static cudaError_t build_chain(struct measuring *m, int nodes, cudaGraphExec_t *chain) {
    cudaGraph_t graph = NULL;
    cudaLaunchConfig_t config = shape(m, 1, 1);
    cudaError_t status = cudaStreamBeginCapture(m->stream, cudaStreamCaptureModeThreadLocal);
    if (status != cudaSuccess)
        return status;
    for (int i = 0; i < nodes && status == cudaSuccess; i++)
        status = cudaLaunchKernelEx(&config, do_nothing);
    cudaError_t ended = cudaStreamEndCapture(m->stream, &graph);
    if (status == cudaSuccess)
        status = ended;
    if (status == cudaSuccess)
        status = cudaGraphInstantiate(chain, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    return status;
}

/* The host's seconds from a launch (LAUNCHES at most) until it knows that the end was reached. */
static cudaError_t time_chain(struct measuring *m, int nodes, int launches, double *seconds) {
    double times[LAUNCHES];
    cudaGraphExec_t chain = NULL;
    cudaError_t status = build_chain(m, nodes, &chain);
    if (status == cudaSuccess)
        status = cudaGraphLaunch(chain, m->stream);
    if (status == cudaSuccess)
        status = cudaStreamSynchronize(m->stream);
    for (int i = 0; i < launches && status == cudaSuccess; i++) {
        double begin = clock_now();
        status = cudaGraphLaunch(chain, m->stream);
        if (status == cudaSuccess)
            status = cudaStreamSynchronize(m->stream);
        times[i] = clock_now() - begin;
    }
    if (chain)
        cudaGraphExecDestroy(chain);
    if (status == cudaSuccess)
        *seconds = median(times, (size_t)launches);
    return status;
}

/* The first launch loads the kernel, which a capture would not allow. */
static cudaError_t load_nothing(struct measuring *m) {
    cudaLaunchConfig_t config = shape(m, 1, 1);
    cudaError_t status = cudaLaunchKernelEx(&config, do_nothing);
    return status ? status : cudaStreamSynchronize(m->stream);
}

static int measure_graphs(struct measuring *m) {
    double chain = 0;
    cudaError_t status = load_nothing(m);
    if (status == cudaSuccess)
        status = time_chain(m, 1, LAUNCHES, &m->figures->graph_launch);
    if (status == cudaSuccess)
        status = time_chain(m, 1 + CHAIN, LAUNCHES_OF_CHAIN, &chain);
    if (status != cudaSuccess)
        return fail(m, "the launch of a graph", status);
    double rest = chain - m->figures->graph_launch;
    m->figures->node = rest > 0 ? rest / CHAIN : 0; /* a busy host can make the shorter one late */
    return 0;
}

/* ---- pinned memory ---- */

/* Wait for pong to be `round`. False when the kernel has ended before. */
static bool await_pong(struct measuring *m, const unsigned *pong, unsigned round) {
    while (__atomic_load_n(pong, __ATOMIC_ACQUIRE) != round)
        for (int look = 0; __atomic_load_n(pong, __ATOMIC_ACQUIRE) != round; look++)
            if (look == LOOKS) {
                if (cudaStreamQuery(m->stream) != cudaErrorNotReady)
                    return __atomic_load_n(pong, __ATOMIC_ACQUIRE) == round;
                break;
            }
    return true;
}

/* The first ping is there before the kernel starts. A kernel whose host is kept from running gives
   up after a while: then what it has answered counts. */
static int measure_round_trip(struct measuring *m) {
    unsigned *ping = m->pinned, *pong = m->pinned + LINE / sizeof *ping, answered = 0;
    cudaLaunchConfig_t config = shape(m, 1, 1);
    *ping = 1;
    *pong = 0;
    double begin = clock_now(), end = begin, warm = begin;
    cudaError_t status =
        cudaLaunchKernelEx(&config, answer, (const volatile unsigned *)ping,
                           (volatile unsigned *)pong, (unsigned)PINGS, (unsigned)PATIENCE);
    if (status != cudaSuccess)
        return fail(m, "pinned memory", status);
    while (answered < PINGS && await_pong(m, pong, answered + 1)) {
        end = clock_now();
        if (++answered == PINGS_WARM)
            warm = end;
        __atomic_store_n(ping, answered + 1, __ATOMIC_RELEASE);
    }
    status = cudaStreamSynchronize(m->stream);
    if (status != cudaSuccess)
        return fail(m, "pinned memory", status);
    if (answered == 0)
        return error_set(m->error, EX_UNAVAILABLE, "%s: a kernel does not see pinned memory",
                         m->figures->device.name);
    unsigned timed = answered > PINGS_WARM ? answered - PINGS_WARM : answered;
    m->figures->round_trip = (end - (answered > PINGS_WARM ? warm : begin)) / timed;
    return 0;
}

/* ---- open, measure, close ---- */

static void choose_sizes(struct measuring *m) {
    const struct cuda_device *device = &m->figures->device;
    size_t cache = m->figures->cache > LEAST_CACHE ? m->figures->cache : LEAST_CACHE;
    size_t most = device->free_memory / MEMORY_SHARE;
    m->copied = COPY_CACHES * cache;
    if (m->copied > MOST_COPIED)
        m->copied = MOST_COPIED;
    if (m->copied > most)
        m->copied = most;
    m->copied = m->copied / LINE * LINE;
    m->read = cache / CACHE_SHARE;
    if (m->read > m->copied)
        m->read = m->copied;
}

static cudaError_t allocate(struct measuring *m) {
    size_t sums = (size_t)rate_blocks(m) * RATE_THREADS * sizeof(float);
    cudaError_t status = cudaMalloc((void **)&m->from, m->copied);
    if (status == cudaSuccess)
        status = cudaMalloc((void **)&m->to, m->copied);
    if (status == cudaSuccess)
        status = cudaMalloc((void **)&m->out, sums);
    if (status == cudaSuccess)
        status = cudaHostAlloc((void **)&m->pinned, 2 * LINE, cudaHostAllocDefault);
    return status;
}

static cudaError_t open_measuring(struct measuring *m) {
    int cache = 0;
    cudaError_t status =
        cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, m->figures->device.index);
    m->figures->cache = (size_t)cache;
    choose_sizes(m);
    if (status == cudaSuccess)
        status = allocate(m);
    if (status == cudaSuccess)
        status = cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking);
    if (status == cudaSuccess)
        status = cudaEventCreate(&m->begin);
    if (status == cudaSuccess)
        status = cudaEventCreate(&m->end);
    cudaLaunchConfig_t config = shape(m, rate_blocks(m), RATE_THREADS);
    if (status == cudaSuccess)
        status = cudaLaunchKernelEx(&config, fill, m->from, m->copied / sizeof(float));
    return status == cudaSuccess ? cudaStreamSynchronize(m->stream) : status;
}

static void close_measuring(struct measuring *m) {
    if (m->end)
        cudaEventDestroy(m->end);
    if (m->begin)
        cudaEventDestroy(m->begin);
    if (m->stream)
        cudaStreamDestroy(m->stream);
    cudaFreeHost(m->pinned);
    cudaFree(m->out);
    cudaFree(m->to);
    cudaFree(m->from);
}

int cuda_measure(const char *device, struct cuda_figures *figures, struct error *error) {
    *figures = {};
    if (cuda_probe(device, &figures->device, error) || cuda_select(&figures->device, error))
        return -1;
    struct measuring m = {};
    m.figures = figures;
    m.error = error;
    cudaError_t status = open_measuring(&m);
    int result = status == cudaSuccess ? 0 : fail(&m, "anything", status);
    if (result == 0 &&
        (measure_graphs(&m) || measure_barriers(&m) || measure_round_trip(&m) || measure_rates(&m)))
        result = -1;
    close_measuring(&m);
    return result;
}
