#include "backward.cuh"

#include "cells.cuh"
#include "transposed.cuh"

/* ---- A layer at one step ---- */

/* Values shared by the blocks of a layer at a step; each block computes them. */
struct layer_backward {
    struct layer_step at;
    uint32_t t, position;
    struct carried before;
    float *d;    /* (rows or more,) in shared memory: gradients after gains */
    bool last;   /* the window's last step */
    bool writes; /* this block stores the results of units */
};

static __device__ __forceinline__ struct scale scale_of(const struct layer_step &s, int index) {
    struct scale scale = {s.scales[2 * index], s.scales[2 * index + 1]};
    return scale;
}

static __device__ __forceinline__ float *carry_of(const struct network &n,
                                                  const struct network_layer &l, uint32_t t) {
    return activations_of(n) + l.carry + (size_t)(t % 2) * l.size;
}

/* Gradient of unit i's h: from the layer above, and from the next step. */
static __device__ __forceinline__ float
hidden_gradient(const struct network &n, uint32_t k, const struct layer_backward &b, uint32_t i) {
    const struct network_layer &l = n.layers[k];
    float d = k + 1 < n.layer_count
                  ? joined(n, n.layers[k + 1].split_ih, n.layers[k + 1].ld_ih, b.t, i)
                  : joined(n, n.split_output, n.ld_output, b.t, i);
    if (b.last || !l.recurrent)
        return d;
    d += joined(n, l.split_hh, l.ld_hh, (b.t + 1) % 2, i);
    return l.carries && !l.finishes ? d + carry_of(n, l, b.t + 1)[i] : d;
}

/* Sets d, for a cell that finishes, to the gradient of its inner value through h: first that of
   the value after its norm, then through the norm. Also computes that of the finished gate. */
template <enum cell C>
static __device__ __forceinline__ void finish_backward(const struct network &n, uint32_t k,
                                                       const struct layer_backward &b,
                                                       float *scratch) {
    constexpr uint32_t gate = shape_of<C>::finished_gate;
    const struct network_layer &l = n.layers[k];
    struct scale scale = scale_of(b.at, PLACE_INNER * GROUPS);
    float sums[2] = {0, 0};
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x) {
        struct cell_unit u = {};
        struct cell_gradient g = {};
        u.gate[gate] = b.at.gate[gate * l.size + i];
        u.squashed = b.at.squashed[i];
        cell_finish_backward(C, &u, hidden_gradient(n, k, b, i), &g);
        b.d[gate * l.size + i] = g.gate[gate];
        b.d[i] = g.inner;
        if (l.source == SOURCE_NOTHING)
            continue;
        if (l.ages)
            scale = unit_scale(n, l, PLACE_INNER, b.before.age, i);
        float x = normalized(b.at.inner[i], scale),
              gain = parameters_of(n)[l.gain[PLACE_INNER] + i];
        sums[0] += g.inner * gain;
        sums[1] += g.inner * gain * x;
        if (b.writes) {
            size_t unit = (size_t)b.t * l.size + i;
            activations_of(n)[l.d_bias[PLACE_INNER] + unit] = g.inner;
            activations_of(n)[l.d_gain[PLACE_INNER] + unit] = g.inner * x;
        }
        if (l.ages)
            b.d[i] = normalization_unit_backward(g.inner, gain, scale.rstd);
    }
    if (l.source != SOURCE_GROUP)
        return;
    block_sums(sums, scratch);
    float mean = l.centred ? sums[0] / (float)l.size : 0.0f, product = sums[1] / (float)l.size;
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x)
        b.d[i] = normalization_group_backward(b.d[i], parameters_of(n)[l.gain[PLACE_INNER] + i],
                                              normalized(b.at.inner[i], scale), mean, product,
                                              scale.rstd);
}

