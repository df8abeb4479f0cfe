/* Rules that keep a trace, one number e for each parameter of a recurrent layer: its influence
   on the last state vector of its own unit (kernels/rules/snap1.h, eprop.h). All units of a
   layer advance together. The layer's step backward from gradients of 1, with constant mean and
   deviation of groups, gives every row of I and D. Bound by the bytes of traces and gradient,
   which each step reads and writes once. */
#include <string.h>

#include "matrix.h"
#include "normalization.h"
#include "slot.h"
#include "split.h"
#include "vector.h"
#include "walk.h"

/* One layer at one step. */
struct moment {
    struct network *n;
    const struct network_layer *l;
    const float *x, *h;   /* (inputs,), (size,) */
    const float *ih, *hh; /* (rows,) I of the sums, without their inputs */
    const float *decay;   /* (rows,) D of each row's unit */
    const float *weight;  /* (rows,) factor of e before the step in the gradient of the loss */
    float *trace;         /* the stream's traces */
};

/* ---- One step of the traces ---- */

/* gradient += weight e, e = decay e + seed x - pull w, of a panel's column. */
INLINE void move_column(float *restrict e, float *restrict gradient, const float *restrict w,
                        const float *restrict decay, const float *restrict weight,
                        const float *restrict seed, const float *restrict pull, float x,
                        const bool pulls, const size_t width) {
#pragma omp simd
    for (size_t i = 0; i < width; i++) {
        gradient[i] += weight[i] * e[i];
        float moved = decay[i] * e[i] + seed[i] * x;
        if (pulls)
            moved -= pull[i] * w[i];
        e[i] = kept_bounded(moved);
    }
}

INLINE void move_panel(const struct moment *m, const float *seed, const float *pull, const float *x,
                       size_t at, size_t row, size_t columns, const bool pulls,
                       const size_t width) {
    struct network *n = m->n;
    size_t first = at + row * columns;
    float *e = m->trace + kept_column(n, first), *gradient = n->gradient + first;
    const float *w = n->parameters + first;
    for (size_t c = 0; c < columns; c++)
        move_column(e + c * width, gradient + c * width, w + c * width, m->decay + row,
                    m->weight + row, seed + row, pull + row, x[c], pulls, width);
}

/* A matrix whose sums are normalized at `place`: with a norm of rows, its weights affect the
   deviation. */
static void move_matrix(const struct moment *m, enum tensor_role role, int place, const float *seed,
                        const float *x, size_t columns) {
    const struct network_layer *l = m->l;
    bool pulls = l->source == SOURCE_ROWS;
    float *pull = m->n->kept.pull;
    const float *gain = m->n->parameters + l->at[TENSOR_GAIN_IH + place];
    const float *d_gain = m->n->kept.gradient + l->at[TENSOR_GAIN_IH + place];
    for (size_t i = 0; i < l->rows && pulls; i++)
        pull[i] = normalization_rows_pull(gain[i], d_gain[i], l->units[place].rstd[i]);
    for (size_t row = 0; row < l->rows;) {
        size_t width = row + MATRIX_PANEL <= l->rows ? MATRIX_PANEL : MATRIX_PAD;
        if (pulls && width == MATRIX_PANEL)
            move_panel(m, seed, pull, x, l->at[role], row, columns, true, MATRIX_PANEL);
        else if (pulls)
            move_panel(m, seed, pull, x, l->at[role], row, columns, true, MATRIX_PAD);
        else if (width == MATRIX_PANEL)
            move_panel(m, seed, pull, x, l->at[role], row, columns, false, MATRIX_PANEL);
        else
            move_panel(m, seed, pull, x, l->at[role], row, columns, false, MATRIX_PAD);
        row += width;
    }
}

/* A vector (rows,); `seed`: the step's own influence. */
static void move_vector(const struct moment *m, enum tensor_role role, const float *restrict seed) {
    struct network *n = m->n;
    size_t first = m->l->at[role];
    float *restrict e = m->trace + kept_column(n, first), *restrict gradient = n->gradient + first;
#pragma omp simd
    for (size_t i = 0; i < m->l->rows; i++) {
        gradient[i] += m->weight[i] * e[i];
        e[i] = kept_bounded(m->decay[i] * e[i] + seed[i]);
    }
}

/* An inner value's gain and bias do not affect the next state: they have no trace. */
static void move(const struct moment *m) {
    const struct network_layer *l = m->l;
    const float *seeds = m->n->kept.gradient;
    int place = l->kind->apart ? PLACE_HH : PLACE_IH;
    move_matrix(m, TENSOR_WEIGHT_IH, PLACE_IH, m->ih, m->x, l->inputs);
    move_matrix(m, TENSOR_WEIGHT_HH, place, m->hh, m->h, l->size);
    move_vector(m, TENSOR_BIAS_IH, m->ih);
    if (l->source == SOURCE_NOTHING) {
        move_vector(m, TENSOR_BIAS_HH, m->hh);
        return;
    }
    for (int p = PLACE_IH; p <= place; p++) {
        move_vector(m, TENSOR_GAIN_IH + p, seeds + l->at[TENSOR_GAIN_IH + p]);
        move_vector(m, TENSOR_NORM_BIAS_IH + p, seeds + l->at[TENSOR_NORM_BIAS_IH + p]);
    }
}

