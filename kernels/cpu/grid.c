/* Spatial layers: the sums at all positions of a step are one product, of the weights with the
   patches of its input, which are gathered in memory. Bound by arithmetic, and for few channels by
   the patches' bytes.

   Over a group of N numbers, a^ = (a - mean) / deviation and u = g d:
     da = (u - mean(u) - a^ mean(u a^)) / deviation,   dg_c = sum_p d a^,   db_c = sum_p d
     dW = sum_p da_p patch_p',   dx = the sum over the positions of each patch of W' da_p */
#include <math.h>
#include <string.h>

#include "cells.h"
#include "normalization.h"
#include "split.h"
#include "vector.h"
#include "walk.h"

/* The first number in x of a position's patch. */
static size_t corner(const struct network_grid *g, size_t position) {
    return (position / g->to.columns * g->from.columns + position % g->to.columns) * g->stride;
}

static void gather_patches(const struct network_layer *l, const float *x, float *restrict patch) {
    const uint32_t *restrict offsets = l->grid.offsets;
    for (size_t p = 0; p < l->gates; p++, patch += l->inputs) {
        const float *restrict from = x + corner(&l->grid, p);
#pragma omp simd
        for (size_t i = 0; i < l->inputs; i++)
            patch[i] = from[offsets[i]];
    }
}

/* d += each patch's gradient at its place. */
static void add_patches(const struct network_layer *l, const float *restrict patch, float *d) {
    const uint32_t *restrict offsets = l->grid.offsets;
    for (size_t p = 0; p < l->gates; p++, patch += l->inputs) {
        float *restrict to = d + corner(&l->grid, p);
        for (size_t i = 0; i < l->inputs; i++)
            to[offsets[i]] += patch[i];
    }
}

/* The sum of (a - mean), or of its square, over the channels first..end of all positions. */
INLINE double group_sum(const struct network_layer *l, const float *a, struct range channels,
                        double mean, bool square) {
    double sum = 0;
    for (size_t p = 0; p < l->gates; p++, a += l->padded) {
#pragma omp simd reduction(+ : sum)
        for (size_t c = channels.from; c < channels.end; c++) {
            double d = (double)a[c] - mean;
            sum += square ? d * d : d;
        }
    }
    return sum;
}

/* Mean and 1 / deviation of each channel. */
static void measure_channels(const struct network_layer *l, size_t position) {
    const float *a = l->summed_ih + position * l->rows;
    float *mean = l->grid.mean + position * l->padded, *rstd = l->grid.rstd + position * l->padded;
    size_t channels = l->size / l->grid.groups;
    double count = (double)(channels * l->gates);
    if (l->source == SOURCE_RUNNING) {
        memcpy(mean, l->units[PLACE_IH].mean, l->padded * sizeof *mean);
        memcpy(rstd, l->units[PLACE_IH].rstd, l->padded * sizeof *rstd);
    }
    for (size_t first = 0; first < l->size && l->source == SOURCE_GROUP; first += channels) {
        struct range group = {first, first + channels};
        double middle = l->centred ? group_sum(l, a, group, 0, false) / count : 0;
        double variance = group_sum(l, a, group, middle, true) / count;
        for (size_t c = group.from; c < group.end; c++) {
            mean[c] = (float)middle;
            rstd[c] = (float)(1 / sqrt(variance + (double)NORMALIZATION_EPSILON));
        }
    }
}

/* The output (channels, positions) of a step from its sums (positions, padded). */
INLINE void forward_units(enum activation activation, const struct network *n,
                          const struct network_layer *l, size_t position) {
    const float *a = l->summed_ih + position * l->rows;
    const float *gain = n->parameters + l->at[TENSOR_GAIN_IH];
    const float *bias = n->parameters + l->at[TENSOR_NORM_BIAS_IH];
    const float *mean = l->grid.mean + position * l->padded;
    const float *rstd = l->grid.rstd + position * l->padded;
    float *restrict out = l->output + position * l->wide;
    for (size_t c = 0; c < l->size; c++, out += l->gates) {
        const float *restrict sum = a + c;
        struct norm_scale s = {mean[c], rstd[c]};
        float g = gain[c], b = bias[c];
        bool normal = l->source != SOURCE_NOTHING;
#pragma omp simd
        for (size_t p = 0; p < l->gates; p++) {
            float v = sum[p * l->padded];
            if (normal)
                v = normalization_apply(normalization_of_unit(v, s.mean, s.rstd), g, b);
            out[p] = activation_of(activation, v);
        }
    }
}

/* d_sum (positions, padded), the gradient before the activation, from d (channels, positions). */
INLINE void backward_units(enum activation activation, const struct network_layer *l,
                           size_t position, const float *restrict d, float *d_sum) {
    const float *restrict h = l->output + position * l->wide;
    memset(d_sum, 0, l->rows * sizeof *d_sum);
    for (size_t c = 0; c < l->size; c++, d += l->gates, h += l->gates) {
        float *restrict to = d_sum + c;
#pragma omp simd
        for (size_t p = 0; p < l->gates; p++)
            to[p * l->padded] = activation_backward(activation, h[p], d[p]);
    }
}

