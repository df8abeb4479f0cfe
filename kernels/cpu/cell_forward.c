/* One step of a layer: the part around the cells' formulas (kernels/cells/) that all cells
   share. Apart from the products with the weight matrices it takes some hundred elementwise
   operations per unit: bound by arithmetic. */
#include <string.h>

#include "cell_rows.h"
#include "matrix.h"
#include "normalization.h"
#include "split.h"

static void measure_groups(const struct network_layer *l, struct sum *s) {
    for (size_t k = 0; k < l->group_count; k++) {
        const struct norm_group *g = &l->groups[k];
        s->scales[k] = s->group[k] =
            norm_measure(s->values + g->first, l->mask + g->first, g->length, g->units, l->centred);
    }
}

/* sum = w h + bias, unit by unit (length,) */
static void diagonal_sum(const float *restrict w, const float *restrict bias,
                         const float *restrict h, size_t length, float *restrict sum) {
#pragma omp simd
    for (size_t i = 0; i < length; i++)
        sum[i] = w[i] * h[i] + bias[i];
}

static void recurrent_sum(const struct network *n, const struct network_layer *l, size_t position,
                          const float *h, float *sum) {
    const float *bias = l->source == SOURCE_NOTHING ? n->parameters + l->at[TENSOR_BIAS_HH] : NULL;
    if (l->diagonal) {
        const float *w = n->parameters + l->at[TENSOR_WEIGHT_HH];
        for (size_t i = 0; i < l->rows; i += l->padded)
            diagonal_sum(w + i, bias + i, h, l->padded, sum + i);
        return;
    }
    split_multiply(n, n->parameters + l->at[TENSOR_WEIGHT_HH], l->rows, l->size, bias, h, sum,
                   position % 2);
}

/* Number `i` of a sum after its normalization, in a gate of group `group`. */
INLINE float normalized(enum norm_source source, const struct sum *s, size_t group, size_t i) {
    float a = s->values[i];
    if (source == SOURCE_NOTHING)
        return a;
    bool units = source != SOURCE_GROUP;
    float x = normalization_of_unit(a, units ? s->mean[i] : s->group[group].mean,
                                    units ? s->rstd[i] : s->group[group].rstd);
    return normalization_apply(x, s->gain[i], s->bias[i]);
}

INLINE void load_sums(const struct cell_kind *kind, enum norm_source source, const struct rows *r,
                      size_t i, struct cell_unit *u) {
    for (size_t gate = 0; gate < kind->gates; gate++) {
        size_t group = gate >= kind->group_gates[0];
        u->ih[gate] = normalized(source, &r->ih, group, gate * r->padded + i);
        if (kind->apart)
            u->hh[gate] = normalized(source, &r->hh, group, gate * r->padded + i);
    }
}

INLINE void store_gates(const struct cell_kind *kind, const struct rows *r, size_t i,
                        const struct cell_unit *u) {
    for (size_t gate = 0; gate < kind->gates && kind->gated; gate++)
        r->gate[gate * r->padded + i] = u->gate[gate];
}

/* Computes those gates that can be computed at once from the normalized sums. The loop is
   separate, since a gate read from memory is one value: the compiler would otherwise move its
   computation into the cases of its function, and round differently. */
INLINE void gate_units(enum cell cell, enum norm_source source, const struct rows *rows) {
    const struct cell_kind *kind = constant_kind(cell);
    const struct rows r = *rows;
#pragma omp simd
    for (size_t i = 0; i < r.padded; i++) {
        struct cell_unit u;
        load_sums(kind, source, &r, i, &u);
        cell_gates(cell, &u);
        store_gates(kind, &r, i, &u);
        if (kind->own)
            r.inner[i] = u.inner;
    }
}

/* Computes the gates, and h unless a second stage does. */
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
            load_sums(kind, source, &r, i, &u);
        load_gates(kind, &r, i, &u);
        if (kind->own)
            u.inner = r.inner[i];
        if (kind->states > 0)
            u.h = r.h[i];
        if (kind->states > 1)
            u.before = r.before[i];
        load_factors(kind, &r, i, &u);
        cell_forward(cell, &u);
        store_gates(kind, &r, i, &u);
        if (kind->inner)
            r.inner[i] = u.inner;
        if (!kind->finishes)
            r.hidden[i] = u.out;
    }
}

/* The second stage: h from the gates and the inner value in `inner`. */
INLINE void finish_units(enum cell cell, enum norm_source source, const struct rows *rows,
                         const struct sum *inner) {
    const struct cell_kind *kind = constant_kind(cell);
    const struct rows r = *rows;
    const struct sum s = *inner;
#pragma omp simd
    for (size_t i = 0; i < r.padded; i++) {
        struct cell_unit u;
        u.gate[kind->finished_gate] = r.gate[kind->finished_gate * r.padded + i];
        u.inner = normalized(source, &s, 0, i);
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
    bool recurrent = kind->states > 0 && !kind->columns;
    if (recurrent)
        recurrent_sum(n, l, position, h, r.hh.values);
    if (recurrent && !kind->apart) {
        float *restrict a = r.ih.values, *restrict b = r.hh.values;
#pragma omp simd aligned(a, b : 64)
        for (size_t i = 0; i < l->rows; i++)
            a[i] += b[i];
    }
    if (source == SOURCE_GROUP)
        measure_groups(l, &r.ih);
    if (source == SOURCE_GROUP && kind->apart)
        measure_groups(l, &r.hh);
    forward_units(cell, activation, source, &r);
    if (!kind->finishes)
        return;
    struct sum inner = sum_at(n, l, PLACE_INNER, position);
    if (source == SOURCE_GROUP)
        *inner.scales = inner.group[0] =
            norm_measure(inner.values, l->mask, l->padded, l->size, l->centred);
    finish_units(cell, source, &r, &inner);
}

/* ---- For each cell, function and source of a norm's numbers ---- */

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
    case SOURCE_ROWS: /* the source of the units' numbers does not matter here */
    case SOURCE_RUNNING:
        forward_any_function(cell, SOURCE_ROWS, n, l, position, h, before);
        break;
    }
}

/* The output of columns: their states one after the other, without padding between them. */
static void normalize_output(const struct network *n, const struct network_layer *l,
                             size_t position) {
    size_t size = l->size, row = position * l->wide;
    float *restrict out = l->output + row;
    float *restrict x = l->normal ? l->joined + row : out;
    memset(x, 0, l->wide * sizeof *x);
    memcpy(x, l->hidden + position * l->padded, size * sizeof *x);
    if (l->width > size)
        memcpy(x + size, l->inner + position * l->padded, size * sizeof *x);
    if (!l->normal)
        return;
    const float *restrict gain = n->parameters + l->at[TENSOR_GAIN_IH];
    const float *restrict bias = n->parameters + l->at[TENSOR_NORM_BIAS_IH];
    struct norm_scale s = norm_measure(x, l->wide_mask, l->wide, l->width, true);
    l->scales[position * NETWORK_NORMS] = s;
#pragma omp simd
    for (size_t i = 0; i < l->wide; i++)
        out[i] = normalization_apply(normalization_of_unit(x[i], s.mean, s.rstd), gain[i], bias[i]);
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
    if (l->output != l->hidden && !l->residual)
        normalize_output(n, l, position);
}
