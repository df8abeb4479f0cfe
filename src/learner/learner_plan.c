/* The online protocol: predict, then score, then learn (README.md). A step is open until its
   target is known or known to be missing, and then closed: with `target: given` at once, with
   `target: next` when the stream's next x arrives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "example.h"
#include "input_range.h"
#include "learner_internal.h"
#include "scaler.h"

enum {
    PLAN_BYTES =
        1 << 20, /* of inputs, targets and outputs, about: a wide network's plan is shorter */
    PLAN_MEASURES = 64, /* they are asked for once in many examples */
};

/* ---- The plan's memory ---- */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool open_scales(struct learner *learner) {
    const struct architecture *architecture = &learner->model->architecture;
    size_t steps = learner->plan_steps, size = learner->input_row;
    if (architecture->input.scale != SCALE_STANDARD)
        return true;
    learner->means = calloc(steps, size * sizeof *learner->means);
    learner->deviations = calloc(steps, size * sizeof *learner->deviations);
    if (architecture->output.target == TARGET_GIVEN)
        return learner->means && learner->deviations;
    learner->score_scales = calloc(steps, 2 * size * sizeof *learner->score_scales);
    return learner->means && learner->deviations && learner->score_scales;
}

static size_t step_bytes(const struct model *model) {
    return (model->features + model->target_size + 2 * model->outputs) * sizeof(union value);
}

static bool open_member(const struct learner *learner, struct member *member) {
    const struct model *model = member->model;
    size_t layers = model->architecture.layer_count, outputs = model->outputs;
    size_t steps = learner->plan_steps;
    struct plan *plan = &member->plan;
    struct results *results = &member->results;
    plan->operations = calloc(steps, OPERATIONS_PER_STEP * sizeof *plan->operations);
    plan->inputs = calloc(steps, model->features * sizeof *plan->inputs);
    plan->targets = calloc(steps, model->target_size * sizeof *plan->targets);
    results->losses = calloc(steps, sizeof *results->losses);
    results->scored = calloc(steps, outputs * sizeof *results->scored);
    results->outputs = calloc(steps, outputs * sizeof *results->outputs);
    results->updates = calloc(steps, UPDATES_PER_STEP * sizeof *results->updates);
    results->measures = calloc(learner->plan_measures, layers * sizeof *results->measures);
    return plan->operations && plan->inputs && plan->targets && results->losses &&
           results->scored && results->outputs && results->updates && results->measures;
}

static void close_member(struct member *member) {
    free(member->plan.operations);
    free(member->plan.inputs);
    free(member->plan.targets);
    free(member->results.losses);
    free(member->results.scored);
    free(member->results.outputs);
    free(member->results.updates);
    free(member->results.measures);
}

bool learner_plan_open(struct learner *learner, size_t most_steps) {
    size_t bytes = forecast_plan_bytes(learner);
    for (size_t m = 0; m < learner->member_count; m++)
        bytes += step_bytes(learner->members[m].model);
    size_t fitting = PLAN_BYTES / bytes;
    size_t steps = learner->plan_steps = smaller(most_steps, fitting ? fitting : 1);
    bool good = true;
    learner->plan_measures = smaller(steps, PLAN_MEASURES);
    for (size_t m = 0; m < learner->member_count; m++)
        good &= open_member(learner, &learner->members[m]);
    learner->examples = calloc(steps, sizeof *learner->examples);
    return good && learner->examples && open_scales(learner) &&
           (!learner->forecaster || forecast_plan_open(learner));
}

void learner_plan_close(struct learner *learner) {
    for (size_t m = 0; learner->members && m < learner->member_count; m++)
        close_member(&learner->members[m]);
    free(learner->examples);
    free(learner->means);
    free(learner->deviations);
    free(learner->score_scales);
}

/* Whether one more step with all that may come with it fits. */
static bool has_room(const struct learner *learner) {
    return learner->steps < learner->plan_steps && learner->measures < learner->plan_measures;
}

/* ---- The ring of a stream's positions ---- */

/* The position `steps` steps before the next one. */
static uint32_t position_before(const struct member *member, const struct learner_window *window,
                                size_t steps) {
    size_t ring = member->window + 1;
    return (uint32_t)((window->next + ring - steps) % ring);
}

static void advance(const struct member *member, struct learner_window *window) {
    window->next = (uint32_t)((window->next + 1) % (member->window + 1));
}

/* ---- Operations of one member ---- */

