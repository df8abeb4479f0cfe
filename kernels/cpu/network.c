#include "network.h"

#include <math.h>
#include <string.h>

#include "formulas.h"
#include "matrix.h"
#include "split.h"
#include "walk.h"

/* The input of the first layer and the skip path, encoded from its parts, or read. */
static void encode(struct network *n, const struct network_steps *steps) {
    if (n->form != FORM_ENCODED || n->chain->kind != CHAIN_MODEL)
        return;
    for (size_t t = 0; t < steps->count; t++) {
        if (network_reader(n))
            reader_forward(n, steps, t);
        float *encoded = n->encoded + network_position(n, steps->first, t) * n->inputs;
        for (size_t k = 0; k < n->model->part_count; k++) {
            const struct input_part *part = &n->model->parts[k];
            bool embedded = part->tensor != MODEL_NO_TENSOR;
            encode_part(part, embedded ? n->parameters + n->embeddings[k] : NULL, steps->inputs[t],
                        encoded);
        }
    }
}

/* Layer k's own input at step t, finite because it is kept in the stream's state. */
static void copy_input(const struct network *n, const struct network_steps *steps, size_t k,
                       size_t t, float *restrict out) {
    size_t width = network_tap(&n->layers[k]);
    const float *restrict x = layer_input(n, steps, k, t);
    memset(out, 0, width * sizeof *out);
    if (is_one_hot(n, k))
        out[symbol_id(*steps->inputs[t])] = symbol_sign(*steps->inputs[t]);
    for (size_t i = 0; i < width && !is_one_hot(n, k); i++)
        out[i] = formula_finite(x[i]);
}

/* The inputs of each step's taps, the newest last: of the run, or of the delay line before it. */
static void gather_inputs(const struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    const float *line = steps->state + l->state; /* (delay, width) */
    size_t width = network_tap(&n->layers[k]);
    for (size_t t = 0; t < steps->count; t++) {
        float *row = network_gathered(l, network_position(n, steps->first, t));
        for (size_t j = 0; j < l->taps; j++, row += width) {
            size_t back = (l->taps - 1 - j) * l->dilation;
            if (back <= t)
                copy_input(n, steps, k, t - back, row);
            else
                memcpy(row, line + (l->delay + t - back) * width, width * sizeof *row);
        }
    }
}

/* output = h + x */
static void add_residual(const struct network_layer *l, size_t position) {
    const float *restrict h = l->hidden + position * l->padded;
    const float *restrict x = network_gathered(l, position) + l->inputs - l->size;
    float *restrict out = l->output + position * l->wide;
    for (size_t i = 0; i < l->size; i++)
        out[i] = h[i] + x[i];
}

/* summed_ih = W_ih x + b_ih for all steps of the run. */
static void project_inputs(struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    const float *w = n->parameters + l->at[TENSOR_WEIGHT_IH];
    const float *bias = n->parameters + l->at[TENSOR_BIAS_IH];
    bool column = is_column(n, k);
    for (size_t t = 0; t < steps->count; t++) {
        n->x[t] = layer_row(n, steps, k, t);
        n->y[t] = l->summed_ih + network_position(n, steps->first, t) * l->rows;
        if (column)
            matrix_copy_column(w, l->rows, l->inputs, symbol_id(*steps->inputs[t]),
                               symbol_sign(*steps->inputs[t]), bias, n->y[t]);
    }
    if (!column)
        split_project(n, w, l->rows, l->inputs, bias, n->x, n->y, steps->count);
}

/* Each step's age: the number of earlier steps of the stream, up to the largest that norms use.
   The check is needed for damaged checkpoints. */
static void keep_ages(const struct network *n, const struct network_steps *steps) {
    float most = (float)n->ages_most - 1.0f;
    for (size_t t = 0; n->ages_most && t < steps->count; t++) {
        float age = fmaxf(steps->state[n->age], 0.0f) + (float)t;
        n->ages[network_position(n, steps->first, t)] = fminf(age, most);
    }
}

/* output += W_skip x for steps from `from` on. */
static void project_skip(struct network *n, const struct network_steps *steps, size_t from) {
    size_t count = steps->count - from;
    for (size_t t = 0; t < count && is_one_hot(n, 0); t++)
        matrix_add_from_column(n->parameters + n->at[TENSOR_OUTPUT_SKIP], n->padded, n->inputs,
                               symbol_id(*steps->inputs[from + t]),
                               symbol_sign(*steps->inputs[from + t]),
                               n->output + network_position(n, steps->first, from + t) * n->padded);
    if (is_one_hot(n, 0))
        return;
    for (size_t t = 0; t < count; t++) {
        n->x[t] = layer_input(n, steps, 0, from + t);
        n->y[t] = n->skipped + network_position(n, steps->first, from + t) * n->padded;
    }
    split_project(n, n->parameters + n->at[TENSOR_OUTPUT_SKIP], n->padded, n->inputs, NULL, n->x,
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
    bool biased = n->chain->kind != CHAIN_TOWER;
    for (size_t t = 0; t < count; t++) {
        n->x[t] = layer_input(n, steps, n->layer_count, from + t);
        n->y[t] = n->output + network_position(n, steps->first, from + t) * n->padded;
    }
    split_project(n, n->parameters + n->at[TENSOR_OUTPUT_WEIGHT], n->padded, n->width,
                  biased ? n->parameters + n->at[TENSOR_OUTPUT_BIAS] : NULL, n->x, n->y, count);
    if (n->model->architecture.output.skip)
        project_skip(n, steps, from);
}

void network_forward(struct network *n, const struct network_steps *steps, size_t outputs_from) {
    keep_ages(n, steps);
    encode(n, steps);
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        if (l->kind->spatial) {
            grid_forward(n, steps, k);
            continue;
        }
        if (l->gathered)
            gather_inputs(n, steps, k);
        project_inputs(n, steps, k);
        for (size_t t = 0; t < steps->count; t++)
            cell_step(n, l, network_position(n, steps->first, t), hidden_before(n, l, steps, t),
                      inner_before(n, l, steps, t));
        for (size_t t = 0; l->residual && t < steps->count; t++)
            add_residual(l, network_position(n, steps->first, t));
    }
    if (outputs_from < steps->count && n->outputs)
        network_project_output(n, steps, outputs_from);
}

static struct network_gradient learn(struct network *n, const struct network_steps *steps,
                                     const struct network_targets *targets, float *kept) {
    switch (rule_kind(n->kept.rule)->keeps) {
    case KEEPS_INFLUENCE:
        return influence_backward(n, steps, targets, kept);
    case KEEPS_TRACE:
        return traces_backward(n, steps, targets, kept);
    case KEEPS_NOTHING:
        break;
    }
    return network_backward(n, steps, targets);
}

#define ISA_TEXT_(isa) #isa
#define ISA_TEXT(isa) ISA_TEXT_(isa)

const struct kernels kernels_table = {
    .name = ISA_TEXT(ISA),
    .forward = network_forward,
    .output = network_project_output,
    .backward = learn,
    .loss = loss_step,
    .write = writer_loss,
    .rank = ranking_loss,
    .optimize = optimizer_step,
    .absorb = units_absorb,
    .refresh = units_refresh,
    .activity = activity_add,
    .weights_norm = activity_norm,
};
