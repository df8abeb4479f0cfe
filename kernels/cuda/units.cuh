/* Norms with a mean and deviation per unit: from rows of matrices, or running; and factors of units
   with their own parameters. */
#ifndef RUNNEL_CUDA_UNITS_CUH
#define RUNNEL_CUDA_UNITS_CUH

#include "cells.cuh"

/* ---- Through the rows ---- */

/* Each row's pull, from the sum over the window of its gain's gradient. Bound by latency. */
PHASE void make_pulls() {
    const struct network &n = block_network();
    for (uint32_t item = n.team.rank; item < 2 * n.layer_count; item += n.team.size) {
        const struct network_layer &l = n.layers[item / 2];
        uint32_t place = item % 2;
        if (l.source != SOURCE_ROWS || !norm_width(l, place))
            continue;
        for (uint32_t row = threadIdx.x; row < l.rows; row += blockDim.x) {
            float d_gain = 0;
            for (uint32_t t = 0; t < n.current->length; t++)
                d_gain += n.activations[l.d_gain[place] + (size_t)t * padded(l.rows) + row];
            n.activations[l.pull + place * l.rows + row] = normalization_rows_pull(
                n.parameters[l.gain[place] + row], d_gain, unit_scale(n, l, place, 0, row).rstd);
        }
    }
}

/* ---- Running statistics ---- */

/* The value that was normalized at a place for unit i, at a position of the ring. */
DEVICE float value_at(const struct network &n, const struct network_layer &l, uint32_t place,
                      uint32_t position, uint32_t i) {
    struct layer_step s = layer_at(n, l, position);
    if (place == PLACE_INNER)
        return s.inner[i];
    if (place == PLACE_HH)
        return s.sum_hh[i];
    return l.states > 0 && !l.apart ? s.sum_ih[i] + s.sum_hh[i] : s.sum_ih[i];
}

/* Moves a unit's statistics towards those of the window's steps `from`..`end`, which have the
   same age: m = mean of a, v = mean of (a - old mean)^2. */
static __device__ void absorb_steps(const struct network &n, const struct network_layer &l,
                                    uint32_t place, uint32_t age, uint32_t from, uint32_t end,
                                    uint32_t i, float momentum) {
    uint32_t width = units_width(l, place);
    float *mean = n.units + unit_numbers(l, place) + (size_t)age * width + i;
    float *var = mean + (size_t)l.ages * width, sum = 0, squares = 0, steps = (float)(end - from);
    for (uint32_t t = from; t < end; t++) {
        float a = value_at(n, l, place, ring_position(n, n.current->window, t), i), d = a - *mean;
        sum += a;
        squares += d * d;
    }
    if (!normalization_moves(sum / steps, squares / steps))
        return;
    *mean = normalization_moved(*mean, sum / steps, momentum);
    *var = normalization_moved(*var, squares / steps, momentum);
}

/* After an update that was applied: moves running statistics. Ages never decrease within a window.
   Bound by latency. */
PHASE void absorb() {
    const struct network &n = block_network();
    const struct segment *s = n.current;
    const float *state = slot_of(n) + n.slot.before + (size_t)s->window * n.slot.state;
    for (uint32_t item = n.team.rank; item < PLACES * n.layer_count; item += n.team.size) {
        const struct network_layer &l = n.layers[item / PLACES];
        uint32_t place = item % PLACES;
        if (l.source != SOURCE_RUNNING || !norm_width(l, place))
            continue;
        float momentum = n.queue->momentum[item / PLACES];
        for (uint32_t i = threadIdx.x; i < units_width(l, place); i += blockDim.x)
            for (uint32_t from = s->length - s->closed, end; from < s->length; from = end) {
                uint32_t age = age_of(n, l, state, from);
                for (end = from + 1; end < s->length && age_of(n, l, state, end) == age; end++)
                    ;
                absorb_steps(n, l, place, age, from, end, i, momentum);
            }
    }
}

/* ---- Deviations, and factors ---- */

/* The squares of one row of a matrix, by a warp. */
DEVICE float row_squares(const float *weight, uint32_t ld) {
    float4 sums = make_float4(0, 0, 0, 0);
    for (uint32_t i = lane_index(); i < ld / QUAD; i += LANES) {
        float4 w = ((const float4 *)weight)[i];
        add_products(&sums, w, w);
    }
    return warp_sum(quad_sum(sums));
}

/* Deviations of norms of rows: one warp per row. Bound by the bytes of the matrices. */
DEVICE void refresh_rows(const struct network &n, const struct network_layer &l, uint32_t place) {
    uint32_t each = blockDim.x / LANES, width = units_width(l, place);
    float *rstd = n.units + unit_numbers(l, place) + (size_t)2 * width;
    for (uint32_t row = n.team.rank * each + warp_index(); row < width; row += n.team.size * each) {
        const float *ih = n.parameters + l.weight_ih + (size_t)row * l.ld_ih;
        const float *hh = n.parameters + l.weight_hh + (size_t)row * l.ld_hh;
        float squares = 0;
        if (place == PLACE_IH)
            squares = row_squares(ih, l.ld_ih);
        if (place == PLACE_HH || (place == PLACE_IH && l.states > 0 && !l.apart))
            squares += row_squares(hh, l.ld_hh);
        if (lane_index() == 0)
            rstd[row] = place == PLACE_INNER ? 1.0f : normalization_rstd(squares);
    }
}

DEVICE void refresh_running(const struct network &n, const struct network_layer &l,
                            uint32_t place) {
    size_t numbers = (size_t)l.ages * units_width(l, place);
    float *var = n.units + unit_numbers(l, place) + numbers, *rstd = var + numbers;
    for (size_t k = (size_t)n.team.rank * blockDim.x + threadIdx.x; k < numbers;
         k += (size_t)n.team.size * blockDim.x)
        rstd[k] = normalization_rstd(var[k]);
}

DEVICE void refresh_factors(const struct network &n, const struct network_layer &l) {
    uint32_t size = l.size / l.outputs;
    for (uint32_t i = n.team.rank * blockDim.x + threadIdx.x; i < size;
         i += n.team.size * blockDim.x) {
        struct cell_unit u = {};
        for (uint32_t p = 0; p < l.parameters; p++)
            u.parameter[p] = n.parameters[l.own_parameters[p] + i];
        cell_factors((enum cell)l.cell, &u);
        for (uint32_t f = 0; f < CELL_FACTORS_MAX; f++)
            n.units[l.units + (size_t)f * size + i] = u.factor[f];
    }
}

/* Recomputes deviations and factors after a change of parameters or running statistics. */
PHASE void refresh() {
    const struct network &n = block_network();
    for (uint32_t k = 0; k < n.layer_count; k++) {
        const struct network_layer &l = n.layers[k];
        if (l.parameters)
            refresh_factors(n, l);
        for (uint32_t place = 0; place < PLACES && l.ages; place++)
            if (!norm_width(l, place))
                continue;
            else if (l.source == SOURCE_ROWS)
                refresh_rows(n, l, place);
            else
                refresh_running(n, l, place);
    }
}

DEVICE bool has_refresh(const struct network &n) {
    return n.rows_norms || n.running_norms || n.factors;
}

#endif
