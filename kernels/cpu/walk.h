/* The parts of the passes through a network, forward (network.c) and backward
   (network_backward.c), that learning rules combine: a step's inputs and states before it, and
   the gradient layer by layer. For the files that are compiled once per instruction set. */
#ifndef RUNNEL_CPU_WALK_H
#define RUNNEL_CPU_WALK_H

#include <string.h>

#include "network.h"

/* x of step t for layer k: the example's own, its symbol's embedding, or the output of the layer
   below. NULL for a one-hot symbol. */
static inline const float *layer_input(const struct network *n, const struct network_steps *steps,
                                       size_t k, size_t t) {
    if (k > 0) {
        const struct network_layer *below = &n->layers[k - 1];
        return below->output + network_position(n, steps->first, t) * below->wide;
    }
    switch (n->form) {
    case FORM_NUMBERS:
        return &steps->inputs[t]->real;
    case FORM_EMBEDDED:
        return n->parameters + n->at[TENSOR_EMBEDDING] + steps->inputs[t]->id * n->inputs;
    case FORM_ENCODED:
        return n->encoded + network_position(n, steps->first, t) * n->inputs;
    case FORM_ONE_HOT:
        break;
    }
    return NULL;
}

static inline bool is_one_hot(const struct network *n, size_t k) {
    return k == 0 && n->form == FORM_ONE_HOT;
}

/* Layer k's x at step t as one row for its matrix; and whether it is a symbol's column. */
static inline const float *layer_row(const struct network *n, const struct network_steps *steps,
                                     size_t k, size_t t) {
    const struct network_layer *l = &n->layers[k];
    return l->gathered ? network_gathered(l, network_position(n, steps->first, t))
                       : layer_input(n, steps, k, t);
}

static inline bool is_column(const struct network *n, size_t k) {
    return is_one_hot(n, k) && !n->layers[k].gathered;
}

/* The sign of a symbol's row. */
static inline float symbol_sign(union value symbol) {
    return symbol.id & SYMBOL_MINUS ? -1.0f : 1.0f;
}

static inline size_t symbol_id(union value symbol) {
    return symbol.id & ~SYMBOL_MINUS;
}

/* A part of a step's input: its numbers, a row of a table, or without `rows` one-hot. */
static inline void encode_part(const struct input_part *part, const float *rows,
                               const union value *x, float *encoded) {
    float *restrict out = encoded + part->at, sign = symbol_sign(x[part->from]);
    size_t id = symbol_id(x[part->from]);
    if (!part->size) {
        memcpy(out, x + part->from, part->width * sizeof *out);
    } else if (!rows) {
        memset(out, 0, part->width * sizeof *out);
        out[id] = sign;
    } else {
        for (size_t i = 0; i < part->width; i++)
            out[i] = sign * rows[id * part->width + i];
    }
}

/* Adds to the rows of a table (size, width) the gradient d (count, padded) of its part. */
static inline void add_to_rows(const struct network_steps *steps, size_t from, size_t width,
                               const float *d, size_t padded, float *gradient) {
    for (size_t t = 0; t < steps->count; t++) {
        const union value symbol = steps->inputs[t][from];
        float *row = gradient + symbol_id(symbol) * width, sign = symbol_sign(symbol);
        for (size_t i = 0; i < width; i++)
            row[i] += sign * d[t * padded + i];
    }
}

/* The state before step t of a run: the run's own for the first, else that of the previous step. */
static inline const float *hidden_before(const struct network *n, const struct network_layer *l,
                                         const struct network_steps *steps, size_t t) {
    return t ? l->hidden + network_position(n, steps->first, t - 1) * l->padded
             : steps->state + l->state;
}

static inline const float *inner_before(const struct network *n, const struct network_layer *l,
                                        const struct network_steps *steps, size_t t) {
    return t ? l->inner + network_position(n, steps->first, t - 1) * l->padded
             : steps->state + l->state + l->padded;
}

static inline bool has_embeddings(const struct network *n) {
    return n->model->architecture.input.embedding || n->model->embeddings;
}

/* out (length,) += sum of the rows of d (count, length) */
static inline void add_rows(const float *restrict d, size_t length, size_t count,
                            float *restrict out) {
    for (size_t t = 0; t < count; t++, d += length) {
#pragma omp simd aligned(d, out : 64)
        for (size_t i = 0; i < length; i++)
            out[i] += d[i];
    }
}

/* ---- Data of learning rules ---- */

/* Numbers of matrices in a row, and the index in it of number `i` of the block of parameters. */
static inline size_t kept_matrices(const struct network *n) {
    return n->kept.matrices.end - n->kept.matrices.from;
}

static inline size_t kept_column(const struct network *n, size_t i) {
    return i < n->vectors ? i - n->kept.matrices.from : kept_matrices(n) + i - n->kept.vectors.from;
}

/* ---- Backward over a window, from the top down ----

   n->d_hidden[0] (count, wide) is the gradient of a layer's output at each step; n->d_output,
   n->d_ih and n->d_hh are those of sums; n->d_hidden[1] is scratch. */

/* Gradients of the output's tensors, unless it is solved, and n->d_hidden[0] of the last layer,
   from n->d_output (steps from `from` on). Returns the matrices' squares. */
double output_backward(struct network *n, const struct network_steps *steps, size_t from);
/* The same after the losses of the targets. Returns also the mean loss. */
struct network_gradient backward_output(struct network *n, const struct network_steps *steps,
                                        const struct network_targets *targets);

/* Computes n->d_ih and n->d_hh (count, rows) from n->d_hidden[0], back through time; adds to the
   gradients of gains and norms' biases. */
void backward_cells(struct network *n, const struct network_steps *steps, size_t k);

/* Writes the gradients of a layer's matrices, and adds to those of the biases in its sums.
   Returns the matrices' squares. */
double backward_weights(struct network *n, const struct network_steps *steps, size_t k);

/* The gradient of layer k's input becomes n->d_hidden[0] (count, padded). */
void backward_input(struct network *n, size_t k, size_t count, size_t padded);

/* d (count, padded) += the gradient of the embeddings that the skip path reads. Overwrites
   n->d_hidden[1]. */
void backward_skip(struct network *n, size_t count, size_t padded, float *d);

/* Adds each step's gradient d (count, padded) of the encoded input to its symbols' rows. */
void backward_embedded(struct network *n, const struct network_steps *steps, const float *d,
                       size_t padded);

/* Writes the gradients of embeddings from the gradients of the first layer's sums. Steps from
   `from` on add the gradients of the output's sums. Returns their squares. */
double backward_embeddings(struct network *n, const struct network_steps *steps, size_t from);

#endif
