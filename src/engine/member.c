#include "member.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "model/parameters.h"

/* ---- Memory ---- */

/* The most rows of targets per step: one for each SCORE, and as many for SOLVE. */
static size_t rows_per_step(const struct model *model) {
    return model->horizons * (model->solved ? 2 : 1);
}

static size_t operations_per_step(const struct model *model) {
    return OPERATIONS_PER_STEP + model->horizons - 1;
}

size_t member_step_bytes(const struct model *model) {
    size_t targets = model->horizons * model->target_size;
    size_t outputs = model->outputs + model->horizons * model->scored;
    return (model->features + targets + outputs) * sizeof(union value);
}

struct plan plan_longest(const struct model *model, size_t steps, size_t measures) {
    return (struct plan){
        .count = steps * operations_per_step(model),
        .steps = steps,
        .scores = steps * model->horizons,
        .updates = steps * UPDATES_PER_STEP,
        .measures = measures,
        /* If the output is solved, the last rows belong to a closing step. */
        .rows = steps * rows_per_step(model) + model->horizons,
        .outputs = true,
    };
}

bool member_open(struct member *member, size_t slots, size_t steps, size_t measures) {
    const struct model *model = member->model;
    size_t layers = model->layer_count, outputs = model->outputs;
    const struct plan longest = plan_longest(model, steps, measures);
    struct plan *plan = &member->plan;
    struct results *results = &member->results;
    member->windows = calloc(slots, sizeof *member->windows);
    plan->operations = calloc(longest.count, sizeof *plan->operations);
    plan->inputs = calloc(longest.steps, model->features * sizeof *plan->inputs);
    member->heads = calloc(longest.scores, sizeof *member->heads);
    plan->targets = calloc(longest.rows, model->target_size * sizeof *plan->targets);
    results->losses = calloc(longest.scores, sizeof *results->losses);
    results->scored = calloc(longest.scores, (model->scored + 1) * sizeof *results->scored);
    results->outputs = calloc(longest.steps, outputs * sizeof *results->outputs);
    results->hidden = calloc(longest.steps, model->chains[0].width * sizeof *results->hidden);
    results->attention =
        calloc(longest.steps, (input_weights(&model->architecture.input) + 1) * sizeof(float));
    results->updates = calloc(longest.updates, sizeof *results->updates);
    results->measures = calloc(longest.measures, layers * sizeof *results->measures);
    return member->windows && member->heads && plan->operations && plan->inputs && plan->targets &&
           results->losses && results->scored && results->outputs && results->hidden &&
           results->attention && results->updates && results->measures;
}

void member_close(struct member *member) {
    if (member->engine)
        member->ops->close(&member->engine);
    free(member->windows);
    free(member->heads);
    free(member->plan.operations);
    free(member->plan.inputs);
    free(member->plan.targets);
    free(member->results.losses);
    free(member->results.scored);
    free(member->results.outputs);
    free(member->results.hidden);
    free(member->results.attention);
    free(member->results.updates);
    free(member->results.measures);
    free(member->own);
}

/* Only labels bring more than steps do. */
bool plan_has_room(const struct member *member, size_t steps) {
    const struct plan *plan = &member->plan;
    size_t rows = rows_per_step(member->model), operations = operations_per_step(member->model);
    return plan->rows + rows <= steps * rows &&
           plan->updates + UPDATES_PER_STEP <= steps * UPDATES_PER_STEP &&
           plan->count + operations <= steps * operations;
}

void plan_empty(struct member *member) {
    struct plan *plan = &member->plan;
    member->delivered = 0;
    plan->count = plan->rows = 0;
    plan->steps = plan->scores = plan->updates = plan->measures = 0;
}

/* ---- Blocks of the engine ---- */

int member_read(const struct member *member, enum engine_block block, size_t index, void *data,
                struct error *error) {
    return member->ops->read(member->engine, block, index, data, error);
}

int member_write(struct member *member, enum engine_block block, size_t index, const void *data,
                 struct error *error) {
    member->run_length = 0;
    return member->ops->write(member->engine, block, index, data, error);
}

/* ---- Starting values ---- */

int member_begin_solution(struct member *member, struct error *error) {
    if (!member->model->solved)
        return 0;
    const struct least_squares ls = engine_solution(member->model);
    double *block = calloc(least_squares_size(&ls), sizeof *block);
    if (!block)
        return error_set(error, EX_UNAVAILABLE,
                         "out of memory for the readout: reduce the last layer's size, or use "
                         "readout: gradient");
    least_squares_begin(&ls, block);
    int status = member_write(member, ENGINE_SOLUTION, 0, block, error);
    free(block);
    return status;
}

float *member_starting_values(const struct member *member, const char *initial,
                              struct error *error) {
    const struct model *model = member->model;
    float *values = calloc(model->parameters, sizeof *values);
    int status = 0;
    if (!values)
        return error_no_memory(error), NULL;
    if (*initial)
        status = parameters_load(model, member->name, initial, values, error);
    for (size_t n = 0; !*initial && n < model->tensor_count && status == 0; n++)
        status = model_initialize(model, &model->tensors[n], member->seed,
                                  values + model->tensors[n].offset, error);
    if (status == 0)
        return values;
    free(values);
    return NULL;
}

