/* A layer at one step: what is the same in all cells around the formulas of each (kernels/cells/).
   Beside the products with the weight matrices it costs some hundred elementwise operations a unit:
   bound by arithmetic. */
#include "cells.h"

#include <string.h>

#include "matrix.h"
#include "network.h"
#include "normalization.h"
#include "vector.h"

/* The constant description of a cell that is a constant here. */
INLINE const struct cell_kind *constant_kind(enum cell cell) {
    switch (cell) {
#define CELL(name)                                                                                 \
    case CELL_##name:                                                                              \
        return &name##_kind;
#include "kinds.def"
    default:
        break;
    }
    return NULL;
}

/* What is normalized at a place of a layer: its row at a position, and the norm's parameters. */
struct sum {
    float *values;
    const float *gain, *bias;
    float *d_gain, *d_bias;
    struct norm_scale *scales; /* of groups */
    const float *mean, *rstd;  /* of units */
};

INLINE struct sum sum_at(const struct network *n, const struct network_layer *l, int place,
                         size_t position) {
    float *values = place == PLACE_IH   ? l->summed_ih + position * l->rows
                    : place == PLACE_HH ? l->summed_hh + position * l->rows
                    : l->ages           ? l->inner + position * l->padded
                                        : l->inner_normal + position * l->padded;
    const struct unit_norm *units = &l->units[place];
    size_t row = l->ages ? network_age(n, l, position) * units->width : 0;
    size_t gain = l->at[TENSOR_GAIN_IH + place], bias = l->at[TENSOR_NORM_BIAS_IH + place];
    return (struct sum){
        values,
        n->parameters + gain,
        n->parameters + bias,
        n->gradient + gain,
        n->gradient + bias,
        l->scales + position * NETWORK_NORMS + place * CELL_GROUPS_MAX,
        units->mean + row,
        units->rstd + row,
    };
}

static void normalize_groups(const struct network_layer *l, const struct sum *s) {
    for (size_t k = 0; k < l->group_count; k++) {
        const struct norm_group *g = &l->groups[k];
        s->scales[k] =
            normalize(s->values + g->first, l->mask + g->first, g->length, g->units, l->centred);
    }
}

/* d (rows,), the gradient after gain and bias, becomes dz, that of the sum. */
static void normalize_groups_backward(const struct network_layer *l, const struct sum *s,
                                      const float *d, float *dz) {
    for (size_t k = 0; k < l->group_count; k++) {
        const struct norm_group *g = &l->groups[k];
        size_t i = g->first;
        normalize_backward(d + i, s->values + i, s->gain + i, s->scales[k], l->mask + i, g->length,
                           g->units, l->centred, dz + i, s->d_gain + i, s->d_bias + i);
    }
}

/* The same for norms of units. (length,) */
static void normalize_units_backward(const struct sum *s, size_t length, const float *restrict d,
                                     float *restrict dz) {
    const float *restrict a = s->values, *restrict gain = s->gain, *restrict mean = s->mean,
                          *restrict rstd = s->rstd;
    float *restrict d_gain = s->d_gain, *restrict d_bias = s->d_bias;
#pragma omp simd
    for (size_t i = 0; i < length; i++) {
        d_gain[i] += d[i] * normalization_of_unit(a[i], mean[i], rstd[i]);
        d_bias[i] += d[i];
        dz[i] = normalization_unit_backward(d[i], gain[i], rstd[i]);
    }
}

static void recurrent_sum(const struct network *n, const struct network_layer *l, size_t position,
                          const float *h, float *sum) {
    const float *bias = l->source == SOURCE_NOTHING ? n->parameters + l->at[TENSOR_BIAS_HH] : NULL;
    matrix_multiply(n->parameters + l->at[TENSOR_WEIGHT_HH], l->rows, l->size, bias, h, sum,
                    position % 2);
}

/* Number `i` of a sum after its normalization. */
INLINE float normalized(enum norm_source source, const struct sum *s, size_t i) {
    float a = s->values[i];
    if (source == SOURCE_NOTHING)
        return a;
    float x = source == SOURCE_GROUP ? a : normalization_of_unit(a, s->mean[i], s->rstd[i]);
    return normalization_apply(x, s->gain[i], s->bias[i]);
}

/* ---- forward ---- */

/* Arrays of one step, and the state before it. */
struct rows {
    struct sum ih, hh;
    float *gate, *inner, *squashed, *hidden;
    const float *h, *before;
    size_t padded;
};

INLINE struct rows rows_at(const struct network *n, const struct network_layer *l, size_t position,
                           const float *h, const float *before) {
    return (struct rows){
        sum_at(n, l, PLACE_IH, position),
        sum_at(n, l, PLACE_HH, position),
        l->gate + position * l->rows,
        l->inner + position * l->padded,
        l->squashed + position * l->padded,
        l->hidden + position * l->padded,
        h,
        before,
        l->padded,
    };
}

INLINE void load_sums(const struct cell_kind *kind, enum norm_source source, const struct rows *r,
                      size_t gate, size_t i, struct cell_unit *u) {
    if (gate >= kind->gates)
        return;
    u->ih[gate] = normalized(source, &r->ih, gate * r->padded + i);
    if (kind->apart)
        u->hh[gate] = normalized(source, &r->hh, gate * r->padded + i);
}