/* There must be room. */
struct operation *plan_append(struct member *member, enum operation_kind kind, uint32_t slot) {
    struct operation *operation = &member->plan.operations[member->plan.count++];
    *operation = (struct operation){.kind = kind, .slot = slot};
    return operation;
}

/* The window ends right before its next position: an open step has just been closed or dropped. */
static void plan_update(struct member *member, uint32_t slot, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    if (window->terms) {
        struct operation *update = plan_append(member, OPERATION_UPDATE, slot);
        update->position = position_before(member, window, window->length);
        update->length = window->length;
        update->closed = window->closed;
        update->terms = window->terms;
        update->fresh = member->run_slot == slot && member->run_length >= window->length;
        member->plan.updates++;
        (*updates)++;
        member->run_length = 0;
    }
    window->closed = window->terms = 0;
}

void plan_close(struct member *member, uint32_t slot, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    if (window->length < member->window)
        window->length++;
    if (++window->closed == member->stride)
        plan_update(member, slot, updates);
}

void plan_score(struct member *member, uint32_t slot, bool learn) {
    struct learner_window *window = &member->windows[slot];
    struct operation *score = plan_append(member, OPERATION_SCORE, slot);
    score->position = position_before(member, window, 1);
    score->value = (uint32_t)member->plan.rows++;
    score->learn = learn;
    window->terms += learn;
    member->plan.scores++;
}

void plan_step(struct member *member, uint32_t slot) {
    struct learner_window *window = &member->windows[slot];
    struct operation *step = plan_append(member, OPERATION_STEP, slot);
    step->position = window->next;
    step->value = (uint32_t)member->plan.steps++;
    advance(member, window);
    if (member->run_slot != slot)
        member->run_length = 0;
    member->run_slot = slot;
    member->run_length++;
}

/* Right after the step, before an update recomputes the window. */
static void plan_measure(struct learner *learner, uint32_t slot) {
    for (size_t m = 0; m < learner->member_count; m++) {
        plan_append(&learner->members[m], OPERATION_MEASURE, slot);
        learner->members[m].plan.measures++;
    }
    learner->measures++;
}

/* ---- Values ---- */

static const void *number_at(const void *values, size_t index) {
    return (const char *)values + index * sizeof(union value);
}

/* A real x (I,) as the network sees it: a missing number is held, then all are scaled. */
static void read_real(struct learner *learner, uint32_t slot, const void *x, union value *input) {
    float *held = learner_held(learner, slot);
    for (size_t k = 0; k < learner->input_row; k++) {
        float value;
        memcpy(&value, number_at(x, k), sizeof value);
        if (held && isnan(value))
            value = held[k];
        else if (held)
            held[k] = value;
        if (isnan(value))
            input[k].real = 0;
        else
            input[k].real = learner->scaler ? scaler_scale(learner->scaler, k, value) : value;
    }
}

static void read_input(struct learner *learner, uint32_t slot, const void *x, union value *input) {
    if (learner->model->architecture.input.kind == INPUT_SYMBOL)
        memcpy(input, x, sizeof *input);
    else
        read_real(learner, slot, x, input);
}

/* The same x as a target: what was not observed is no target, held or not. */
static void next_target(const struct learner *learner, const void *x, const union value *input,
                        union value *target) {
    memcpy(target, input, learner->input_row * sizeof *target);
    if (learner->model->architecture.input.kind == INPUT_SYMBOL)
        return;
    for (size_t k = 0; k < learner->input_row; k++) {
        float value;
        memcpy(&value, number_at(x, k), sizeof value);
        if (isnan(value))
            target[k].real = value;
    }
}

/* Whether something of the target is observed. */
static bool target_observed(const struct model *model, const union value *target) {
    const struct loss_kind *loss = loss_kind(model->architecture.output.loss);
    if (loss->class_id)
        return target->id != WIRE_NO_CLASS;
    size_t together = 0, single = 0;
    for (size_t k = 0; k < loss->together; k++)
        together += !isnan(target[k].real);
    for (size_t k = loss->together; k < model->target_size; k++)
        single += !isnan(target[k].real);
    return single > 0 || (together > 0 && together == loss->together);
}

static union value *next_input_row(const struct learner *learner) {
    const struct plan *plan = &learner->members[0].plan;
    return plan->inputs + plan->steps * learner->input_row;
}

static union value *next_target_row(const struct learner *learner) {
    const struct plan *plan = &learner->members[0].plan;
    return plan->targets + plan->rows * learner->model->target_size;
}

/* ---- One step ---- */