/* Sets d to the gradients of the gates' sums after their norms; with `own` one row more. */
template <enum cell C>
static __device__ __forceinline__ void units_backward(const struct network &n, uint32_t k,
                                                      const struct layer_backward &b,
                                                      float *scratch) {
    typedef struct shape_of<C> shape;
    static_assert(!shape::finishes || shape::finished_gate > 0, "row 0 is still in use");
    const struct network_layer &l = n.layers[k];
    uint32_t size = l.size;
    if (shape::finishes)
        finish_backward<C>(n, k, b, scratch);
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        struct cell_unit u = {};
        struct cell_gradient g = {};
        float d = shape::finishes ? b.d[i] + (b.last ? 0.0f : carry_of(n, l, b.t + 1)[i])
                                  : hidden_gradient(n, k, b, i);
        u.activation = (enum activation)l.activation;
#pragma unroll
        for (uint32_t gate = 0; gate < shape::gates && shape::gated; gate++)
            u.gate[gate] = b.at.gate[gate * size + i];
        if (shape::inner)
            u.inner = b.at.inner[i];
        if (shape::states > 0)
            u.h = b.before.h[i];
        if (shape::states > 1)
            u.before = b.before.inner[i];
        u.out = b.at.hidden[i];
        cell_backward(C, &u, d, &g);
#pragma unroll
        for (uint32_t gate = 0; gate < shape::gates; gate++)
            if (gate != shape::finished_gate)
                b.d[gate * size + i] = g.gate[gate];
        if (shape::own)
            b.d[shape::gates * size + i] = g.own;
        if (shape::carries && b.writes)
            carry_of(n, l, b.t)[i] = g.before;
    }
}

/* ---- Columns ---- */

/* Numbers of the gradient that step t passes to the states before it. */
static __device__ __forceinline__ float *states_of(const struct network &n,
                                                   const struct network_layer &l, uint32_t t) {
    return activations_of(n) + l.carry + (size_t)(t % 2) * l.states * (l.size / l.outputs);
}

/* d (size,) gets the gradient of the output, through its norm. */
template <uint32_t OUTPUTS>
static __device__ __forceinline__ void output_gradient(const struct network &n, uint32_t k,
                                                       const struct layer_backward &b,
                                                       float *scratch) {
    const struct network_layer &l = n.layers[k];
    const float *gain = parameters_of(n) + l.gain[PLACE_IH];
    struct scale scale = scale_of(b.at, 0);
    float sums[2] = {0, 0};
    uint32_t size = l.size / OUTPUTS;
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x)
        for (uint32_t at = i; at < l.size; at += size) {
            float d = hidden_gradient(n, k, b, at), x = normalized(b.at.raw[at], scale);
            b.d[at] = d;
            if (!l.normalized)
                continue;
            sums[0] += d * gain[at];
            sums[1] += d * gain[at] * x;
            if (b.writes) {
                activations_of(n)[l.d_bias[PLACE_IH] + (size_t)b.t * l.size + at] = d;
                activations_of(n)[l.d_gain[PLACE_IH] + (size_t)b.t * l.size + at] = d * x;
            }
        }
    if (!l.normalized)
        return;
    block_sums(sums, scratch);
    float mean = l.centred ? sums[0] / (float)l.size : 0.0f, product = sums[1] / (float)l.size;
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x)
        for (uint32_t at = i; at < l.size; at += size)
            b.d[at] = normalization_group_backward(
                b.d[at], gain[at], normalized(b.at.raw[at], scale), mean, product, scale.rstd);
}

/* The gradients of a unit's recurrent weights and biases, and of its h before, from those of its
   gates. */
template <enum cell C>
static __device__ __forceinline__ float
weights_backward(const struct network &n, const struct network_layer &l,
                 const struct layer_backward &b, const struct cell_gradient &g, float h,
                 uint32_t i) {
    typedef struct shape_of<C> shape;
    const float *weight = parameters_of(n) + l.weight_hh;
    float d_h = 0;
#pragma unroll
    for (uint32_t gate = 0; gate < shape::gates; gate++) {
        uint32_t row = gate * l.size + i;
        size_t at = (size_t)b.t * padded(l.rows) + row;
        float d = shape::own && gate + 1 == shape::gates ? g.own : g.gate[gate];
        activations_of(n)[l.d_hh + at] = d;
        activations_of(n)[l.d_weight + at] = d * h;
        d_h += d * weight[row];
    }
    return d_h;
}

/* Sets d to the gradients of the gates' sums. Only the block that writes has those of the states
   before. */
