#include "measure.cuh"

#include "activities.h"
#include "cells.cuh"

/* ---- Norms of matrices ---- */

enum { PIECES_MAX = 64 }; /* blocks of a layer, at most */

static __device__ __forceinline__ double squares_of(const float *weights, size_t count) {
    double sum = 0;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        sum += (double)weights[i] * (double)weights[i];
    return sum;
}

/* Padding is zero. The last block adds up the pieces, in order. Blocks: (pieces, layers). Bound by
   the bytes of the matrices. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    norms(const __grid_constant__ struct network n) {
    const struct network_layer &l = n.layers[blockIdx.y];
    double *sums = changes_of(n), sum = 0;
    sum = squares_of(parameters_of(n) + l.weight_ih, (size_t)l.rows * l.ld_ih);
    if (l.recurrent)
        sum += squares_of(parameters_of(n) + l.weight_hh, (size_t)l.rows * l.ld_hh);
    sum = block_sum(sum, (double *)shared_memory);
    if (threadIdx.x == 0)
        sums[blockIdx.y * gridDim.x + blockIdx.x] = sum;
    if (!block_is_last(&state_of(n)->ticket))
        return;
    sum = 0;
    for (uint32_t p = 0; p < gridDim.x && threadIdx.x < n.layer_count; p++)
        sum += sums[threadIdx.x * gridDim.x + p];
    __syncthreads();
    if (threadIdx.x >= n.layer_count)
        return;
    sums[threadIdx.x] = sqrt(sum);
    if (*activity_of(n) == 0)
        activity_head(n, threadIdx.x)[ACTIVITY_START] = activity_start(sqrt(sum));
}

cudaError_t launch_norms(const struct network *n, uint32_t tiles, unsigned threads,
                         cudaStream_t stream) {
    uint32_t pieces = 2 * tiles / n->layer_count;
    struct launch l = {dim3(pieces < PIECES_MAX ? pieces : PIECES_MAX, n->layer_count, n->members),
                       threads, SCRATCH * sizeof(float), stream};
    return launch_kernel(norms, &l, *n);
}

/* Of a layer, after launch_norms. */
static __device__ __forceinline__ double weights_norm(const struct network &n, uint32_t layer) {
    return changes_of(n)[layer];
}

/* ---- Of a step ---- */

/* Sums of one thread, then of the block: for mean, deviation and extremes. */
struct tally {
    double count, sum, squares, beyond; /* beyond: |value| over a limit */
    double minimum, maximum;
};

static __device__ struct tally tally_begin() {
    struct tally t = {0, 0, 0, 0, INFINITY, -INFINITY};
    return t;
}

static __device__ void tally_add(struct tally *t, double value, double limit) {
    t->minimum = value < t->minimum ? value : t->minimum;
    t->maximum = value > t->maximum ? value : t->maximum;
    t->count += 1;
    t->sum += value;
    t->squares += value * value;
    t->beyond += fabs(value) > limit;
}

static __device__ void tally_numbers(struct tally *t, const float *values, uint32_t count,
                                     double limit) {
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        tally_add(t, (double)values[i], limit);
}

/* Joins the sums of all threads. */
static __device__ struct tally tally_join(const struct tally &t) {
    double *scratch = (double *)shared_memory;
    double sums[4] = {t.count, t.sum, t.squares, t.beyond};
    block_sums(sums, scratch);
    struct tally all = {sums[0], sums[1], sums[2], sums[3], 0, 0};
    all.minimum = -block_maximum(-t.minimum, scratch);
    all.maximum = block_maximum(t.maximum, scratch);
    if (all.count == 0)
        all.minimum = all.maximum = 0;
    return all;
}

static __device__ struct mean_std mean_std_of(const struct tally &t) {
    struct mean_std m = {0, 0};
    if (t.count == 0)
        return m;
    m.mean = t.sum / t.count;
    double variance = t.squares / t.count - m.mean * m.mean;
    m.std = variance > 0 ? sqrt(variance) : 0;
    return m;
}

static __device__ struct unit_statistics units(const float *values, uint32_t size, double limit) {
    struct tally t = tally_begin();
    tally_numbers(&t, values, size, limit);
    t = tally_join(t);
    struct mean_std m = mean_std_of(t);
    struct unit_statistics u = {m.mean,    m.std,           t.minimum,
                                t.maximum, sqrt(t.squares), t.beyond / t.count};
    return u;
}

/* Mean and deviation of a sum over all its units; with a centred norm computed from the groups'. */
static __device__ struct mean_std sum_mean_std(const struct network_layer &l,
                                               const struct layer_step &s, bool recurrent) {
    struct tally t = tally_begin();
    if (!l.centred || l.columns) {
        for (uint32_t i = threadIdx.x; i < l.rows; i += blockDim.x) {
            float sum = recurrent ? s.sum_hh[i] : s.sum_ih[i];
            tally_add(&t, (double)(l.states > 0 && !l.apart ? s.sum_ih[i] + s.sum_hh[i] : sum), 0);
        }
        t = tally_join(t);
        return mean_std_of(t);
    }
    for (uint32_t k = 0; k < group_count(l); k++) {
        uint32_t first, end;
        group_bounds(l, k, &first, &end);
        const float *scale = s.scales + 2 * ((recurrent ? PLACE_HH : PLACE_IH) * GROUPS + k);
        double n = end - first, mean = scale[0], rstd = scale[1];
        double variance = 1 / (rstd * rstd) - (double)NORMALIZATION_EPSILON;
        t.count += n;
        t.sum += n * mean;
        t.squares += n * ((variance > 0 ? variance : 0) + mean * mean);
    }
    return mean_std_of(t);
}

