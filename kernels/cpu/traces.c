/* Rules that keep a trace, one number e for each parameter of a recurrent layer: its influence
   on the last state vector of its own unit (kernels/rules/snap1.h, eprop.h); for columns on each of
   its unit's states, which is exact (struct cell_kind). All units of a layer advance together. The
   layer's step backward from gradients of 1, with constant mean and deviation of groups, gives
   every row of I and D. Bound by the bytes of traces and gradient, which each step reads and writes
   once.

   For columns with two states, arrays of decay, weight, ih and seeds have a part for each: D_ij in
   part 2 i + j, the others in part i. */
#include <string.h>

#include "formulas.h"
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
    size_t states;        /* numbers of a parameter: 2 for columns with two states */
};

/* Numbers that are kept of one of the layer's parameters. */
static size_t states_of(const struct network_layer *l) {
    return l->column ? l->kind->states : 1;
}

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
        e[i] = formula_finite(moved);
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

/* The same for two numbers of a parameter; row `row` and those after it have parameters at `at`. */
INLINE void move_pair(const struct moment *m, size_t at, size_t row, const float *seed,
                      size_t seeds, float x, size_t width) {
    struct network *n = m->n;
    size_t rows = m->l->rows;
    float *restrict e = m->trace + kept_column(n, at), *restrict f = e + n->kept.row;
    float *restrict gradient = n->gradient + at;
    const float *restrict d = m->decay + row, *restrict w = m->weight + row;
    const float *restrict second = seed + seeds;
#pragma omp simd
    for (size_t i = 0; i < width; i++) {
        float a = e[i], b = f[i];
        gradient[i] += w[i] * a + w[rows + i] * b;
        e[i] = formula_finite(d[i] * a + d[rows + i] * b + seed[i] * x);
        f[i] = formula_finite(d[2 * rows + i] * a + d[3 * rows + i] * b + second[i] * x);
    }
}

static void move_matrix_of_pairs(const struct moment *m, enum tensor_role role, size_t columns) {
    size_t at = m->l->at[role], rows = m->l->rows, width;
    for (size_t row = 0; row < rows; row += width) {
        width = row + MATRIX_PANEL <= rows ? MATRIX_PANEL : MATRIX_PAD;
        for (size_t c = 0; c < columns; c++, at += width)
            move_pair(m, at, row, m->ih + row, rows, m->x[c], width);
    }
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

/* A vector (count,); `seed`: the step's own influence, of a second state `seeds` after it. */
static void move_vector(const struct moment *m, enum tensor_role role, const float *restrict seed,
                        size_t seeds, size_t count) {
    struct network *n = m->n;
    size_t first = m->l->at[role];
    if (m->states > 1) {
        move_pair(m, first, 0, seed, seeds, 1.0f, count);
        return;
    }
    float *restrict e = m->trace + kept_column(n, first), *restrict gradient = n->gradient + first;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        gradient[i] += m->weight[i] * e[i];
        e[i] = formula_finite(m->decay[i] * e[i] + seed[i]);
    }
}

/* Norms of an inner value and of columns' output do not affect the next state: what they learn has
   no trace. */
static void move(const struct moment *m) {
    const struct network_layer *l = m->l;
    const float *seeds = m->n->kept.gradient;
    int place = l->kind->apart ? PLACE_HH : PLACE_IH;
    size_t block = m->n->block;
    if (m->states > 1)
        move_matrix_of_pairs(m, TENSOR_WEIGHT_IH, l->inputs);
    else
        move_matrix(m, TENSOR_WEIGHT_IH, PLACE_IH, m->ih, m->x, l->inputs);
    move_vector(m, TENSOR_BIAS_IH, m->ih, l->rows, l->rows);
    for (size_t k = 0; k < l->kind->parameters; k++)
        move_vector(m, TENSOR_UNIT_0 + k, seeds + l->at[TENSOR_UNIT_0 + k], block, l->padded);
    if (l->diagonal) {
        move_vector(m, TENSOR_WEIGHT_HH, seeds + l->at[TENSOR_WEIGHT_HH], block, l->rows);
        move_vector(m, TENSOR_BIAS_HH, seeds + l->at[TENSOR_BIAS_HH], block, l->rows);
    }
    if (l->column)
        return;
    move_matrix(m, TENSOR_WEIGHT_HH, place, m->hh, m->h, l->size);
    if (l->source == SOURCE_NOTHING) {
        move_vector(m, TENSOR_BIAS_HH, m->hh, 0, l->rows);
        return;
    }
    for (int p = PLACE_IH; p <= place; p++) {
        move_vector(m, TENSOR_GAIN_IH + p, seeds + l->at[TENSOR_GAIN_IH + p], 0, l->rows);
        move_vector(m, TENSOR_NORM_BIAS_IH + p, seeds + l->at[TENSOR_NORM_BIAS_IH + p], 0, l->rows);
    }
}

/* ---- The layer's derivatives ---- */

/* A unit's weight from itself, of a gate. */
static float own_weight(const struct network *n, const struct network_layer *l, size_t gate,
                        size_t unit) {
    return n->parameters[l->at[TENSOR_WEIGHT_HH] +
                         matrix_index(l->rows, l->size, gate * l->padded + unit, unit)];
}

