#include "fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "under_test.h"

double fixture_random(struct fixture *fixture) {
    fixture->random = fixture->random * 6364136223846793005U + 1442695040888963407U;
    return (double)(fixture->random >> 33) / 0x1p30 - 1.0;
}

static double random_parameter(struct fixture *fixture, const struct tensor *tensor) {
    double u = fixture_random(fixture);
    switch (tensor->role) {
    case TENSOR_GAIN_IH:
    case TENSOR_GAIN_HH:
    case TENSOR_GAIN_INNER:
        return u < 0.0 ? -1.0 - 0.5 * u : 1.0 + 0.5 * u;
    case TENSOR_EMBEDDING:
    case TENSOR_ATOM_EMBEDDING:
    case TENSOR_CANDIDATE_ROWS:
        return u;
    case TENSOR_WEIGHT_IH:
    case TENSOR_WEIGHT_HH:
    case TENSOR_POOL:
    case TENSOR_POOL_1:
    case TENSOR_START_WEIGHT:
    case TENSOR_CANDIDATE_WEIGHT:
    case TENSOR_WRITER_WEIGHT:
    case TENSOR_OUTPUT_WEIGHT:
    case TENSOR_OUTPUT_SKIP:
        return 1.5 * u / sqrt(tensor->columns ? (double)tensor->columns : 1.0);
    case TENSOR_UNIT_0:
        return 2.0 * u - 1.0;
    case TENSOR_UNIT_1:
    case TENSOR_BIAS_IH:
    case TENSOR_BIAS_HH:
    case TENSOR_NORM_BIAS_IH:
    case TENSOR_NORM_BIAS_HH:
    case TENSOR_NORM_BIAS_INNER:
    case TENSOR_POOL_2:
    case TENSOR_POOL_3:
    case TENSOR_START_BIAS:
    case TENSOR_CANDIDATE_BIAS:
    case TENSOR_WRITER_BIAS:
    case TENSOR_OUTPUT_BIAS:
    case TENSOR_MEAN_IH:
    case TENSOR_MEAN_HH:
    case TENSOR_MEAN_INNER:
    case TENSOR_ROLES:
        break;
    case TENSOR_VAR_IH:
    case TENSOR_VAR_HH:
    case TENSOR_VAR_INNER:
        return 1.0 + 0.5 * u;
    }
    return 0.5 * u;
}

/* The least squares of an output restart; its weights are those written after it. */
static void begin_solution(struct fixture *fixture) {
    if (!fixture->model.solved)
        return;
    const struct least_squares ls = engine_solution(&fixture->model);
    double *block = calloc(least_squares_size(&ls), sizeof *block);
    assert_non_null(block);
    least_squares_begin(&ls, block);
    assert_int_equal(fixture->ops->write(fixture->engine, ENGINE_SOLUTION, 0, block, NULL), 0);
    free(block);
}

void fixture_open(struct fixture **fixture, const struct architecture *architecture,
                  const struct optimizer *optimizer, size_t window, size_t slots, uint64_t seed) {
    const struct engine_options options = {
        .optimizer = *optimizer, .window = window, .slots = slots};
    fixture_open_with(fixture, architecture, &options, seed);
}

bool fixture_takes(const struct architecture *a) {
    bool numbers = a->input.kind == INPUT_REAL && !a->input.column_count;
    for (size_t n = 0; n < a->layer_count; n++) {
        bool spatial = cell_kind(a->layers[n].cell)->spatial;
        if (!layer_takes_norm(&a->layers[n]) || (spatial && (!numbers || !under_test_is_cpu())))
            return false;
        numbers = spatial;
    }
    return true;
}

/* A layer without a shape has one position, and is a dense one. */
static void complete_grid(struct architecture *a, struct layer *layer) {
    if (!a->input.shape.channels)
        a->input.shape = (struct grid_shape){a->input.size, 1, 1};
    layer->shape.channels = layer->shape.channels ? layer->shape.channels : layer->size;
    layer->kernel = layer->kernel ? layer->kernel : 1;
    layer->stride = layer->stride ? layer->stride : 1;
    layer->norm_groups = layer->norm_groups ? layer->norm_groups : 1;
}

