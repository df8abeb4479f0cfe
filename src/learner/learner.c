#include "learner.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "input_range.h"
#include "learner_internal.h"
#include "model/parameters.h"
#include "scaler.h"

/* ---- Memory ---- */

static bool allocate_streams(struct learner *learner, size_t slots) {
    const struct architecture *architecture = &learner->model->architecture;
    bool hold = architecture->input.hold;
    bool scales = architecture->input.standard && architecture->output.target != TARGET_GIVEN;
    learner->windows = calloc(slots, sizeof *learner->windows);
    if (hold)
        learner->held = calloc(slots, learner->input_row * sizeof *learner->held);
    if (scales)
        learner->scales = calloc(slots, 2 * learner->input_row * sizeof *learner->scales);
    return learner->windows && (!hold || learner->held) && (!scales || learner->scales);
}

static void release(struct learner *learner) {
    if (learner->engine)
        learner->ops->close(&learner->engine);
    streams_close(&learner->streams);
    scaler_close(&learner->scaler);
    input_range_close(&learner->range);
    free(learner->windows);
    free(learner->held);
    free(learner->scales);
    free(learner->long_outputs);
    learner_plan_close(learner);
    free(learner);
}

/* ---- Starting values ---- */

static int fill_values(const struct learner *learner, float *values, struct error *error) {
    const struct model *model = learner->model;
    if (*learner->initial)
        return parameters_load(model, learner->initial, values, error);
    for (size_t n = 0; n < model->tensor_count; n++) {
        const struct tensor *tensor = &model->tensors[n];
        if (model_initialize(model, tensor, learner->seed, values + tensor->offset, error))
            return -1;
    }
    return 0;
}

/* All parameters' starting values, to be freed; NULL on error. */
static float *starting_values(const struct learner *learner, struct error *error) {
    float *values = calloc(learner->model->parameters, sizeof *values);
    if (!values)
        error_set(error, EX_UNAVAILABLE, "out of memory for %zu starting values",
                  learner->model->parameters);
    else if (fill_values(learner, values, error) == 0)
        return values;
    free(values);
    return NULL;
}

static int write_block(struct learner *learner, enum engine_block block, const float *values,
                       struct error *error) {
    const struct model *model = learner->model;
    size_t count = block == ENGINE_PARAMETERS ? model->tensor_count : model->learned_count;
    for (size_t n = 0; n < count; n++)
        if (learner_write(learner, block, n, values + model->tensors[n].offset, error))
            return -1;
    return 0;
}

/* The optimizer to nothing; `values` (parameters,) is overwritten. */
static int write_zeros(struct learner *learner, float *values, struct error *error) {
    memset(values, 0, learner->model->parameters * sizeof *values);
    for (unsigned k = 0; k < learner->moments; k++)
        if (write_block(learner, ENGINE_MOMENTS + k, values, error))
            return -1;
    const uint64_t updates = 0;
    return learner_write(learner, ENGINE_UPDATES, 0, &updates, error);
}

/* ---- Opening and closing ---- */

static void describe(struct learner *learner, const struct config *config) {
    double rate = config->learning.optimizer.rate, clip = config->learning.clip;
    snprintf(learner->initial, sizeof learner->initial, "%s", config->initial);
    learner->seed = config->seed;
    learner->window = config->learning.window;
    learner->stride = config->learning.stride;
    learner->moments = optimizer_moments(&config->learning.optimizer);
    learner->rates = (struct learner_rates){rate, clip, rate, clip};
}

static int open_parts(struct learner *learner, const struct config *config, size_t plan_steps,
                      struct error *error) {
    const struct input *input = &learner->model->architecture.input;
    size_t slots = config->learning.max_streams;
    describe(learner, config);
    learner->input_row = input->kind == INPUT_SYMBOL ? 1 : input->size;
    if (streams_open(&learner->streams, slots, error) ||
        (input->kind == INPUT_REAL &&
         input_range_open(&learner->range, learner->input_row, error)) ||
        (input->standard &&
         scaler_open(&learner->scaler, learner->input_row, input->memory, input->limit, error)))
        return -1;
    if (!learner_plan_open(learner, plan_steps) || !allocate_streams(learner, slots))
        return error_set(error, EX_UNAVAILABLE, "out of memory for the learner");
    const struct engine_options options = {
        .optimizer = config->learning.optimizer, .window = learner->window, .slots = slots};
    return learner->ops->open(&learner->engine, learner->model, &options, config->device, error);
}

