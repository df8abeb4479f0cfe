#include "network.h"

#include <math.h>
#include <string.h>

#include "matrix.h"
#include "vector.h"

/* x of step t for layer k: the example's own, its symbol's embedding, or the h of the layer below.
   NULL for a one-hot symbol. */
static const float *layer_input(const struct network *n, const struct network_steps *steps,
                                size_t k, size_t t) {
    const struct input *input = &n->model->architecture.input;
    if (k > 0) {
        const struct network_layer *below = &n->layers[k - 1];
        return below->hidden + network_position(n, steps->first, t) * below->padded;
    }
    if (n->model->part_count)
        return n->encoded + network_position(n, steps->first, t) * n->model->input_width[0];
    if (input->kind == INPUT_REAL)
        return &steps->inputs[t]->real;
    return input->embedding ? n->parameters + n->embedding + steps->inputs[t]->id * input->embedding
                            : NULL;
}

static bool is_one_hot(const struct network *n, size_t k) {
    const struct input *input = &n->model->architecture.input;
    return k == 0 && input->kind == INPUT_SYMBOL && !input->embedding; /* never a part */
}

/* What a symbol's row counts as. */
static float symbol_sign(union value symbol) {
    return symbol.id & SYMBOL_MINUS ? -1.0f : 1.0f;
}

static size_t symbol_id(union value symbol) {
    return symbol.id & ~SYMBOL_MINUS;
}

/* A part of a step's input: numbers as they are, a row of an embedding, or one-hot. */
static void encode_part(const struct network *n, size_t k, const union value *x, float *encoded) {
    const struct input_part *part = &n->model->parts[k];
    float *restrict out = encoded + part->at;
    const union value symbol = x[part->from];
    if (!part->size) {
        memcpy(out, x + part->from, part->width * sizeof *out);
    } else if (part->tensor == MODEL_NO_TENSOR) {
        memset(out, 0, part->width * sizeof *out);
        out[symbol_id(symbol)] = symbol_sign(symbol);
    } else {
        const float *row = n->parameters + n->embeddings[k] + symbol_id(symbol) * part->width;
        float sign = symbol_sign(symbol);
        for (size_t i = 0; i < part->width; i++)
            out[i] = sign * row[i];
    }
}

/* What the first layer and the skip path see of an input of parts. */
static void encode(const struct network *n, const struct network_steps *steps) {
    for (size_t t = 0; t < steps->count; t++) {
        float *encoded =
            n->encoded + network_position(n, steps->first, t) * n->model->input_width[0];
        for (size_t k = 0; k < n->model->part_count; k++)
            encode_part(n, k, steps->inputs[t], encoded);
    }
}

/* summed_ih = W_ih x + b_ih for all steps of the run. */
static void project_inputs(struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    const float *w = n->parameters + l->at[TENSOR_WEIGHT_IH];
    const float *bias = n->parameters + l->at[TENSOR_BIAS_IH];
    for (size_t t = 0; t < steps->count; t++) {
        n->x[t] = layer_input(n, steps, k, t);
        n->y[t] = l->summed_ih + network_position(n, steps->first, t) * l->rows;
        if (is_one_hot(n, k))
            matrix_copy_column(w, l->rows, l->inputs, symbol_id(*steps->inputs[t]),
                               symbol_sign(*steps->inputs[t]), bias, n->y[t]);
    }
    if (!is_one_hot(n, k))
        matrix_project(w, l->rows, l->inputs, bias, n->x, n->y, steps->count);
}

/* The state before step t of a run: the run's own for the first, else what the step before kept. */
static const float *hidden_before(const struct network *n, const struct network_layer *l,
                                  const struct network_steps *steps, size_t t) {
    return t ? l->hidden + network_position(n, steps->first, t - 1) * l->padded
             : steps->state + l->state;
}

static const float *inner_before(const struct network *n, const struct network_layer *l,
                                 const struct network_steps *steps, size_t t) {
    return t ? l->inner + network_position(n, steps->first, t - 1) * l->padded
             : steps->state + l->state + l->padded;
}

/* Each step's age: how many came before it since the stream began, as far as norms go by it. A
   damaged checkpoint may say anything. */
static void keep_ages(const struct network *n, const struct network_steps *steps) {
    float most = (float)n->model->ages - 1.0f;
    for (size_t t = 0; t < steps->count; t++) {
        float age = n->model->ages ? fmaxf(steps->state[n->age], 0.0f) + (float)t : 0.0f;
        n->ages[network_position(n, steps->first, t)] = n->model->ages ? fminf(age, most) : 0.0f;
    }
}