void fixture_open_with(struct fixture **fixture, const struct architecture *architecture,
                       const struct engine_options *options, uint64_t seed) {
    struct fixture *opened = calloc(1, sizeof *opened);
    assert_non_null(opened);
    *fixture = opened;
    struct architecture complete = *architecture;
    for (size_t n = 0; n < complete.layer_count; n++) {
        struct layer *layer = &complete.layers[n];
        layer->norm_momentum = layer->norm_momentum > 0.0F ? layer->norm_momentum : 0.25F;
        layer->norm_steps = layer->norm_steps ? layer->norm_steps : 5;
        if (cell_kind(layer->cell)->spatial)
            complete_grid(&complete, layer);
    }
    model_build(&opened->model, &complete);
    opened->options = *options;
    opened->inputs = opened->model.features;
    opened->random = seed;
    opened->plan.operations = opened->operations;
    opened->plan.inputs = opened->x;
    opened->plan.targets = opened->y;
    opened->plan.outputs = true;

    struct error error;
    opened->ops = under_test_ops();
    if (opened->ops->open(&opened->engine, &opened->model, &opened->options, under_test_device(),
                          &error))
        fail_msg("%s", error.text);
    begin_solution(opened);
    float *values = calloc(opened->model.parameters, sizeof *values);
    for (size_t n = 0; n < opened->model.tensor_count; n++) {
        const struct tensor *tensor = &opened->model.tensors[n];
        for (size_t k = 0; k < tensor_size(tensor); k++)
            values[tensor->offset + k] = (float)random_parameter(opened, tensor);
    }
    fixture_write(opened, ENGINE_PARAMETERS, values);
    free(values);
}

void fixture_close(struct fixture **fixture) {
    (*fixture)->ops->close(&(*fixture)->engine);
    assert_null((*fixture)->engine);
    free(*fixture);
    *fixture = NULL;
}

static uint32_t random_id(struct fixture *fixture, size_t size) {
    return (uint32_t)((fixture_random(fixture) + 1.0) / 2.0 * (double)size);
}

static void random_atom(struct fixture *fixture, union value *x) {
    const struct model *model = &fixture->model;
    const struct input *input = &model->architecture.input;
    for (size_t n = 0; n < model->part_count; n++) {
        const struct input_part *part = &model->parts[n];
        for (size_t k = 0; !part->size && k < part->width; k++)
            x[part->from + k].real = (float)(2.0 * fixture_random(fixture));
        if (part->size)
            x[part->from].id =
                random_id(fixture, part->size) | (random_id(fixture, 4) ? 0 : SYMBOL_MINUS);
    }
    if (model->part_count)
        return;
    if (input->kind == INPUT_SYMBOL)
        x->id = random_id(fixture, input->size) |
                (input->hash && random_id(fixture, 2) ? SYMBOL_MINUS : 0);
    else
        for (size_t k = 0; k < model->features_atom; k++)
            x[k].real = (float)(2.0 * fixture_random(fixture));
}

void fixture_random_input(struct fixture *fixture, union value *x) {
    const struct model *model = &fixture->model;
    const struct input *input = &model->architecture.input;
    if (!input_is_message(input)) {
        random_atom(fixture, x);
        return;
    }
    memset(x, 0, model->features * sizeof *x);
    x->id = 1 + random_id(fixture, input->sequence.longest);
    for (size_t i = 0; i < x->id; i++)
        random_atom(fixture, x + 1 + i * model->features_atom);
}

struct optimizer fixture_optimizer(enum optimizer_id id, double rate) {
    const double momentum = 0.9;
    const struct optimizer_kind *kind = optimizer_kind(id);
    struct optimizer o = {.kind = id, .rate = rate};
    for (const struct kind_key *key = kind->keys; key->name; key++) {
        bool needed = kind->moments_need && strcmp(key->name, kind->moments_need) == 0;
        double *field = (double *)(void *)((char *)&o + key->offset);
        if (!key->boolean)
            *field = needed ? momentum : strtod(key->fallback, NULL);
    }
    return o;
}

