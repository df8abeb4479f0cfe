/* Backward through a window with sums and states in the ring: from its targets to the gradients
   of all sums, stored for each step; gradient.cuh computes those of the weights from them. In wave
   v the topmost layer is at step length - 1 - v, and each lower layer one step later than the layer
   above. */
#ifndef RUNNEL_CUDA_BACKWARD_CUH
#define RUNNEL_CUDA_BACKWARD_CUH

#include "cells.cuh"
#include "loss.cuh"
#include "product.cuh"

/* ---- A layer at one step ---- */

/* Values shared by the blocks of a layer at a step; each block computes them. */
struct layer_backward {
    struct layer_step at;
    uint32_t t, position;
    struct carried before;
    float *d;    /* (rows or more,) in shared memory: gradients after gains */
    bool last;   /* the window's last step */
    bool writes; /* this block stores the results of units: it has the layer's first strip */
};

DEVICE struct scale scale_of(const struct layer_step &s, int index) {
    struct scale scale = {s.scales[2 * index], s.scales[2 * index + 1]};
    return scale;
}

DEVICE float *carry_of(const struct network &n, const struct network_layer &l, uint32_t t) {
    return n.activations + l.carry + (size_t)(t % 2) * l.size;
}

DEVICE const float *partials_of(const struct network &n, const struct network_layer &l,
                                bool recurrent, uint32_t t) {
    return n.inbox ? inbox_partials(n, l, recurrent, t) : kept_partials(n, l, recurrent, t);
}

/* Gradient of unit i's h: from the layer above, and from the next step. */
DEVICE float hidden_gradient(const struct network &n, uint32_t k, const struct layer_backward &b,
                             uint32_t i) {
    const struct network_layer &l = n.layers[k], &above = n.layers[k + 1];
    float d = k + 1 < n.layer_count ? joined(partials_of(n, above, false, b.t),
                                             partial_count(n, above, false), above.ld_ih, i)
                                    : output_joined(n, b.t, i);
    if (b.last || !l.recurrent)
        return d;
    d += joined(partials_of(n, l, true, b.t + 1), partial_count(n, l, true), l.ld_hh, i);
    return l.carries && !l.finishes ? d + carry_of(n, l, b.t + 1)[i] : d;
}

/* A unit with the results of its step. */
template <enum cell C>
DEVICE struct cell_unit unit_after(const struct network &n, const struct network_layer &l,
                                   const struct layer_backward &b, uint32_t i) {
    typedef struct shape_of<C> shape;
    struct cell_unit u = unit_before<C>(n, l, b.before, i);
#pragma unroll
    for (uint32_t gate = 0; gate < shape::gates && shape::gated; gate++)
        u.gate[gate] = b.at.gate[gate * (l.size / shape::outputs) + i];
    if (shape::inner)
        u.inner = b.at.inner[i];
    if (shape::finishes)
        u.squashed = b.at.squashed[i];
    u.out = l.columns ? b.at.raw[i] : b.at.hidden[i];
    return u;
}

/* The norm of a whole vector: d (size,), the gradient after gain and bias, becomes that of `values`
   before the norm. A thread has the same numbers throughout. */
DEVICE void vector_norm_backward(const struct network &n, const struct network_layer &l,
                                 const struct layer_backward &b, uint32_t place,
                                 const float *values, float *scratch) {
    const float *gain = n.parameters + l.gain[place];
    struct scale scale = scale_of(b.at, place * GROUPS);
    float sums[2] = {0, 0};
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x) {
        if (l.ages)
            scale = unit_scale(n, l, place, b.before.age, i);
        float d = b.d[i], x = normalized(values[i], scale);
        sums[0] += d * gain[i];
        sums[1] += d * gain[i] * x;
        if (b.writes) {
            n.activations[l.d_bias[place] + (size_t)b.t * padded(l.size) + i] = d;
            n.activations[l.d_gain[place] + (size_t)b.t * padded(l.size) + i] = d * x;
        }
        if (l.ages)
            b.d[i] = normalization_unit_backward(d, gain[i], scale.rstd);
    }
    if (l.ages)
        return;
    block_sums(sums, scratch);
    float mean = l.centred ? sums[0] / (float)l.size : 0.0f, product = sums[1] / (float)l.size;
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x)
        b.d[i] = normalization_group_backward(b.d[i], gain[i], normalized(values[i], scale), mean,
                                              product, scale.rstd);
}

/* Sets d, for a cell that finishes, to the gradient of its inner value through h. Also computes
   that of the finished gate. */