template <enum cell C>
static __device__ __forceinline__ void columns_backward(const struct network &n, uint32_t k,
                                                        const struct layer_backward &b,
                                                        float *scratch) {
    typedef struct shape_of<C> shape;
    const struct network_layer &l = n.layers[k];
    uint32_t size = l.size / shape::outputs;
    const float *next = states_of(n, l, b.t + 1);
    float *before = states_of(n, l, b.t);
    output_gradient<shape::outputs>(n, k, b, scratch);
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        struct cell_unit u = column_unit<C>(n, l, b.before, i);
        struct cell_gradient g = {};
        float d = b.d[i] + (b.last ? 0.0f : next[i]);
#pragma unroll
        for (uint32_t gate = 0; gate < shape::gates && shape::gated; gate++)
            u.gate[gate] = b.at.gate[gate * size + i];
        if (shape::inner)
            u.inner = b.at.inner[i];
        u.out = b.at.raw[i];
        if (shape::states > 1)
            g.inner = b.last ? 0.0f : next[size + i];
        if (shape::outputs > 1)
            g.inner += b.d[size + i];
        if (shape::finishes) {
            float carried = g.inner;
            u.squashed = b.at.squashed[i];
            cell_finish_backward(C, &u, d, &g);
            d = g.inner + carried;
        }
        cell_backward(C, &u, d, &g);
#pragma unroll
        for (uint32_t gate = 0; gate < shape::gates; gate++)
            b.d[gate * size + i] = g.gate[gate];
        if (!b.writes)
            continue;
        float d_h = shape::columns ? 0.0f : weights_backward<C>(n, l, b, g, u.h, i);
        if (shape::outputs > 1)
            d_h += g.h;
        if (shape::states > 1)
            before[size + i] = g.before;
        else
            d_h += g.before;
        before[i] = d_h;
        for (int p = 0; p < (int)shape::parameters; p++)
            activations_of(n)[l.d_weight + ((size_t)p * n.window + b.t) * padded(size) + i] =
                g.parameter[p];
    }
}

template <enum cell C, bool COLUMNS>
static __device__ __forceinline__ void cell_backward_at(const struct network &n, uint32_t k,
                                                        const struct layer_backward &b,
                                                        float *scratch) {
    if constexpr (COLUMNS && shape_of<C>::states > 0)
        if (n.layers[k].columns) {
            columns_backward<C>(n, k, b, scratch);
            return;
        }
    if constexpr (!shape_of<C>::columns)
        units_backward<C>(n, k, b, scratch);
}

/* ---- Through the normalizations of the sums ---- */

static __device__ __forceinline__ float behind_gains(const struct network_layer &l,
                                                     const struct layer_backward &b, bool recurrent,
                                                     uint32_t row) {
    bool own = l.own && recurrent && row >= l.rows - l.size;
    return b.d[own ? row + l.size : row];
}

static __device__ __forceinline__ float sum_normalized(const struct network &n,
                                                       const struct network_layer &l,
                                                       const struct layer_backward &b,
                                                       bool recurrent, uint32_t row) {
    uint32_t group = row >= group_rows(l);
    float sum = recurrent ? b.at.sum_hh[row] : b.at.sum_ih[row];
    if (l.states > 0 && !l.apart)
        sum = b.at.sum_ih[row] + b.at.sum_hh[row];
    uint32_t place = recurrent ? PLACE_HH : PLACE_IH;
    return normalized(sum, l.ages ? unit_scale(n, l, place, b.before.age, row)
                                  : scale_of(b.at, place * GROUPS + group));
}

/* Means over each group of both sums: of d g, and of d g x. */
struct norm_means {
    float mean[2 * GROUPS], product[2 * GROUPS];
};

static __device__ __forceinline__ struct norm_means norm_means(const struct network &n,
                                                               const struct network_layer &l,
                                                               const struct layer_backward &b,
                                                               float *scratch) {
    struct norm_means m = {};
    float sums[4 * GROUPS] = {};
#pragma unroll
    for (uint32_t k = 0; k < 2 * GROUPS; k++) {
        bool recurrent = k >= GROUPS;
        uint32_t first, end;
        group_bounds(l, k % GROUPS, &first, &end);
        for (uint32_t row = first + threadIdx.x; row < end && (l.apart || !recurrent);
             row += blockDim.x) {
            float gain = parameters_of(n)[l.gain[recurrent ? PLACE_HH : PLACE_IH] + row];
            float dg = behind_gains(l, b, recurrent, row) * gain;
            sums[k] += dg;
            sums[2 * GROUPS + k] += dg * sum_normalized(n, l, b, recurrent, row);
        }
    }
    block_sums(sums, scratch);
#pragma unroll
    for (uint32_t k = 0; k < 2 * GROUPS; k++) {
        uint32_t first, end;
        group_bounds(l, k % GROUPS, &first, &end);
        m.mean[k] = l.centred ? sums[k] / (float)(end - first) : 0.0f;
        m.product[k] = sums[2 * GROUPS + k] / (float)(end - first);
    }
    return m;
}

