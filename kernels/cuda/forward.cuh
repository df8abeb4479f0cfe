/* Forward over a run of steps, or over a window again: in wave w layer k is at step w - k, so that
   each wave needs only results of the previous one. */
#ifndef RUNNEL_CUDA_FORWARD_CUH
#define RUNNEL_CUDA_FORWARD_CUH

#include "cells.cuh"
#include "product.cuh"

/* The steps of a forward. */
struct walk {
    float *slot;
    const float *state; /* (S,) before the first step */
    uint32_t first;     /* position of the first step */
    uint32_t steps, outputs_from;
};

DEVICE struct walk walk_of(const struct network &n, enum steps_of of) {
    const struct segment *s = n.current;
    struct walk w;
    w.slot = slot_of(n);
    w.first = of == STEPS_OF_RUN ? s->position : s->window;
    w.steps = step_count(n, of);
    w.outputs_from = of == STEPS_OF_RUN ? 0 : s->length - s->closed;
    w.state = w.slot + n.slot.before + (size_t)w.first * n.slot.state;
    return w;
}

/* The x of layer 0 at step t; unused for a one-hot symbol. */
DEVICE const float *input_of(const struct network &n, const struct walk &w, uint32_t t) {
    return input_at(n, w.slot, ring_position(n, w.first, t));
}

DEVICE uint32_t symbol_of(const struct network &n, const struct walk &w, uint32_t t) {
    const float *x = w.slot + n.slot.input + ring_position(n, w.first, t);
    return ((const union value *)x)->id;
}

/* The vector that a strip is multiplied with: the h of a layer at a step, that before the run if
   the step is -1, or the input of step `t` if the layer is -1. */
struct vector {
    int layer, step;
    uint32_t t; /* the strip's step */
};

/* Whether the strip has work in a wave, and its vector. A strip of the output has it without an
   output, too: see `keeps`. */
DEVICE bool vector_of(const struct network &n, const struct walk &w, const struct strip &s,
                      uint32_t wave, struct vector *v) {
    uint32_t k = s.matrix == MATRIX_OUTPUT ? n.layer_count : s.layer;
    v->t = wave - k;
    v->layer = s.matrix == MATRIX_HH ? (int)k : (int)k - 1;
    v->step = s.matrix == MATRIX_HH ? (int)v->t - 1 : (int)v->t;
    return v->t < w.steps; /* false also before its first step, since t is unsigned */
}

/* Whether this block stores a layer's data for backward: it has the first strip that reads h. */
DEVICE bool keeps(const struct network &n, int layer) {
    uint32_t first =
        (uint32_t)layer + 1 < n.layer_count ? n.layers[layer + 1].ih.first : n.out.first;
    return first >= n.own && first < n.own_end;
}

/* x in shared memory, and padded: for the output followed by layer 0's x for the skip path. Bits
   must not depend on the position of a step in its run, so this has the only call of `activate` in
   the kernel. */
PHASE const float *make_vector(enum steps_of of, struct vector v) {
    const struct network &n = block_network();
    const struct walk w = walk_of(n, of);
    float *x = shared_memory + WORKSPACE;
    const float *given = NULL;
    bool top = v.layer + 1 == (int)n.layer_count;
    uint32_t count, ld = v.layer < 0 ? n.layers[0].ld_ih
                         : top       ? n.ld_output
                                     : n.layers[v.layer + 1].ld_ih;
    if (v.layer < 0) {
        given = input_of(n, w, v.t);
        count = ld;
        if (ld > WIDE_VECTOR)
            return given;
    } else {
        const struct network_layer &l = n.layers[v.layer];
        count = l.size;
        if (v.step < 0)
            given = w.state + l.state;
        else
            activate(n, l, w.first, (uint32_t)v.step, w.state + l.state, keeps(n, v.layer), x, ld,
                     shared_memory);
    }
    for (uint32_t i = threadIdx.x; given && i < ld; i += blockDim.x)
        x[i] = i < count ? given[i] : 0.0f;
    if (top && n.skip_from && v.step >= 0) {
        const float *input = input_of(n, w, (uint32_t)v.step);
        for (uint32_t i = n.skip_from + threadIdx.x; i < ld; i += blockDim.x)
            x[i] = input[i - n.skip_from];
    }
    __syncthreads();
    return x;
}

