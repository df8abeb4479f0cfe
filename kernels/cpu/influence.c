/* A rule that keeps the influence J of parameters on states (kernels/rules/rtrl.h). For one step of
   each layer:

     J = dh/dp, rows of h and of an inner state: D J' + B X + I

   J' is that of the previous step, D the layer's derivatives by its own previous states, B those
   by its inputs, and I those by its own parameters. X is the influence on its inputs: J of the
   layer below, its product with a dense layer's derivatives, or the rows of an embedding's
   table. A row of D, B and I is the layer's backward step from one unit. D J' dominates:
   (states)^2 products for each parameter, bound by arithmetic. */
#include <string.h>

#include "formulas.h"
#include "matrix.h"
#include "slot.h"
#include "split.h"
#include "vector.h"
#include "walk.h"

enum {
    VECTORS = 2, /* of a tile */
    TILE = VECTORS * LANES,
    ROWS = 4, /* rows of a product that are computed together */
};

/* One step of one layer. */
struct local {
    struct network *n;
    const struct network_layer *l;
    size_t k;
    const struct network_steps *one; /* the step as a run */
    size_t rows;        /* rows of J: units and inner states; for a dense layer units */
    float *out;         /* (rows, kept.row) J */
    const float *below; /* (inputs, kept.row) X, or NULL */
};

/* ---- Products ---- */

