/* Backward over a window: from its targets to the gradient of every parameter. Bound by
   arithmetic. */
#include <string.h>

#include "matrix.h"
#include "split.h"
#include "walk.h"

/* The gradient of a matrix with one-hot input: d (count, rows) of each step from `from` on is
   added to its symbol's column. */
static double one_hot_gradient(struct network *n, const struct network_steps *steps, size_t from,
                               float *gradient, size_t rows, const float *d) {
    size_t columns = n->inputs;
    if (!n->adds)
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
    double squares = split_gradient(n, n->gradient + n->at[TENSOR_OUTPUT_WEIGHT], n->padded,
                                    n->width, n->d_output, n->x, count);
    if (n->chain->kind != CHAIN_TOWER)
        add_rows(n->d_output, n->padded, count, n->gradient + n->at[TENSOR_OUTPUT_BIAS]);
    if (!n->model->architecture.output.skip)
        return squares;
    if (is_one_hot(n, 0))
        return squares + one_hot_gradient(n, steps, from, n->gradient + n->at[TENSOR_OUTPUT_SKIP],
                                          n->padded, n->d_output);
    for (size_t t = 0; t < count; t++)
        n->x[t] = layer_input(n, steps, 0, from + t);
    return squares + split_gradient(n, n->gradient + n->at[TENSOR_OUTPUT_SKIP], n->padded,
                                    n->inputs, n->d_output, n->x, count);
}

/* The weighted sum of a step's losses at the heads with targets y; d (padded,) gets its gradients
   times `scale`. */
static double losses_backward(struct network *n, const float *a, const union value *const *y,
                              float scale, float *d) {
    const struct model_head *head = n->model->heads;
    double loss = 0;
    for (size_t h = 0; h < n->model->horizons; h++, head++)
        if (y[h] && head->late && head->scored)
            loss += (double)head->weight * ranking_backward(n, head, a + head->at, y[h],
                                                            scale * head->weight, d + head->at);
        else if (y[h] && head->scored)
            loss += (double)head->weight * loss_step(n->model, head, a + head->at, y[h],
                                                     scale * head->weight, d + head->at,
                                                     n->loss_scratch);
    return loss;
}

double output_backward(struct network *n, const struct network_steps *steps, size_t from) {
    size_t count = steps->count - from;
    double squares = 0;
    for (size_t t = 0; t < count; t++)
        n->x[t] = layer_input(n, steps, n->layer_count, from + t);
    if (!n->model->solved)
        squares = output_weights_backward(n, steps, from);
    memset(n->d_hidden[0], 0, steps->count * n->wide * sizeof(float));
    split_transposed_many(n, n->parameters + n->at[TENSOR_OUTPUT_WEIGHT], n->padded, n->width,
                          n->d_output, n->d_hidden[0] + from * n->wide, n->wide, count);
    return squares;
}

/* The same of a step's late heads; d is the gradient of h, and gets theirs times `scale`. */
static double late_backward(const struct network *n, const float *h, const union value *const *y,
                            float scale, float *d) {
    const struct model_head *head = n->model->heads;
    double loss = 0;
    for (size_t k = 0; k < n->model->horizons; k++, head++)
        if (y[k] && !head->scored)
            loss +=
                (double)head->weight * writer_backward(n, head, h, y[k], scale * head->weight, d);
    return loss;
}

struct network_gradient backward_output(struct network *n, const struct network_steps *steps,
                                        const struct network_targets *targets) {
    struct network_gradient g = {0, 0};
    size_t from = targets->from, count = steps->count - from, heads = n->model->horizons;
    float scale = 1.0f / (float)targets->terms;
    memset(n->d_output, 0, count * n->padded * sizeof(float));
    for (size_t t = 0; t < count; t++) {
        const float *a = n->output + network_position(n, steps->first, from + t) * n->padded;
        g.loss += losses_backward(n, a, targets->values + (from + t) * heads, scale,
                                  n->d_output + t * n->padded);
    }
    g.squares = output_backward(n, steps, from);
    for (size_t t = 0; t < count && n->model->late; t++)
        g.loss += late_backward(n, layer_input(n, steps, n->layer_count, from + t),
                                targets->values + (from + t) * heads, scale,
                                n->d_hidden[0] + (from + t) * n->wide);
    g.loss /= (double)targets->terms;
    return g;
}

