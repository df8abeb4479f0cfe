#include "ceilings.cuh"

#include <time.h>

#include "measuring.cuh"

extern "C" {
#include "common/quantile.h"
}

enum {
    CHAIN = 256,            /* further nodes in the long graph */
    LAUNCHES = 100,         /* of the short graph, */
    LAUNCHES_OF_CHAIN = 20, /* launches of the long one */
    COPY_CACHES = 4,        /* copied bytes, in sizes of the cache */
    CACHE_SHARE = 2,        /* repeatedly read part of the cache: 1 / CACHE_SHARE */
    MEMORY_SHARE = 4,       /* largest buffer: 1 / MEMORY_SHARE of the free memory */
    PINGS = 2000,
    PINGS_WARM = 100,   /* of these: not timed */
    PATIENCE = 1 << 17, /* polls for the next ping, until the kernel gives up */
    LOOKS = 1 << 14,    /* polls for the answer, between two checks that the kernel still runs */
};

static const size_t LEAST_CACHE = 1 << 20, MOST_COPIED = (size_t)256 << 20, LINE = 128; /* bytes */

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

/* ---- Times ---- */

int measuring_fail(struct measuring *m, const char *what, cudaError_t status) {
    return error_set(m->error, EX_UNAVAILABLE, "%s: cannot measure %s: %s", m->figures->device.name,
                     what, cudaGetErrorString(status));
}

static double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double measuring_median(double *values, size_t count) {
    quantile_sort(values, count);
    return quantile(values, count, 0.5);
}

/* ---- Graphs ---- */

/* A chain of empty nodes. Always frees `graph`. */
static cudaError_t build_chain(struct measuring *m, int nodes, cudaGraphExec_t *chain) {
    cudaGraph_t graph = NULL;
    cudaLaunchConfig_t config = launch_of(m, 1, 1);
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

/* The host's seconds from a launch (LAUNCHES at most) until it detects the end. */
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
        *seconds = measuring_median(times, (size_t)launches);
    return status;
}

/* The first launch loads the kernel, which a capture does not allow. */
static cudaError_t load_nothing(struct measuring *m) {
    cudaLaunchConfig_t config = launch_of(m, 1, 1);
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
        return measuring_fail(m, "the launch of a graph", status);
    double rest = chain - m->figures->graph_launch;
    m->figures->node = rest > 0 ? rest / CHAIN : 0; /* a busy host can delay the shorter one */
    return 0;
}

/* ---- Pinned memory ---- */

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
        return measuring_fail(m, "pinned memory", status);
    while (answered < PINGS && await_pong(m, pong, answered + 1)) {
        end = clock_now();
        if (++answered == PINGS_WARM)
            warm = end;
        __atomic_store_n(ping, answered + 1, __ATOMIC_RELEASE);
    }
    status = cudaStreamSynchronize(m->stream);
    if (status != cudaSuccess)
        return measuring_fail(m, "pinned memory", status);
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
    int result = status == cudaSuccess ? 0 : measuring_fail(&m, "anything", status);
    if (result == 0 &&
        (measure_graphs(&m) || measure_barriers(&m) || measure_round_trip(&m) || measure_rates(&m)))
        result = -1;
    close_measuring(&m);
    return result;
}
