/* The input of layer 0 and the skip path if x is not a row of numbers: a symbol's embedding,
   encoded columns with symbols (model.part_count), or a symbol that may be negated.

   Such an x is encoded into a table after the tensors in the block of parameters, with one row
   per position of the ring. A slot's row of input begins with that position, in the place of a
   symbol, followed by x. So all other code treats x as an embedded symbol, and does not handle
   columns. Like the activations, the table holds one slot's steps at a time. */
#ifndef RUNNEL_CUDA_INPUTS_CUH
#define RUNNEL_CUDA_INPUTS_CUH

#include "formulas.h"
#include "network.cuh"

/* ---- Forward ---- */

DEVICE float sign_of(union value symbol) {
    return symbol.id & SYMBOL_MINUS ? -1.0f : 1.0f;
}

DEVICE uint32_t id_of(union value symbol) {
    return symbol.id & ~SYMBOL_MINUS;
}

/* The row of input of the current segment's slot: its place in the table, then x. */
DEVICE union value *row_of(const struct network &n, uint32_t position) {
    float *rows = slot_of(n) + n.slot.input;
    return (union value *)(rows + (size_t)position * n.slot.input_row);
}

/* One part of a step: plain numbers, one-hot, or a row of an embedding; also stores x. */
DEVICE void encode_part(const struct network &n, enum steps_of of, uint32_t t, uint32_t number) {
    const struct segment *s = n.current;
    const struct encoded_part p = n.encoding.parts[number];
    bool run = of == STEPS_OF_RUN;
    uint32_t position = ring_position(n, run ? s->position : s->window, t);
    union value *row = row_of(n, position), *kept = row + 1 + p.from;
    const union value *x = kept;
    if (run)
        x = n.queue->inputs + (size_t)n.queue->steps[s->first + t].input * n.encoding.features +
            p.from;
    float *encoded = n.parameters + n.embedding + (size_t)position * n.ld_embedding + p.at;
    if (number == 0 && threadIdx.x == 0)
        row->id = position;
    for (uint32_t i = threadIdx.x; i < p.width && !p.size; i += blockDim.x)
        kept[i].real = encoded[i] = formula_bounded(x[i].real);
    if (!p.size)
        return;
    const union value symbol = *x;
    const float *weight = n.parameters + p.weight + (size_t)id_of(symbol) * p.ld;
    float sign = sign_of(symbol);
    for (uint32_t i = threadIdx.x; i < p.width; i += blockDim.x)
        encoded[i] = p.ld ? sign * weight[i] : i == id_of(symbol) ? sign : 0.0f;
    if (run && threadIdx.x == 0)
        *kept = symbol;
}

/* Before a forward: encodes its steps with the current embeddings, those of a run from the plan's
   inputs, which the slot stores. Steps and parts are dealt to the blocks. */
PHASE void encode(enum steps_of of) {
    const struct network &n = block_network();
    uint32_t steps = step_count(n, of);
    for (uint32_t i = n.team.rank; i < steps * n.encoding.count; i += n.team.size)
        encode_part(n, of, i / n.encoding.count, i % n.encoding.count);
}

/* ---- Backward ---- */

/* Gradient of number i of the encoded input of step t. */
DEVICE float input_gradient(const struct network &n, uint32_t t, uint32_t i) {
    const struct network_layer &l = n.layers[0];
    float d = joined(kept_partials(n, l, false, t), l.ih.count, l.ld_ih, i);
    if (n.skip_from)
        d += output_joined(n, t, n.skip_from + i);
    return d;
}

DEVICE void embedding_backward(const struct network &n, uint32_t t) {
    float *d = n.activations + n.d_embedding + (size_t)t * n.ld_embedding;
    for (uint32_t i = threadIdx.x; i < n.ld_embedding; i += blockDim.x)
        d[i] = i < n.embedding_size ? input_gradient(n, t, i) : 0.0f;
}

/* A negated row has the negated gradient. */
DEVICE void part_backward(const struct network &n, uint32_t t, const struct encoded_part &p) {
    if (!p.ld)
        return;
    const union value symbol = row_of(n, ring_position(n, n.current->window, t))[1 + p.from];
    float *d = n.activations + p.d + (size_t)t * p.ld, sign = sign_of(symbol);
    if (threadIdx.x == 0)
        ((uint32_t *)(n.activations + p.ids))[t] = id_of(symbol);
    for (uint32_t i = threadIdx.x; i < p.ld; i += blockDim.x)
        d[i] = i < p.width ? sign * input_gradient(n, t, p.at + i) : 0.0f;
}

/* After backward: the gradient of each step's embedded inputs. */
PHASE void inputs_backward() {
    const struct network &n = block_network();
    uint32_t parts = n.encoding.count ? n.encoding.count : 1;
    for (uint32_t i = n.team.rank; i < n.current->length * parts; i += n.team.size)
        if (n.encoding.count)
            part_backward(n, i / parts, n.encoding.parts[i % parts]);
        else
            embedding_backward(n, i);
}

DEVICE bool has_inputs_backward(const struct network &n) {
    return n.encoding.count ? n.encoding.learned : n.embedding_size > 0;
}

#endif
