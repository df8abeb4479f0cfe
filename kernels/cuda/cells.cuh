/* A layer at one step, for a whole block at once: from its sums to h. Every block that needs h
   computes it, for that is cheaper than to wait for another kernel; one of them keeps what backward
   will need. Bound by the latency of its two to four reductions. */
#ifndef RUNNEL_CUDA_CELLS_CUH
#define RUNNEL_CUDA_CELLS_CUH

#include <float.h>

#include "gates.h"
#include "network.cuh"

struct scale {
    float mean;
    float inverse; /* 1 / sqrt(var + epsilon) */
};

/* Rows first..end of a + b are normalized together; b may be NULL. */
struct range {
    const float *a, *b;
    uint32_t first, end;
};

/* Of one layer at one position of the ring. */
struct layer_step {
    const float *sum_ih, *sum_hh;          /* (rows,) */
    float *gate;                           /* (rows,) */
    float *cell_state, *squashed, *hidden; /* (H,) */
    float *scales;                         /* (SCALE_NUMBERS,) */
};

static __device__ __forceinline__ struct layer_step
layer_at(const struct network &n, const struct network_layer &l, uint32_t position) {
    float *a = n.activations;
    size_t row = (size_t)position * l.rows, unit = (size_t)position * l.size;
    struct layer_step s;
    s.sum_ih = a + l.sum_ih + row;
    s.sum_hh = a + l.sum_hh + row;
    s.gate = a + l.gate + row;
    s.cell_state = a + l.cell_state + unit;
    s.squashed = a + l.squashed + unit;
    s.hidden = a + l.hidden + unit;
    s.scales = a + l.scales + (size_t)position * SCALE_NUMBERS;
    return s;
}

static __device__ __forceinline__ float number_at(const struct range &r, uint32_t row) {
    return r.b ? r.a[row] + r.b[row] : r.a[row];
}

/* 1 / sqrt(var) when the squares of the deviations have left the range of float: epsilon is nothing
   beside them. Not inlined: it is as good as never needed, and code is what a step waits for. */
static __device__ __attribute__((noinline)) float inverse_in_double(struct range r,
                                                                    double *scratch) {
    double count = r.end - r.first, sum = 0, squares = 0;
    for (uint32_t row = r.first + threadIdx.x; row < r.end; row += blockDim.x)
        sum += (double)number_at(r, row);
    double mean = block_sum(sum, scratch) / count;
    for (uint32_t row = r.first + threadIdx.x; row < r.end; row += blockDim.x) {
        double d = (double)number_at(r, row) - mean;
        squares += d * d;
    }
    return (float)(1 / sqrt(block_sum(squares, scratch) / count));
}

/* Mean and inverse deviation of COUNT ranges at once, in two passes. */
template <int COUNT>
static __device__ __forceinline__ void normalize(const struct range (&ranges)[COUNT],
                                                 struct scale (&scales)[COUNT], float *scratch) {
    float sums[COUNT] = {};
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        for (uint32_t row = ranges[k].first + threadIdx.x; row < ranges[k].end; row += blockDim.x)
            sums[k] += number_at(ranges[k], row);
    block_sums(sums, scratch);
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
        scales[k].inverse = gates_norm_inverse(variance);
        if (variance > FLT_MAX)
            scales[k].inverse = inverse_in_double(ranges[k], (double *)scratch);
    }
}

static __device__ __forceinline__ void keep_scale(float *scales, int index,
                                                  const struct scale &scale) {
    if (threadIdx.x == 0) {
        scales[2 * index] = scale.mean;
        scales[2 * index + 1] = scale.inverse;
    }
}

static __device__ __forceinline__ float normalized(float sum, const struct scale &scale) {
    return (sum - scale.mean) * scale.inverse;
}

/* A sum behind its normalization, if the layer has one. */
static __device__ __forceinline__ float behind(const struct network &n,
                                               const struct network_layer &l, float sum,
                                               const struct scale &scale, uint32_t gain,
                                               uint32_t shift, uint32_t row) {
    if (!l.norm)
        return sum;
    return gates_norm(normalized(sum, scale), n.parameters[gain + row], n.parameters[shift + row]);
}

static __device__ __forceinline__ float activation_of(const struct network_layer &l, float a) {
    if (l.cell == CELL_RNN || l.activation == ACTIVATION_TANH)
        return formula_tanh(a);
    return l.activation == ACTIVATION_RELU ? gates_relu(a) : a;
}

/* ---- dense: h = f(LN(W x + b)); rnn: h' = tanh(LN(W_ih x + b_ih + W_hh h)) ---- */

static __device__ __forceinline__ void activate_single(const struct network &n,
                                                       const struct network_layer &l,
                                                       const struct layer_step &s, bool keep,
                                                       float *h, float *scratch) {
    const struct range sum[1] = {{s.sum_ih, l.cell == CELL_RNN ? s.sum_hh : NULL, 0, l.rows}};
    struct scale scales[1] = {};
    if (l.norm) {
        normalize(sum, scales, scratch);
        if (keep)
            keep_scale(s.scales, 0, scales[0]);
    }
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x) {
        h[i] = activation_of(
            l, behind(n, l, number_at(sum[0], i), scales[0], l.gain_ih, l.shift_ih, i));
        if (keep)
            s.hidden[i] = h[i];
    }
}

/* ---- gru: r,z = s(x_rz + h_rz); n = tanh(x_n + r h_n); h' = (1 - z) n + z h ---- */