template <enum cell C>
DEVICE void finish_backward(const struct network &n, uint32_t k, const struct layer_backward &b,
                            float *scratch) {
    constexpr uint32_t gate = shape_of<C>::finished_gate;
    const struct network_layer &l = n.layers[k];
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x) {
        const struct cell_unit u = unit_after<C>(n, l, b, i);
        struct cell_gradient g = {};
        cell_finish_backward(C, &u, hidden_gradient(n, k, b, i), &g);
        b.d[gate * l.size + i] = g.gate[gate];
        b.d[i] = g.inner;
    }
    if (l.source != SOURCE_NOTHING)
        vector_norm_backward(n, l, b, PLACE_INNER, b.at.inner, scratch);
}

/* Sets d to the gradients of the gates' sums after their norms; with `own` one row more. */
template <enum cell C>
DEVICE void units_backward(const struct network &n, uint32_t k, const struct layer_backward &b,
                           float *scratch) {
    typedef struct shape_of<C> shape;
    static_assert(!shape::finishes || shape::finished_gate > 0, "row 0 is still in use");
    const struct network_layer &l = n.layers[k];
    uint32_t size = l.size;
    if (shape::finishes)
        finish_backward<C>(n, k, b, scratch);
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        const struct cell_unit u = unit_after<C>(n, l, b, i);
        struct cell_gradient g = {};
        float d = shape::finishes ? b.d[i] + (b.last ? 0.0f : carry_of(n, l, b.t + 1)[i])
                                  : hidden_gradient(n, k, b, i);
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
DEVICE float *states_of(const struct network &n, const struct network_layer &l, uint32_t t) {
    return n.activations + l.carry + (size_t)(t % 2) * l.states * (l.size / l.outputs);
}

/* The gradients of a unit's recurrent weights and biases, and of its h before, from those of its
   gates. */
template <enum cell C>
DEVICE float weights_backward(const struct network &n, const struct network_layer &l,
                              const struct layer_backward &b, const struct cell_gradient &g,
                              float h, uint32_t i) {
    typedef struct shape_of<C> shape;
    const float *weight = n.parameters + l.weight_hh;
    float d_h = 0;
#pragma unroll
    for (uint32_t gate = 0; gate < shape::gates; gate++) {
        uint32_t row = gate * l.size + i;
        size_t at = (size_t)b.t * padded(l.rows) + row;
        float d = shape::own && gate + 1 == shape::gates ? g.own : g.gate[gate];
        n.activations[l.d_hh + at] = d;
        n.activations[l.d_weight + at] = d * h;
        d_h += d * weight[row];
    }
    return d_h;
}

/* Sets d to the gradients of the gates' sums. Only the block that writes has those of the states
   before. */
template <enum cell C>
DEVICE void columns_backward(const struct network &n, uint32_t k, const struct layer_backward &b,
                             float *scratch) {
    typedef struct shape_of<C> shape;
    const struct network_layer &l = n.layers[k];
    uint32_t size = l.size / shape::outputs;
    const float *next = states_of(n, l, b.t + 1);
    float *before = states_of(n, l, b.t);
    for (uint32_t i = threadIdx.x; i < l.size; i += blockDim.x)
        b.d[i] = hidden_gradient(n, k, b, i);
    if (l.normalized)
        vector_norm_backward(n, l, b, PLACE_IH, b.at.raw, scratch);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        const struct cell_unit u = unit_after<C>(n, l, b, i);
        struct cell_gradient g = {};
        float d = b.d[i] + (b.last ? 0.0f : next[i]);
        if (shape::states > 1)
            g.inner = b.last ? 0.0f : next[size + i];
        if (shape::outputs > 1)
            g.inner += b.d[size + i];
        if (shape::finishes) {
            float carried = g.inner;
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
            n.activations[l.d_weight + ((size_t)p * n.window + b.t) * padded(size) + i] =
                g.parameter[p];
    }
}

template <enum cell C>
DEVICE void cell_backward_at(const struct network &n, uint32_t k, const struct layer_backward &b,
                             float *scratch) {
    if constexpr (shape_of<C>::states > 0)
        if (n.layers[k].columns) {
            columns_backward<C>(n, k, b, scratch);
            return;
        }
    if constexpr (!shape_of<C>::columns)
        units_backward<C>(n, k, b, scratch);
}

/* ---- Through the normalizations of the sums ---- */

DEVICE float behind_gains(const struct network_layer &l, const struct layer_backward &b,
                          bool recurrent, uint32_t row) {
    bool own = l.own && recurrent && row >= l.rows - l.size;
    return b.d[own ? row + l.size : row];
}

DEVICE float sum_normalized(const struct network &n, const struct network_layer &l,
                            const struct layer_backward &b, bool recurrent, uint32_t row) {
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

DEVICE struct norm_means norm_means(const struct network &n, const struct network_layer &l,
                                    const struct layer_backward &b, float *scratch) {
    struct norm_means m = {};
    float sums[4 * GROUPS] = {};
#pragma unroll
    for (uint32_t k = 0; k < 2 * GROUPS; k++) {
        bool recurrent = k >= GROUPS;
        uint32_t first, end;
        group_bounds(l, k % GROUPS, &first, &end);
        for (uint32_t row = first + threadIdx.x; row < end && (l.apart || !recurrent);
             row += blockDim.x) {
            float gain = n.parameters[l.gain[recurrent ? PLACE_HH : PLACE_IH] + row];
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
DEVICE float sum_gradient(const struct network &n, const struct network_layer &l,
                          const struct layer_backward &b, const struct norm_means &m,
                          bool recurrent, uint32_t row) {
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
    float gain = n.parameters[l.gain[place] + row];
    if (l.ages)
        return normalization_unit_backward(d, gain,
                                           unit_scale(n, l, place, b.before.age, row).rstd);
    struct scale scale = scale_of(b.at, place * GROUPS + second);
    return normalization_group_backward(d, gain, sum_normalized(n, l, b, of_hh, row), mean, product,
                                        scale.rstd);
}

/* ---- Stored for the gradients of the weights ---- */

/* Those of a strip's rows: d (end - first,) in shared memory has the gradients of its sums. */
DEVICE void keep_rows(const struct network &n, const struct network_layer &l,
                      const struct layer_backward &b, const struct strip &s, const float *d) {
    bool recurrent = s.matrix == MATRIX_HH;
    uint32_t place = recurrent ? PLACE_HH : PLACE_IH;
    float *kept = n.activations + (recurrent ? l.d_hh : l.d_ih) + (size_t)b.t * padded(l.rows);
    for (uint32_t row = s.first + threadIdx.x; row < s.end; row += blockDim.x) {
        kept[row] = d[row - s.first];
        if (l.source == SOURCE_NOTHING || (recurrent && !l.apart))
            continue;
        size_t at = (size_t)b.t * padded(l.rows) + row;
        float after = behind_gains(l, b, recurrent, row);
        n.activations[l.d_bias[place] + at] = after;
        n.activations[l.d_gain[place] + at] = after * sum_normalized(n, l, b, recurrent, row);
    }
}

/* The inputs of the weights at this step: x, and h before it. */
static __device__ void keep_vectors(const struct network &n, uint32_t k,
                                    const struct layer_backward &b, const float *slot) {
    const struct network_layer &l = n.layers[k];
    float *input = n.activations + l.input + (size_t)b.t * l.ld_ih;
    float *before = n.activations + l.before + (size_t)b.t * l.ld_hh;
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
                ((uint32_t *)(n.activations + n.ids))[b.t] = id;
            if (!n.embedding_size)
                return;
            x = n.parameters + n.embedding + (size_t)id * n.ld_embedding;
        }
    }
    for (uint32_t i = threadIdx.x; i < l.ld_ih; i += blockDim.x)
        input[i] = i < l.inputs ? x[i] : 0.0f;
}

/* ---- A wave ---- */

DEVICE struct layer_backward backward_at(const struct network &n, uint32_t k, uint32_t t,
                                         const float *slot) {
    const struct network_layer &l = n.layers[k];
    const struct segment *s = n.current;
    const float *state = slot + n.slot.before + (size_t)s->window * n.slot.state + l.state;
    struct layer_backward b;
    b.t = t;
    b.position = ring_position(n, s->window, t);
    b.at = layer_at(n, l, b.position);
    b.before = carried_of(n, l, s->window, t, state);
    b.d = shared_memory + WORKSPACE;
    b.last = t + 1 == s->length;
    b.writes = l.ih.first >= n.own && l.ih.first < n.own_end;
    return b;
}

/* Floats of a layer's gradients after the gains. */
BOTH uint32_t gradient_rows(const struct network_layer &l) {
    return padded(l.rows + l.own * l.size);
}

/* The sums of all units of a layer at a step; each block with a strip of it computes them. */
DEVICE struct norm_means layer_gradients(const struct network &n, uint32_t k,
                                         const struct layer_backward &b) {
    const struct network_layer &l = n.layers[k];
    switch (l.cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    cell_backward_at<CELL_##name>(n, k, b, shared_memory);                                         \
    break;
#include "kinds.def"
    }
    __syncthreads();
    struct norm_means m = {};
    if (l.source == SOURCE_GROUP)
        m = norm_means(n, l, b, shared_memory);
    return m;
}

/* A strip's gradients, and their product with its weights: the gradient of its vector. */
DEVICE void strip_gradients(const struct network &n, const struct layer_backward &b,
                            const struct norm_means &m, const struct strip &s, uint32_t at) {
    const struct network_layer &l = n.layers[s.layer];
    bool recurrent = s.matrix == MATRIX_HH;
    float *d = b.d + gradient_rows(l);
    __syncthreads(); /* the previous strip's may still be read */
    for (uint32_t row = s.first + threadIdx.x; row < s.end; row += blockDim.x)
        d[row - s.first] = sum_gradient(n, l, b, m, recurrent, row);
    __syncthreads();
    keep_rows(n, l, b, s, d);
    if (recurrent ? b.t == 0 : !l.input_gradient)
        return;
    struct transposed p;
    p.ld = p.columns = recurrent ? l.ld_hh : l.ld_ih;
    p.weight = strip_numbers(n, s, at, 0);
    p.d = d;
    p.sums = d + STRIP_ROWS_MAX;
    p.rows = s.end - s.first;
    p.out = kept_partials(n, l, recurrent, b.t) + (size_t)s.number * p.ld;
    p.inbox = n.inbox && (recurrent || s.layer)
                  ? inbox_partials(n, l, recurrent, b.t) + (size_t)s.number * p.ld
                  : (float *)NULL;
    p.blocks = n.team.size;
    multiply_transposed(p);
}

/* The step of a layer in a backward wave; at least the window's length: none. */
DEVICE uint32_t step_of(const struct network &n, uint32_t k) {
    uint32_t late = n.layer_count - 1 - k;
    return n.wave < late ? NONE : n.current->length - 1 - (n.wave - late);
}

/* The block's strips in a wave; those of one layer are neighbours. */
PHASE void backward_wave() {
    const struct network &n = block_network();
    const float *slot = slot_of(n);
    struct layer_backward b = {};
    struct norm_means m = {};
    uint32_t made = NONE;
    for (uint32_t i = n.own; i < n.own_end; i++) {
        const struct strip s = n.strips[i];
        uint32_t k = s.layer, t = step_of(n, k);
        if (s.matrix == MATRIX_OUTPUT || t >= n.current->length)
            continue;
        if (made != k) {
            __syncthreads(); /* the previous layer's may still be read */
            b = backward_at(n, k, t, slot);
            m = layer_gradients(n, k, b);
            if (b.writes)
                keep_vectors(n, k, b, slot);
            made = k;
        }
        strip_gradients(n, b, m, s, i);
    }
}

/* Adds up the strips' sums that partial_count counts as one, by the warps of all blocks. */
PHASE void join_wave() {
    const struct network &n = block_network();
    uint32_t size = n.team.size, first = 0;
    for (uint32_t i = 1; i < 2 * n.layer_count; i++) { /* not the inputs of layer 0 */
        const struct network_layer &l = n.layers[i / 2];
        bool recurrent = i % 2;
        uint32_t t = step_of(n, i / 2), count = recurrent ? l.hh.count : l.ih.count;
        uint32_t ld = recurrent ? l.ld_hh : l.ld_ih, groups = (ld + LANES - 1) / LANES;
        if (t >= n.current->length || (recurrent && t == 0) ||
            partial_count(n, l, recurrent) == count)
            continue;
        float *sums = kept_partials(n, l, recurrent, t);
        uint32_t group = (n.team.rank + size - first % size) % size + warp_index() * size;
        for (; group < groups; group += size * (blockDim.x / LANES)) {
            uint32_t column = group * LANES + lane_index();
            if (column < ld)
                sums[column] = joined(sums, count, ld, column);
        }
        first += groups;
    }
}

DEVICE bool has_join(const struct network &n) {
    bool any = false;
    for (uint32_t i = 1; i < 2 * n.layer_count; i++) {
        const struct network_layer &l = n.layers[i / 2];
        any |= partial_count(n, l, i % 2) < (i % 2 ? l.hh.count : l.ih.count);
    }
    return any;
}

DEVICE void backward(const struct network &n) {
    begin_waves(n);
    for (; n.wave + 1 < n.current->length + n.layer_count; end_wave(n)) {
        backward_wave();
        if (n.joins) {
            team_sync();
            join_wave();
        }
    }
}

/* ---- The output ---- */

/* Losses and gradients of the window's targets, a step a block, and the optimizer's numbers.
   Gradients are divided by the number of targets, since the loss is their mean. */
PHASE void window_loss() {
    const struct network &n = block_network();
    const struct segment *s = n.current;
    const float *slot = slot_of(n);
    if (n.team.rank == s->length % n.team.size && threadIdx.x == 0)
        n.state->numbers =
            optimizer_prepare(&n.queue->optimizer, n.queue->rate, n.state->updates + 1);
    for (uint32_t t = n.team.rank; t < s->length; t += n.team.size) {
        uint32_t position = ring_position(n, s->window, t);
        float *d = n.activations + n.d_output + (size_t)t * padded(n.outputs);
        double loss = 0;
        for (uint32_t h = 0; h < n.horizons; h++, d += n.scored) {
            size_t target = (size_t)position * n.horizons + h;
            if (t + s->closed >= s->length && slot[n.slot.learned + target] > 0) {
                struct loss_step step;
                step.a = n.activations + n.output + (size_t)position * n.outputs + h * n.scored;
                step.y = (const union value *)(slot + n.slot.target) + target * n.slot.target_size;
                step.scale = (double)(1.0f / (float)s->terms);
                step.d = d;
                loss += block_loss(step) / (double)s->terms;
            } else {
                for (uint32_t k = threadIdx.x; k < n.scored; k += blockDim.x)
                    d[k] = 0;
            }
        }
        if (threadIdx.x == 0)
            n.losses[t] = loss;
    }
}

/* Stores the inputs of the output at step t. */
DEVICE void keep_top(const struct network &n, uint32_t t) {
    const struct network_layer &top = n.layers[n.layer_count - 1];
    uint32_t position = ring_position(n, n.current->window, t), ld = n.ld_output,
             end = n.skip_from ? n.skip_from : ld;
    const float *h = layer_at(n, top, position).hidden;
    const float *x = input_at(n, slot_of(n), position);
    float *kept = n.activations + n.top + (size_t)t * ld;
    for (uint32_t i = threadIdx.x; i < ld; i += blockDim.x)
        kept[i] = i >= end ? x[i - end] : i < top.size ? h[i] : 0.0f;
}

/* Gradient of the topmost h of each step, and of an embedded input that the skip path reads:
   steps and strips are dealt to the blocks. */
PHASE void output_backward() {
    const struct network &n = block_network();
    uint32_t ld = n.ld_output;
    float *d = shared_memory + WORKSPACE;
    for (uint32_t item = n.team.rank; item < n.current->length * n.out.count; item += n.team.size) {
        uint32_t t = item / n.out.count;
        uint32_t index = n.out.first + item % n.out.count;
        const struct strip s = n.strips[index];
        const float *from = n.activations + n.d_output + (size_t)t * padded(n.outputs) + s.first;
        __syncthreads();
        for (uint32_t k = threadIdx.x; k < s.end - s.first; k += blockDim.x)
            d[k] = from[k];
        __syncthreads();
        struct transposed p;
        p.ld = ld;
        p.columns = gradient_columns(n);
        p.weight = strip_numbers(n, s, index, 0);
        p.d = d;
        p.sums = d + STRIP_ROWS_MAX;
        p.rows = s.end - s.first;
        p.out = n.activations + n.out.partial + ((size_t)t * n.out.count + s.number) * ld;
        p.inbox = NULL;
        p.blocks = 0;
        multiply_transposed(p);
        if (s.number == 0)
            keep_top(n, t);
    }
}

/* Adds up the strips' sums of the output, in the place of the first: there may be thousands, and
   every block reads the result. */
PHASE void join_output() {
    const struct network &n = block_network();
    uint32_t columns = gradient_columns(n), stride = n.team.size * blockDim.x;
    for (uint32_t i = n.team.rank * blockDim.x + threadIdx.x; i < n.current->length * columns;
         i += stride) {
        float *sums =
            n.activations + n.out.partial + (size_t)(i / columns) * n.out.count * n.ld_output;
        sums[i % columns] = joined(sums, n.out.count, n.ld_output, i % columns);
    }
}

/* The shared memory of backward, in floats. */
static inline size_t backward_shared(const struct network *n) {
    size_t most = 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        size_t floats = gradient_rows(n->layers[k]);
        most = floats > most ? floats : most;
    }
    return most + STRIP_ROWS_MAX + TRANSPOSED_SUMS;
}

#endif