int learner_open_empty(struct learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       size_t plan_steps, const struct learner_observer *observer,
                       struct error *error) {
    assert(plan_steps > 0 && config->learning.stride <= config->learning.window);
    struct learner *new = calloc(1, sizeof *new);
    *learner = new;
    if (!new)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the learner");
    new->model = model;
    new->ops = engine;
    new->observer = *observer;
    if (open_parts(new, config, plan_steps, error) == 0)
        return 0;
    learner_close(learner);
    return -1;
}

int learner_start(struct learner *learner, struct error *error) {
    float *values = starting_values(learner, error);
    int status = values ? write_block(learner, ENGINE_PARAMETERS, values, error) : -1;
    free(values);
    return status;
}

int learner_open(struct learner **learner, const struct config *config, const struct model *model,
                 const struct engine_ops *engine, size_t plan_steps,
                 const struct learner_observer *observer, struct error *error) {
    if (learner_open_empty(learner, config, model, engine, plan_steps, observer, error))
        return -1;
    if (learner_start(*learner, error) == 0)
        return 0;
    learner_close(learner);
    return -1;
}

void learner_close(struct learner **learner) {
    if (*learner)
        release(*learner);
    *learner = NULL;
}

/* ---- In flight ---- */

int learner_flush(struct learner *learner, struct error *error) {
    return learner_play(learner, error);
}

int learner_set_rate(struct learner *learner, double rate, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    learner->rates.rate = rate;
    return 0;
}

int learner_set_clip(struct learner *learner, double clip, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    learner->rates.clip = clip;
    return 0;
}

int learner_configure(struct learner *learner, double rate, double clip, struct error *error) {
    struct learner_rates *rates = &learner->rates;
    if (learner_flush(learner, error))
        return -1;
    if (rate != rates->configured_rate)
        rates->rate = rates->configured_rate = rate;
    if (clip != rates->configured_clip)
        rates->clip = rates->configured_clip = clip;
    return 0;
}

void learner_want_outputs(struct learner *learner, bool wanted) {
    learner->want_outputs = wanted;
}

static int begin_again(struct learner *learner, float *values, struct error *error) {
    if (learner_flush(learner, error) || learner_forget_all(learner, error) ||
        write_block(learner, ENGINE_PARAMETERS, values, error) ||
        write_zeros(learner, values, error))
        return -1;
    if (learner->scaler)
        scaler_reset(learner->scaler);
    if (learner->range)
        input_range_reset(learner->range);
    learner->rates.rate = learner->rates.configured_rate;
    learner->rates.clip = learner->rates.configured_clip;
    learner_write_counters(learner,
                           &(struct learner_counters){.position = learner->counters.position});
    return 0;
}

int learner_reset(struct learner *learner, struct error *error) {
    float *values = starting_values(learner, error);
    if (!values)
        return 1;
    int status = begin_again(learner, values, error);
    free(values);
    return status;
}

/* ---- What there is to know ---- */

struct learner_counters learner_counters(const struct learner *learner) {
    return learner->counters;
}

uint64_t learner_taken(const struct learner *learner) {
    return learner->taken;
}

void learner_set_position(struct learner *learner, uint64_t position) {
    learner->counters.position = position;
}

size_t learner_streams(const struct learner *learner) {
    return streams_count(learner->streams);
}

double learner_rate(const struct learner *learner) {
    return learner->rates.rate;
}

double learner_clip(const struct learner *learner) {
    return learner->rates.clip;
}

const char *learner_device(const struct learner *learner) {
    return learner->ops->describe(learner->engine);
}

const struct scaler *learner_scaler(const struct learner *learner) {
    return learner->scaler;
}

int learner_read_parameters(struct learner *learner, size_t tensor, float *values,
                            struct error *error) {
    return learner_read(learner, ENGINE_PARAMETERS, tensor, values, error);
}
