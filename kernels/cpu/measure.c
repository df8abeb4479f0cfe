#include "measure.h"

#include "activities.h"
#include "network.h"
#include "statistics.h"

/* The layer's tensor with this role, if it has one. */
static struct values vector(const struct network *n, const struct network_layer *l,
                            enum tensor_role role) {
    const struct tensor *tensor =
        model_find(n->model, role, n->chain->first + (size_t)(l - n->layers));
    if (!tensor)
        return (struct values){0};
    return (struct values){n->parameters + l->at[role], tensor->gates, tensor->rows / tensor->gates,
                           l->padded};
}

/* Running statistics of all places and ages. */
static void tally_running(const struct network_layer *l, struct measured *m) {
    for (size_t place = 0; place < PLACES && l->source == SOURCE_RUNNING; place++) {
        const struct unit_norm *u = &l->units[place];
        size_t rows = l->kind->norms[place] ? l->ages * u->width / l->padded : 0;
        tally_numbers(&m->running_mean, (struct values){u->mean, rows, l->size, l->padded});
        tally_numbers(&m->running_var, (struct values){u->var, rows, l->size, l->padded});
    }
}

void measure_begin(const struct kernels *kernels, const struct network *n) {
    for (size_t c = 0; c < n->model->chain_count; c++)
        for (size_t k = 0; k < n->chains[c]->layer_count; k++)
            network_head(n->chains[c], k)[ACTIVITY_START] =
                activity_start(kernels->weights_norm(n, &n->chains[c]->layers[k]));
}

void measure_growth(const struct kernels *kernels, const struct network *n,
                    struct update_result *result) {
    for (size_t c = 0; c < n->model->chain_count; c++)
        for (size_t k = 0; k < n->chains[c]->layer_count; k++) {
            const struct network *chain = n->chains[c];
            double norm = kernels->weights_norm(n, &chain->layers[k]);
            activity_add_growth(result, (uint32_t)(chain->chain->first + k),
                                activity_weights(network_head(chain, k), norm).growth);
        }
}

static void measure_layers(const struct kernels *kernels, const struct network *n, size_t position,
                           struct layer_statistics *layers) {
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        size_t rows = position * l->rows, apart = l->kind->apart ? l->gates : 0,
               cell = l->kind->states > l->kind->outputs;
        struct measured m = {
            .summed_inputs = {l->summed_ih + rows, l->gates, l->size, l->padded},
            .summed_recurrent = {l->summed_hh + rows, apart, l->size, l->padded},
            .hidden = {l->output + position * l->wide, 1, l->width, l->width},
            .cell = {l->inner + position * l->padded, cell, l->size, l->size},
            .activity = network_head(n, k),
            .age = n->activity[0],
            .norm = kernels->weights_norm(n, l),
        };
        for (int at = 0; at < PLACES; at++) {
            m.gain[at] = vector(n, l, (enum tensor_role)(TENSOR_GAIN_IH + at));
            m.bias[at] = vector(n, l, (enum tensor_role)(TENSOR_NORM_BIAS_IH + at));
        }
        tally_running(l, &m);
        statistics_compute(&m, &layers[k]);
    }
}

void measure_step(const struct kernels *kernels, const struct network *n, size_t position,
                  struct layer_statistics *layers) {
    for (size_t k = 0; k < n->model->chain_count; k++)
        measure_layers(kernels, n->chains[k], network_newest(n->chains[k], position),
                       layers + n->chains[k]->chain->first);
}
