/* Norms with a mean and deviation per unit: from rows of matrices, or running. Once per update;
   bound by the bytes of the matrices. */
#include <string.h>

#include "cells.h"
#include "matrix.h"
#include "network.h"
#include "normalization.h"
#include "vector.h"

/* One panel of a matrix: `width` rows from `first` on. */
struct panel {
    size_t first, width;
};

static struct panel panel_at(size_t rows, size_t first) {
    size_t wide = rows / MATRIX_PANEL * MATRIX_PANEL;
    return (struct panel){first, first < wide ? MATRIX_PANEL : MATRIX_PAD};
}

/* sums (rows,) += squares along the rows of w. */
static void add_squares(const float *w, size_t rows, size_t columns, float *sums) {
    for (struct panel p = panel_at(rows, 0); p.first < rows;
         p = panel_at(rows, p.first + p.width)) {
        const float *restrict values = w + p.first * columns;
        float *restrict out = sums + p.first;
        for (size_t c = 0; c < columns; c++, values += p.width) {
#pragma omp simd
            for (size_t i = 0; i < p.width; i++)
                out[i] += values[i] * values[i];
        }
    }
}

double units_pull(const struct network *n, const struct network_layer *l, int place,
                  enum tensor_role role, size_t columns) {
    const float *gain = n->parameters + l->at[TENSOR_GAIN_IH + place];
    const float *d_gain = n->gradient + l->at[TENSOR_GAIN_IH + place];
    const float *rstd = l->units[place].rstd;
    for (struct panel p = panel_at(l->rows, 0); p.first < l->rows;
         p = panel_at(l->rows, p.first + p.width)) {
        const float *restrict w = n->parameters + l->at[role] + p.first * columns;
        float *restrict gradient = n->gradient + l->at[role] + p.first * columns;
        float pull[MATRIX_PANEL];
        for (size_t i = 0; i < p.width; i++)
            pull[i] =
                normalization_rows_pull(gain[p.first + i], d_gain[p.first + i], rstd[p.first + i]);
        for (size_t c = 0; c < columns; c++, w += p.width, gradient += p.width) {
#pragma omp simd
            for (size_t i = 0; i < p.width; i++)
                gradient[i] -= pull[i] * w[i];
        }
    }
    return sum_of_squares(n->gradient + l->at[role], l->rows * columns);
}

static void make_rstd(const struct network_layer *l, const struct unit_norm *u) {
    for (size_t k = 0; k < l->ages * u->width; k++)
        u->rstd[k] = normalization_rstd(u->var[k]);
}

static void refresh_rows(const struct network *n, const struct network_layer *l) {
    const struct cell_kind *kind = l->kind;
    const struct unit_norm *ih = &l->units[PLACE_IH], *hh = &l->units[PLACE_HH];
    const float *recurrent = n->parameters + l->at[TENSOR_WEIGHT_HH];
    memset(ih->var, 0, l->rows * sizeof(float));
    add_squares(n->parameters + l->at[TENSOR_WEIGHT_IH], l->rows, l->inputs, ih->var);
    if (kind->states > 0 && !kind->apart)
        add_squares(recurrent, l->rows, l->size, ih->var);
    make_rstd(l, ih);
    if (kind->apart) {
        memset(hh->var, 0, l->rows * sizeof(float));
        add_squares(recurrent, l->rows, l->size, hh->var);
        make_rstd(l, hh);
    }
    for (size_t i = 0; i < l->padded && kind->finishes; i++)
        l->units[PLACE_INNER].rstd[i] = 1.0f;
}

static void refresh_factors(const struct network *n, const struct network_layer *l) {
    for (size_t i = 0; i < l->padded; i++) {
        struct cell_unit u = {0};
        for (size_t k = 0; k < l->kind->parameters; k++)
            u.parameter[k] = n->parameters[l->at[TENSOR_UNIT_0 + k] + i];
        cell_factors(l->cell, &u);
        for (size_t k = 0; k < CELL_FACTORS_MAX; k++)
            l->factors[k * l->padded + i] = u.factor[k];
    }
}

void units_refresh(struct network *n) {
    n->held = SIZE_MAX;
    for (size_t k = 1; k < n->model->chain_count && n->chain->kind == CHAIN_MODEL; k++)
        units_refresh(n->chains[k]);
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        if (l->source == SOURCE_ROWS)
            refresh_rows(n, l);
        if (l->kind->parameters)
            refresh_factors(n, l);
        for (size_t place = 0; place < PLACES && l->source == SOURCE_RUNNING; place++)
            if (l->kind->norms[place])
                make_rstd(l, &l->units[place]);
    }
}

/* The values that were normalized at a place in a step. */
static const float *values_at(const struct network_layer *l, size_t place, size_t position) {
    return place == PLACE_IH   ? l->summed_ih + position * l->rows
           : place == PLACE_HH ? l->summed_hh + position * l->rows
                               : l->inner + position * l->padded;
}

static size_t age_at(const struct network *n, const struct network_layer *l, size_t first,
                     size_t t) {
    return network_age(n, l, network_position(n, first, t));
}

/* Moves the statistics of a place towards those of the steps from..end, which have the same age:
   m = mean of a, v = mean of (a - old mean)^2. Sums are in n->d_ih and n->d_hh, which are free
   after backward. */
static void absorb_steps(const struct network *n, const struct network_layer *l, size_t place,
                         size_t first, size_t from, size_t end) {
    const struct unit_norm *u = &l->units[place];
    size_t age = age_at(n, l, first, from);
    size_t positions = l->kind->spatial ? l->gates : 1;
    float seen = (float)((end - from) * positions);
    float *restrict mean = u->mean + age * u->width, *restrict var = u->var + age * u->width;
    float *restrict sum = n->d_ih, *restrict squares = n->d_hh;
    memset(sum, 0, u->width * sizeof(float));
    memset(squares, 0, u->width * sizeof(float));
    for (size_t t = from; t < end; t++) {
        const float *restrict a = values_at(l, place, network_position(n, first, t));
        for (size_t p = 0; p < positions; p++, a += u->width)
            for (size_t i = 0; i < u->width; i++) {
                float d = a[i] - mean[i];
                sum[i] += a[i];
                squares[i] += d * d;
            }
    }
    for (size_t i = 0; i < u->width; i++) {
        float found_mean = sum[i] / seen, found_var = squares[i] / seen;
        if (!normalization_moves(found_mean, found_var))
            continue;
        mean[i] = normalization_moved(mean[i], found_mean, l->momentum);
        var[i] = normalization_moved(var[i], found_var, l->momentum);
    }
}

/* Ages never decrease within a window. */
static void absorb_place(const struct network *n, const struct network_layer *l, size_t place,
                         size_t first, size_t count) {
    for (size_t from = 0, end; from < count; from = end) {
        size_t age = age_at(n, l, first, from);
        for (end = from + 1; end < count && age_at(n, l, first, end) == age; end++)
            ;
        absorb_steps(n, l, place, first, from, end);
    }
}

void units_absorb(struct network *n, size_t first, size_t count) {
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        for (size_t place = 0; place < PLACES && l->source == SOURCE_RUNNING; place++)
            if (l->kind->norms[place])
                absorb_place(n, l, place, first, count);
    }
}
