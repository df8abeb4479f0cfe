/* A layer at one step, computed by a whole block: from its sums to h. Every block that needs h
   computes it, which is cheaper than to wait for another block; one of them stores the data for
   backward. Bound by the latency of its two to four reductions. */
#ifndef RUNNEL_CUDA_CELLS_CUH
#define RUNNEL_CUDA_CELLS_CUH

#include <float.h>

#include "cells.h"
#include "network.cuh"
#include "normalization.h"

struct scale {
    float mean;
    float rstd; /* 1 / sqrt(var + epsilon) */
};

/* Rows first..end of a + b are normalized together; b may be NULL. */
struct range {
    const float *a, *b;
    uint32_t first, end;
};

/* One layer at one position of the ring. */
struct layer_step {
    const float *sum_ih;              /* (rows,) */
    float *sum_hh;                    /* (rows,) */
    float *raw;                       /* (size,) of columns */
    float *gate;                      /* (rows,) */
    float *inner, *squashed, *hidden; /* (H,) */
    float *scales;                    /* (SCALE_NUMBERS,) */
};

DEVICE struct layer_step layer_at(const struct network &n, const struct network_layer &l,
                                  uint32_t position) {
    float *a = n.activations;
    size_t row = (size_t)position * l.rows, unit = (size_t)position * l.size;
    struct layer_step s;
    s.sum_ih = a + l.sum_ih + row;
    s.sum_hh = a + l.sum_hh + row;
    s.raw = a + l.sum_hh + (size_t)n.ring * l.rows + unit;
    s.gate = a + l.gate + row;
    s.inner = a + l.inner_value + unit;
    s.squashed = a + l.squashed + unit;
    s.hidden = a + l.hidden + unit;
    s.scales = a + l.scales + (size_t)position * SCALE_NUMBERS;
    return s;
}

DEVICE float number_at(const struct range &r, uint32_t row) {
    return r.b ? r.a[row] + r.b[row] : r.a[row];
}

/* 1 / sqrt(var) if the squares of the deviations exceed the range of float: epsilon is
   negligible then. Not inlined: it is hardly ever needed, and code size delays a step. */
static __device__ __attribute__((noinline, unused)) float
rstd_in_double(struct range r, bool centred, double *scratch) {
    double count = r.end - r.first, sum = 0, squares = 0;
    for (uint32_t row = r.first + threadIdx.x; row < r.end && centred; row += blockDim.x)
        sum += (double)number_at(r, row);
    double mean = block_sum(sum, scratch) / count;
    for (uint32_t row = r.first + threadIdx.x; row < r.end; row += blockDim.x) {
        double d = (double)number_at(r, row) - mean;
        squares += d * d;
    }
    return (float)(1 / sqrt(block_sum(squares, scratch) / count));
}

/* Mean, or 0 if the norm is not centred, and 1 / deviation of COUNT ranges at once, in two
   passes. */
template <int COUNT>
DEVICE void normalize(const struct range (&ranges)[COUNT], bool centred,
                      struct scale (&scales)[COUNT], float *scratch) {
    float sums[COUNT] = {};
    if (centred) {
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            for (uint32_t row = ranges[k].first + threadIdx.x; row < ranges[k].end;
                 row += blockDim.x)
                sums[k] += number_at(ranges[k], row);
        block_sums(sums, scratch);
    }
    float squares[COUNT] = {};
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        scales[k].mean = sums[k] / (float)(ranges[k].end - ranges[k].first);
        for (uint32_t row = ranges[k].first + threadIdx.x; row < ranges[k].end; row += blockDim.x) {
            float d = number_at(ranges[k], row) - scales[k].mean;
            squares[k] += d * d;
        }
    }
    block_sums(squares, scratch);
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        float variance = squares[k] / (float)(ranges[k].end - ranges[k].first);
        scales[k].rstd = normalization_rstd(variance);
        if (variance > FLT_MAX)
            scales[k].rstd = rstd_in_double(ranges[k], centred, (double *)scratch);
    }
}

DEVICE void keep_scale(float *scales, int index, const struct scale &scale) {
    if (threadIdx.x == 0) {
        scales[2 * index] = scale.mean;
        scales[2 * index + 1] = scale.rstd;
    }
}

DEVICE float normalized(float sum, const struct scale &scale) {
    return (sum - scale.mean) * scale.rstd;
}

/* Mean and 1 / deviation of a unit, for norms of units. */
DEVICE struct scale unit_scale(const struct network &n, const struct network_layer &l,
                               uint32_t place, uint32_t age, uint32_t row) {
    uint32_t width = units_width(l, place);
    const float *mean = n.units + unit_numbers(l, place) + (size_t)age * width + row;
    struct scale scale = {mean[0], mean[(size_t)2 * l.ages * width]};
    return scale;
}

/* A number after the norm at a place of the layer, if it has one. `scale` is its group's. */
DEVICE float normalized_at(const struct network &n, const struct network_layer &l, float sum,
                           const struct scale &scale, uint32_t place, uint32_t age, uint32_t row) {
    if (l.source == SOURCE_NOTHING)
        return sum;
    float x = normalized(sum, l.ages ? unit_scale(n, l, place, age, row) : scale);
    return normalization_apply(x, n.parameters[l.gain[place] + row],
                               n.parameters[l.norm_bias[place] + row]);
}