/* Two numbers that are observed together or not, and a probability. */
static void random_mixture_target(struct fixture *fixture, union value *y) {
    enum { PATTERNS = 4 };
    y[0].real = (float)fixture_random(fixture);
    y[1].real = (float)fixture_random(fixture);
    y[2].real = (float)random_id(fixture, 2);
    uint32_t pattern = random_id(fixture, PATTERNS);
    if (pattern < 3)
        y[pattern].real = NAN;
}

static void random_target(struct fixture *fixture, const struct output *output, union value *y) {
    const struct loss_kind *loss = loss_kind(output->loss);
    if (loss->class_id) {
        y->id = random_id(fixture, output->size);
        return;
    }
    if (loss->together) {
        random_mixture_target(fixture, y);
        return;
    }
    for (size_t k = 0; k < output->size; k++) {
        y[k].real = (float)fixture_random(fixture);
        if (loss->unit_range)
            y[k].real = 0.5F + 0.5F * y[k].real;
        if (fixture_random(fixture) > 0.6)
            y[k].real = NAN;
    }
    uint32_t observed = random_id(fixture, output->size);
    if (isnan(y[observed].real))
        y[observed].real = 0.25F;
}

void fixture_random_target_of(struct fixture *fixture, size_t head, union value *y) {
    const struct output *output = model_output(&fixture->model, fixture->model.heads[head].output);
    size_t count = 1, size = loss_kind(output->loss)->class_id ? 1 : output->size;
    const struct ranking *ranking = &output->ranking;
    if (output_ranks(output) && ranking->kind == INPUT_SYMBOL)
        y->id = random_id(fixture, ranking->size);
    for (size_t k = 0; output_ranks(output) && ranking->kind == INPUT_REAL && k < ranking->size;
         k++)
        y[k].real = (float)fixture_random(fixture);
    if (output_ranks(output))
        return;
    if (output_is_message(output))
        count = (y++)->id = 1 + random_id(fixture, output->sequence.longest);
    for (size_t i = 0; i < count; i++)
        random_target(fixture, output, y + i * size);
}

void fixture_random_target(struct fixture *fixture, union value *y) {
    fixture_random_target_of(fixture, 0, y);
}

static struct operation *add(struct fixture *fixture, enum operation_kind kind, size_t slot,
                             size_t position) {
    assert_true(fixture->plan.count < FIXTURE_OPERATIONS);
    struct operation *operation = &fixture->operations[fixture->plan.count++];
    *operation =
        (struct operation){.kind = kind, .slot = (uint32_t)slot, .position = (uint32_t)position};
    return operation;
}

void fixture_forget(struct fixture *fixture, size_t slot) {
    add(fixture, OPERATION_FORGET, slot, 0);
}

void fixture_step(struct fixture *fixture, size_t slot, size_t position, const union value *x) {
    size_t row = fixture->plan.steps++;
    assert_true((row + 1) * fixture->inputs <= FIXTURE_NUMBERS);
    assert_true((row + 1) * fixture->model.outputs <= FIXTURE_NUMBERS);
    add(fixture, OPERATION_STEP, slot, position)->value = (uint32_t)row;
    memcpy(fixture->x + row * fixture->inputs, x, fixture->inputs * sizeof *x);
}

static uint32_t add_target(struct fixture *fixture, const union value *y) {
    size_t row = fixture->plan.rows++, size = fixture->model.target_size;
    assert_true((row + 1) * size <= FIXTURE_NUMBERS);
    memcpy(fixture->y + row * size, y, size * sizeof *y);
    return (uint32_t)row;
}

void fixture_score(struct fixture *fixture, size_t slot, size_t position, const union value *y,
                   bool learn) {
    struct operation *operation = add(fixture, OPERATION_SCORE, slot, position);
    operation->value = add_target(fixture, y);
    operation->learn = learn;
    fixture->plan.scores++;
}

void fixture_score_horizon(struct fixture *fixture, size_t slot, size_t position, size_t horizon,
                           const union value *y) {
    fixture_score(fixture, slot, position, y, true);
    fixture->operations[fixture->plan.count - 1].horizon = (uint32_t)horizon;
}

void fixture_solve(struct fixture *fixture, size_t slot, const union value *y) {
    add(fixture, OPERATION_SOLVE, slot, 0)->value = add_target(fixture, y);
}

