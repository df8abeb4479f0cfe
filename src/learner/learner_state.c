#include "learner_state.h"

#include <assert.h>
#include <math.h>

#include "input_range.h"
#include "learner_internal.h"
#include "scaler.h"

const struct model *learner_model(const struct learner *learner) {
    return learner->model;
}

int learner_read(struct learner *learner, enum engine_block block, size_t index, void *data,
                 struct error *error) {
    return learner->ops->read(learner->engine, block, index, data, error);
}

int learner_write(struct learner *learner, enum engine_block block, size_t index, const void *data,
                  struct error *error) {
    learner->run_length = 0;
    return learner->ops->write(learner->engine, block, index, data, error);
}

const struct streams *learner_streams_table(const struct learner *learner) {
    return learner->streams;
}

struct learner_window learner_window(const struct learner *learner, uint32_t slot) {
    return learner->windows[slot];
}

float *learner_held(struct learner *learner, uint32_t slot) {
    return learner->held ? learner->held + slot * learner->input_row : NULL;
}

double *learner_scale(struct learner *learner, uint32_t slot) {
    return learner->scales ? learner->scales + slot * 2 * learner->input_row : NULL;
}

uint32_t learner_add_stream(struct learner *learner, const char *key, size_t key_size,
                            const struct learner_window *window) {
    uint32_t slot = streams_add(learner->streams, key, key_size);
    learner->windows[slot] = *window;
    float *held = learner_held(learner, slot);
    for (size_t k = 0; held && k < learner->input_row; k++)
        held[k] = NAN;
    return slot;
}

bool learner_window_valid(const struct learner *learner, const struct learner_window *window) {
    bool next = learner->model->architecture.output.target == TARGET_NEXT;
    return window->next <= learner->window && window->length <= learner->window &&
           window->closed <= window->length && window->closed < learner->stride &&
           window->terms <= window->closed && window->open == (next ? 1 : 0);
}

struct learner_rates learner_rates(const struct learner *learner) {
    return learner->rates;
}

void learner_write_rates(struct learner *learner, const struct learner_rates *rates) {
    learner->rates = *rates;
}

void learner_write_counters(struct learner *learner, const struct learner_counters *counters) {
    learner->counters = *counters;
    learner->taken = counters->examples;
}

struct scaler *learner_scaler_state(struct learner *learner) {
    return learner->scaler;
}

/* Deviations from the mean that hardly any number exceeds. */
static const double deviations_seen = 10;

void learner_scaler_written(struct learner *learner) {
    const struct scaler *scaler = learner->scaler;
    for (size_t k = 0; scaler && k < scaler_size(scaler); k++)
        input_range_known(learner->range, k, scaler_read(scaler, k).count,
                          fabs(scaler_means(scaler)[k]) +
                              deviations_seen * scaler_deviations(scaler)[k]);
}
