/* Statistics of layers and updates: activities.h. */
#ifndef RUNNEL_CUDA_MEASURE_CUH
#define RUNNEL_CUDA_MEASURE_CUH

#include "activities.h"
#include "cells.cuh"
#include "product.cuh"

extern "C" {
#include "statistics.h"
}

/* ---- Norms of matrices ---- */

/* Squares of the block's own strips. Padding is zero. Bound by the bytes of the matrices. */
PHASE void norms() {
    const struct network &n = block_network();
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
DEVICE double weights_norm(const struct network &n, uint32_t layer) {
    const struct network_layer &l = n.layers[layer];
    double sum = 0;
    for (uint32_t k = l.ih.first; k < l.ih.first + l.ih.count + l.hh.count; k++)
        sum += n.norms[k];
    return sqrt(sum);
}

/* Before the first update: the norms of the start. */
PHASE void begin_norms() {
    const struct network &n = block_network();
    if (n.team.rank == 0 && threadIdx.x < n.layer_count && *n.activity == 0)
        activity_head(n, threadIdx.x)[ACTIVITY_START] =
            activity_start(weights_norm(n, threadIdx.x));
}

/* ---- Of a step ----

   A MEASURE copies a layer's numbers into the download: struct measured_head, its activity without
   the ring, and rows of floats of equal size. The host computes statistics from them: statistics.h.
 */

struct measured_head {
    double age, norm;
    struct tally running_mean, running_var;
};

enum measured_row {
    MEASURED_IH,
    MEASURED_HH,
    MEASURED_HIDDEN,
    MEASURED_INNER,
    MEASURED_GAIN,
    MEASURED_BIAS = MEASURED_GAIN + PLACES,
    MEASURED_ROWS = MEASURED_BIAS + PLACES,
};

BOTH size_t measured_doubles(const struct network_layer &l) {
    return ACTIVITY_HEAD + 2 * (size_t)l.size;
}

BOTH size_t measured_width(const struct network_layer &l) {
    return padded(l.rows > l.size ? l.rows : l.size);
}

/* In bytes: of a layer, and of all. */
BOTH size_t measured_size(const struct network_layer &l) {
    return sizeof(struct measured_head) + measured_doubles(l) * sizeof(double) +
           MEASURED_ROWS * measured_width(l) * sizeof(float);
}

BOTH size_t measured_size(const struct network &n) {
    size_t size = 0;
    for (uint32_t k = 0; k < n.layer_count; k++)
        size += measured_size(n.layers[k]);
    return size;
}

/* Numbers in a row. */
BOTH uint32_t measured_numbers(const struct network_layer &l, uint32_t row) {
    const uint32_t counts[MEASURED_GAIN] = {l.rows, l.apart ? l.rows : 0, l.size,
                                            l.states > l.outputs ? l.size : 0};
    return row < MEASURED_GAIN ? counts[row] : norm_width(l, (row - MEASURED_GAIN) % PLACES);
}

/* Over running means, or variances, of all places and ages: too many to copy. */
static __device__ struct tally running(const struct network &n, const struct network_layer &l,
                                       bool var) {
    double sums[3] = {0, 0, 0}, least = INFINITY, most = -INFINITY;
    for (uint32_t place = 0; place < PLACES && l.source == SOURCE_RUNNING; place++) {
        uint32_t count = l.ages * norm_width(l, place);
        const float *from = n.units + unit_numbers(l, place) + (var ? count : 0);
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
            double value = (double)from[i];
            sums[0] += 1;
            sums[1] += value;
            sums[2] += value * value;
            least = fmin(least, value);
            most = fmax(most, value);
        }
    }
    double *scratch = (double *)shared_memory;
    block_sums(sums, scratch);
    least = -block_maximum(-least, scratch);
    most = block_maximum(most, scratch);
    struct tally t = {sums[0], sums[1], sums[2], sums[0] > 0 ? least : 0, sums[0] > 0 ? most : 0};
    return t;
}

DEVICE void measure_layer(const struct network &n, uint32_t layer, char *to) {
    const struct network_layer &l = n.layers[layer];
    struct layer_step s = layer_at(n, l, n.current->measure);
    struct measured_head head = {*n.activity, weights_norm(n, layer), running(n, l, false),
                                 running(n, l, true)};
    double *doubles = (double *)(to + sizeof head);
    float *rows = (float *)(doubles + measured_doubles(l));
    if (threadIdx.x == 0)
        *(struct measured_head *)to = head;
    for (size_t i = threadIdx.x; i < measured_doubles(l); i += blockDim.x)
        doubles[i] = activity_head(n, layer)[i];
    const float *const from[MEASURED_GAIN] = {s.sum_ih, s.sum_hh, s.hidden, s.inner};
    for (uint32_t k = 0; k < MEASURED_ROWS; k++, rows += measured_width(l)) {
        uint32_t place = (k - MEASURED_GAIN) % PLACES;
        const float *row = k < MEASURED_GAIN
                               ? from[k]
                               : n.parameters + (k < MEASURED_BIAS ? l.gain : l.norm_bias)[place];
        bool joined = k == MEASURED_IH && l.states > 0 && !l.apart;
        for (uint32_t i = threadIdx.x; i < measured_numbers(l, k); i += blockDim.x)
            rows[i] = joined ? row[i] + s.sum_hh[i] : row[i];
    }
}

/* Rare, so its time does not matter. */
PHASE void measure() {
    const struct network &n = block_network();
    char *to = n.queue->measures + n.current->measured * measured_size(n);
    for (uint32_t k = 0; k < n.layer_count; to += measured_size(n.layers[k]), k++)
        if (k % n.team.size == n.team.rank)
            measure_layer(n, k, to);
}

/* On the host. */
static inline struct values row_of(const struct network_layer &l, const float *rows, uint32_t row) {
    size_t count = measured_numbers(l, row);
    struct values numbers = {rows + row * measured_width(l), count > 0, count, count};
    return numbers;
}

static inline void read_measure(const struct network &n, const char *from,
                                struct layer_statistics *to) {
    for (uint32_t k = 0; k < n.layer_count; from += measured_size(n.layers[k]), k++) {
        const struct network_layer &l = n.layers[k];
        const struct measured_head *head = (const struct measured_head *)from;
        const double *activity = (const double *)(head + 1);
        const float *rows = (const float *)(activity + measured_doubles(l));
        struct measured m = {};
        m.summed_inputs = row_of(l, rows, MEASURED_IH);
        m.summed_recurrent = row_of(l, rows, MEASURED_HH);
        m.hidden = row_of(l, rows, MEASURED_HIDDEN);
        m.cell = row_of(l, rows, MEASURED_INNER);
        for (uint32_t at = 0; at < PLACES; at++) {
            m.gain[at] = row_of(l, rows, MEASURED_GAIN + at);
            m.bias[at] = row_of(l, rows, MEASURED_BIAS + at);
        }
        m.running_mean = head->running_mean;
        m.running_var = head->running_var;
        m.activity = activity;
        m.age = head->age;
        m.norm = head->norm;
        statistics_compute(&m, &to[k]);
    }
}

/* ---- Growth and plasticity ---- */

/* After the losses of an update's window with the parameters after it, and the norms. One block. */
PHASE void probe() {
    const struct network &n = block_network();
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