/* The gradient of a sum's row. */
static __device__ __forceinline__ float
sum_gradient(const struct network &n, const struct network_layer &l, const struct layer_backward &b,
             const struct norm_means &m, bool recurrent, uint32_t row) {
    bool second = row >= group_rows(l);
    bool of_hh = recurrent && l.apart;
    uint32_t place = of_hh ? PLACE_HH : PLACE_IH;
    float d = behind_gains(l, b, recurrent, row);
    if (l.source == SOURCE_NOTHING)
        return d;
    float mean = of_hh ? (second ? m.mean[3] : m.mean[2]) : second ? m.mean[1] : m.mean[0];
    float product = of_hh    ? (second ? m.product[3] : m.product[2])
                    : second ? m.product[1]
                             : m.product[0];
    float gain = parameters_of(n)[l.gain[place] + row];
    if (l.ages)
        return normalization_unit_backward(d, gain,
                                           unit_scale(n, l, place, b.before.age, row).rstd);
    struct scale scale = scale_of(b.at, place * GROUPS + second);
    return normalization_group_backward(d, gain, sum_normalized(n, l, b, of_hh, row), mean, product,
                                        scale.rstd);
}

/* ---- Stored for the gradients of the weights ---- */

static __device__ void keep_rows(const struct network &n, const struct network_layer &l,
                                 const struct layer_backward &b, const struct norm_means &m,
                                 const struct piece &p) {
    float *a = activations_of(n);
    for (uint32_t row = p.first + threadIdx.x; row < p.end; row += blockDim.x) {
        size_t at = (size_t)b.t * l.rows + row, wide = (size_t)b.t * padded(l.rows) + row;
        a[l.d_ih + wide] = sum_gradient(n, l, b, m, false, row);
        if (l.recurrent)
            a[l.d_hh + wide] = sum_gradient(n, l, b, m, true, row);
        if (l.source == SOURCE_NOTHING)
            continue;
        float d = behind_gains(l, b, false, row);
        a[l.d_bias[PLACE_IH] + at] = d;
        a[l.d_gain[PLACE_IH] + at] = d * sum_normalized(n, l, b, false, row);
        if (l.apart) {
            d = behind_gains(l, b, true, row);
            a[l.d_bias[PLACE_HH] + at] = d;
            a[l.d_gain[PLACE_HH] + at] = d * sum_normalized(n, l, b, true, row);
        }
    }
}

/* The inputs of the weights at this step: x, and h before it. */
static __device__ void keep_vectors(const struct network &n, uint32_t k,
                                    const struct layer_backward &b, const float *slot) {
    const struct network_layer &l = n.layers[k];
    float *input = activations_of(n) + l.input + (size_t)b.t * l.ld_ih;
    float *before = activations_of(n) + l.before + (size_t)b.t * l.ld_hh;
    for (uint32_t i = threadIdx.x; i < l.ld_hh && l.recurrent; i += blockDim.x)
        before[i] = i < l.size ? b.before.h[i] : 0.0f;
    const float *x;
    if (k > 0) {
        x = layer_at(n, n.layers[k - 1], b.position).hidden;
    } else {
        x = slot + n.slot.input + (size_t)b.position * n.slot.input_row;
        if (!n.input_real) {
            uint32_t id = ((const union value *)x)->id;
            if (threadIdx.x == 0)
                ((uint32_t *)(activations_of(n) + n.ids))[b.t] = id;
            if (!n.embedding_size)
                return;
            x = parameters_of(n) + n.embedding + (size_t)id * n.ld_embedding;
        }
    }
    for (uint32_t i = threadIdx.x; i < l.ld_ih; i += blockDim.x)
        input[i] = i < l.inputs ? x[i] : 0.0f;
}

/* ---- A wave ---- */

template <bool COLUMNS>
static __device__ __forceinline__ struct layer_backward
backward_at(const struct network &n, uint32_t k, uint32_t t, const float *slot) {
    const struct network_layer &l = n.layers[k];
    const struct segment *s = current_of(n);
    const float *state = slot + n.slot.before + (size_t)s->window * n.slot.state + l.state;
    struct layer_backward b;
    b.t = t;
    b.position = ring_position(n, s->window, t);
    b.at = layer_at(n, l, b.position);
    struct layer_step before = layer_at(n, l, ring_position(n, s->window, t ? t - 1 : 0));
    b.before = carried_of<COLUMNS>(n, l, before, t, state);
    return b;
}