/* output += W_skip x for steps from `from` on. */
static void project_skip(struct network *n, const struct network_steps *steps, size_t from) {
    size_t count = steps->count - from;
    for (size_t t = 0; t < count && is_one_hot(n, 0); t++)
        matrix_add_from_column(n->parameters + n->output_skip, n->padded, n->model->input_width[0],
                               symbol_id(*steps->inputs[from + t]),
                               symbol_sign(*steps->inputs[from + t]),
                               n->output + network_position(n, steps->first, from + t) * n->padded);
    if (is_one_hot(n, 0))
        return;
    for (size_t t = 0; t < count; t++) {
        n->x[t] = layer_input(n, steps, 0, from + t);
        n->y[t] = n->skipped + network_position(n, steps->first, from + t) * n->padded;
    }
    matrix_project(n->parameters + n->output_skip, n->padded, n->model->input_width[0], NULL, n->x,
                   n->y, count);
    for (size_t t = 0; t < count; t++) {
        const float *restrict skipped = n->y[t];
        float *restrict out = n->output + (skipped - n->skipped);
#pragma omp simd aligned(skipped, out : 64)
        for (size_t k = 0; k < n->padded; k++)
            out[k] += skipped[k];
    }
}

static void network_project_output(struct network *n, const struct network_steps *steps,
                                   size_t from) {
    size_t count = steps->count - from;
    for (size_t t = 0; t < count; t++) {
        n->x[t] = layer_input(n, steps, n->layer_count, from + t);
        n->y[t] = n->output + network_position(n, steps->first, from + t) * n->padded;
    }
    matrix_project(n->parameters + n->output_weight, n->padded, n->layers[n->layer_count - 1].size,
                   n->parameters + n->output_bias, n->x, n->y, count);
    if (n->model->architecture.output.skip)
        project_skip(n, steps, from);
}

static void network_forward(struct network *n, const struct network_steps *steps,
                            size_t outputs_from) {
    keep_ages(n, steps);
    encode(n, steps);
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        project_inputs(n, steps, k);
        for (size_t t = 0; t < steps->count; t++)
            cell_step(n, l, network_position(n, steps->first, t), hidden_before(n, l, steps, t),
                      inner_before(n, l, steps, t));
    }
    if (outputs_from < steps->count)
        network_project_output(n, steps, outputs_from);
}

/* out (length,) += sum of the rows of d (count, length) */
static void add_rows(const float *restrict d, size_t length, size_t count, float *restrict out) {
    for (size_t t = 0; t < count; t++, d += length) {
#pragma omp simd aligned(d, out : 64)
        for (size_t i = 0; i < length; i++)
            out[i] += d[i];
    }
}

/* The gradient of a matrix whose input is one-hot: each step's d (count, rows), of the steps from
   `from` on, goes to its symbol's column. */
static double one_hot_gradient(struct network *n, const struct network_steps *steps, size_t from,
                               float *gradient, size_t rows, const float *d) {
    size_t columns = n->model->input_width[0];
    memset(gradient, 0, rows * columns * sizeof(float));
    for (size_t t = from; t < steps->count; t++)
        matrix_add_column(gradient, rows, columns, symbol_id(*steps->inputs[t]),
                          symbol_sign(*steps->inputs[t]), d + (t - from) * rows);
    return sum_of_squares(gradient, rows * columns);
}

/* Gradients of the output's tensors. Returns the matrices' squares. */
static double output_weights_backward(struct network *n, const struct network_steps *steps,
                                      size_t from) {
    size_t count = steps->count - from;
    double squares =
        matrix_gradient(n->gradient + n->output_weight, n->padded,
                        n->layers[n->layer_count - 1].size, n->d_output, n->x, count, n->pack);
    add_rows(n->d_output, n->padded, count, n->gradient + n->output_bias);
    if (!n->model->architecture.output.skip)
        return squares;
    if (is_one_hot(n, 0))
        return squares + one_hot_gradient(n, steps, from, n->gradient + n->output_skip, n->padded,
                                          n->d_output);
    for (size_t t = 0; t < count; t++)
        n->x[t] = layer_input(n, steps, 0, from + t);
    return squares + matrix_gradient(n->gradient + n->output_skip, n->padded,
                                     n->model->input_width[0], n->d_output, n->x, count, n->pack);
}