static int write_tensors(struct member *member, enum engine_block block, const float *values,
                         struct error *error) {
    const struct model *model = member->model;
    size_t count = block == ENGINE_PARAMETERS ? model->tensor_count : model->learned_count;
    for (size_t n = 0; n < count; n++)
        if (member_write(member, block, n, values + model->tensors[n].offset, error))
            return -1;
    return 0;
}

int member_write_values(struct member *member, const float *values, bool begins,
                        struct error *error) {
    enum engine_block start = ENGINE_MOMENTS + (unsigned)member->start;
    if (write_tensors(member, ENGINE_PARAMETERS, values, error))
        return -1;
    begins &= member->start != SIZE_MAX;
    return begins ? write_tensors(member, start, values, error) : 0;
}

static int write_zeros(struct member *member, enum engine_block block, size_t size,
                       struct error *error) {
    void *zeros = calloc(1, size);
    int status = zeros ? member_write(member, block, 0, zeros, error) : error_no_memory(error);
    free(zeros);
    return status;
}

int member_begin_statistics(struct member *member, struct error *error) {
    member->plasticity = (struct plasticity){0};
    return write_zeros(member, ENGINE_ACTIVITY,
                       engine_activity_size(member->model) * sizeof(double), error);
}

int member_clear(struct member *member, float *values, struct error *error) {
    const uint64_t updates = 0;
    size_t banks = engine_banks_size(member->model) * sizeof(uint32_t);
    memset(values, 0, member->model->parameters * sizeof *values);
    for (unsigned k = 0; k < member->moments; k++)
        if (k != member->start && write_tensors(member, ENGINE_MOMENTS + k, values, error))
            return -1;
    return member_write(member, ENGINE_UPDATES, 0, &updates, error) ||
                   (banks && write_zeros(member, ENGINE_BANK, banks, error)) ||
                   member_begin_statistics(member, error)
               ? -1
               : 0;
}

/* ---- Operations ---- */

uint32_t plan_position(const struct member *member, uint32_t slot, size_t age) {
    size_t ring = model_ring(member->model, member->window), next = member->windows[slot].next;
    return (uint32_t)(next >= age ? next - age : next + ring - age);
}

static void advance(const struct member *member, struct learner_window *window) {
    window->next = (uint32_t)((window->next + 1) % model_ring(member->model, member->window));
}

struct operation *plan_append(struct member *member, enum operation_kind kind, uint32_t slot) {
    struct operation *operation = &member->plan.operations[member->plan.count++];
    *operation = (struct operation){.kind = kind, .slot = slot};
    return operation;
}

/* A rule without a window needs only the steps closed since the last update. */
static bool has_window(const struct member *member) {
    return rule_kind(member->rule)->keeps == KEEPS_NOTHING;
}

static void plan_closed(struct member *member, uint32_t slot, enum operation_kind kind) {
    struct learner_window *window = &member->windows[slot];
    size_t length = has_window(member) ? window->length : window->closed;
    struct operation *update = plan_append(member, kind, slot);
    update->position = plan_position(member, slot, window->open + length);
    update->length = (uint32_t)length;
    update->closed = window->closed;
    update->terms = window->terms;
    update->fresh = member->run_slot == slot && member->run_length >= window->open + length;
}

/* Learns the steps closed since the last update, if any: the window ends right before the open
   steps. */
static void plan_update(struct member *member, uint32_t slot, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    if (window->terms) {
        plan_closed(member, slot, OPERATION_UPDATE);
        member->plasticity.planned++;
        member->plan.operations[member->plan.count - 1].probe =
            member->probe && (uint64_t)member->plasticity.planned % member->probe == 0;
        member->plan.updates++;
        (*updates)++;
        member->run_length = 0;
    } else if (window->closed && !has_window(member)) {
        plan_closed(member, slot, OPERATION_ADVANCE);
        member->run_length = 0;
    }
    window->closed = window->terms = 0;
}

void plan_close(struct member *member, uint32_t slot, size_t terms, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    window->open--;
    window->terms += (uint32_t)terms;
    if (window->length < member->window)
        window->length++;
    if (++window->closed == member->stride)
        plan_update(member, slot, updates);
}

void plan_score(struct member *member, uint32_t slot, size_t age, size_t horizon, bool learn) {
    struct operation *score = plan_append(member, OPERATION_SCORE, slot);
    score->position = plan_position(member, slot, age);
    score->value = (uint32_t)member->plan.rows++;
    score->horizon = (uint32_t)horizon;
    score->learn = learn;
    member->heads[member->plan.scores++] = (uint8_t)horizon;
}

void plan_step(struct member *member, uint32_t slot) {
    struct learner_window *window = &member->windows[slot];
    struct operation *step = plan_append(member, OPERATION_STEP, slot);
    step->position = window->next;
    step->value = (uint32_t)member->plan.steps++;
    advance(member, window);
    window->open++;
    if (member->run_slot != slot)
        member->run_length = 0;
    member->run_slot = slot;
    member->run_length++;
}

void plan_end(struct member *member, uint32_t slot, size_t *updates) {
    struct learner_window *window = &member->windows[slot];
    if (window->open) {
        /* The dropped steps follow the window, so the window's steps are not the latest. */
        window->next = plan_position(member, slot, window->open);
        window->open = 0;
        member->run_length = 0;
    }
    plan_update(member, slot, updates);
}