DEVICE struct product product_of(const struct network &n, const struct walk &w,
                                 const struct strip &s, uint32_t index, uint32_t t) {
    const struct network_layer &l = n.layers[s.layer];
    uint32_t position = ring_position(n, w.first, t);
    struct product p = {};
    if (n.inbox && s.matrix != MATRIX_OUTPUT)
        p.inbox = inbox_sums(n, l, s.matrix == MATRIX_HH, t) + s.first;
    p.blocks = n.team.size;
    p.weight = strip_numbers(n, s, index, 0);
    switch (s.matrix) {
    case MATRIX_IH:
        p.bias = n.parameters + l.bias_ih + s.first;
        p.ld = l.ld_ih;
        p.out = n.activations + l.sum_ih + (size_t)position * l.rows + s.first;
        break;
    case MATRIX_HH:
        p.bias = l.source == SOURCE_NOTHING ? n.parameters + l.bias_hh + s.first : NULL;
        p.ld = l.ld_hh;
        p.out = n.activations + l.sum_hh + (size_t)position * l.rows + s.first;
        break;
    default:
        p.bias = n.parameters + n.output_bias + s.first;
        p.ld = n.ld_output;
        p.out = n.activations + n.output + (size_t)position * n.outputs + s.first;
        if (n.ld_skip && !n.skip_from) {
            p.chosen =
                n.parameters + n.output_skip + (size_t)s.first * n.ld_skip + symbol_of(n, w, t);
            p.ld_chosen = n.ld_skip;
        }
    }
    return p;
}

/* The block's strips in a wave. Neighbours share their vector. Rows of a step are computed by this
   call of `multiply`: see make_vector. */
PHASE void wave(enum steps_of of) {
    const struct network &n = block_network();
    struct vector made = {-2, 0, 0};
    const float *x = NULL;
    for (uint32_t k = n.own; k < n.own_end; k++) {
        const struct strip &s = n.strips[k];
        const struct walk w = walk_of(n, of); /* again for each strip: registers are few */
        struct vector v;
        if (!vector_of(n, w, s, n.wave, &v))
            continue;
        bool column = v.layer < 0 && is_one_hot(n);
        bool wanted = s.matrix != MATRIX_OUTPUT || v.t >= w.outputs_from;
        if (!wanted && !keeps(n, v.layer))
            continue;
        if (!column && (v.layer != made.layer || v.step != made.step)) {
            __syncthreads(); /* the previous vector may still be read */
            x = make_vector(of, v);
            made = v;
        }
        struct product p = product_of(n, walk_of(n, of), s, k, v.t);
        p.x = x;
        if (column)
            copy_column(p, s.end - s.first, symbol_of(n, walk_of(n, of), v.t));
        else if (wanted)
            multiply(p, s.end - s.first);
    }
}

DEVICE void forward(const struct network &n, enum steps_of of) {
    begin_waves(n);
    for (; n.wave < step_count(n, of) + n.layer_count; end_wave(n))
        wave(of);
}

/* Outputs of the learned steps from their stored h, since the output was solved again. Bits are
   those of a wave's product. */
PHASE void solved_outputs() {
    const struct network &n = block_network();
    const struct network_layer &top = n.layers[n.layer_count - 1];
    const struct walk w = walk_of(n, STEPS_OF_WINDOW);
    float *x = shared_memory + WORKSPACE;
    for (uint32_t item = n.team.rank; item < w.steps * n.out.count; item += n.team.size) {
        uint32_t t = item / n.out.count;
        uint32_t index = n.out.first + item % n.out.count;
        const struct strip s = n.strips[index];
        if (t < w.outputs_from)
            continue;
        const float *h = layer_at(n, top, ring_position(n, w.first, t)).hidden;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < n.ld_output; i += blockDim.x)
            x[i] = n.skip_from && i >= n.skip_from ? input_of(n, w, t)[i - n.skip_from]
                   : i < top.size                  ? h[i]
                                                   : 0.0f;
        __syncthreads();
        struct product p = product_of(n, w, s, index, t);
        p.x = x;
        multiply(p, s.end - s.first);
    }
}

/* The largest vector, twice if its layer finishes, in floats. */
static inline size_t forward_shared(const struct network *n) {
    size_t most = n->layers[0].ld_ih <= WIDE_VECTOR && !is_one_hot(*n) ? n->layers[0].ld_ih : 0;
    for (uint32_t k = 0; k < n->layer_count; k++) {
        size_t ld = k + 1 < n->layer_count ? n->layers[k + 1].ld_ih : n->ld_output;
        ld *= 1 + n->layers[k].finishes;
        most = ld > most ? ld : most;
    }
    return most;
}

#endif
