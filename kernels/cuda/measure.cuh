/* Statistics of layers and updates: activities.h. */
#ifndef RUNNEL_CUDA_MEASURE_CUH
#define RUNNEL_CUDA_MEASURE_CUH

#include "activities.h"
#include "cells.cuh"
#include "product.cuh"

/* ---- Norms of matrices ---- */

/* Squares of the block's own strips. Padding is zero. Bound by the bytes of the matrices. */
static __device__ PHASE void norms(const struct network &n) {
    for (uint32_t k = n.own; k < n.own_end; k++) {
        const struct strip s = n.strips[k];
        const struct network_layer &l = n.layers[s.layer];
        size_t ld = s.matrix == MATRIX_HH ? l.ld_hh : l.ld_ih, count = (s.end - s.first) * ld;
        const float *weights = strip_numbers(n, s, k, 0);
        if (s.matrix == MATRIX_OUTPUT)
            continue;
        double sum = 0;
        for (size_t i = threadIdx.x; i < count; i += blockDim.x)
            sum += (double)weights[i] * (double)weights[i];
        sum = block_sum(sum, (double *)shared_memory);
        if (threadIdx.x == 0)
            n.norms[k] = sum;
    }
}

/* Of a layer, after `norms` and a barrier. */
static __device__ __forceinline__ double weights_norm(const struct network &n, uint32_t layer) {
    const struct network_layer &l = n.layers[layer];
    double sum = 0;
    for (uint32_t k = l.ih.first; k < l.ih.first + l.ih.count + l.hh.count; k++)
        sum += n.norms[k];
    return sqrt(sum);
}

/* Before the first update: the norms of the start. */
static __device__ PHASE void begin_norms(const struct network &n) {
    if (n.team.rank == 0 && threadIdx.x < n.layer_count && *n.activity == 0)
        activity_head(n, threadIdx.x)[ACTIVITY_START] = activity_start(weights_norm(n, threadIdx.x));
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
        tally_numbers(&t, n.parameters + at[PLACE_IH], norm ? l.rows : l.size, 0);
    if (norm && l.apart)
        tally_numbers(&t, n.parameters + at[PLACE_HH], l.rows, 0);
    if (norm && l.finishes)
        tally_numbers(&t, n.parameters + at[PLACE_INNER], l.size, 0);
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
        tally_numbers(&t, n.units + unit_numbers(l, place) + (var ? numbers : 0), numbers, 0);
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
    return activity_statistics(head, *n.activity, shares[0] / l.size, shares[1] / l.size);
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

static __device__ __forceinline__ void measure_layer(const struct network &n, uint32_t layer) {
    const struct segment *g = n.current;
    const struct network_layer &l = n.layers[layer];
    struct layer_step s = layer_at(n, l, g->measure);
    struct layer_statistics *result =
        n.queue->measures + (size_t)g->measured * n.layer_count + layer;
    struct layer_statistics all = {};
    all.summed_inputs = sum_mean_std(l, s, false);
    if (l.apart)
        all.summed_recurrent = sum_mean_std(l, s, true);
    all.hidden = units(s.hidden, l.size, ENGINE_SATURATED_HIDDEN);
    if (l.states > l.outputs)
        all.cell = units(s.inner, l.size, ENGINE_SATURATED_CELL);
    all.units = activity(n, layer);
    all.weights = activity_weights(activity_head(n, layer), weights_norm(n, layer));
    all.gain = parameters(n, l, l.gain);
    all.bias = parameters(n, l, l.norm_bias);
    all.running_mean = running(n, l, false);
    all.running_var = running(n, l, true);
    if (threadIdx.x == 0)
        *result = all;
    __syncthreads(); /* the histogram is written into it */
    histogram(s.hidden, l.size, result->histogram);
}

/* Rare, so its time does not matter. */
static __device__ PHASE void measure(const struct network &n) {
    for (uint32_t k = n.team.rank; k < n.layer_count; k += n.team.size)
        measure_layer(n, k);
}

/* ---- Growth and plasticity ---- */

/* After the losses of an update's window with the parameters after it, and the norms. One block. */
static __device__ PHASE void probe(const struct network &n) {
    uint32_t length = n.current->length;
    struct update_result *result = n.queue->updates + n.current->update, grown = {};
    double loss = 0;
    if (!n.state->applied)
        return;
    for (uint32_t t = threadIdx.x; t < length; t += blockDim.x)
        loss += n.losses[t];
    loss = block_sum(loss, (double *)shared_memory);
    if (threadIdx.x > 0)
        return;
    for (uint32_t k = 0; k < n.layer_count; k++)
        activity_add_growth(&grown, k,
                            activity_weights(activity_head(n, k), weights_norm(n, k)).growth);
    result->plasticity = activity_removed(n.state->loss, loss);
    result->growth = grown.growth;
    result->layer = grown.layer;
}

#endif
