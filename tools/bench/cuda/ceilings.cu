/* The top speeds of a GPU, which runnel-bench compares the engine with: launches and round trips by
   the host's clock, barriers, bytes and operations per second by the device's. */
#include <time.h>

#include "cuda/exchange.cuh"

extern "C" {
#include "common/quantile.h"
}

enum {
    REPEATS = 9, /* number of each measurement: their median counts */
    ROUNDS_MAX = 1 << 20,
    LAUNCHES = 100,
    RATE_THREADS = 512,
    RATE_BLOCKS = 4,  /* of each multiprocessor */
    CHAINS = 8,       /* independent multiply-adds of a thread */
    COPY_CACHES = 4,  /* copied bytes, in sizes of the cache */
    CACHE_SHARE = 2,  /* repeatedly read part of the cache: 1 / CACHE_SHARE */
    MEMORY_SHARE = 4, /* largest buffer: 1 / MEMORY_SHARE of the free memory */
    PINGS = 2000,
    PINGS_WARM = 100,   /* of these: not timed */
    PATIENCE = 1 << 17, /* polls for the next ping, until the kernel gives up */
    LOOKS = 1 << 14,    /* polls for the answer, between two checks that the kernel still runs */
};

static const double SLICE = 0.004, MILLISECONDS = 1e-3; /* seconds */
static const size_t LEAST_CACHE = 1 << 20, MOST_COPIED = (size_t)256 << 20, LINE = 128; /* bytes */

struct measuring {
    struct cuda_figures *figures;
    struct error *error;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    enum scope scope;    /* of the barrier to measure */
    unsigned *arrived;   /* for a barrier of the grid */
    float *from, *to;    /* (copied,) bytes each */
    float *out;          /* (blocks, threads) of the rates' kernels */
    unsigned *pinned;    /* ping, and pong one cache line later */
    size_t copied, read; /* bytes */
};

/* Puts `rounds` rounds of some work on the stream. */
typedef cudaError_t enqueue_rounds(struct measuring *m, unsigned rounds);

static int fail(struct measuring *m, const char *what, cudaError_t status) {
    return error_set(m->error, EX_UNAVAILABLE, "%s: cannot measure %s: %s", m->figures->device.name,
                     what, cudaGetErrorString(status));
}

static unsigned rate_blocks(const struct measuring *m) {
    return RATE_BLOCKS * (unsigned)m->figures->device.multiprocessors;
}

/* Configuration of a launch; the attribute, if any, must outlive it. */
static cudaLaunchConfig_t launch_of(const struct measuring *m, unsigned blocks, unsigned threads) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.stream = m->stream;
    return config;
}

static double median(double *values, size_t count) {
    quantile_sort(values, count);
    return quantile(values, count, 0.5);
}

/* ---- Kernels ---- */

static __global__ void __launch_bounds__(1) do_nothing(void) {
}

static __global__ void __launch_bounds__(RATE_THREADS) fill(float *x /* (n,) */, size_t n) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        x[i] = 1.0f + (float)(i % 1021) / 1024.0f;
}

/* pong = 1, 2, ... after each ping. Gives up if the next ping does not arrive. */
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

static __global__ void __launch_bounds__(PLAY_THREADS) meet(struct team team, unsigned rounds) {
    team.rank = blockIdx.x;
    if (threadIdx.x == 0)
        block_team() = team;
    __syncthreads();
    for (unsigned round = 0; round < rounds; round++)
        team_sync();
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

/* ---- Times by the device's clock ---- */

static cudaError_t enqueue_barriers(struct measuring *m, unsigned rounds) {
    cudaLaunchAttribute attribute = {};
    struct team team = {};
    team.scope = m->scope;
    team.size = m->scope == SCOPE_BLOCK     ? 1
                : m->scope == SCOPE_CLUSTER ? CLUSTER_BLOCKS
                                            : (unsigned)m->figures->device.multiprocessors;
    team.arrived = m->arrived;
    if (m->scope == SCOPE_CLUSTER) {
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {team.size, 1, 1};
    } else {
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
    }
    cudaLaunchConfig_t config = launch_of(m, team.size, PLAY_THREADS);
    config.dynamicSmemBytes = SCRATCH * sizeof(float) + sizeof team;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, meet, team, rounds);
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

/* Seconds for `rounds` rounds. */
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
        return fail(m, what, status);
    *seconds = median(times, REPEATS) / rounds;
    return 0;
}

static int measure_barriers(struct measuring *m) {
    for (int scope = SCOPE_BLOCK; scope <= SCOPE_GRID; scope++) {
        m->scope = (enum scope)scope;
        if (scope == SCOPE_CLUSTER && m->figures->device.capability_major < CLUSTER_CAPABILITY)
            continue;
        if (measure_round(m, "a barrier", enqueue_barriers, &m->figures->barriers[scope]))
            return -1;
    }
    return 0;
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

/* ---- Times by the host's clock ---- */

static double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* From a launch until the host detects its end. */
static int measure_launch(struct measuring *m) {
    double times[LAUNCHES];
    cudaLaunchConfig_t config = launch_of(m, 1, 1);
    for (int i = -1; i < LAUNCHES; i++) { /* the first one loads the kernel */
        double begin = clock_now();
        cudaError_t status = cudaLaunchKernelEx(&config, do_nothing);
        if (status == cudaSuccess)
            status = cudaStreamSynchronize(m->stream);
        if (status != cudaSuccess)
            return fail(m, "a launch", status);
        if (i >= 0)
            times[i] = clock_now() - begin;
    }
    m->figures->launch = median(times, LAUNCHES);
    return 0;
}

/* Waits until pong is `round`. False if the kernel ended before. */
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

/* The first ping is set before the kernel starts. The kernel gives up after a while if its host
   does not run: then its answers so far count. */
static int measure_round_trip(struct measuring *m) {
    unsigned *ping = m->pinned, *pong = m->pinned + LINE / sizeof *ping, answered = 0;
    cudaLaunchConfig_t config = launch_of(m, 1, 1);
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

/* ---- Open, measure, close ---- */

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
        status = cudaMalloc((void **)&m->arrived, sizeof *m->arrived);
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
    if (status == cudaSuccess)
        status = cudaMemsetAsync(m->arrived, 0, sizeof *m->arrived, m->stream);
    cudaLaunchConfig_t config = launch_of(m, rate_blocks(m), RATE_THREADS);
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
    cudaFree(m->arrived);
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
        (measure_launch(&m) || measure_barriers(&m) || measure_round_trip(&m) || measure_rates(&m)))
        result = -1;
    close_measuring(&m);
    return result;
}