/* d (positions, padded), the gradient after gain and bias, becomes that of the sums. */
static void normalize_channels_backward(const struct network *n, const struct network_layer *l,
                                        size_t position, float *restrict d) {
    const float *restrict a = l->summed_ih + position * l->rows;
    const float *restrict gain = n->parameters + l->at[TENSOR_GAIN_IH];
    const float *restrict mean = l->grid.mean + position * l->padded;
    const float *restrict rstd = l->grid.rstd + position * l->padded;
    float *restrict sum = n->d_state, *restrict product = n->d_inner;
    size_t padded = l->padded, channels = l->size / l->grid.groups;
    memset(sum, 0, padded * sizeof *sum);
    memset(product, 0, padded * sizeof *product);
    for (size_t i = 0; i < l->rows; i += padded) {
#pragma omp simd
        for (size_t c = 0; c < padded; c++) {
            sum[c] += d[i + c];
            product[c] += d[i + c] * normalization_of_unit(a[i + c], mean[c], rstd[c]);
        }
    }
    for (size_t c = 0; c < l->size; c++) {
        n->gradient[l->at[TENSOR_NORM_BIAS_IH] + c] += sum[c];
        n->gradient[l->at[TENSOR_GAIN_IH] + c] += product[c];
    }
    for (size_t first = 0; first < l->size; first += channels) {
        float middle = 0, along = 0, count = (float)(channels * l->gates);
        for (size_t c = first; c < first + channels && l->source == SOURCE_GROUP; c++) {
            middle += l->centred ? gain[c] * sum[c] : 0;
            along += gain[c] * product[c];
        }
        for (size_t c = first; c < first + channels; c++) {
            sum[c] = middle / count;
            product[c] = along / count;
        }
    }
    for (size_t i = 0; i < l->rows; i += padded) {
#pragma omp simd
        for (size_t c = 0; c < padded; c++)
            d[i + c] = normalization_group_backward(
                d[i + c], gain[c], normalization_of_unit(a[i + c], mean[c], rstd[c]), sum[c],
                product[c], rstd[c]);
    }
}

/* Forward, or with d_sum backward. */
static void activate(const struct network *n, const struct network_layer *l, size_t position,
                     const float *d, float *d_sum) {
    switch (l->activation) {
#define ACTIVATION(name)                                                                           \
    case ACTIVATION_##name:                                                                        \
        d_sum ? backward_units(ACTIVATION_##name, l, position, d, d_sum)                           \
              : forward_units(ACTIVATION_##name, n, l, position);                                  \
        break;
#include "kinds.def"
    default:
        break;
    }
}

void grid_forward(struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    for (size_t t = 0; t < steps->count; t++) {
        size_t position = network_position(n, steps->first, t);
        float *patches = l->grid.patches + position * l->gates * l->inputs;
        gather_patches(l, layer_input(n, steps, k, t), patches);
        for (size_t p = 0; p < l->gates; p++) {
            n->x[p] = patches + p * l->inputs;
            n->y[p] = l->summed_ih + position * l->rows + p * l->padded;
        }
        split_project(n, n->parameters + l->at[TENSOR_WEIGHT_IH], l->padded, l->inputs,
                      n->parameters + l->at[TENSOR_BIAS_IH], n->x, n->y, l->gates);
        measure_channels(l, position);
        activate(n, l, position, NULL, NULL);
    }
}

/* n->d_hidden[0] becomes the gradient of the layer below. */
static void input_backward(struct network *n, const struct network_layer *l, size_t count) {
    size_t wide = (l - 1)->wide;
    float *below = n->d_hidden[1];
    memset(below, 0, count * wide * sizeof *below);
    for (size_t t = 0; t < count; t++) {
        split_transposed_many(n, n->parameters + l->at[TENSOR_WEIGHT_IH], l->padded, l->inputs,
                              n->d_ih + t * l->rows, n->patches, l->inputs, l->gates);
        add_patches(l, n->patches, below + t * wide);
    }
    n->d_hidden[1] = n->d_hidden[0];
    n->d_hidden[0] = below;
}

double grid_backward(struct network *n, const struct network_steps *steps, size_t k) {
    const struct network_layer *l = &n->layers[k];
    size_t all = steps->count * l->gates;
    for (size_t t = 0; t < steps->count; t++) {
        size_t position = network_position(n, steps->first, t);
        float *d = n->d_ih + t * l->rows;
        activate(n, l, position, n->d_hidden[0] + t * l->wide, d);
        if (l->source != SOURCE_NOTHING)
            normalize_channels_backward(n, l, position, d);
        for (size_t p = 0; p < l->gates; p++)
            n->x[t * l->gates + p] = l->grid.patches + (position * l->gates + p) * l->inputs;
    }
    add_rows(n->d_ih, l->padded, all, n->gradient + l->at[TENSOR_BIAS_IH]);
    if (k > 0)
        input_backward(n, l, steps->count);
    return split_gradient(n, n->gradient + l->at[TENSOR_WEIGHT_IH], l->padded, l->inputs, n->d_ih,
                          n->x, all);
}
