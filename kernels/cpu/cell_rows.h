/* The rows of one position, used by a layer's step forward and backward. */
#ifndef RUNNEL_CELL_ROWS_H
#define RUNNEL_CELL_ROWS_H

#include "cells.h"
#include "network.h"
#include "vector.h"

/* The constant description of a cell that is a constant here. */
INLINE const struct cell_kind *constant_kind(enum cell cell) {
    switch (cell) {
#define CELL(name)                                                                                 \
case CELL_##name:                                                                                  \
    return &name##_kind;
#include "kinds.def"
    default:
        break;
    }
    return NULL;
}

/* A normalized sum of a layer: its row at a position, and the norm's parameters. */
struct sum {
    float *values;
    const float *gain, *bias;
    float *d_gain, *d_bias;
    const float *mean, *rstd;                 /* for norms of units */
    struct norm_scale *scales;                /* for norms of groups */
    struct norm_scale group[CELL_GROUPS_MAX]; /* the same, measured in this step forward */
};

INLINE struct sum sum_at(const struct network *n, const struct network_layer *l, int place,
                         size_t position) {
    float *values = place == PLACE_IH   ? l->summed_ih + position * l->rows
                    : place == PLACE_HH ? l->summed_hh + position * l->rows
                                        : l->inner + position * l->padded;
    const struct unit_norm *units = &l->units[place];
    size_t row = l->ages ? network_age(n, l, position) * units->width : 0;
    size_t gain = l->at[TENSOR_GAIN_IH + place], bias = l->at[TENSOR_NORM_BIAS_IH + place];
    return (struct sum){
        values,
        n->parameters + gain,
        n->parameters + bias,
        n->gradient + gain,
        n->gradient + bias,
        units->mean + row,
        units->rstd + row,
        l->scales + position * NETWORK_NORMS + place * CELL_GROUPS_MAX,
        {{0, 0}},
    };
}

/* Arrays of one step, and the state before it. */
struct rows {
    struct sum ih, hh;
    float *gate, *inner, *squashed, *hidden;
    const float *h, *before;
    size_t padded;
    const float *factors;
    float *d_inner, *d_parameters[CELL_PARAMETERS_MAX];
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
        l->factors,
        n->d_inner,
        {n->gradient + l->at[TENSOR_UNIT_0], n->gradient + l->at[TENSOR_UNIT_1]},
    };
}

INLINE void load_factors(const struct cell_kind *kind, const struct rows *r, size_t i,
                         struct cell_unit *u) {
    for (size_t k = 0; k < CELL_FACTORS_MAX && kind->parameters; k++)
        u->factor[k] = r->factors[k * r->padded + i];
}

INLINE void load_gates(const struct cell_kind *kind, const struct rows *r, size_t i,
                       struct cell_unit *u) {
    for (size_t gate = 0; gate < kind->gates && kind->gated; gate++)
        u->gate[gate] = r->gate[gate * r->padded + i];
}

#endif