void backward_cells(struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    bool recurrent = l->kind->states > 0;
    float *restrict carry = n->d_state;
    memset(n->d_inner, 0, l->padded * sizeof(float));
    if (l->residual)
        memcpy(n->d_residual, n->d_hidden[0], steps->count * l->wide * sizeof(float));
    for (size_t t = steps->count; t-- > 0;) {
        float *restrict d = n->d_hidden[0] + t * l->wide;
        float *d_hh = n->d_hh + t * l->rows;
        if (l->column)
            cell_output_backward(n, l, network_position(n, steps->first, t), d);
        if (recurrent && t + 1 < steps->count) {
#pragma omp simd aligned(d, carry : 64)
            for (size_t i = 0; i < l->padded; i++)
                d[i] += carry[i];
        }
        cell_step_backward(n, l, network_position(n, steps->first, t),
                           hidden_before(n, l, steps, t), inner_before(n, l, steps, t), d,
                           n->d_ih + t * l->rows, d_hh);
        if (!recurrent || (t == 0 && !n->d_start))
            continue;
        memset(carry, 0, l->padded * sizeof(float));
        if (!l->column)
            split_transposed(n, n->parameters + l->at[TENSOR_WEIGHT_HH], l->rows, l->size, d_hh,
                             carry, t % 2);
#pragma omp simd aligned(d, carry : 64)
        for (size_t i = 0; i < l->padded; i++)
            carry[i] += d[i];
    }
    if (n->d_start && recurrent) {
        memcpy(n->d_start + l->state, carry, l->padded * sizeof(float));
        if (l->kind->states > 1)
            memcpy(n->d_start + l->state + l->padded, n->d_inner, l->padded * sizeof(float));
    }
    for (size_t t = steps->count; t-- > 0;)
        cell_input_backward(n, l, network_position(n, steps->first, t), n->d_ih + t * l->rows);
}

double backward_weights(struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    size_t count = steps->count;
    double squares;
    if (is_column(n, k)) {
        squares =
            one_hot_gradient(n, steps, 0, n->gradient + l->at[TENSOR_WEIGHT_IH], l->rows, n->d_ih);
    } else {
        for (size_t t = 0; t < count; t++)
            n->x[t] = layer_row(n, steps, k, t);
        squares = split_gradient(n, n->gradient + l->at[TENSOR_WEIGHT_IH], l->rows, l->inputs,
                                 n->d_ih, n->x, count);
    }
    if (l->source == SOURCE_ROWS)
        squares = units_pull(n, l, PLACE_IH, TENSOR_WEIGHT_IH, l->inputs);
    add_rows(n->d_ih, l->rows, count, n->gradient + l->at[TENSOR_BIAS_IH]);
    if (l->kind->states == 0 || l->column)
        return squares;
    for (size_t t = 0; t < count; t++)
        n->x[t] = hidden_before(n, l, steps, t);
    if (l->source == SOURCE_NOTHING)
        add_rows(n->d_hh, l->rows, count, n->gradient + l->at[TENSOR_BIAS_HH]);
    double recurrent = split_gradient(n, n->gradient + l->at[TENSOR_WEIGHT_HH], l->rows, l->size,
                                      n->d_hh, n->x, count);
    if (l->source == SOURCE_ROWS)
        recurrent =
            units_pull(n, l, l->kind->apart ? PLACE_HH : PLACE_IH, TENSOR_WEIGHT_HH, l->size);
    return squares + recurrent;
}

/* below (count, padded) += the gradient of each tap's input in the window, and the residual's;
   that of the delay line goes to n->d_start, if it is wanted. */
static void scatter_inputs(const struct network *n, size_t k, size_t count, float *restrict below,
                           size_t padded) {
    const struct network_layer *l = &n->layers[k];
    size_t width = network_tap(l);
    float *line = n->d_start ? n->d_start + l->state : NULL;
    if (line && l->delay)
        memset(line, 0, network_line(l) * sizeof *line);
    for (size_t t = 0; t < count; t++) {
        const float *restrict d = n->d_gathered + t * matrix_pad(l->inputs);
        for (size_t j = 0; j < l->taps; j++, d += width) {
            size_t back = (l->taps - 1 - j) * l->dilation;
            float *to = back <= t ? below + (t - back) * padded
                        : line    ? line + (l->delay + t - back) * width
                                  : NULL;
            for (size_t i = 0; i < width && to; i++)
                to[i] += d[i];
        }
        for (size_t i = 0; i < width && l->residual; i++)
            below[t * padded + i] += n->d_residual[t * l->wide + i];
    }
}