/* The part of a cell's description that must be constant. */
template <enum cell C> struct shape_of;
#define CELL(name)                                                                                 \
    template <> struct shape_of<CELL_##name> {                                                     \
        static constexpr uint32_t gates = name##_kind.gates, states = name##_kind.states,          \
                                  outputs = name##_kind.outputs,                                   \
                                  parameters = name##_kind.parameters,                             \
                                  groups = name##_kind.group_gates[1] ? 2 : 1,                     \
                                  first_group = name##_kind.group_gates[0],                        \
                                  finished_gate = name##_kind.finished_gate;                       \
        static constexpr bool apart = name##_kind.apart, gated = name##_kind.gated,                \
                              inner = name##_kind.inner, finishes = name##_kind.finishes,          \
                              own = name##_kind.own, carries = name##_kind.carries,                \
                              columns = name##_kind.columns;                                       \
    };
#include "kinds.def"

/* The previous state of a layer at one step, if it carries one. */
struct carried {
    const float *h, *inner; /* (H,) */
    uint32_t age;           /* the step's age, see age_of */
};

/* That before step t of a run or window that begins at position `first`; `state` is the layer's
   before it. */
DEVICE struct carried carried_of(const struct network &n, const struct network_layer &l,
                                 uint32_t first, uint32_t t, const float *state) {
    struct layer_step before = layer_at(n, l, ring_position(n, first, t ? t - 1 : 0));
    struct carried c = {t ? l.columns ? before.raw : before.hidden : state,
                        t ? before.inner : state + (l.columns ? l.size / l.outputs : l.size),
                        age_of(n, l, state - l.state, t)};
    return c;
}

/* Means and deviations of all groups of a layer's sums. */
template <enum cell C>
DEVICE void scale_sums(const struct network_layer &l, const struct layer_step &s, bool keep,
                       struct scale (&scales)[2 * GROUPS], float *scratch) {
    typedef struct shape_of<C> shape;
    constexpr uint32_t count = shape::groups * (shape::apart ? 2 : 1);
    struct range ranges[count];
    struct scale found[count];
#pragma unroll
    for (uint32_t k = 0; k < count; k++) {
        uint32_t group = k % shape::groups;
        bool recurrent = k >= shape::groups;
        ranges[k].a = recurrent ? s.sum_hh : s.sum_ih;
        ranges[k].b = shape::states > 0 && !shape::apart ? s.sum_hh : NULL;
        group_bounds(l, group, &ranges[k].first, &ranges[k].end);
    }
    normalize(ranges, l.centred, found, scratch);
#pragma unroll
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = (k >= shape::groups ? PLACE_HH : PLACE_IH) * GROUPS + k % shape::groups;
        scales[at] = found[k];
        if (keep)
            keep_scale(s.scales, at, found[k]);
    }
}

/* Stores what backward needs of a unit. */
template <enum cell C>
DEVICE void keep_unit(const struct layer_step &s, const struct cell_unit &u, uint32_t size,
                      uint32_t i) {
    typedef struct shape_of<C> shape;
#pragma unroll
    for (uint32_t g = 0; g < shape::gates && shape::gated; g++)
        s.gate[g * size + i] = u.gate[g];
    if (shape::inner)
        s.inner[i] = u.inner;
}

/* A unit before its step. */
template <enum cell C>
DEVICE struct cell_unit unit_before(const struct network &n, const struct network_layer &l,
                                    const struct carried &before, uint32_t i) {
    struct cell_unit u = {};
    u.activation = (enum activation)l.activation;
    if (shape_of<C>::states > 0)
        u.h = before.h[i];
    if (shape_of<C>::states > 1)
        u.before = before.inner[i];
    const float *factors = n.units + l.units + i;
    for (uint32_t f = 0; f < CELL_FACTORS_MAX && shape_of<C>::parameters; f++)
        u.factor[f] = factors[(size_t)f * (l.size / l.outputs)];
    return u;
}

/* A row of the recurrent sum: of a matrix, or of a diagonal, which is computed here. */
DEVICE float recurrent_sum(const struct network &n, const struct network_layer &l,
                           const struct layer_step &s, bool keep, float h, uint32_t row) {
    if (!l.columns)
        return s.sum_hh[row];
    float sum = n.parameters[l.weight_hh + row] * h + n.parameters[l.bias_hh + row];
    if (keep)
        s.sum_hh[row] = sum;
    return sum;
}

/* Computes the gates and h from the sums, and their norms. For a cell that finishes, h gets the
   inner value, and `finished` the finished gate. */