/* The scale of the open step's prediction against the x as it came, for the next score. */
static void keep_score_scale(struct learner *learner, uint32_t slot, const void *x) {
    size_t size = learner->input_row;
    const double *means = learner_scale(learner, slot), *deviations = means + size;
    double *offsets = learner->score_scales + learner->members[0].plan.scores * 2 * size;
    for (size_t k = 0; k < size; k++) {
        float value;
        memcpy(&value, number_at(x, k), sizeof value);
        offsets[k] = means[k] - value;
    }
    memcpy(offsets + size, deviations, size * sizeof *deviations);
}

static void score_next(struct learner *learner, uint32_t slot, const struct example *example,
                       const void *x, const union value *input, struct planned *planned) {
    union value *target = next_target_row(learner);
    next_target(learner, x, input, target);
    if (learner->scales)
        keep_score_scale(learner, slot, x);
    if (!target_observed(learner->model, target))
        return;
    plan_score(&learner->members[0], slot, example->learn);
    plan_truth(learner, slot, 0, x, example->learn);
    planned->planned_scores++;
    planned->planned_moments++;
}

static void score_given(struct learner *learner, uint32_t slot, const struct example *example,
                        size_t t, struct planned *planned) {
    if (!example->y)
        return;
    union value *target = next_target_row(learner);
    size_t size = learner->model->target_size;
    memcpy(target, number_at(example->y, t * size), size * sizeof *target);
    if (!target_observed(learner->model, target))
        return;
    plan_score(&learner->members[0], slot, example->learn);
    plan_truth(learner, slot, 0, target, example->learn);
    planned->planned_scores++;
    planned->planned_moments++;
}

/* The open step's prediction is in the scale of its example. */
static void keep_open_scale(struct learner *learner, uint32_t slot, const struct planned *planned) {
    size_t size = learner->input_row, row = (size_t)(planned - learner->examples);
    double *scale = learner_scale(learner, slot);
    if (!scale)
        return;
    memcpy(scale, learner->means + row * size, size * sizeof *scale);
    memcpy(scale + size, learner->deviations + row * size, size * sizeof *scale);
}

/* A step of the one network. */
static void take_plain(struct learner *learner, uint32_t slot, const struct example *example,
                       size_t t, struct planned *planned) {
    struct member *member = &learner->members[0];
    struct learner_window *window = &member->windows[slot];
    const void *x = number_at(example->x, t * learner->input_row);
    union value *input = next_input_row(learner);
    read_input(learner, slot, x, input);
    if (window->open) {
        score_next(learner, slot, example, x, input, planned);
        window->open = false;
        plan_close(member, slot, planned->planned_updates);
    }
    plan_step(member, slot);
    plan_said(learner, slot);
    planned->planned_moments++;
}

static void take_step(struct learner *learner, uint32_t slot, const struct example *example,
                      size_t t, struct planned *planned) {
    bool given = learner->model->architecture.output.target == TARGET_GIVEN;
    if (learner->forecaster)
        forecast_take(learner, slot, number_at(example->x, t * learner->input_row), example->learn,
                      planned);
    else
        take_plain(learner, slot, example, t, planned);
    learner->steps++;
    planned->planned_steps++;
    if (planned->measured && t == example->steps - 1)
        plan_measure(learner, slot);
    if (given) {
        score_given(learner, slot, example, t, planned);
        plan_close(&learner->members[0], slot, planned->planned_updates);
    } else if (!learner->forecaster) {
        learner->members[0].windows[slot].open = true;
        keep_open_scale(learner, slot, planned);
    }
}

/* ---- One example ---- */

static void forget(struct learner *learner, uint32_t slot) {
    for (size_t m = 0; m < learner->member_count; m++)
        plan_append(&learner->members[m], OPERATION_FORGET, slot);
    streams_remove(learner->streams, slot);
}

int learner_forget_all(struct learner *learner, struct error *error) {
    size_t room = learner->plan_steps * OPERATIONS_PER_STEP;
    for (size_t forgotten = 1; streams_count(learner->streams); forgotten++) {
        forget(learner, streams_oldest(learner->streams));
        if (forgotten % room == 0 && learner_play(learner, error))
            return -1;
    }
    return learner_play(learner, error);
}

int learner_forget_member(struct learner *learner, size_t member, struct error *error) {
    struct member *m = &learner->members[member];
    size_t room = learner->plan_steps * OPERATIONS_PER_STEP;
    uint32_t slot = streams_oldest(learner->streams);
    for (; slot != STREAMS_NONE; slot = streams_newer(learner->streams, slot)) {
        plan_append(m, OPERATION_FORGET, slot);
        m->windows[slot] = (struct learner_window){0};
        if (m->plan.count == room && learner_play(learner, error))
            return -1;
    }
    return learner_play(learner, error);
}