INLINE void store_gate(const struct cell_kind *kind, const struct rows *r, size_t gate, size_t i,
                       const struct cell_unit *u) {
    if (kind->gated && gate < kind->gates)
        r->gate[gate * r->padded + i] = u->gate[gate];
}

INLINE void load_gate(const struct cell_kind *kind, const struct rows *r, size_t gate, size_t i,
                      struct cell_unit *u) {
    if (kind->gated && gate < kind->gates)
        u->gate[gate] = r->gate[gate * r->padded + i];
}

INLINE void store_gates(const struct cell_kind *kind, const struct rows *r, size_t i,
                        const struct cell_unit *u) {
    store_gate(kind, r, 0, i, u);
    store_gate(kind, r, 1, i, u);
    store_gate(kind, r, 2, i, u);
    store_gate(kind, r, 3, i, u);
}

INLINE void load_gates(const struct cell_kind *kind, const struct rows *r, size_t i,
                       struct cell_unit *u) {
    load_gate(kind, r, 0, i, u);
    load_gate(kind, r, 1, i, u);
    load_gate(kind, r, 2, i, u);
    load_gate(kind, r, 3, i, u);
}

/* From the sums after their norms to what can be known of the gates at once. It has a loop of its
   own: a value that comes out of memory is one value, whereas the compiler would carry what is made
   of a gate into the cases of its function, and round otherwise. */
INLINE void gate_units(enum cell cell, enum norm_source source, const struct rows *rows) {
    const struct cell_kind *kind = constant_kind(cell);
    const struct rows r = *rows;
#pragma omp simd
    for (size_t i = 0; i < r.padded; i++) {
        struct cell_unit u;
        load_sums(kind, source, &r, 0, i, &u);
        load_sums(kind, source, &r, 1, i, &u);
        load_sums(kind, source, &r, 2, i, &u);
        load_sums(kind, source, &r, 3, i, &u);
        cell_gates(cell, &u);
        store_gates(kind, &r, i, &u);
        if (kind->own)
            r.inner[i] = u.inner;
    }
}

/* To the gates, and to h unless it is made in a second stage. */
INLINE void forward_units(enum cell cell, enum activation activation, enum norm_source source,
                          const struct rows *rows) {
    const struct cell_kind *kind = constant_kind(cell);
    const struct rows r = *rows;
    if (kind->gated)
        gate_units(cell, source, rows);
#pragma omp simd
    for (size_t i = 0; i < r.padded; i++) {
        struct cell_unit u;
        u.activation = activation;
        if (!kind->gated)
            load_sums(kind, source, &r, 0, i, &u);
        load_gates(kind, &r, i, &u);
        if (kind->own)
            u.inner = r.inner[i];
        if (kind->states > 0)
            u.h = r.h[i];
        if (kind->states > 1)
            u.before = r.before[i];
        cell_forward(cell, &u);
        store_gates(kind, &r, i, &u);
        if (kind->inner)
            r.inner[i] = u.inner;
        if (!kind->finishes)
            r.hidden[i] = u.out;
    }
}

/* The second stage: h, from the gates and the inner value, which `inner` has. */
INLINE void finish_units(enum cell cell, enum norm_source source, const struct rows *rows,
                         const struct sum *inner) {
    const struct cell_kind *kind = constant_kind(cell);
    const struct rows r = *rows;
    const struct sum s = *inner;
#pragma omp simd
    for (size_t i = 0; i < r.padded; i++) {
        struct cell_unit u;
        u.gate[kind->finished_gate] = r.gate[kind->finished_gate * r.padded + i];
        u.inner = normalized(source, &s, i);
        cell_finish(cell, &u);
        r.squashed[i] = u.squashed;
        r.hidden[i] = u.out;
    }
}

INLINE void forward(enum cell cell, enum activation activation, enum norm_source source,
                    const struct network *n, const struct network_layer *l, size_t position,
                    const float *h, const float *before) {
    const struct cell_kind *kind = constant_kind(cell);
    struct rows r = rows_at(n, l, position, h, before);
    if (kind->states > 0)
        recurrent_sum(n, l, position, h, r.hh.values);
    if (kind->states > 0 && !kind->apart) {
        float *restrict a = r.ih.values, *restrict b = r.hh.values;
#pragma omp simd aligned(a, b : 64)
        for (size_t i = 0; i < l->rows; i++)
            a[i] += b[i];
    }
    if (source == SOURCE_GROUP)
        normalize_groups(l, &r.ih);
    if (source == SOURCE_GROUP && kind->apart)
        normalize_groups(l, &r.hh);
    forward_units(cell, activation, source, &r);
    if (!kind->finishes)
        return;
    struct sum inner = sum_at(n, l, PLACE_INNER, position);
    if (source == SOURCE_GROUP) {
        memcpy(inner.values, r.inner, l->padded * sizeof(float));
        *inner.scales = normalize(inner.values, l->mask, l->padded, l->size, l->centred);
    } else {
        inner.values = r.inner;
    }
    finish_units(cell, source, &r, &inner);
}

