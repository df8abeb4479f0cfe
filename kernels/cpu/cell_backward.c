/* A layer's step backward: from the gradient of h to those of its sums and of the state before
   it. Bound by arithmetic, like forward. */
#include <string.h>

#include "cell_rows.h"
#include "normalization.h"

/* Backward for numbers from..end of a sum whose mean and deviation are constants: `scale`, or
   without it those of units. */
INLINE void normalize_constant_backward(const struct sum *s, struct range part,
                                        const struct norm_scale *scale, const float *d, float *dz) {
    const float *restrict a = s->values, *restrict gain = s->gain;
    float *restrict d_gain = s->d_gain, *restrict d_bias = s->d_bias;
    struct norm_scale of = scale ? *scale : (struct norm_scale){0, 0};
#pragma omp simd
    for (size_t i = part.from; i < part.end; i++) {
        float mean = scale ? of.mean : s->mean[i], rstd = scale ? of.rstd : s->rstd[i];
        d_gain[i] += d[i] * normalization_of_unit(a[i], mean, rstd);
        d_bias[i] += d[i];
        dz[i] = normalization_unit_backward(d[i], gain[i], rstd);
    }
}

/* d (rows,), the gradient after gain and bias, becomes dz, that of the sum; d may be dz. */
INLINE void normalize_sum_backward(enum norm_source source, const struct network *n,
                                   const struct network_layer *l, const struct sum *s,
                                   const float *d, float *dz) {
    if (source != SOURCE_GROUP)
        normalize_constant_backward(s, (struct range){0, l->rows}, NULL, d, dz);
    for (size_t k = 0; k < l->group_count && source == SOURCE_GROUP; k++) {
        const struct norm_group *g = &l->groups[k];
        size_t i = g->first;
        if (n->kept.constant)
            normalize_constant_backward(s, (struct range){i, i + g->length}, &s->scales[k], d, dz);
        else
            normalize_backward(d + i, s->values + i, s->gain + i, s->scales[k], l->mask + i,
                               g->length, g->units, l->centred, dz + i, s->d_gain + i,
                               s->d_bias + i);
    }
}

/* The second stage: d, the gradient of h, becomes that of the inner value after its norm; d_gate
   (padded,) gets that of the finished gate. */
INLINE void finish_units_backward(enum cell cell, const struct rows *rows, float *d,
                                  float *d_gate) {
    const struct cell_kind *kind = constant_kind(cell);
    const struct rows r = *rows;
#pragma omp simd
    for (size_t i = 0; i < r.padded; i++) {
        struct cell_unit u;
        struct cell_gradient g;
        u.gate[kind->finished_gate] = r.gate[kind->finished_gate * r.padded + i];
        u.squashed = r.squashed[i];
        cell_finish_backward(cell, &u, d[i], &g);
        d_gate[i] = g.gate[kind->finished_gate];
        d[i] = g.inner;
    }
}

/* Sets d_gate (rows,), the gradients of the gates' sums after their norms, and d_own (padded,),
   that of the last gate's recurrent sum. `d` is the gradient of h or, for a cell that finishes,
   of the inner value; `carried` (padded,) gets the gradient that does not pass through the
   weights. */
INLINE void backward_units(enum cell cell, enum activation activation, const struct rows *rows,
                           const float *d, float *carried, float *d_gate, float *d_own) {
    const struct cell_kind *kind = constant_kind(cell);
    const struct rows r = *rows;
#pragma omp simd
    for (size_t i = 0; i < r.padded; i++) {
        struct cell_unit u;
        struct cell_gradient g;
        u.activation = activation;
        load_gates(kind, &r, i, &u);
        if (kind->inner)
            u.inner = r.inner[i];
        if (kind->states > 0)
            u.h = r.h[i];
        if (kind->states > 1)
            u.before = r.before[i];
        u.out = r.hidden[i];
        g.before = 0.0f;
        if (kind->outputs > 1)
            g.inner = r.d_inner[i];
        load_factors(kind, &r, i, &u);
        cell_backward(cell, &u, kind->finishes ? carried[i] + d[i] : d[i], &g);
        for (size_t gate = 0; gate < kind->gates; gate++)
            if (gate != kind->finished_gate)
                d_gate[gate * r.padded + i] = g.gate[gate];
        if (kind->own)
            d_own[i] = g.own;
        if (kind->outputs > 1)
            r.d_inner[i] = g.before;
        carried[i] = kind->outputs > 1 ? g.h : g.before;
        for (size_t k = 0; k < kind->parameters; k++)
            r.d_parameters[k][i] += g.parameter[k];
    }
}

/* d (padded,) += sum over gates of w d_hh; and adds to the gradients of the vectors. */
static void diagonal_backward(const struct network *n, const struct network_layer *l,
                              const float *restrict h, const float *d_hh, float *restrict d) {
    for (size_t row = 0; row < l->rows; row += l->padded) {
        const float *restrict w = n->parameters + l->at[TENSOR_WEIGHT_HH] + row;
        const float *restrict d_sum = d_hh + row;
        float *restrict d_w = n->gradient + l->at[TENSOR_WEIGHT_HH] + row;
        float *restrict d_bias = n->gradient + l->at[TENSOR_BIAS_HH] + row;
#pragma omp simd
        for (size_t i = 0; i < l->padded; i++) {
            d[i] += w[i] * d_sum[i];
            d_w[i] += d_sum[i] * h[i];
            d_bias[i] += d_sum[i];
        }
    }
}

