#include "measure.h"

#include <math.h>
#include <string.h>

#include "activities.h"
#include "network.h"
#include "normalization.h"

/* Running sums for mean, deviation and extremes. */
struct tally {
    double count, sum, squares, minimum, maximum;
};

static void tally_add(struct tally *t, double value) {
    t->minimum = t->count == 0 || value < t->minimum ? value : t->minimum;
    t->maximum = t->count == 0 || value > t->maximum ? value : t->maximum;
    t->count++;
    t->sum += value;
    t->squares += value * value;
}

static double tally_mean(const struct tally *t) {
    return t->count > 0 ? t->sum / t->count : 0;
}

static double tally_std(const struct tally *t) {
    double mean = tally_mean(t), variance = t->count > 0 ? t->squares / t->count - mean * mean : 0;
    return variance > 0 ? sqrt(variance) : 0;
}

static struct unit_statistics units(const float *values, size_t size, double limit) {
    struct tally t = {0};
    size_t beyond = 0;
    for (size_t i = 0; i < size; i++) {
        tally_add(&t, (double)values[i]);
        beyond += fabs((double)values[i]) > limit;
    }
    return (struct unit_statistics){tally_mean(&t), tally_std(&t),   t.minimum,
                                    t.maximum,      sqrt(t.squares), (double)beyond / (double)size};
}

/* Mean and deviation of a sum over all its units. For a sum normalized in place they are
   computed from each group's mean and deviation if the norm is centred, else from the restored
   sum. */
static struct mean_std sum_mean_std(const struct network_layer *l, const float *sum,
                                    const struct norm_scale *scales) {
    struct tally t = {0};
    for (size_t row = 0; row < l->rows && !l->centred; row++) {
        double rstd = 1;
        for (size_t k = 0; k < l->group_count && l->source == SOURCE_GROUP; k++)
            if (row >= l->groups[k].first)
                rstd = (double)scales[k].rstd;
        if (row % l->padded < l->size)
            tally_add(&t, (double)sum[row] / rstd);
    }
    for (size_t k = 0; k < l->group_count && l->centred; k++) {
        double n = (double)l->groups[k].units, mean = (double)scales[k].mean;
        double rstd = (double)scales[k].rstd;
        double variance = 1 / (rstd * rstd) - (double)NORMALIZATION_EPSILON;
        t.count += n;
        t.sum += n * mean;
        t.squares += n * (fmax(variance, 0) + mean * mean);
    }
    return (struct mean_std){tally_mean(&t), tally_std(&t)};
}

/* Statistics of the tensors with this role at all places. */
static struct parameter_statistics
parameters(const struct network *n, const struct network_layer *l, enum tensor_role first) {
    struct tally t = {0};
    const struct model *model = n->model;
    size_t layer = (size_t)(l - n->layers);
    for (enum tensor_role role = first; role < first + PLACES; role++) {
        const struct tensor *tensor = model_find(model, role, layer);
        if (!tensor)
            continue;
        for (size_t gate = 0; gate < tensor->gates; gate++)
            for (size_t i = 0; i < tensor->rows / tensor->gates; i++)
                tally_add(&t, (double)n->parameters[l->at[role] + gate * l->padded + i]);
    }
    return (struct parameter_statistics){tally_mean(&t), tally_std(&t), t.minimum, t.maximum};
}

/* Over running means, or variances, of all places and ages. */
static struct parameter_statistics running(const struct network_layer *l, bool var) {
    struct tally t = {0};
    for (size_t place = 0; place < PLACES && l->source == SOURCE_RUNNING; place++) {
        const struct unit_norm *u = &l->units[place];
        const float *numbers = var ? u->var : u->mean;
        for (size_t k = 0; k < l->ages * u->width && l->kind->norms[place]; k++)
            if (k % l->padded < l->size)
                tally_add(&t, (double)numbers[k]);
    }
    return (struct parameter_statistics){tally_mean(&t), tally_std(&t), t.minimum, t.maximum};
}

static void histogram(const float *values, size_t size, uint32_t bins[MEASURE_BINS]) {
    memset(bins, 0, MEASURE_BINS * sizeof *bins);
    for (size_t i = 0; i < size; i++) {
        double bin = floor(((double)values[i] + 1) / 2 * MEASURE_BINS);
        bins[bin >= MEASURE_BINS ? MEASURE_BINS - 1 : bin > 0 ? (size_t)bin : 0]++;
    }
}

static void measure_layer(const struct network *n, const struct network_layer *l, size_t position,
                          struct layer_statistics *s) {
    const struct norm_scale *scales = l->scales + position * NETWORK_NORMS;
    const float *hidden = l->output + position * l->wide;
    memset(s, 0, sizeof *s);
    s->summed_inputs = sum_mean_std(l, l->summed_ih + position * l->rows, scales);
    if (l->kind->apart)
        s->summed_recurrent =
            sum_mean_std(l, l->summed_hh + position * l->rows, scales + PLACE_HH * CELL_GROUPS_MAX);
    s->hidden = units(hidden, l->width, ENGINE_SATURATED_HIDDEN);
    if (l->kind->states > l->kind->outputs)
        s->cell = units(l->inner + position * l->padded, l->size, ENGINE_SATURATED_CELL);
    s->gain = parameters(n, l, TENSOR_GAIN_IH);
    s->bias = parameters(n, l, TENSOR_NORM_BIAS_IH);
    s->running_mean = running(l, false);
    s->running_var = running(l, true);
    histogram(hidden, l->width, s->histogram);
}

/* ---- Activity ---- */

static double *head_of(const struct network *n, size_t layer) {
    return n->activity + engine_activity_at(n->model, layer);
}

void measure_begin(const struct kernels *kernels, const struct network *n) {
    for (size_t k = 0; k < n->layer_count; k++)
        head_of(n, k)[ACTIVITY_START] = activity_start(kernels->weights_norm(n, &n->layers[k]));
}

void measure_growth(const struct kernels *kernels, const struct network *n,
                    struct update_result *result) {
    for (size_t k = 0; k < n->layer_count; k++) {
        double norm = kernels->weights_norm(n, &n->layers[k]);
        activity_add_growth(result, (uint32_t)k, activity_weights(head_of(n, k), norm).growth);
    }
}

static struct activity_statistics activity(const double *head, double age, size_t size) {
    const double *a = head + ACTIVITY_HEAD + size;
    size_t dormant = 0, saturated = 0;
    double mean = 0;
    for (size_t i = 0; i < size; i++)
        mean += a[i] / (double)size;
    for (size_t i = 0; i < size; i++) {
        dormant += a[i] <= ACTIVITY_DORMANT * mean;
        saturated += a[i] > ACTIVITY_SATURATED;
    }
    return activity_statistics(head, age, (double)dormant / (double)size,
                               (double)saturated / (double)size);
}

void measure_step(const struct kernels *kernels, const struct network *n, size_t position,
                  struct layer_statistics *layers) {
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        const double *head = head_of(n, k);
        measure_layer(n, l, position, &layers[k]);
        layers[k].units = activity(head, n->activity[0], l->width);
        layers[k].weights = activity_weights(head, kernels->weights_norm(n, l));
    }
}