void backward_input(struct network *n, size_t k, size_t count, size_t padded) {
    const struct network_layer *l = &n->layers[k];
    float *below = n->d_hidden[1];
    memset(below, 0, count * padded * sizeof(float));
    split_transposed_many(n, n->parameters + l->at[TENSOR_WEIGHT_IH], l->rows, l->inputs, n->d_ih,
                          l->gathered ? n->d_gathered : below,
                          l->gathered ? matrix_pad(l->inputs) : padded, count);
    if (l->gathered)
        scatter_inputs(n, k, count, below, padded);
    n->d_hidden[1] = n->d_hidden[0];
    n->d_hidden[0] = below;
}

/* d += W_skip^T d_output */
void backward_skip(struct network *n, size_t count, size_t padded, float *d) {
    size_t width = n->inputs;
    float *skipped = n->d_hidden[1];
    split_transposed_many(n, n->parameters + n->at[TENSOR_OUTPUT_SKIP], n->padded, width,
                          n->d_output, skipped, padded, count);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < width; i++)
            d[t * padded + i] += skipped[t * padded + i];
}

void backward_embedded(struct network *n, const struct network_steps *steps, const float *d,
                       size_t padded) {
    const struct model *model = n->model;
    const struct input *input = &model->architecture.input;
    if (!model->part_count)
        add_to_rows(steps, 0, input->embedding, d, padded, n->gradient + n->at[TENSOR_EMBEDDING]);
    for (size_t k = 0; k < model->part_count; k++) {
        const struct input_part *part = &model->parts[k];
        if (part->tensor != MODEL_NO_TENSOR)
            add_to_rows(steps, part->from, part->width, d + part->at, padded,
                        n->gradient + n->embeddings[k]);
    }
}

/* Number of tables of the input: its parts' or its own. */
static size_t tables(const struct network *n) {
    return n->model->part_count ? n->model->part_count : 1;
}

/* The gradient and size of a table; NULL for a part without embedding. */
static float *table_gradient(const struct network *n, size_t k, size_t *size) {
    const struct input *input = &n->model->architecture.input;
    const struct input_part *part = &n->model->parts[k];
    bool parts = n->model->part_count > 0;
    *size = matrix_pad(parts ? part->size * part->width : input->size * input->embedding);
    if (parts && part->tensor == MODEL_NO_TENSOR)
        return NULL;
    return n->gradient + (parts ? n->embeddings[k] : n->at[TENSOR_EMBEDDING]);
}

double backward_embeddings(struct network *n, const struct network_steps *steps, size_t from) {
    size_t padded = matrix_pad(n->inputs), size;
    float *gradient;
    double squares = 0;
    backward_input(n, 0, steps->count, padded);
    if (n->model->architecture.output.skip)
        backward_skip(n, steps->count - from, padded, n->d_hidden[0] + from * padded);
    for (size_t k = 0; k < tables(n); k++)
        if ((gradient = table_gradient(n, k, &size)))
            memset(gradient, 0, size * sizeof(float));
    backward_embedded(n, steps, n->d_hidden[0], padded);
    for (size_t k = 0; k < tables(n); k++)
        if ((gradient = table_gradient(n, k, &size)))
            squares += sum_of_squares(gradient, size);
    return squares;
}

double chain_backward(struct network *n, const struct network_steps *steps, bool input,
                      double squares) {
    for (size_t k = n->layer_count; k-- > 0;) {
        if (n->layers[k].kind->spatial) {
            squares += grid_backward(n, steps, k);
            continue;
        }
        backward_cells(n, steps, k);
        squares += backward_weights(n, steps, k);
        if (k > 0 || input || (n->d_start && n->layers[k].delay))
            backward_input(n, k, steps->count, k ? n->layers[k - 1].wide : matrix_pad(n->inputs));
    }
    return squares;
}

struct network_gradient network_backward(struct network *n, const struct network_steps *steps,
                                         const struct network_targets *targets) {
    bool chains = n->model->chain_count > 1, reads = network_reader(n);
    size_t zeros = chains ? 0 : n->vectors; /* other matrices are written */
    memset(n->gradient + zeros, 0, (n->trained - zeros) * sizeof(float));
    for (size_t k = 1; k < n->model->chain_count; k++)
        n->chains[k]->ran = n->chains[k]->chain->kind == CHAIN_READER;
    struct network_gradient g = backward_output(n, steps, targets);
    g.squares = chain_backward(n, steps, reads, g.squares);
    for (size_t t = reads ? steps->count : 0; t-- > 0;)
        reader_backward(n, steps, t, n->d_hidden[0] + t * matrix_pad(n->inputs));
    if (has_embeddings(n) && !reads)
        g.squares += backward_embeddings(n, steps, targets->from);
    if (chains)
        g.squares = sum_of_squares(n->gradient, n->trained);
    else
        g.squares += sum_of_squares(n->gradient + n->vectors, n->trained - n->vectors);
    return g;
}
