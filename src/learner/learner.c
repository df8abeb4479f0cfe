#include "learner.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/threads.h"
#include "input_range.h"
#include "learner_internal.h"
#include "learner_threads.h"
#include "scaler.h"

/* ---- Memory ---- */

static bool allocate_streams(struct learner *learner, size_t slots) {
    const struct architecture *architecture = &learner->model->architecture;
    bool hold = architecture->input.hold && architecture->input.scale != SCALE_FORECAST;
    bool windows = true;
    for (size_t m = 0; m < learner->member_count; m++) {
        learner->members[m].windows = calloc(slots, sizeof *learner->members[m].windows);
        windows &= learner->members[m].windows != NULL;
    }
    if (hold)
        learner->held = calloc(slots, learner->input_row * sizeof *learner->held);
    return windows && (!hold || learner->held) && targets_open(learner, slots);
}

static void release(struct learner *learner) {
    for (size_t m = 0; learner->members && m < learner->member_count; m++) {
        struct member *member = &learner->members[m];
        if (member->engine)
            learner->ops->close(&member->engine);
        free(member->windows);
    }
    streams_close(&learner->streams);
    changes_close(&learner->changes);
    scaler_close(&learner->scaler);
    input_range_close(&learner->range);
    learner_columns_close(learner);
    learner_time_close(learner);
    forecast_close(learner);
    targets_close(learner);
    learner_baseline_close(learner);
    watch_close(learner);
    words_close(learner);
    free(learner->held);
    free(learner->long_outputs);
    beside_close(learner);
    learner_plan_close(learner);
    for (size_t m = 0; learner->members && m < learner->member_count; m++)
        free(learner->members[m].own);
    free(learner->members);
    threads_close(&learner->threads);
    free(learner);
}

/* ---- Opening and closing ---- */

static void describe(struct member *member, uint64_t seed, const struct learning *learning) {
    double rate = learning->optimizer.rate, clip = learning->clip;
    member->seed = seed;
    member->rule = learning->rule;
    member->window = learning->window;
    member->stride = learning->stride;
    member->moments = optimizer_moments(&learning->optimizer);
    member->rates = (struct learner_rates){rate, clip, rate, clip};
}

/* The networks that the configuration lists, or its one. */
static int describe_members(struct learner *learner, const struct config *config,
                            struct error *error) {
    size_t count = config->members_given ? config->member_count : 1;
    learner->members = calloc(count ? count : 1, sizeof *learner->members);
    if (!learner->members)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the learner");
    learner->member_count = count;
    learner->members[0].model = learner->model;
    describe(&learner->members[0], config->seed, &config->learning);
    for (size_t m = 0; config->members_given && m < count; m++) {
        const struct member_config *listed = &config->members[m];
        struct member *member = &learner->members[m];
        member->model = member->own = calloc(1, sizeof *member->own);
        if (!member->own)
            return error_set(error, EX_UNAVAILABLE, "out of memory for the learner");
        snprintf(member->name, sizeof member->name, "%s", listed->name);
        struct architecture architecture;
        config_member_network(config, m, &architecture);
        model_build(member->own, &architecture);
        describe(member, listed->seed, &listed->learning);
    }
    return 0;
}

static int open_engines(struct learner *learner, const struct config *config, struct error *error) {
    if (learner_threads_open(&learner->threads, config, learner->ops, error))
        return -1;
    for (size_t m = 0; m < learner->member_count; m++) {
        struct member *member = &learner->members[m];
        const struct learning *learning =
            config->members_given ? &config->members[m].learning : &config->learning;
        const struct plan longest = plan_longest(learner, member->model);
        const struct engine_options options = {.optimizer = learning->optimizer,
                                               .rule = learning->rule,
                                               .window = member->window,
                                               .slots = config->learning.max_streams,
                                               .longest = &longest,
                                               .threads = learner->threads};
        if (learner->ops->open(&member->engine, member->model, &options, config->device, error) ||
            learner_begin_solution(learner, m, error))
            return *member->name ? error_prefix(error, "member %s", member->name) : -1;
    }
    return 0;
}