/* Of the unit's state `state` (1: the inner one): I of the sums into its part of kept->ih and of
   kept->hh, of gains and other vectors into that of kept->gradient, and D by h into kept->d, by the
   inner state into n->d_inner. */
static void derive(struct network *n, const struct network_layer *l, size_t position,
                   const float *h, const float *before, size_t state) {
    struct network_kept *kept = &n->kept;
    float *gradient = n->gradient, *d = kept->d;
    size_t part = l->column ? state : 0;
    float *seeds = kept->gradient + part * n->block;
    size_t vectors = l->vectors.end - l->vectors.from, bytes = l->padded * sizeof(float);
    memcpy(d, l->mask, bytes);
    memcpy(n->d_inner, l->mask, bytes);
    memset(state ? d : n->d_inner, 0, bytes);
    memset(seeds + l->vectors.from, 0, vectors * sizeof(float));
    n->gradient = seeds;
    kept->constant = true;
    cell_step_backward(n, l, position, h, before, d, kept->ih + part * l->rows, kept->hh);
    kept->constant = false;
    n->gradient = gradient;
    bool through = rule_kind(kept->rule)->through_weights && !l->column;
    for (size_t gate = 0; gate < l->gates && through; gate++)
        for (size_t u = 0; u < l->size; u++)
            d[u] += kept->hh[gate * l->padded + u] * own_weight(n, l, gate, u);
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

/* D and weights of one step's traces, for all gates; `signal` as in advance(). */
static void weigh(struct network *n, const struct network_steps *steps, size_t k, size_t t,
                  const float *signal) {
    const struct network_layer *l = &n->layers[k];
    float *decay = n->kept.decay, *weight = n->kept.weight;
    const float *h = hidden_before(n, l, steps, t), *before = inner_before(n, l, steps, t);
    size_t states = states_of(l), position = network_position(n, steps->first, t);
    size_t bytes = l->padded * sizeof(float), last = l->kind->states - 1;
    for (size_t i = 0; i < states; i++) {
        derive(n, l, position, h, before, l->column ? i : last);
        for (size_t j = 0; j < states; j++)
            memcpy(decay + (i * states + j) * l->rows,
                   (l->column ? j : last) ? n->d_inner : n->kept.d, bytes);
    }
    for (size_t j = 0; j < states; j++)
        for (size_t u = 0; u < l->padded; u++) {
            float w = !l->column && last ? signal[u] : signal[u] * decay[j * l->rows + u];
            if (states > 1)
                w += signal[l->padded + u] * decay[(states + j) * l->rows + u];
            weight[j * l->rows + u] = w;
        }
    for (size_t gate = 1; gate < l->gates; gate++) {
        for (size_t part = 0; part < states * states; part++)
            memcpy(decay + part * l->rows + gate * l->padded, decay + part * l->rows, bytes);
        for (size_t part = 0; part < states; part++)
            memcpy(weight + part * l->rows + gate * l->padded, weight + part * l->rows, bytes);
    }
}

/* Over all steps; `signal` (count, states, padded): the gradients of the traced states after
   each; for a full lstm that of the inner state before it. */
static void advance(struct network *n, const struct network_steps *steps, size_t k,
                    const float *signal, float *trace) {
    const struct network_layer *l = &n->layers[k];
    const struct network_kept *kept = &n->kept;
    for (size_t t = 0; t < steps->count; t++, signal += states_of(l) * l->padded) {
        weigh(n, steps, k, t, signal);
        const struct moment m = {n,
                                 l,
                                 input_of(n, steps, k, t),
                                 hidden_before(n, l, steps, t),
                                 kept->ih,
                                 kept->hh,
                                 kept->decay,
                                 kept->weight,
                                 trace,
                                 states_of(l)};
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
    for (size_t t = 0; t < steps->count; t++, signal += states_of(l) * l->padded) {
        float *d = n->d_hidden[0] + t * l->wide;
        memset(n->d_inner, 0, bytes);
        if (l->column)
            cell_output_backward(n, l, network_position(n, steps->first, t), d);
        memcpy(signal, d, bytes);
        if (states_of(l) > 1)
            memcpy(signal + l->padded, n->d_inner, bytes);
        cell_step_backward(n, l, network_position(n, steps->first, t),
                           hidden_before(n, l, steps, t), inner_before(n, l, steps, t), d,
                           n->d_ih + t * l->rows, n->d_hh + t * l->rows);
        if (l->kind->states > 1 && !l->column)
            memcpy(signal, n->d_inner, bytes);
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
            memset(signal, 0, steps->count * states_of(l) * l->padded * sizeof(float));
        }
        if (l->kind->states > 0)
            advance(n, steps, k, signal, kept);
        if (targets && k > 0)
            backward_input(n, k, steps->count, n->layers[k - 1].wide);
    }
    if (!targets)
        return g;
    if (has_embeddings(n))
        backward_embeddings(n, steps, targets->from);
    g.squares = sum_of_squares(n->gradient, n->trained);
    return g;
}