template <enum cell C>
DEVICE void activate_units(const struct network &n, const struct network_layer &l,
                           const struct layer_step &s, const struct carried &before, bool keep,
                           float *h, float *finished, const struct scale (&scales)[2 * GROUPS]) {
    typedef struct shape_of<C> shape;
    constexpr bool recurrent = shape::states > 0 && !shape::columns;
    uint32_t size = l.size / shape::outputs;
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        struct cell_unit u = unit_before<C>(n, l, before, i);
#pragma unroll
        for (uint32_t g = 0; g < shape::gates; g++) {
            uint32_t row = g * size + i, group = g >= shape::first_group;
            float sum = s.sum_ih[row], hh = 0;
            if (recurrent)
                hh = recurrent_sum(n, l, s, keep, u.h, row);
            if (recurrent && !shape::apart)
                sum += hh;
            u.ih[g] = normalized_at(n, l, sum, scales[group], PLACE_IH, before.age, row);
            if (shape::apart)
                u.hh[g] =
                    normalized_at(n, l, hh, scales[GROUPS + group], PLACE_HH, before.age, row);
        }
        cell_gates(C, &u);
        cell_forward(C, &u);
        h[i] = shape::finishes ? u.inner : u.out;
        if (shape::finishes)
            finished[i] = u.gate[shape::finished_gate];
        if (shape::outputs > 1)
            h[size + i] = u.inner;
        if (!keep)
            continue;
        keep_unit<C>(s, u, size, i);
        if (!shape::finishes)
            s.hidden[i] = u.out;
    }
}

/* Mean and deviation of a whole vector. */
DEVICE struct scale scale_vector(const struct network_layer &l, const struct layer_step &s,
                                 uint32_t place, bool keep, const float *h, float *scratch) {
    struct scale scales[1];
    const struct range ranges[1] = {{h, NULL, 0, l.size}};
    normalize(ranges, l.centred, scales, scratch);
    if (keep)
        keep_scale(s.scales, place * GROUPS, scales[0]);
    return scales[0];
}

/* The second stage: the inner value in h becomes h. */
template <enum cell C>
DEVICE void finish_units(const struct network &n, const struct network_layer &l,
                         const struct layer_step &s, uint32_t age, bool keep, float *h,
                         const float *finished, float *scratch) {
    struct scale scale = {};
    if (l.source == SOURCE_GROUP)
        scale = scale_vector(l, s, PLACE_INNER, keep, h, scratch);
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x) {
        struct cell_unit u = {};
        u.inner = normalized_at(n, l, h[i], scale, PLACE_INNER, age, i);
        u.gate[shape_of<C>::finished_gate] = finished[i];
        cell_finish(C, &u);
        h[i] = u.out;
        if (keep) {
            s.squashed[i] = u.squashed;
            s.hidden[i] = u.out;
        }
    }
}

/* The last stage of columns (struct cell_kind): their output, h or both states, is normalized. */
DEVICE void finish_columns(const struct network &n, const struct network_layer &l,
                           const struct layer_step &s, bool keep, float *h, float *scratch) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; keep && i < l.size; i += blockDim.x)
        s.raw[i] = h[i];
    struct scale scale = {};
    if (l.normalized)
        scale = scale_vector(l, s, PLACE_IH, keep, h, scratch);
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x) {
        if (l.normalized)
            h[i] = normalization_apply(normalized(h[i], scale), n.parameters[l.gain[PLACE_IH] + i],
                                       n.parameters[l.norm_bias[PLACE_IH] + i]);
        if (keep)
            s.hidden[i] = h[i];
    }
}

template <enum cell C>
DEVICE void activate_cell(const struct network &n, const struct network_layer &l,
                          const struct layer_step &s, const struct carried &before, bool keep,
                          float *h, float *finished, float *scratch) {
    struct scale scales[2 * GROUPS] = {};
    if (!shape_of<C>::columns && l.source == SOURCE_GROUP)
        scale_sums<C>(l, s, keep, scales, scratch);
    activate_units<C>(n, l, s, before, keep, h, finished, scales);
    if (shape_of<C>::finishes)
        finish_units<C>(n, l, s, before.age, keep, h, finished, scratch);
}

/* h (ld,) in shared memory, padded with zeros, of the layer's step t of a run or window that
   begins at position `first`; uses `ld` further floats after it. `state` (H, or 2 H) is the
   layer's state before the first step. `keep`: this block stores the data for backward. */
DEVICE void activate(const struct network &n, const struct network_layer &l, uint32_t first,
                     uint32_t t, const float *state, bool keep, float *h, uint32_t ld,
                     float *scratch) {
    for (uint32_t i = l.size + threadIdx.x; i < ld; i += blockDim.x)
        h[i] = 0;
    struct layer_step s = layer_at(n, l, ring_position(n, first, t));
    if (n.inbox)
        s.sum_ih = inbox_sums(n, l, false, t);
    if (n.inbox && l.recurrent)
        s.sum_hh = inbox_sums(n, l, true, t);
    struct carried carried = carried_of(n, l, first, t, state);
    switch (l.cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    activate_cell<CELL_##name>(n, l, s, carried, keep, h, h + ld, scratch);                        \
    break;
#include "kinds.def"
    }
    if (l.columns)
        finish_columns(n, l, s, keep, h, scratch);
    __syncthreads();
}

#endif