/* out (count, stride) += a (count, depth) x (depth, TILE), for a tile of `vectors` */
INLINE void product_rows(const float *a, size_t depth, const float *x, float *out, size_t stride,
                         const int count, const int vectors) {
    vector sum[ROWS][VECTORS];
    for (int i = 0; i < count; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = vector_load(out + (size_t)i * stride + v * LANES);
    for (size_t j = 0; j < depth; j++)
        for (int v = 0; v < vectors; v++) {
            vector part = vector_hold(vector_load(x + j * TILE + v * LANES));
            for (int i = 0; i < count; i++)
                sum[i][v] += part * vector_broadcast(a[(size_t)i * depth + j]);
        }
    for (int i = 0; i < count; i++)
        for (int v = 0; v < vectors; v++)
            vector_store(out + (size_t)i * stride + v * LANES, sum[i][v]);
}

INLINE void product_tile(const float *a, size_t rows, size_t depth, const float *x, float *out,
                         size_t stride, const int vectors) {
    size_t i = 0;
    for (; i + ROWS <= rows; i += ROWS)
        product_rows(a + i * depth, depth, x, out + i * stride, stride, ROWS, vectors);
    for (; i < rows; i++)
        product_rows(a + i * depth, depth, x, out + i * stride, stride, 1, vectors);
}

/* out (rows, kept.row) += a (rows, depth) x (depth, kept.row), columns from..end. */
static void add_product(struct network *n, const float *a, size_t rows, size_t depth,
                        const float *x, float *out, size_t from, size_t end) {
    size_t stride = n->kept.row;
    for (size_t c = from; c < end; c += TILE) {
        size_t width = end - c < TILE ? end - c : TILE;
        for (size_t j = 0; j < depth; j++)
            memcpy(n->kept.pack + j * TILE, x + j * stride + c, width * sizeof(float));
        if (width == TILE)
            product_tile(a, rows, depth, n->kept.pack, out + c, stride, VECTORS);
        else
            product_tile(a, rows, depth, n->kept.pack, out + c, stride, 1);
    }
}

/* Columns of tensors up to the layer's own. */
static void add_products(const struct local *s, const float *a, size_t depth, const float *x,
                         bool own) {
    const struct network_layer *l = s->l;
    size_t matrix_end = own ? l->matrices.end : l->matrices.from;
    size_t vector_end = own ? l->vectors.end : l->vectors.from;
    add_product(s->n, a, s->rows, depth, x, s->out, 0, matrix_end - s->n->kept.matrices.from);
    add_product(s->n, a, s->rows, depth, x, s->out, kept_matrices(s->n),
                kept_matrices(s->n) + vector_end - s->n->kept.vectors.from);
}

/* ---- One step of one layer ---- */

/* Row `i` of D, B and I. */
static void derive_row(const struct local *s, size_t i) {
    struct network *n = s->n;
    const struct network_layer *l = s->l;
    float *d = n->kept.d, *row = s->out + i * n->kept.row;
    float *by_state = n->kept.states + i * s->rows, *by_input = n->kept.inputs + i * l->inputs;
    size_t own = l->matrices.end - l->matrices.from, vectors = l->vectors.end - l->vectors.from;
    memset(d, 0, l->padded * sizeof(float));
    memset(n->d_inner, 0, l->padded * sizeof(float));
    *(i < l->size ? d + i : n->d_inner + i - l->size) = 1.0f;
    memset(n->gradient + l->vectors.from, 0, vectors * sizeof(float));
    cell_step_backward(n, l, s->one->first, hidden_before(n, l, s->one, 0),
                       inner_before(n, l, s->one, 0), d, n->d_ih, n->d_hh);
    cell_input_backward(n, l, s->one->first, n->d_ih);
    backward_weights(n, s->one, s->k);
    memset(row, 0, n->kept.row * sizeof(float));
    memcpy(row + kept_column(n, l->matrices.from), n->gradient + l->matrices.from,
           own * sizeof(float));
    memcpy(row + kept_column(n, l->vectors.from), n->gradient + l->vectors.from,
           vectors * sizeof(float));
    if (s->k > 0 || has_embeddings(n))
        split_transposed(n, n->parameters + l->at[TENSOR_WEIGHT_IH], l->rows, l->inputs, n->d_ih,
                         by_input, false);
    if (l->kind->states == 0)
        return;
    split_transposed(n, n->parameters + l->at[TENSOR_WEIGHT_HH], l->rows, l->size, n->d_hh,
                     by_state, false);
    for (size_t j = 0; j < l->size; j++)
        by_state[j] += d[j];
    if (l->kind->states > 1)
        memcpy(by_state + l->size, n->d_inner, l->size * sizeof(float));
}

/* B times the rows of a table (size, width), for the part of the step's input that begins at
   `at`. */
static void add_table(const struct local *s, union value symbol, size_t table, size_t at,
                      size_t width) {
    size_t first = kept_column(s->n, table + symbol_id(symbol) * width);
    for (size_t i = 0; i < s->rows; i++) {
        const float *by_input = s->n->kept.inputs + i * s->l->inputs + at;
        float *row = s->out + i * s->n->kept.row + first;
        for (size_t j = 0; j < width; j++)
            row[j] += symbol_sign(symbol) * by_input[j];
    }
}

static void add_tables(const struct local *s) {
    const struct model *model = s->n->model;
    const union value *x = s->one->inputs[0];
    if (model->architecture.input.embedding && !model->part_count)
        add_table(s, *x, s->n->at[TENSOR_EMBEDDING], 0, model->architecture.input.embedding);
    for (size_t k = 0; k < model->part_count; k++) {
        const struct input_part *part = &model->parts[k];
        if (part->tensor != MODEL_NO_TENSOR)
            add_table(s, x[part->from], s->n->embeddings[k], part->at, part->width);
    }
}

/* to = from, with numbers limited. (count,) */
static void keep(const float *restrict from, size_t count, float *restrict to) {
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        to[i] = formula_finite(from[i]);
}

/* J after the step, `kept`, from J before it. */
static void advance(struct network *n, const struct network_steps *one, float *kept) {
    const float *below = NULL;
    for (size_t k = 0; k < n->kept.layers; k++) {
        const struct network_layer *l = &n->layers[k];
        size_t states = l->kind->states * l->size;
        struct local s = {n, l, k, one, states ? states : l->size, n->kept.rows_of[k % 2], below};
        float *own = kept + l->row * n->kept.row;
        for (size_t i = 0; i < s.rows; i++)
            derive_row(&s, i);
        if (below)
            add_products(&s, n->kept.inputs, l->inputs, below, false);
        else
            add_tables(&s);
        if (states) {
            add_products(&s, n->kept.states, states, own, true);
            keep(s.out, states * n->kept.row, own);
        }
        below = states ? own : s.out;
    }
}

/* ---- The gradient ---- */

/* gradient += sum of d_i J_i over the units of the last recurrent layer, for the columns of one
   range. */
static void add_influence(const struct network *n, const float *d, const float *kept,
                          const struct range *range, float *gradient) {
    enum { BLOCK = 512 }; /* number of columns, which stay in the first cache */
    const struct network_layer *l = &n->layers[n->kept.layers - 1];
    for (size_t from = range->from; from < range->end; from += BLOCK) {
        size_t count = range->end - from < BLOCK ? range->end - from : BLOCK;
        float *restrict out = gradient + from;
        for (size_t i = 0; i < l->size; i++) {
            const float *restrict row = kept + (l->row + i) * n->kept.row + kept_column(n, from);
#pragma omp simd aligned(row, out : 64)
            for (size_t c = 0; c < count; c++)
                out[c] += d[i] * row[c];
        }
    }
}

/* Gradients above the last recurrent layer; n->d_hidden[0] is that of its h. */
static struct network_gradient backward_above(struct network *n, const struct network_steps *steps,
                                              const struct network_targets *targets) {
    const struct range *matrices = &n->kept.matrices;
    memset(n->gradient + n->vectors, 0, (n->trained - n->vectors) * sizeof(float));
    memset(n->gradient + matrices->from, 0, (matrices->end - matrices->from) * sizeof(float));
    struct network_gradient g = backward_output(n, steps, targets);
    for (size_t k = n->layer_count; k-- > n->kept.layers;) {
        backward_cells(n, steps, k);
        backward_weights(n, steps, k);
        backward_input(n, k, steps->count, n->layers[k - 1].padded);
    }
    return g;
}

static bool has_target(const struct network *n, const struct network_targets *targets, size_t t) {
    bool any = false;
    for (size_t h = 0; h < n->model->horizons && t >= targets->from; h++)
        any |= targets->values[t * n->model->horizons + h] != NULL;
    return any;
}

/* The gradients of embeddings through the skip path. */
static void add_skipped(struct network *n, const struct network_steps *steps, size_t from) {
    size_t padded = matrix_pad(n->model->input_width[0]);
    float *d = n->d_hidden[0];
    memset(d, 0, steps->count * padded * sizeof(float));
    backward_skip(n, steps->count - from, padded, d + from * padded);
    backward_embedded(n, steps, d, padded);
}

struct network_gradient influence_backward(struct network *n, const struct network_steps *steps,
                                           const struct network_targets *targets, float *kept) {
    struct network_gradient g = {0, 0};
    float *gradient = n->gradient;
    if (!n->kept.layers)
        return targets ? network_backward(n, steps, targets) : g;
    if (targets)
        g = backward_above(n, steps, targets);
    const float *d = n->d_hidden[0];
    size_t padded = n->layers[n->kept.layers - 1].padded;
    for (size_t t = 0; t < steps->count; t++) {
        struct network_steps one = {network_position(n, steps->first, t), 1, steps->state,
                                    steps->inputs + t};
        if (t > 0) {
            slot_gather(n, network_position(n, steps->first, t - 1), steps->state, n->kept.state);
            one.state = n->kept.state;
        }
        n->gradient = n->kept.gradient;
        advance(n, &one, kept);
        n->gradient = gradient;
        if (!targets || !has_target(n, targets, t))
            continue;
        add_influence(n, d + t * padded, kept, &n->kept.matrices, gradient);
        add_influence(n, d + t * padded, kept, &n->kept.vectors, gradient);
    }
    if (!targets)
        return g;
    if (n->model->architecture.output.skip && has_embeddings(n))
        add_skipped(n, steps, targets->from);
    g.squares = sum_of_squares(n->gradient, n->trained);
    return g;
}