/* A layer's gains or biases, of all its norms. */
static __device__ struct parameter_statistics
parameters(const struct network &n, const struct network_layer &l, const uint32_t (&at)[PLACES]) {
    struct tally t = tally_begin();
    bool norm = l.source != SOURCE_NOTHING;
    if (norm || l.normalized)
        tally_numbers(&t, parameters_of(n) + at[PLACE_IH], norm ? l.rows : l.size, 0);
    if (norm && l.apart)
        tally_numbers(&t, parameters_of(n) + at[PLACE_HH], l.rows, 0);
    if (norm && l.finishes)
        tally_numbers(&t, parameters_of(n) + at[PLACE_INNER], l.size, 0);
    t = tally_join(t);
    struct mean_std m = mean_std_of(t);
    struct parameter_statistics p = {m.mean, m.std, t.minimum, t.maximum};
    return p;
}

/* Over running means, or variances, of all places and ages. */
static __device__ struct parameter_statistics running(const struct network &n,
                                                      const struct network_layer &l, bool var) {
    struct tally t = tally_begin();
    for (uint32_t place = 0; place < PLACES && l.source == SOURCE_RUNNING; place++) {
        uint32_t numbers = l.ages * units_width(l, place);
        if ((place == PLACE_HH && !l.apart) || (place == PLACE_INNER && !l.finishes))
            continue;
        tally_numbers(&t, units_of(n) + unit_numbers(l, place) + (var ? numbers : 0), numbers, 0);
    }
    t = tally_join(t);
    struct mean_std m = mean_std_of(t);
    struct parameter_statistics p = {m.mean, m.std, t.minimum, t.maximum};
    return p;
}

static __device__ struct activity_statistics activity(const struct network &n, uint32_t layer) {
    const struct network_layer &l = n.layers[layer];
    const double *head = activity_head(n, layer), *a = head + ACTIVITY_HEAD + l.size;
    double mean = 0, shares[2] = {0, 0};
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x)
        mean += a[i] / l.size;
    mean = block_sum(mean, (double *)shared_memory);
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x) {
        shares[0] += a[i] <= ACTIVITY_DORMANT * mean;
        shares[1] += a[i] > ACTIVITY_SATURATED;
    }
    block_sums(shares, (double *)shared_memory);
    return activity_statistics(head, *activity_of(n), shares[0] / l.size, shares[1] / l.size);
}

static __device__ void histogram(const float *values, uint32_t size, uint32_t *result) {
    unsigned *bins = (unsigned *)(shared_memory + SCRATCH);
    for (uint32_t i = threadIdx.x; i < MEASURE_BINS; i += blockDim.x)
        bins[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        double bin = floor(((double)values[i] + 1) / 2 * MEASURE_BINS);
        atomicAdd(&bins[bin >= MEASURE_BINS ? MEASURE_BINS - 1 : bin > 0 ? (unsigned)bin : 0], 1u);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < MEASURE_BINS; i += blockDim.x)
        result[i] = bins[i];
}

/* One block per layer. Rare, so its time does not matter. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    measure(const __grid_constant__ struct network n) {
    const struct segment *g = current_of(n);
    const struct network_layer &l = n.layers[blockIdx.x];
    struct layer_step s = layer_at(n, l, g->measure);
    struct layer_statistics *result =
        queue_of(n)->measures + (size_t)g->measured * n.layer_count + blockIdx.x;
    struct layer_statistics all = {};
    all.summed_inputs = sum_mean_std(l, s, false);
    if (l.apart)
        all.summed_recurrent = sum_mean_std(l, s, true);
    all.hidden = units(s.hidden, l.size, ENGINE_SATURATED_HIDDEN);
    if (l.states > l.outputs)
        all.cell = units(s.inner, l.size, ENGINE_SATURATED_CELL);
    all.units = activity(n, blockIdx.x);
    all.weights = activity_weights(activity_head(n, blockIdx.x), weights_norm(n, blockIdx.x));
    all.gain = parameters(n, l, l.gain);
    all.bias = parameters(n, l, l.norm_bias);
    all.running_mean = running(n, l, false);
    all.running_var = running(n, l, true);
    if (threadIdx.x == 0)
        *result = all;
    __syncthreads(); /* the histogram is written into it */
    histogram(s.hidden, l.size, result->histogram);
}

cudaError_t launch_measure(const struct network *n, unsigned threads, cudaStream_t stream) {
    struct launch l = {dim3(n->layer_count, 1, n->members), threads,
                       (SCRATCH + MEASURE_BINS) * sizeof(float), stream};
    return launch_kernel(measure, &l, *n);
}

/* ---- Growth and plasticity ---- */

/* One block. Bound by its launch. */
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    probe(const __grid_constant__ struct network n, uint32_t length) {
    struct update_result *result = queue_of(n)->updates + current_of(n)->update, grown = {};
    double loss = 0;
    if (!state_of(n)->applied)
        return;
    for (uint32_t t = threadIdx.x; t < length; t += blockDim.x)
        loss += losses_of(n)[t];
    loss = block_sum(loss, (double *)shared_memory);
    if (threadIdx.x > 0)
        return;
    for (uint32_t k = 0; k < n.layer_count; k++)
        activity_add_growth(&grown, k,
                            activity_weights(activity_head(n, k), weights_norm(n, k)).growth);
    result->plasticity = activity_removed(state_of(n)->loss, loss);
    result->growth = grown.growth;
    result->layer = grown.layer;
}

cudaError_t launch_probe(const struct network *n, uint32_t length, unsigned threads,
                         cudaStream_t stream) {
    struct launch l = {dim3(1, 1, n->members), threads, SCRATCH * sizeof(float), stream};
    return launch_kernel(probe, &l, *n, length);
}