INLINE void backward(enum cell cell, enum activation activation, enum norm_source source,
                     const struct network *n, const struct network_layer *l, size_t position,
                     const float *h, const float *before, float *d, float *d_ih, float *d_hh) {
    const struct cell_kind *kind = constant_kind(cell);
    size_t p = l->padded, last = (kind->gates - 1) * p;
    struct rows r = rows_at(n, l, position, h, before);
    const float *through = d;
    if (kind->finishes) {
        finish_units_backward(cell, &r, d, d_ih + kind->finished_gate * p);
        if (source != SOURCE_NOTHING) {
            struct sum inner = sum_at(n, l, PLACE_INNER, position);
            float *dz = n->d_state; /* free until the next step's products */
            if (source == SOURCE_GROUP)
                normalize_backward(d, inner.values, inner.gain, *inner.scales, l->mask, p, l->size,
                                   l->centred, dz, inner.d_gain, inner.d_bias);
            else
                normalize_constant_backward(&inner, (struct range){0, p}, NULL, d, dz);
            through = dz;
        }
    }
    backward_units(cell, activation, &r, through, kind->finishes ? n->d_inner : d, d_ih,
                   kind->own ? d_hh + last : NULL);
    if (kind->finishes)
        memset(d, 0, p * sizeof(float));
    bool apart = kind->apart && source != SOURCE_NOTHING;
    if (!kind->apart && source != SOURCE_NOTHING)
        normalize_sum_backward(source, n, l, &r.ih, d_ih, d_ih);
    if (kind->states == 0 || kind->columns)
        return;
    if (kind->own || !apart)
        memcpy(d_hh, d_ih, (kind->own ? last : l->rows) * sizeof(float));
    if (apart)
        normalize_sum_backward(source, n, l, &r.hh, kind->own ? d_hh : d_ih, d_hh);
    else if (l->diagonal)
        diagonal_backward(n, l, h, d_hh, d);
}

/* ---- For each cell, function and source of a norm's numbers ---- */

INLINE void backward_any_function(enum cell cell, enum norm_source source, const struct network *n,
                                  const struct network_layer *l, size_t position, const float *h,
                                  const float *before, float *d, float *d_ih, float *d_hh) {
    if (!constant_kind(cell)->function) {
        backward(cell, l->activation, source, n, l, position, h, before, d, d_ih, d_hh);
        return;
    }
    switch (l->activation) {
#define ACTIVATION(name)                                                                           \
    case ACTIVATION_##name:                                                                        \
        backward(cell, ACTIVATION_##name, source, n, l, position, h, before, d, d_ih, d_hh);       \
        break;
#include "kinds.def"
    default:
        break;
    }
}

INLINE void backward_any_source(enum cell cell, const struct network *n,
                                const struct network_layer *l, size_t position, const float *h,
                                const float *before, float *d, float *d_ih, float *d_hh) {
    switch (l->source) {
    case SOURCE_NOTHING:
        backward_any_function(cell, SOURCE_NOTHING, n, l, position, h, before, d, d_ih, d_hh);
        break;
    case SOURCE_GROUP:
        backward_any_function(cell, SOURCE_GROUP, n, l, position, h, before, d, d_ih, d_hh);
        break;
    case SOURCE_ROWS: /* the source of the units' numbers does not matter here */
    case SOURCE_RUNNING:
        backward_any_function(cell, SOURCE_ROWS, n, l, position, h, before, d, d_ih, d_hh);
        break;
    }
}

void cell_step_backward(const struct network *n, const struct network_layer *l, size_t position,
                        const float *h, const float *before, float *d, float *d_ih, float *d_hh) {
    switch (l->cell) {
#define CELL(name)                                                                                 \
    case CELL_##name:                                                                              \
        backward_any_source(CELL_##name, n, l, position, h, before, d, d_ih, d_hh);                \
        break;
#include "kinds.def"
    default:
        break;
    }
}

void cell_input_backward(const struct network *n, const struct network_layer *l, size_t position,
                         float *d_ih) {
    struct sum s = sum_at(n, l, PLACE_IH, position);
    if (l->kind->apart && l->source != SOURCE_NOTHING)
        normalize_sum_backward(l->source, n, l, &s, d_ih, d_ih);
}

void cell_output_backward(const struct network *n, const struct network_layer *l, size_t position,
                          float *d) {
    size_t size = l->size;
    if (l->normal)
        normalize_backward(d, l->joined + position * l->wide, n->parameters + l->at[TENSOR_GAIN_IH],
                           l->scales[position * NETWORK_NORMS], l->wide_mask, l->wide, l->width,
                           true, d, n->gradient + l->at[TENSOR_GAIN_IH],
                           n->gradient + l->at[TENSOR_NORM_BIAS_IH]);
    for (size_t i = size; i < l->width; i++)
        n->d_inner[i - size] += d[i];
    memset(d + size, 0, (l->wide - size) * sizeof *d);
}
