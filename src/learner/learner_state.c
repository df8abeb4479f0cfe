#include "learner_state.h"

#include <math.h>

#include "common/finite.h"
#include "input_range.h"
#include "learner_internal.h"
#include "model/rule.h"
#include "scaler.h"

const struct model *learner_model(const struct learner *learner) {
    return learner->model;
}

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

void learner_write_window(struct learner *learner, size_t member, uint32_t slot,
                          const struct learner_window *window) {
    learner->members[member].windows[slot] = *window;
}

struct learner_forecast learner_forecast(struct learner *learner, uint32_t slot) {
    if (!learner->forecaster)
        return (struct learner_forecast){0};
    return (struct learner_forecast){
        .experts = forecaster_state(learner->forecaster, slot),
        .mixture = mixture_state(learner->mixture, slot),
        .experts_size = forecaster_size(learner->forecaster),
        .mixture_size = mixture_size(learner->mixture),
    };
}

bool learner_forecast_valid(const struct learner *learner, uint32_t slot) {
    size_t open = 0;
    for (size_t m = 0; m < learner->member_count; m++)
        if (learner->members[m].windows[slot].open > open)
            open = learner->members[m].windows[slot].open;
    return forecaster_state_valid(learner->forecaster, forecaster_state(learner->forecaster, slot),
                                  open) &&
           mixture_state_valid(learner->mixture, mixture_state(learner->mixture, slot));
}

static bool floats_finite(const float *values, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (!isfinite(values[k]))
            return false;
    return true;
}

static bool has_infinite(const float *values, size_t count) {
    for (size_t k = 0; values && k < count; k++)
        if (isinf(values[k]))
            return true;
    return false;
}

/* Of (places, 2, size) means and deviations: a mean is NaN where nothing had been observed. */
static bool scales_valid(const double *scales, size_t places, size_t size) {
    bool valid = true;
    for (size_t n = 0; scales && n < places; n++, scales += 2 * size) {
        valid &= finite_or_nan(scales, size, FINITE_VALUE_MOST) &&
                 finite_within(scales + size, size, FINITE_VALUE_MOST);
        for (size_t k = size; k < 2 * size; k++)
            valid &= scales[k] >= 0;
    }
    return valid;
}

bool learner_targets_valid(struct learner *learner, uint32_t slot) {
    size_t size = learner->target_row, places = learner->places;
    return !has_infinite(learner_held(learner, slot), learner->input_row) &&
           !has_infinite(learner_base(learner, slot, 0), places * size) &&
           !has_infinite(learner_last(learner, slot), size) &&
           scales_valid(learner_scale(learner, slot, 0), places, size);
}

bool learner_record_finite(const struct learner *learner, size_t member, const float *record) {
    const struct model *model = learner->members[member].model;
    size_t size = model->state_size, ring = learner_ring(learner, member);
    size_t places = model->open == 1 ? 1 : ring, solved = model->solved ? model->solved - 1 : 0;
    size_t stride = size + model->features + model->horizons * (model->target_size + 1);
    const float *positions = record + size + places * (model->outputs + solved);
    bool finite = floats_finite(record, size);
    for (size_t p = 0; p < ring; p++)
        finite &= floats_finite(positions + p * stride, size);
    return finite;
}

int learner_check_stream(struct learner *learner, uint32_t slot, float *buffer,
                         struct error *error) {
    for (size_t m = 0; m < learner->member_count; m++) {
        if (learner_read(learner, m, ENGINE_SLOT, slot, buffer, error))
            return -1;
        if (!learner_record_finite(learner, m, buffer))
            return 1;
    }
    return learner_targets_valid(learner, slot) &&
                   (!learner->time.kept || learner_times_valid(learner, slot)) &&
                   (!learner->baseline || learner_baseline_valid(learner, slot)) &&
                   (!learner->truth || truth_valid(learner->truth, slot)) &&
                   (!learner->watch.anomaly || anomaly_valid(learner->watch.anomaly, slot)) &&
                   (!learner->forecaster || learner_forecast_valid(learner, slot))
               ? 0
               : 1;
}

struct truth *learner_truth(struct learner *learner) {
    return learner->truth;
}

size_t learner_baseline_size(const struct learner *learner) {
    return learner->baseline ? learner->model->horizons * baseline_size(learner->baseline) : 0;
}

static uint32_t first_state(const struct learner *learner, uint32_t slot) {
    return slot * (uint32_t)learner->model->horizons;
}

double *learner_baseline(struct learner *learner, uint32_t slot) {
    return baseline_state(learner->baseline, first_state(learner, slot));
}

bool learner_baseline_valid(struct learner *learner, uint32_t slot) {
    bool valid = true;
    for (uint32_t h = 0; h < learner->model->horizons; h++)
        valid &= baseline_state_valid(
            learner->baseline, baseline_state(learner->baseline, first_state(learner, slot) + h));
    return valid;
}

void learner_lose_baseline(struct learner *learner, uint32_t slot) {
    for (uint32_t h = 0; h < learner->model->horizons; h++)
        baseline_lost(learner->baseline, first_state(learner, slot) + h);
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

size_t learner_places(const struct learner *learner) {
    return learner->places;
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
        baseline_begin(learner->baseline, first_state(learner, slot) + h);
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

bool learner_window_valid(const struct learner *learner, size_t member,
                          const struct learner_window *window) {
    const struct member *m = &learner->members[member];
    enum target target = learner->model->architecture.output.target;
    size_t least = target == TARGET_NEXT, most = target == TARGET_GIVEN ? 0 : m->model->open;
    bool begun = !window->next && !window->length && !window->closed && !window->terms;
    if (begun && !window->open) /* no step since a member's reset, or since windows began anew */
        return true;
    return window->next < model_ring(m->model, m->window) && window->length <= m->window &&
           window->closed <= window->length && window->closed < m->stride &&
           window->terms <= window->closed * m->model->horizons && window->open >= least &&
           window->open <= most;
}

uint64_t learner_backwards(const struct learner *learner) {
    return learner->time.backwards;
}

void learner_write_backwards(struct learner *learner, uint64_t count) {
    learner->time.backwards = count;
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

struct scaler *learner_scaler_state(struct learner *learner) {
    return learner->scaler;
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