bool learner_has_stream(const struct learner *learner, const char *key, size_t key_size) {
    return streams_find(learner->streams, key, key_size) != STREAMS_NONE;
}

int learner_forget(struct learner *learner, const char *key, size_t key_size, struct error *error) {
    if (learner_play(learner, error))
        return -1;
    uint32_t slot = streams_find(learner->streams, key, key_size);
    if (slot == STREAMS_NONE)
        return 1;
    forget(learner, slot);
    return learner_play(learner, error);
}

static void end_member(struct member *member, uint32_t slot, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    if (window->open) {
        /* The dropped step comes after the window: the window's steps are not the latest. */
        window->next = position_before(member, window, 1);
        window->open = false;
        member->run_length = 0;
    }
    plan_update(member, slot, updates);
}

static void end_sequence(struct learner *learner, uint32_t slot, struct planned *planned) {
    for (size_t m = 0; m < learner->member_count; m++)
        end_member(&learner->members[m], slot, &planned->planned_updates[m]);
    forget(learner, slot);
}

/* The example's stream, as the most recently used; a new one may need another's slot. */
static uint32_t find_stream(struct learner *learner, const struct example *example,
                            struct planned *planned) {
    struct streams *streams = learner->streams;
    uint32_t slot = streams_find(streams, example->key, example->key_size);
    if (slot != STREAMS_NONE) {
        streams_touch(streams, slot);
        return slot;
    }
    if (streams_count(streams) == streams_capacity(streams)) {
        uint32_t oldest = streams_oldest(streams);
        const char *key = streams_key(streams, oldest, &planned->forgotten_size);
        memcpy(planned->forgotten, key, planned->forgotten_size);
        planned->forgets = true;
        forget(learner, oldest);
    }
    slot = learner_add_stream(learner, example->key, example->key_size);
    learner->begins[slot] = true;
    if (learner->forecaster)
        forecast_begin(learner, slot);
    return slot;
}

static void keep_scale(struct learner *learner, const struct example *example, size_t row) {
    size_t size = learner->input_row;
    for (size_t t = 0; t < example->steps; t++)
        scaler_add(learner->scaler, number_at(example->x, t * size));
    double *means = learner->means + row * size;
    memcpy(means, scaler_means(learner->scaler), size * sizeof *means);
    for (size_t k = 0; k < size; k++)
        if (scaler_read(learner->scaler, k).count == 0)
            means[k] = NAN;
    memcpy(learner->deviations + row * size, scaler_deviations(learner->scaler),
           size * sizeof(double));
}

static struct planned *begin(struct learner *learner, const struct example *example) {
    const struct learner_observer *observer = &learner->observer;
    size_t row = learner->example_count++;
    struct planned *planned = &learner->examples[row];
    memset(&planned->forgets, 0, sizeof *planned - offsetof(struct planned, forgets));
    memcpy(planned->key, example->key, example->key_size);
    planned->key_size = example->key_size;
    planned->received = example->received;
    planned->time = example->numbered ? example->time : 0;
    planned->steps = example->steps;
    planned->outputs = learner->want_outputs;
    planned->measured = observer->measure && observer->measure(observer->context, learner->taken);
    if (learner->scaler)
        keep_scale(learner, example, row);
    return planned;
}

static void look_at_range(struct learner *learner, const struct example *example) {
    const struct learner_observer *observer = &learner->observer;
    struct out_of_scale found = input_range_take(learner->range, example->x, example->steps);
    if (found.count > 0 && observer->out_of_scale)
        observer->out_of_scale(observer->context, example, &found);
}

int learner_take(struct learner *learner, const struct example *example, struct error *error) {
    learner->taken++;
    if (learner->range)
        look_at_range(learner, example);
    if (!has_room(learner) && learner_play(learner, error))
        return -1;
    struct planned *planned = begin(learner, example);
    uint32_t slot = find_stream(learner, example, planned);
    for (size_t t = 0; t < example->steps; t++) {
        if (!has_room(learner)) {
            if (learner_play(learner, error))
                return -1;
            planned = &learner->examples[0];
        }
        take_step(learner, slot, example, t, planned);
    }
    if (example->end)
        end_sequence(learner, slot, planned);
    planned->streams = streams_count(learner->streams);
    planned->finished = true;
    return 0;
}