/* The rows of d that a block multiplies with, and the product. */
static __device__ void propagate(const struct network &n, const struct network_layer &l,
                                 const struct layer_backward &b, const struct norm_means &m,
                                 const struct piece &p, bool recurrent, float *rows) {
    const struct split &split = recurrent ? l.split_hh : l.split_ih;
    uint32_t ld = recurrent ? l.ld_hh : l.ld_ih, index = recurrent ? b.t % 2 : b.t;
    for (uint32_t row = p.first + threadIdx.x; row < p.end; row += blockDim.x)
        rows[row - p.first] = sum_gradient(n, l, b, m, recurrent, row);
    __syncthreads();
    float *out = activations_of(n) + split.partial + ((size_t)index * split.chunks + p.chunk) * ld;
    multiply_transposed(parameters_of(n) + (recurrent ? l.weight_hh : l.weight_ih), ld, ld, p.first,
                        p.end, rows, p.group, rows + padded(split.chunk_rows), out);
}

/* Floats of a layer's gradients after the gains. */
static __host__ __device__ __forceinline__ uint32_t gradient_rows(const struct network_layer &l) {
    return padded(l.rows + l.own * l.size);
}

template <bool COLUMNS>
static __device__ __forceinline__ void layer_wave(const struct network &n, uint32_t k, uint32_t t,
                                                  uint32_t block, bool recurrent) {
    const struct network_layer &l = n.layers[k];
    const float *slot = slot_of(n, current_of(n));
    struct piece p = piece_of(recurrent ? l.split_hh : l.split_ih, l.rows, block);
    struct layer_backward b = backward_at<COLUMNS>(n, k, t, slot);
    b.last = t + 1 == current_of(n)->length;
    b.writes = recurrent && block == 0;
    b.d = shared_memory + SCRATCH;
    switch (l.cell) {
#define CELL(name)                                                                                 \
    case CELL_##name:                                                                              \
        cell_backward_at<CELL_##name, COLUMNS>(n, k, b, shared_memory);                            \
        break;
#include "kinds.def"
    }
    __syncthreads();
    struct norm_means m = {};
    if (l.source == SOURCE_GROUP)
        m = norm_means(n, l, b, shared_memory);
    if (recurrent && p.group == 0)
        keep_rows(n, l, b, m, p);
    if (b.writes)
        keep_vectors(n, k, b, slot);
    bool wanted = recurrent ? l.recurrent && t > 0 : l.split_ih.groups > 0;
    if (wanted)
        propagate(n, l, b, m, p, recurrent, b.d + gradient_rows(l));
}

/* The blocks of `split_hh` also store the inputs of the weights' gradients; a layer without
   recurrence has them only for this. */
template <bool COLUMNS>
static __global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    backward_wave(const __grid_constant__ struct network n, uint32_t number, uint32_t length) {
    uint32_t block = blockIdx.x;
    for (uint32_t k = 0; k < n.layer_count; k++) {
        const struct network_layer &l = n.layers[k];
        const struct split *ih = &l.split_ih, *hh = &l.split_hh;
        uint32_t groups = hh->groups ? hh->groups : 1;
        if (block >= hh->first_block + hh->chunks * groups)
            continue;
        uint32_t last = n.layer_count - 1 - k + length - 1; /* t = last - number */
        uint32_t t = length - 1 - (number - (n.layer_count - 1 - k));
        if (number > last || t >= length)
            return;
        bool recurrent = block >= hh->first_block;
        layer_wave<COLUMNS>(n, k, t, block - (recurrent ? hh : ih)->first_block, recurrent);
        return;
    }
}

/* ---- Launchers ---- */

static size_t wave_floats(const struct network_layer *l) {
    uint32_t rows = l->split_ih.chunk_rows > l->split_hh.chunk_rows ? l->split_ih.chunk_rows
                                                                    : l->split_hh.chunk_rows;
    return gradient_rows(*l) + padded(rows);
}

static size_t wave_shared(const struct network *n, unsigned threads) {
    size_t most = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        size_t floats = wave_floats(&n->layers[k]);
        most = floats > most ? floats : most;
    }
    return (SCRATCH + most + transposed_sums(threads)) * sizeof(float);
}

size_t backward_shared(const struct network *n, unsigned threads) {
    size_t wave = wave_shared(n, threads), output = output_shared(n, threads);
    return wave > output ? wave : output;
}

cudaError_t launch_backward(const struct network *n, uint32_t length, unsigned threads,
                            cudaStream_t stream) {
    struct launch l = {dim3(n->blocks_backward, 1, n->members), threads, wave_shared(n, threads),
                       stream};
    cudaError_t status = launch_output_backward(n, length, threads, stream);
    for (uint32_t v = 0; v + 1 < length + n->layer_count && !status; v++)
        status = n->columns ? launch_kernel(backward_wave<true>, &l, *n, v, length)
                            : launch_kernel(backward_wave<false>, &l, *n, v, length);
    return status;
}