static __device__ __forceinline__ void activate_gru(const struct network &n,
                                                    const struct network_layer &l,
                                                    const struct layer_step &s, const float *before,
                                                    bool keep, float *h, float *scratch) {
    struct scale scales[2 * GROUPS] = {};
    uint32_t size = l.size;
    if (l.norm) {
        const struct range ranges[2 * GROUPS] = {{s.sum_ih, NULL, 0, 2 * size},
                                                 {s.sum_ih, NULL, 2 * size, l.rows},
                                                 {s.sum_hh, NULL, 0, 2 * size},
                                                 {s.sum_hh, NULL, 2 * size, l.rows}};
        normalize(ranges, scales, scratch);
#pragma unroll
        for (int k = 0; keep && k < 2 * GROUPS; k++)
            keep_scale(s.scales, k, scales[k]);
    }
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        float x[3], y[3];
#pragma unroll
        for (uint32_t g = 0; g < 3; g++) {
            uint32_t row = g * size + i, group = g == 2;
            x[g] = behind(n, l, s.sum_ih[row], scales[group], l.gain_ih, l.shift_ih, row);
            y[g] = behind(n, l, s.sum_hh[row], scales[GROUPS + group], l.gain_hh, l.shift_hh, row);
        }
        float r = formula_sigmoid(x[0] + y[0]), z = formula_sigmoid(x[1] + y[1]);
        float candidate = formula_tanh(gates_gru_candidate(x[2], r, y[2]));
        h[i] = gates_gru_hidden(z, candidate, before[i]);
        if (keep) {
            s.gate[i] = r;
            s.gate[size + i] = z;
            s.gate[2 * size + i] = candidate;
            s.cell_state[i] = y[2];
            s.hidden[i] = h[i];
        }
    }
}

/* ---- lstm: i,f,g,o = the sums behind their normalizations; c' = s(f) c + s(i) tanh(g);
        h' = s(o) tanh(LN(c')) ---- */

/* The first half: c' into `cell`, s(o) into `output`. */
static __device__ __forceinline__ void lstm_cell(const struct network &n,
                                                 const struct network_layer &l,
                                                 const struct layer_step &s, const float *before,
                                                 bool keep, float *cell, float *output,
                                                 const struct scale (&scales)[2]) {
    uint32_t size = l.size;
    for (uint32_t k = threadIdx.x; k < size; k += blockDim.x) {
        float a[4];
#pragma unroll
        for (uint32_t g = 0; g < 4; g++) {
            uint32_t row = g * size + k;
            a[g] = behind(n, l, s.sum_ih[row], scales[0], l.gain_ih, l.shift_ih, row) +
                   behind(n, l, s.sum_hh[row], scales[1], l.gain_hh, l.shift_hh, row);
        }
        float i = formula_sigmoid(a[0]), f = formula_sigmoid(a[1]), g = formula_tanh(a[2]);
        output[k] = formula_sigmoid(a[3]);
        cell[k] = gates_lstm_cell(i, f, g, before[k]);
        if (keep) {
            s.gate[k] = i;
            s.gate[size + k] = f;
            s.gate[2 * size + k] = g;
            s.gate[3 * size + k] = output[k];
            s.cell_state[k] = cell[k];
        }
    }
}

static __device__ __forceinline__ void
activate_lstm(const struct network &n, const struct network_layer &l, const struct layer_step &s,
              const float *before, bool keep, float *h, float *output, float *scratch) {
    struct scale scales[2] = {}, cell_scale[1] = {};
    if (l.norm) {
        const struct range ranges[2] = {{s.sum_ih, NULL, 0, l.rows}, {s.sum_hh, NULL, 0, l.rows}};
        normalize(ranges, scales, scratch);
        if (keep) {
            keep_scale(s.scales, 0, scales[0]);
            keep_scale(s.scales, SCALE_HH, scales[1]);
        }
    }
    lstm_cell(n, l, s, before, keep, h, output, scales);
    if (l.norm) {
        const struct range ranges[1] = {{h, NULL, 0, l.size}};
        normalize(ranges, cell_scale, scratch);
        if (keep)
            keep_scale(s.scales, SCALE_C, cell_scale[0]);
    }
    for (uint32_t k = threadIdx.x; k < l.size; k += blockDim.x) {
        float squashed = formula_tanh(behind(n, l, h[k], cell_scale[0], l.gain_c, l.shift_c, k));
        h[k] = output[k] * squashed;
        if (keep) {
            s.squashed[k] = squashed;
            s.hidden[k] = h[k];
        }
    }
}

/* h (ld,) in shared memory, padded with zeros, of the layer's step t of a run or window that begins
   at position `first`; behind it `ld` floats more are used. `state` (H, or 2 H) is what the layer
   carried before the first step. `keep`: this block leaves what backward needs. */
static __device__ __forceinline__ void activate(const struct network &n,
                                                const struct network_layer &l, uint32_t first,
                                                uint32_t t, const float *state, bool keep, float *h,
                                                uint32_t ld, float *scratch) {
    for (uint32_t i = l.size + threadIdx.x; i < ld; i += blockDim.x)
        h[i] = 0;
    struct layer_step s = layer_at(n, l, ring_position(n, first, t));
    struct layer_step before = layer_at(n, l, ring_position(n, first, t ? t - 1 : 0));
    switch (l.cell) {
    case CELL_LSTM:
        activate_lstm(n, l, s, t ? before.cell_state : state + l.size, keep, h, h + ld, scratch);
        break;
    case CELL_GRU:
        activate_gru(n, l, s, t ? before.hidden : state, keep, h, scratch);
        break;
    default:
        activate_single(n, l, s, keep, h, scratch);
    }
    __syncthreads();
}

#endif
