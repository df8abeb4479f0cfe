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
    const float *x, *h; /* (inputs,), (size,) */
    float *trace;       /* the stream's traces */
    size_t states;      /* numbers of a parameter: 2 for columns with two states */
};

/* Numbers that are kept of one of the layer's parameters. */
static size_t states_of(const struct network_layer *l) {
    return l->column ? l->kind->states : 1;
}

/* ---- One step of the traces ---- */

/* A tensor's own influence in a step: seed x - pull w. */
struct influence {
    const float *seed; /* (rows,) */
    size_t seeds;      /* that on a second state is so far after it */
    const float *pull; /* (rows,), or NULL */
};

enum way { ONE_STATE, ONE_STATE_PULLED, TWO_STATES };

/* gradient += weight e, e = decay e + seed x - pull w, of parameters at `at` in the block, those of
   row `row` and the next ones. */
INLINE void move_column(const struct moment *m, const struct influence *own, size_t at, size_t row,
                        float x, const enum way way, const size_t width) {
    struct network *n = m->n;
    const size_t rows = m->l->rows;
    float *restrict e = m->trace + kept_column(n, at), *restrict f = e + n->kept.row;
    float *restrict gradient = n->gradient + at;
    const float *restrict d = n->kept.decay + row, *restrict weight = n->kept.weight + row;
    const float *restrict seed = own->seed + row, *restrict second = seed + own->seeds;
    const float *restrict pull = own->pull + row, *restrict w = n->parameters + at;
    if (way == TWO_STATES) {
#pragma omp simd
        for (size_t i = 0; i < width; i++) {
            float a = e[i], b = f[i];
            gradient[i] += weight[i] * a + weight[rows + i] * b;
            e[i] = formula_finite(d[i] * a + d[rows + i] * b + seed[i] * x);
            f[i] = formula_finite(d[2 * rows + i] * a + d[3 * rows + i] * b + second[i] * x);
        }
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < width; i++) {
        gradient[i] += weight[i] * e[i];
        float moved = d[i] * e[i] + seed[i] * x;
        if (way == ONE_STATE_PULLED)
            moved -= pull[i] * w[i];
        e[i] = formula_finite(moved);
    }
}

INLINE void move_panels(const struct moment *m, const struct influence *own, size_t at,
                        const float *x, size_t columns, const enum way way) {
    for (size_t row = 0, width; row < m->l->rows; row += width) {
        width = row + MATRIX_PANEL <= m->l->rows ? MATRIX_PANEL : MATRIX_PAD;
        for (size_t c = 0; c < columns; c++, at += width)
            if (width == MATRIX_PANEL)
                move_column(m, own, at, row, x[c], way, MATRIX_PANEL);
            else
                move_column(m, own, at, row, x[c], way, MATRIX_PAD);
    }
}

/* A matrix whose sums are normalized at `place`: with a norm of rows, its weights affect the
   deviation. */
static void move_matrix(const struct moment *m, enum tensor_role role, int place, const float *seed,
                        const float *x, size_t columns) {
    const struct network_layer *l = m->l;
    const struct influence own = {seed, l->rows, m->n->kept.pull};
    const float *gain = m->n->parameters + l->at[TENSOR_GAIN_IH + place];
    const float *d_gain = m->n->kept.gradient + l->at[TENSOR_GAIN_IH + place];
    bool pulls = l->source == SOURCE_ROWS;
    for (size_t i = 0; i < l->rows && pulls; i++)
        m->n->kept.pull[i] = normalization_rows_pull(gain[i], d_gain[i], l->units[place].rstd[i]);
    if (m->states > 1)
        move_panels(m, &own, l->at[role], x, columns, TWO_STATES);
    else if (pulls)
        move_panels(m, &own, l->at[role], x, columns, ONE_STATE_PULLED);
    else
        move_panels(m, &own, l->at[role], x, columns, ONE_STATE);
}

static void move_vector(const struct moment *m, enum tensor_role role, const float *seed,
                        size_t seeds, size_t count) {
    const struct influence own = {seed, seeds, seed};
    if (m->states > 1)
        move_column(m, &own, m->l->at[role], 0, 1.0f, TWO_STATES, count);
    else
        move_column(m, &own, m->l->at[role], 0, 1.0f, ONE_STATE, count);
}

/* A vector whose seeds are in the block of gradients. */
static void move_own(const struct moment *m, enum tensor_role role, size_t count) {
    move_vector(m, role, m->n->kept.gradient + m->l->at[role], m->n->block, count);
}

/* Gain and bias of an inner value, or of the output of columns, do not affect the next state: they
   have no trace. */
static void move(const struct moment *m) {
    const struct network_layer *l = m->l;
    int place = l->kind->apart ? PLACE_HH : PLACE_IH;
    move_matrix(m, TENSOR_WEIGHT_IH, PLACE_IH, m->n->kept.ih, m->x, l->inputs);
    move_vector(m, TENSOR_BIAS_IH, m->n->kept.ih, l->rows, l->rows);
    if (l->diagonal) {
        move_own(m, TENSOR_WEIGHT_HH, l->rows);
        move_own(m, TENSOR_BIAS_HH, l->rows);
    }
    for (size_t k = 0; k < l->kind->parameters; k++)
        move_own(m, TENSOR_UNIT_0 + k, l->padded);
    if (l->column)
        return;
    move_matrix(m, TENSOR_WEIGHT_HH, place, m->n->kept.hh, m->h, l->size);
    if (l->source == SOURCE_NOTHING)
        move_vector(m, TENSOR_BIAS_HH, m->n->kept.hh, 0, l->rows);
    for (int p = PLACE_IH; p <= place && l->source != SOURCE_NOTHING; p++) {
        move_own(m, TENSOR_GAIN_IH + p, l->rows);
        move_own(m, TENSOR_NORM_BIAS_IH + p, l->rows);
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
    cell_input_backward(n, l, position, kept->ih + part * l->rows);
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
    for (size_t t = 0; t < steps->count; t++, signal += states_of(l) * l->padded) {
        weigh(n, steps, k, t, signal);
        const struct moment m = {
            n, l, input_of(n, steps, k, t), hidden_before(n, l, steps, t), trace, states_of(l)};
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
        size_t position = network_position(n, steps->first, t);
        memset(n->d_inner, 0, bytes);
        if (l->column)
            cell_output_backward(n, l, position, d);
        memcpy(signal, d, bytes);
        if (states_of(l) > 1)
            memcpy(signal + l->padded, n->d_inner, bytes);
        cell_step_backward(n, l, position, hidden_before(n, l, steps, t),
                           inner_before(n, l, steps, t), d, n->d_ih + t * l->rows,
                           n->d_hh + t * l->rows);
        cell_input_backward(n, l, position, n->d_ih + t * l->rows);
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