/* Of one step: the sum of its losses at the horizons whose targets y there are; their gradients
   times `scale` into d (padded,). */
static double losses_backward(const struct network *n, const float *a, const union value *const *y,
                              float scale, float *d) {
    size_t outputs = n->outputs / n->model->horizons;
    double loss = 0;
    for (size_t h = 0; h < n->model->horizons; h++, a += outputs, d += outputs)
        if (y[h])
            loss += loss_step(n->model, a, y[h], scale, d, n->loss_scratch);
    return loss;
}

/* Gradients of the output layer, unless it is solved, and, into n->d_hidden[0], of the last layer's
 * h. */
static struct network_gradient output_backward(struct network *n, const struct network_steps *steps,
                                               const struct network_targets *targets) {
    const struct network_layer *top = &n->layers[n->layer_count - 1];
    struct network_gradient g = {0, 0};
    size_t from = targets->from, count = steps->count - from;
    float scale = 1.0f / (float)targets->terms;
    memset(n->d_output, 0, count * n->padded * sizeof(float));
    for (size_t t = 0; t < count; t++) {
        const float *a = n->output + network_position(n, steps->first, from + t) * n->padded;
        n->x[t] = layer_input(n, steps, n->layer_count, from + t);
        g.loss += losses_backward(n, a, targets->values + (from + t) * n->model->horizons, scale,
                                  n->d_output + t * n->padded);
    }
    g.loss /= (double)targets->terms;
    if (!n->model->solved)
        g.squares = output_weights_backward(n, steps, from);
    memset(n->d_hidden[0], 0, steps->count * top->padded * sizeof(float));
    matrix_transposed_many(n->parameters + n->output_weight, n->padded, top->size, n->d_output,
                           n->d_hidden[0] + from * top->padded, top->padded, count);
    return g;
}

/* Backward through time: from n->d_hidden[0] (count, padded) to n->d_ih and n->d_hh (count, rows).
 */
static void cells_backward(struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    bool recurrent = l->kind->states > 0;
    float *restrict carry = n->d_state;
    memset(n->d_inner, 0, l->padded * sizeof(float));
    for (size_t t = steps->count; t-- > 0;) {
        float *restrict d = n->d_hidden[0] + t * l->padded;
        float *d_hh = n->d_hh + t * l->rows;
        if (recurrent && t + 1 < steps->count) {
#pragma omp simd aligned(d, carry : 64)
            for (size_t i = 0; i < l->padded; i++)
                d[i] += carry[i];
        }
        cell_step_backward(n, l, network_position(n, steps->first, t),
                           hidden_before(n, l, steps, t), inner_before(n, l, steps, t), d,
                           n->d_ih + t * l->rows, d_hh);
        if (!recurrent || t == 0)
            continue;
        memset(carry, 0, l->padded * sizeof(float));
        matrix_transposed(n->parameters + l->at[TENSOR_WEIGHT_HH], l->rows, l->size, d_hh, carry,
                          t % 2);
#pragma omp simd aligned(d, carry : 64)
        for (size_t i = 0; i < l->padded; i++)
            carry[i] += d[i];
    }
}

/* Gradients of a layer's matrices and of the biases in its sums. Returns the matrices' squares. */
static double weights_backward(struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    size_t count = steps->count;
    double squares;
    if (is_one_hot(n, k)) {
        squares =
            one_hot_gradient(n, steps, 0, n->gradient + l->at[TENSOR_WEIGHT_IH], l->rows, n->d_ih);
    } else {
        for (size_t t = 0; t < count; t++)
            n->x[t] = layer_input(n, steps, k, t);
        squares = matrix_gradient(n->gradient + l->at[TENSOR_WEIGHT_IH], l->rows, l->inputs,
                                  n->d_ih, n->x, count, n->pack);
    }
    if (l->source == SOURCE_ROWS)
        squares = units_pull(n, l, PLACE_IH, TENSOR_WEIGHT_IH, l->inputs);
    add_rows(n->d_ih, l->rows, count, n->gradient + l->at[TENSOR_BIAS_IH]);
    if (l->kind->states == 0)
        return squares;
    for (size_t t = 0; t < count; t++)
        n->x[t] = hidden_before(n, l, steps, t);
    if (l->source == SOURCE_NOTHING)
        add_rows(n->d_hh, l->rows, count, n->gradient + l->at[TENSOR_BIAS_HH]);
    double recurrent = matrix_gradient(n->gradient + l->at[TENSOR_WEIGHT_HH], l->rows, l->size,
                                       n->d_hh, n->x, count, n->pack);
    if (l->source == SOURCE_ROWS)
        recurrent =
            units_pull(n, l, l->kind->apart ? PLACE_HH : PLACE_IH, TENSOR_WEIGHT_HH, l->size);
    return squares + recurrent;
}