/* ---- backward ---- */

INLINE void store_gradient(const struct cell_kind *kind, const struct rows *r, float *d,
                           size_t gate, size_t i, const struct cell_gradient *g) {
    if (gate < kind->gates && gate != kind->finished_gate)
        d[gate * r->padded + i] = g->gate[gate];
}

/* The second stage: d, the gradient of h, becomes that of the inner value after its norm; that of
   the finished gate goes to d_gate (padded,). */
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

/* The gradients of the gates' sums after their norms into d_gate (rows,), that of the last gate's
   recurrent sum into d_own (padded,). `d` is the gradient of h or, of a cell that finishes, of the
   inner value; the gradient of what is carried past the weights becomes `carried` (padded,). */
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
        cell_backward(cell, &u, kind->finishes ? carried[i] + d[i] : d[i], &g);
        store_gradient(kind, &r, d_gate, 0, i, &g);
        store_gradient(kind, &r, d_gate, 1, i, &g);
        store_gradient(kind, &r, d_gate, 2, i, &g);
        store_gradient(kind, &r, d_gate, 3, i, &g);
        if (kind->own)
            d_own[i] = g.own;
        carried[i] = g.before;
    }
}

INLINE void backward(enum cell cell, enum activation activation, enum norm_source source,
                     const struct network *n, const struct network_layer *l, size_t position,
                     const float *h, const float *before, float *d, float *d_ih, float *d_hh) {
    const struct cell_kind *kind = constant_kind(cell);
    size_t p = l->padded, last = (kind->gates - 1) * p;
    struct rows r = rows_at(n, l, position, h, before);
    float *d_gate = source == SOURCE_NOTHING ? d_ih : n->d_gate;
    const float *through = d;
    if (kind->finishes) {
        finish_units_backward(cell, &r, d, d_gate + kind->finished_gate * p);
        if (source != SOURCE_NOTHING) {
            struct sum inner = sum_at(n, l, PLACE_INNER, position);
            float *dz = n->d_state; /* free until the next step's products */
            if (source == SOURCE_GROUP)
                normalize_backward(d, inner.values, inner.gain, *inner.scales, l->mask, p, l->size,
                                   l->centred, dz, inner.d_gain, inner.d_bias);
            else
                normalize_units_backward(&inner, p, d, dz);
            through = dz;
        }
    }
    backward_units(cell, activation, &r, through, kind->finishes ? n->d_inner : d, d_gate,
                   kind->own ? d_hh + last : NULL);
    if (kind->finishes)
        memset(d, 0, p * sizeof(float));
    if (source == SOURCE_GROUP)
        normalize_groups_backward(l, &r.ih, d_gate, d_ih);
    else if (source != SOURCE_NOTHING)
        normalize_units_backward(&r.ih, l->rows, d_gate, d_ih);
    if (kind->states == 0)
        return;
    if (!kind->apart || source == SOURCE_NOTHING) {
        memcpy(d_hh, d_ih, (kind->own ? last : l->rows) * sizeof(float));
        return;
    }
    if (kind->own)
        memcpy(d_gate + last, d_hh + last, p * sizeof(float));
    if (source == SOURCE_GROUP)
        normalize_groups_backward(l, &r.hh, d_gate, d_hh);
    else
        normalize_units_backward(&r.hh, l->rows, d_gate, d_hh);
}

/* ---- once for each cell, function and source of a norm's numbers ---- */

INLINE void forward_any_function(enum cell cell, enum norm_source source, const struct network *n,
                                 const struct network_layer *l, size_t position, const float *h,
                                 const float *before) {
    if (!constant_kind(cell)->function) {
        forward(cell, l->activation, source, n, l, position, h, before);
        return;
    }
    switch (l->activation) {
#define ACTIVATION(name)                                                                           \
    case ACTIVATION_##name:                                                                        \
        forward(cell, ACTIVATION_##name, source, n, l, position, h, before);                       \
        break;
#include "kinds.def"
    default:
        break;
    }
}

INLINE void forward_any_source(enum cell cell, const struct network *n,
                               const struct network_layer *l, size_t position, const float *h,
                               const float *before) {
    switch (l->source) {
    case SOURCE_NOTHING:
        forward_any_function(cell, SOURCE_NOTHING, n, l, position, h, before);
        break;
    case SOURCE_GROUP:
        forward_any_function(cell, SOURCE_GROUP, n, l, position, h, before);
        break;
    case SOURCE_ROWS: /* where units' numbers come from makes no difference here */
    case SOURCE_RUNNING:
        forward_any_function(cell, SOURCE_ROWS, n, l, position, h, before);
        break;
    }
}

void cell_step(const struct network *n, const struct network_layer *l, size_t position,
               const float *h, const float *before) {
    switch (l->cell) {
#define CELL(name)                                                                                 \
    case CELL_##name:                                                                              \
        forward_any_source(CELL_##name, n, l, position, h, before);                                \
        break;
#include "kinds.def"
    default:
        break;
    }
}

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
    case SOURCE_ROWS: /* where units' numbers come from makes no difference here */
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