static int open_parts(struct learner *learner, const struct config *config, size_t plan_steps,
                      struct error *error) {
    const struct input *input = &learner->model->architecture.input;
    const struct output *output = &learner->model->architecture.output;
    size_t slots = config->learning.max_streams;
    snprintf(learner->initial, sizeof learner->initial, "%s", config->initial);
    learner->decays = config->learning.optimizer.weight_decay > 0;
    learner->keeps_start = optimizer_kind(config->learning.optimizer.kind)->keeps_start;
    bool columns =
        input->column_count && input->kind == INPUT_REAL && input->scale != SCALE_FORECAST;
    learner->input_row = learner->model->x_size;
    learner->target_row = learner->model->target_size;
    learner->scale_row =
        columns && output->target == TARGET_NEXT ? learner->target_row : learner->input_row;
    learner->places = model_places(learner->model, config->learning.window);
    if (describe_members(learner, config, error) || streams_open(&learner->streams, slots, error) ||
        (config->fleet.lease > 0 && changes_open(&learner->changes, slots, error)) ||
        (input->kind == INPUT_REAL &&
         input_range_open(&learner->range, learner->input_row, error)) ||
        (columns && learner_columns_open(learner, error)) ||
        (input->time && learner_time_open(learner, slots, error)) ||
        (input->scale == SCALE_STANDARD && !columns &&
         scaler_open(&learner->scaler, learner->input_row, input->memory, input->limit, error)) ||
        (output->scale == SCALE_STANDARD && scaler_open(&learner->output_scaler, output->size,
                                                        output->memory, output->limit, error)) ||
        (input->scale == SCALE_FORECAST && forecast_open(learner, config, error)) ||
        learner_baseline_open(learner, slots, error) || watch_open(learner, config, error) ||
        words_open(learner, error))
        return -1;
    if (!learner_plan_open(learner, plan_steps) || !allocate_streams(learner, slots))
        return error_set(error, EX_UNAVAILABLE, "out of memory for the learner");
    return learner_keep_truths(learner, config->predictions != PREDICTIONS_NONE, error) ||
                   open_engines(learner, config, error)
               ? -1
               : 0;
}

int learner_open_empty(struct learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       size_t plan_steps, const struct learner_observer *observer,
                       struct error *error) {
    assert(plan_steps > 0 && config->learning.stride <= config->learning.window);
    struct learner *opened = calloc(1, sizeof *opened);
    *learner = opened;
    if (!opened)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the learner");
    opened->model = model;
    opened->ops = engine;
    opened->observer = *observer;
    if (open_parts(opened, config, plan_steps, error) == 0)
        return 0;
    learner_close(learner);
    return -1;
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

/* Number 0 is there also where there is no member. */
static bool is_meant(const struct learner *learner, size_t member, size_t m) {
    return m == member || (member == LEARNER_ALL && (m < learner->member_count || m == 0));
}

int learner_set_rate(struct learner *learner, size_t member, double rate, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    for (size_t m = 0; m < CONFIG_MEMBERS_MAX; m++)
        if (is_meant(learner, member, m))
            learner->members[m].rates.rate = rate;
    return 0;
}

int learner_set_clip(struct learner *learner, size_t member, double clip, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    for (size_t m = 0; m < CONFIG_MEMBERS_MAX; m++)
        if (is_meant(learner, member, m))
            learner->members[m].rates.clip = clip;
    return 0;
}

int learner_configure(struct learner *learner, size_t member, double rate, double clip,
                      struct error *error) {
    struct learner_rates *rates = &learner->members[member].rates;
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
    return learner->members[0].rates.rate;
}

double learner_clip(const struct learner *learner) {
    return learner->members[0].rates.clip;
}

const char *learner_device(const struct learner *learner) {
    return learner->member_count ? learner->ops->describe(learner->members[0].engine)
                                 : "cpu, experts alone";
}

const struct scaler *learner_scaler(const struct learner *learner) {
    return learner->scaler;
}

size_t learner_members(const struct learner *learner) {
    return learner->member_count;
}

const char *learner_member_name(const struct learner *learner, size_t member) {
    return learner->members[member].name;
}

const struct model *learner_member_model(const struct learner *learner, size_t member) {
    return learner->members[member].model;
}

size_t learner_member_named(const struct learner *learner, const char *name, size_t length) {
    for (size_t m = 0; m < learner->member_count; m++) {
        const char *own = learner->members[m].name;
        if (*own && strlen(own) == length && memcmp(own, name, length) == 0)
            return m;
    }
    return SIZE_MAX;
}

struct truth_coverage learner_coverage(const struct learner *learner) {
    return learner->truth ? truth_coverage(learner->truth) : (struct truth_coverage){0};
}

size_t learner_thread_count(const struct learner *learner) {
    return threads_count(learner->threads);
}

size_t learner_parameters(const struct learner *learner) {
    size_t count = 0;
    for (size_t m = 0; m < learner->member_count; m++)
        count += learner->members[m].model->learned;
    return count;
}

int learner_read_parameters(struct learner *learner, size_t member, size_t tensor, float *values,
                            struct error *error) {
    return learner_read(learner, member, ENGINE_PARAMETERS, tensor, values, error);
}
