#include "learner_state.h"

#include <math.h>

#include "input_range.h"
#include "learner_internal.h"
#include "model/rule.h"
#include "scaler.h"

int learner_read(struct learner *learner, size_t member, enum engine_block block, size_t index,
                 void *data, struct error *error) {
    return learner->ops->read(learner->members[member].engine, block, index, data, error);
}

int learner_write(struct learner *learner, size_t member, enum engine_block block, size_t index,
                  const void *data, struct error *error) {
    learner->members[member].run_length = 0;
    return learner->ops->write(learner->members[member].engine, block, index, data, error);
}

const struct streams *learner_streams_table(const struct learner *learner) {
    return learner->streams;
}

struct learner_window learner_window(const struct learner *learner, size_t member, uint32_t slot) {
    return learner->members[member].windows[slot];
}

size_t learner_record_size(const struct learner *learner, size_t member) {
    const struct member *m = &learner->members[member];
    return slot_record_size(m->model, m->window) + rule_record_size(m->model, m->rule);
}

size_t learner_ring(const struct learner *learner, size_t member) {
    return model_ring(learner->members[member].model, learner->members[member].window);
}

size_t learner_moments(const struct learner *learner, size_t member) {
    return learner->members[member].moments;
}

float *learner_held(struct learner *learner, uint32_t slot) {
    return learner->held ? learner->held + slot * learner->input_row : NULL;
}

double *learner_scale(struct learner *learner, uint32_t slot, size_t place) {
    size_t at = slot * learner->places + place;
    return learner->scales ? learner->scales + at * 2 * learner->target_row : NULL;
}

float *learner_base(struct learner *learner, uint32_t slot, size_t place) {
    size_t at = slot * learner->places + place;
    return learner->bases ? learner->bases + at * learner->target_row : NULL;
}

struct learner_open *learner_open_step(struct learner *learner, uint32_t slot, size_t place) {
    return learner->opens ? learner->opens + slot * learner->places + place : NULL;
}

float *learner_last(struct learner *learner, uint32_t slot) {
    return learner->lasts ? learner->lasts + slot * learner->target_row : NULL;
}

void learner_begin_slot(struct learner *learner, uint32_t slot) {
    for (size_t m = 0; m < learner->member_count; m++)
        learner->members[m].windows[slot] = (struct learner_window){0};
    for (uint32_t h = 0; learner->baseline && h < learner->model->horizons; h++)
        baseline_begin(learner->baseline, slot * (uint32_t)learner->model->horizons + h);
    float *held = learner_held(learner, slot);
    for (size_t k = 0; held && k < learner->input_row; k++)
        held[k] = NAN;
    targets_begin(learner, slot);
    learner_time_begin(learner, slot);
}

uint32_t learner_add_stream(struct learner *learner, const char *key, size_t key_size) {
    uint32_t slot = streams_add(learner->streams, key, key_size);
    changes_came(learner->changes, key, key_size);
    learner_begin_slot(learner, slot);
    return slot;
}

const struct changes *learner_changes(const struct learner *learner) {
    return learner->changes;
}

void learner_mark(struct learner *learner, uint32_t slot) {
    changes_mark(learner->changes, slot, learner->counters.position + 1);
}

void learner_mark_gone(struct learner *learner, uint32_t slot) {
    size_t key_size;
    const char *key = streams_key(learner->streams, slot, &key_size);
    changes_gone(learner->changes, key, key_size, learner->counters.position + 1);
}

void learner_all_changed(struct learner *learner) {
    changes_begin(learner->changes, learner->streams, learner->counters.position + 1);
}

void learner_resumed(struct learner *learner) {
    changes_begin(learner->changes, learner->streams, learner->counters.position);
}

void learner_changes_settle(struct learner *learner, uint64_t position) {
    changes_settle(learner->changes, position);
}

uint64_t learner_backwards(const struct learner *learner) {
    return learner->time.backwards;
}

struct learner_rates learner_rates(const struct learner *learner, size_t member) {
    return learner->members[member].rates;
}

void learner_write_rates(struct learner *learner, size_t member,
                         const struct learner_rates *rates) {
    learner->members[member].rates = *rates;
}

void learner_write_counters(struct learner *learner, const struct learner_counters *counters) {
    learner->counters = *counters;
    learner->taken = counters->examples;
}

struct scaler *learner_output_scaler(struct learner *learner) {
    return learner->output_scaler;
}

/* Deviations from the mean that hardly any number exceeds. */
static const double deviations_seen = 10;

void learner_scaler_written(struct learner *learner) {
    const struct scaler *scaler = learner->scaler;
    for (size_t k = 0; scaler && k < scaler_size(scaler); k++)
        if (scaler_read(scaler, k).count)
            input_range_known(learner->range, k, scaler_read(scaler, k).count,
                              fabs(scaler_means(scaler)[k]) +
                                  deviations_seen * scaler_deviations(scaler)[k]);
}