/* The gradient of layer k's input becomes n->d_hidden[0]. */
static void input_backward(struct network *n, size_t k, size_t count, size_t padded) {
    const struct network_layer *l = &n->layers[k];
    float *below = n->d_hidden[1];
    memset(below, 0, count * padded * sizeof(float));
    matrix_transposed_many(n->parameters + l->at[TENSOR_WEIGHT_IH], l->rows, l->inputs, n->d_ih,
                           below, padded, count);
    n->d_hidden[1] = n->d_hidden[0];
    n->d_hidden[0] = below;
}

/* d (count, padded) += W_skip^T d_output: the gradient of the embedding that the skip path reads.
 */
static void add_skip_gradient(struct network *n, size_t count, size_t padded, float *d) {
    size_t width = n->model->input_width[0];
    float *skipped = n->d_hidden[1];
    matrix_transposed_many(n->parameters + n->output_skip, n->padded, width, n->d_output, skipped,
                           padded, count);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < width; i++)
            d[t * padded + i] += skipped[t * padded + i];
}

/* Each step's input gradient d, of its first layer and of its skip path, goes to its symbol's row
   of a table (size, width): that part of d (count, padded) begins at its first number. Returns the
   gradient's squares. */
static double add_to_rows(const struct network_steps *steps, size_t from, size_t size, size_t width,
                          const float *d, size_t padded, float *gradient) {
    memset(gradient, 0, matrix_pad(size * width) * sizeof(float));
    for (size_t t = 0; t < steps->count; t++) {
        const union value symbol = steps->inputs[t][from];
        float *row = gradient + symbol_id(symbol) * width, sign = symbol_sign(symbol);
        for (size_t i = 0; i < width; i++)
            row[i] += sign * d[t * padded + i];
    }
    return sum_of_squares(gradient, matrix_pad(size * width));
}

/* `from`: the first step whose output has a gradient. */
static double embeddings_backward(struct network *n, const struct network_steps *steps,
                                  size_t from) {
    const struct model *model = n->model;
    const struct input *input = &model->architecture.input;
    size_t padded = matrix_pad(model->input_width[0]);
    double squares = 0;
    input_backward(n, 0, steps->count, padded);
    if (model->architecture.output.skip)
        add_skip_gradient(n, steps->count - from, padded, n->d_hidden[0] + from * padded);
    if (!model->part_count)
        return add_to_rows(steps, 0, input->size, input->embedding, n->d_hidden[0], padded,
                           n->gradient + n->embedding);
    for (size_t k = 0; k < model->part_count; k++) {
        const struct input_part *part = &model->parts[k];
        if (part->tensor != MODEL_NO_TENSOR)
            squares +=
                add_to_rows(steps, part->from, part->size, part->width, n->d_hidden[0] + part->at,
                            padded, n->gradient + n->embeddings[k]);
    }
    return squares;
}

static struct network_gradient network_backward(struct network *n,
                                                const struct network_steps *steps,
                                                const struct network_targets *targets) {
    memset(n->gradient + n->vectors, 0, (n->trained - n->vectors) * sizeof(float));
    struct network_gradient g = output_backward(n, steps, targets);
    for (size_t k = n->layer_count; k-- > 0;) {
        cells_backward(n, steps, k);
        g.squares += weights_backward(n, steps, k);
        if (k > 0)
            input_backward(n, k, steps->count, n->layers[k - 1].padded);
    }
    if (n->model->architecture.input.embedding || n->model->embeddings)
        g.squares += embeddings_backward(n, steps, targets->from);
    g.squares += sum_of_squares(n->gradient + n->vectors, n->trained - n->vectors);
    return g;
}

#define ISA_TEXT_(isa) #isa
#define ISA_TEXT(isa) ISA_TEXT_(isa)

const struct kernels kernels_table = {
    .name = ISA_TEXT(ISA),
    .forward = network_forward,
    .output = network_project_output,
    .backward = network_backward,
    .loss = loss_step,
    .optimize = optimizer_step,
    .absorb = units_absorb,
    .refresh = units_refresh,
};