/* ---- The layer's derivatives ---- */

/* A unit's weight from itself, of a gate. */
static float own_weight(const struct network *n, const struct network_layer *l, size_t gate,
                        size_t unit) {
    return n->parameters[l->at[TENSOR_WEIGHT_HH] +
                         matrix_index(l->rows, l->size, gate * l->padded + unit, unit)];
}

/* I of the sums, gains and norms' biases, and D (padded,) into `decay`. */
static void derive(struct network *n, const struct network_layer *l, size_t position,
                   const float *h, const float *before, float *decay) {
    struct network_kept *kept = &n->kept;
    float *gradient = n->gradient, *d = kept->d;
    bool inner = l->kind->states > 1;
    size_t vectors = l->vectors.end - l->vectors.from, bytes = l->padded * sizeof(float);
    memcpy(d, l->mask, bytes);
    memcpy(n->d_inner, l->mask, bytes);
    memset(inner ? d : n->d_inner, 0, bytes);
    memset(kept->gradient + l->vectors.from, 0, vectors * sizeof(float));
    n->gradient = kept->gradient;
    kept->constant = true;
    cell_step_backward(n, l, position, h, before, d, kept->ih, kept->hh);
    kept->constant = false;
    n->gradient = gradient;
    memcpy(decay, inner ? n->d_inner : d, bytes);
    for (size_t gate = 0; gate < l->gates && rule_kind(kept->rule)->through_weights; gate++)
        for (size_t u = 0; u < l->size; u++)
            decay[u] += kept->hh[gate * l->padded + u] * own_weight(n, l, gate, u);
}

/* x of a step for layer k, also for a one-hot symbol. */
static const float *input_of(struct network *n, const struct network_steps *steps, size_t k,
                             size_t t) {
    if (!is_one_hot(n, k))
        return layer_input(n, steps, k, t);
    memset(n->kept.inputs, 0, n->layers[k].inputs * sizeof(float));
    n->kept.inputs[symbol_id(*steps->inputs[t])] = symbol_sign(*steps->inputs[t]);
    return n->kept.inputs;
}

/* Over all steps; `signal` (count, padded): the gradients of h after each, or of the inner state
   before it. */
static void advance(struct network *n, const struct network_steps *steps, size_t k,
                    const float *signal, float *trace) {
    const struct network_layer *l = &n->layers[k];
    float *decay = n->kept.decay, *weight = n->kept.weight;
    for (size_t t = 0; t < steps->count; t++, signal += l->padded) {
        const float *h = hidden_before(n, l, steps, t), *before = inner_before(n, l, steps, t);
        derive(n, l, network_position(n, steps->first, t), h, before, decay);
        for (size_t u = 0; u < l->padded; u++)
            weight[u] = l->kind->states > 1 ? signal[u] : signal[u] * decay[u];
        for (size_t gate = 1; gate < l->gates; gate++) {
            memcpy(decay + gate * l->padded, decay, l->padded * sizeof(float));
            memcpy(weight + gate * l->padded, weight, l->padded * sizeof(float));
        }
        const struct moment m = {
            n, l, input_of(n, steps, k, t), h, n->kept.ih, n->kept.hh, decay, weight, trace};
        move(&m);
    }
}

/* ---- The gradient ---- */

/* Each step separately, from n->d_hidden[0] to n->d_ih and n->d_hh; `signal` gets the weights of
   the traces. */
static void backward_alone(struct network *n, const struct network_steps *steps, size_t k,
                           float *signal) {
    const struct network_layer *l = &n->layers[k];
    size_t bytes = l->padded * sizeof(float);
    for (size_t t = 0; t < steps->count; t++) {
        float *d = n->d_hidden[0] + t * l->padded;
        memcpy(signal + t * l->padded, d, bytes);
        memset(n->d_inner, 0, bytes);
        cell_step_backward(n, l, network_position(n, steps->first, t),
                           hidden_before(n, l, steps, t), inner_before(n, l, steps, t), d,
                           n->d_ih + t * l->rows, n->d_hh + t * l->rows);
        if (l->kind->states > 1)
            memcpy(signal + t * l->padded, n->d_inner, bytes);
    }
}

struct network_gradient traces_backward(struct network *n, const struct network_steps *steps,
                                        const struct network_targets *targets, float *kept) {
    struct network_gradient g = {0, 0};
    if (targets) {
        memset(n->gradient + n->vectors, 0, (n->trained - n->vectors) * sizeof(float));
        g = backward_output(n, steps, targets);
    }
    for (size_t k = n->layer_count; k-- > 0;) {
        const struct network_layer *l = &n->layers[k];
        float *signal = n->kept.signal;
        if (targets) {
            backward_alone(n, steps, k, signal);
            backward_weights(n, steps, k);
        } else {
            memset(signal, 0, steps->count * l->padded * sizeof(float));
        }
        if (l->kind->states > 0)
            advance(n, steps, k, signal, kept);
        if (targets && k > 0)
            backward_input(n, k, steps->count, n->layers[k - 1].padded);
    }
    if (!targets)
        return g;
    if (has_embeddings(n))
        backward_embeddings(n, steps, targets->from);
    g.squares = sum_of_squares(n->gradient, n->trained);
    return g;
}