void fixture_update(struct fixture *fixture, size_t slot, size_t position, size_t length,
                    size_t closed, size_t terms, bool fresh) {
    struct operation *operation = add(fixture, OPERATION_UPDATE, slot, position);
    operation->length = (uint32_t)length;
    operation->closed = (uint32_t)closed;
    operation->terms = (uint32_t)terms;
    operation->fresh = fresh;
    fixture->plan.updates++;
}

void fixture_advance(struct fixture *fixture, size_t slot, size_t position, size_t closed,
                     bool fresh) {
    struct operation *operation = add(fixture, OPERATION_ADVANCE, slot, position);
    operation->length = operation->closed = (uint32_t)closed;
    operation->fresh = fresh;
}

void fixture_measure(struct fixture *fixture, size_t slot) {
    add(fixture, OPERATION_MEASURE, slot, 0);
    fixture->plan.measures++;
    assert_true(fixture->plan.measures * fixture->model.architecture.layer_count <=
                FIXTURE_OPERATIONS);
}

static struct results results_of(struct fixture *fixture) {
    return (struct results){.losses = fixture->losses,
                            .scored = fixture->scored,
                            .outputs = fixture->outputs,
                            .updates = fixture->updates,
                            .measures = fixture->measures};
}

static void begin_plan(struct plan *plan) {
    plan->count = plan->steps = plan->scores = plan->rows = plan->updates = plan->measures = 0;
}

void fixture_play(struct fixture *fixture, double rate, double clip) {
    struct plan *plan = &fixture->plan;
    const struct results results = results_of(fixture);
    struct error error;
    plan->rate = rate;
    plan->clip = clip;
    if (fixture->ops->play(fixture->engine, plan, &results, &error))
        fail_msg("%s", error.text);
    begin_plan(plan);
}

void fixture_play_together(struct fixture *const *fixtures, size_t count, const double *rates,
                           const double *clips) {
    struct engine_part parts[FIXTURES_TOGETHER];
    struct results results[FIXTURES_TOGETHER];
    struct error error;
    size_t some = 0;
    assert_true(count <= FIXTURES_TOGETHER);
    for (size_t m = 0; m < count; m++) {
        struct fixture *f = fixtures[m];
        results[m] = results_of(f);
        f->plan.rate = rates[m];
        f->plan.clip = clips[m];
        if (f->plan.count)
            parts[some++] = (struct engine_part){f->engine, &f->plan, &results[m]};
    }
    if (some && fixtures[0]->ops->play_together(parts, some, &error))
        fail_msg("%s", error.text);
    for (size_t m = 0; m < count; m++)
        begin_plan(&fixtures[m]->plan);
}

/* Number of tensors in the block: running statistics have no moments. */
static size_t tensors(const struct fixture *fixture, enum engine_block block) {
    return block == ENGINE_PARAMETERS ? fixture->model.tensor_count : fixture->model.learned_count;
}

void fixture_read(struct fixture *fixture, enum engine_block block, float *values) {
    struct error error;
    for (size_t n = 0; n < tensors(fixture, block); n++)
        if (fixture->ops->read(fixture->engine, block, n, values + fixture->model.tensors[n].offset,
                               &error))
            fail_msg("%s", error.text);
}

void fixture_write(struct fixture *fixture, enum engine_block block, const float *values) {
    struct error error;
    for (size_t n = 0; n < tensors(fixture, block); n++)
        if (fixture->ops->write(fixture->engine, block, n,
                                values + fixture->model.tensors[n].offset, &error))
            fail_msg("%s", error.text);
}

double *doubles(const float *values, size_t count) {
    double *copy = calloc(count, sizeof *copy);
    assert_non_null(copy);
    for (size_t k = 0; k < count; k++)
        copy[k] = (double)values[k];
    return copy;
}

double norm(const double *a, size_t count) {
    double squares = 0.0;
    for (size_t k = 0; k < count; k++)
        squares += a[k] * a[k];
    return sqrt(squares);
}

double distance(const double *a, const double *b, size_t count) {
    double squares = 0.0;
    for (size_t k = 0; k < count; k++)
        squares += (a[k] - b[k]) * (a[k] - b[k]);
    return sqrt(squares);
}
