/* Learning rules without a window: their data of a stream carries the gradient from update to
   update. The exact rule is compared with central differences in double over the whole stream.
   Rules with a trace are compared with their equations in double, and with the exact rule where
   nothing is dropped; for columns with central differences, since their traces are exact. For each
   rule: a new stream starts without data, another engine can continue from its record, and the cut
   of operations into plans changes nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "fixture.h"
#include "model/rule.h"
#include "oracle.h"
#include "second_form.h"
#include "under_test.h"

enum {
    STRIDE = 4,
    POSITIONS = STRIDE + 1,
    STEPS = 11,
    SEED = 1,
};

/* The step after which an update is made, and its number of steps; the middle one has no target. */
struct cycle {
    size_t end, closed;
};
static const struct cycle CYCLES[] = {{3, 3}, {5, 2}, {7, 2}, {STEPS, 4}};
enum { ALL_CYCLES = sizeof CYCLES / sizeof *CYCLES, WITHOUT_TARGET = 1, LAST = ALL_CYCLES - 1 };

static const bool LEARNED[STEPS] = {true, false, true, false, false, true,
                                    true, true,  true, false, true};

/* As in test_gradient.c. */
static const double RATE = 1024.0;
static const double GRADIENT_TOLERANCE = 1e-4;
static const double GRADIENT_FLOOR = 1e-5;

/* Running statistics of norms stay unchanged. */
static const float STILL = 1e-30F;

struct played_sequence {
    union value x[STEPS * ORACLE_WIDTH_MAX], y[STEPS * ORACLE_WIDTH_MAX];
};

static void open_rule(struct fixture **f, const struct architecture *architecture, enum rule rule,
                      enum optimizer_id kind, size_t slots) {
    struct architecture still = *architecture;
    for (size_t n = 0; n < still.layer_count; n++)
        still.layers[n].norm_momentum = STILL;
    const struct optimizer plain = {.kind = kind}, full = fixture_optimizer(kind, 1.0);
    const struct engine_options options = {.optimizer = kind == OPTIMIZER_sgd ? plain : full,
                                           .rule = rule,
                                           .window = STRIDE,
                                           .slots = slots};
    fixture_open_with(f, &still, &options, SEED);
}

static void make_sequence(struct fixture *f, struct played_sequence *s) {
    for (size_t t = 0; t < STEPS; t++) {
        fixture_random_input(f, s->x + t * f->inputs);
        fixture_random_target(f, s->y + t * f->model.target_size);
    }
}

/* Steps up to the end of a cycle, and its update. */
static void gather(struct fixture *f, size_t slot, const struct played_sequence *s, size_t cycle,
                   bool fresh) {
    size_t end = CYCLES[cycle].end, closed = CYCLES[cycle].closed, terms = 0;
    for (size_t t = end - closed; t < end; t++) {
        fixture_step(f, slot, t % POSITIONS, s->x + t * f->inputs);
        fixture_score(f, slot, t % POSITIONS, s->y + t * f->model.target_size, LEARNED[t]);
        terms += LEARNED[t];
    }
    if (cycle == WITHOUT_TARGET)
        fixture_advance(f, slot, (end - closed) % POSITIONS, closed, fresh);
    else
        fixture_update(f, slot, (end - closed) % POSITIONS, closed, closed, terms, fresh);
}

/* The gradient of the last cycle's loss, with constant parameters until then. */
static void play(struct fixture *f, const struct played_sequence *s, bool fresh, float *gradient) {
    size_t count = f->model.parameters;
    float *after = calloc(count, sizeof *after);
    for (size_t cycle = 0; cycle < ALL_CYCLES; cycle++) {
        gather(f, 0, s, cycle, fresh);
        if (cycle == LAST)
            fixture_read(f, ENGINE_PARAMETERS, gradient);
        fixture_play(f, cycle == LAST ? RATE : 0.0, 0.0);
        if (cycle != WITHOUT_TARGET)
            assert_true(f->updates[0].applied);
    }
    fixture_read(f, ENGINE_PARAMETERS, after);
    for (size_t k = 0; k < count; k++)
        gradient[k] = (float)(((double)gradient[k] - (double)after[k]) / RATE);
    free(after);
}

static void compare(const struct fixture *f, const float *engine, const double *expected,
                    const char *name) {
    double floor = GRADIENT_FLOOR * norm(expected, f->model.learned);
    double *found = doubles(engine, f->model.parameters);
    for (size_t n = 0; n < f->model.learned_count; n++) {
        const struct tensor *tensor = &f->model.tensors[n];
        size_t count = tensor_size(tensor);
        double off = distance(found + tensor->offset, expected + tensor->offset, count);
        double whole = norm(expected + tensor->offset, count);
        if (!(off <= GRADIENT_TOLERANCE * whole + floor))
            fail_msg("%s: gradient of %s is off by %.3g, its norm is %.3g", name, tensor->name, off,
                     whole);
    }
    free(found);
}

/* The same through the whole stream from its beginning, by central differences. */
static void exact_gradient(struct fixture *f, const struct played_sequence *s, double *expected) {
    float *parameters = calloc(f->model.parameters, sizeof *parameters);
    fixture_read(f, ENGINE_PARAMETERS, parameters);
    double *exact = doubles(parameters, f->model.parameters);
    double *zero = calloc(f->model.state_size + 1, sizeof *zero);
    const struct oracle_window window = {.state = zero,
                                         .inputs = s->x,
                                         .targets = s->y,
                                         .learned = LEARNED,
                                         .length = STEPS,
                                         .closed = CYCLES[LAST].closed};
    oracle_gradient(&f->model, exact, &window, expected);
    free(parameters);
    free(exact);
    free(zero);
}

static void check_exact(const struct architecture *architecture, const char *name) {
    struct fixture *f, *again;
    struct played_sequence s;
    for (size_t n = 0; n < architecture->layer_count; n++)
        if (!under_test_is_cpu() || !rule_takes(RULE_rtrl, architecture->layers[n].cell, false))
            return;
    open_rule(&f, architecture, RULE_rtrl, OPTIMIZER_sgd, 1);
    open_rule(&again, architecture, RULE_rtrl, OPTIMIZER_sgd, 1);
    size_t count = f->model.parameters;
    float *gradient = calloc(count, sizeof *gradient), *other = calloc(count, sizeof *other);
    double *expected = calloc(count, sizeof *expected);
    make_sequence(f, &s);
    exact_gradient(f, &s, expected);
    play(f, &s, true, gradient);
    play(again, &s, false, other);
    if (memcmp(gradient, other, count * sizeof *gradient) != 0)
        fail_msg("%s: steps recomputed give other bits than fresh ones", name);
    compare(f, gradient, expected, name);
    free(gradient);
    free(other);
    free(expected);
    fixture_close(&f);
    fixture_close(&again);
}

static struct output output_of(enum loss loss) {
    size_t size = loss_kind(loss)->size;
    return (struct output){.loss = loss, .size = size ? size : 5, .components = 4};
}

static void rtrl_of_every_cell_norm_and_loss(void **state) {
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (enum norm norm = 0; norm < NORMS; norm++)
            for (enum loss loss = 0;
                 loss < (norm == NORM_layer ? LOSSES : 1) && !loss_kind(loss)->ranks; loss++) {
                const struct architecture architecture = {
                    .input = {.kind = INPUT_REAL, .size = 3},
                    .layers =
                        {{.cell = cell, .size = 7, .norm = norm, .activation = ACTIVATION_tanh}},
                    .layer_count = 1,
                    .output = output_of(loss),
                };
                char name[64];
                snprintf(name, sizeof name, "%s, norm %s, %s", cell_kind(cell)->kind.name,
                         norm_kind(norm)->kind.name, loss_kind(loss)->name);
                check_exact(&architecture, name);
            }
}

static void rtrl_of_layers_mixed(void **state) {
    for (enum norm norm = 0; norm < NORMS; norm++) {
        const struct architecture mixed = {
            .input = {.kind = INPUT_REAL, .size = 5},
            .layers = {{.cell = CELL_dense, .size = 9, .norm = norm, .activation = ACTIVATION_tanh},
                       {.cell = CELL_lstm, .size = 6, .norm = norm},
                       {.cell = CELL_dense, .size = 4, .activation = ACTIVATION_tanh},
                       {.cell = CELL_dense, .size = 5, .norm = norm, .activation = ACTIVATION_tanh},
                       {.cell = CELL_gru, .size = 8},
                       {.cell = CELL_rnn, .size = 5, .norm = norm},
                       {.cell = CELL_dense, .size = 7, .norm = norm, .activation = ACTIVATION_tanh},
                       {.cell = CELL_dense, .size = 3, .activation = ACTIVATION_tanh}},
            .layer_count = 8,
            .output = output_of(LOSS_gaussian),
        };
        check_exact(&mixed, norm_kind(norm)->kind.name);
    }
    const struct architecture wide = {
        .input = {.kind = INPUT_REAL, .size = 19},
        .layers = {{.cell = CELL_lstm, .size = 21, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 18, .norm = NORM_layer}},
        .layer_count = 2,
        .output = {.loss = LOSS_softmax, .size = 37},
    };
    check_exact(&wide, "wide lstm, gru");
}

/* Kinds of inputs. */
static const struct input INPUTS[] = {
    {.kind = INPUT_SYMBOL, .size = 6},
    {.kind = INPUT_SYMBOL, .size = 6, .embedding = 5},
    {.kind = INPUT_SYMBOL, .size = 6, .hash = 6, .embedding = 5},
    {.size = 7,
     .column_count = 7,
     .columns = {{.name = "host", .kind = COLUMN_SYMBOL, .size = 3, .embedding = 4},
                 {.name = "load", .mask = true},
                 {.name = "hour", .kind = COLUMN_CYCLE, .period = 24, .harmonics = 2},
                 {.name = "state", .kind = COLUMN_SYMBOL, .size = 5},
                 {.name = "user", .kind = COLUMN_SYMBOL, .size = 2, .embedding = 9},
                 {.name = "heat"},
                 {.name = "shift", .kind = COLUMN_SYMBOL, .size = 3}}},
};
enum { ALL_INPUTS = sizeof INPUTS / sizeof *INPUTS };

static void rtrl_of_every_input(void **state) {
    for (size_t k = 0; k < ALL_INPUTS; k++)
        for (enum cell cell = 0; cell < CELLS; cell++)
            for (int skip = 0; skip < 2; skip++) {
                struct architecture architecture = {
                    .input = INPUTS[k],
                    .layers = {{.cell = cell, .size = 8, .norm = NORM_layer},
                               {.cell = CELL_gru, .size = 5}},
                    .layer_count = 2,
                    .output = {.loss = LOSS_softmax, .size = 6, .skip = skip},
                };
                char name[64];
                snprintf(name, sizeof name, "%s, input %zu%s", cell_kind(cell)->kind.name, k,
                         skip ? " with a skip path" : "");
                check_exact(&architecture, name);
            }
    struct architecture solved = {
        .input = {.kind = INPUT_REAL, .size = 4},
        .layers = {{.cell = CELL_gru, .size = 9, .norm = NORM_layer},
                   {.cell = CELL_dense, .size = 6, .activation = ACTIVATION_tanh}},
        .layer_count = 2,
        .output = {.loss = LOSS_squared, .size = 5, .skip = true, .solved = true},
    };
    check_exact(&solved, "solved");
}

/* ---- Traces ---- */

static void check_trace(enum rule rule, const struct architecture *architecture, const char *name) {
    struct fixture *f, *again;
    struct played_sequence s;
    open_rule(&f, architecture, rule, OPTIMIZER_sgd, 1);
    open_rule(&again, architecture, rule, OPTIMIZER_sgd, 1);
    size_t count = f->model.parameters;
    float *gradient = calloc(count, sizeof *gradient), *other = calloc(count, sizeof *other);
    float *parameters = calloc(count, sizeof *parameters);
    double *expected = calloc(count, sizeof *expected);
    make_sequence(f, &s);
    fixture_read(f, ENGINE_PARAMETERS, parameters);
    double *exact = doubles(parameters, count);
    second_form(&f->model, rule, exact, s.x, s.y, LEARNED, STEPS, CYCLES[LAST].closed, expected);
    play(f, &s, true, gradient);
    play(again, &s, false, other);
    if (memcmp(gradient, other, count * sizeof *gradient) != 0)
        fail_msg("%s: steps recomputed give other bits than fresh ones", name);
    compare(f, gradient, expected, name);
    free(gradient);
    free(other);
    free(parameters);
    free(expected);
    free(exact);
    fixture_close(&f);
    fixture_close(&again);
}

/* The gradient with respect to each layer through the whole stream, with the states of the other
   layers before each step (for an embedding, of all) as constants; by central differences. */
static double held_loss(struct fixture *f, const struct played_sequence *s,
                        const double *parameters, const double *states,
                        const struct tensor *tensor) {
    const struct model *model = &f->model;
    const struct layer *layer = &model->architecture.layers[tensor->layer];
    size_t size = model->state_size, from = model->state_offset[tensor->layer], terms = 0;
    size_t own =
        tensor->role == TENSOR_EMBEDDING ? 0 : cell_kind(layer->cell)->states * layer->size;
    double state[2 * ORACLE_WIDTH_MAX * MODEL_LAYERS_MAX], output[ORACLE_OUTPUTS_MAX], sum = 0;
    memset(state, 0, sizeof state);
    for (size_t t = 0; t < STEPS; t++, states += size) {
        memcpy(state, states, from * sizeof *state);
        memcpy(state + from + own, states + from + own, (size - from - own) * sizeof *state);
        oracle_step(model, parameters, state, s->x + t * f->inputs, output);
        if (t + CYCLES[LAST].closed < STEPS || !LEARNED[t])
            continue;
        sum += oracle_loss(model, output, s->y + t * model->target_size);
        terms++;
    }
    return sum / (double)terms;
}

static void held_gradient(struct fixture *f, const struct played_sequence *s, double *expected) {
    const double step = 1e-5;
    size_t size = f->model.state_size;
    float *parameters = calloc(f->model.parameters, sizeof *parameters);
    double *states = calloc((STEPS + 1) * size, sizeof *states), output[ORACLE_OUTPUTS_MAX];
    fixture_read(f, ENGINE_PARAMETERS, parameters);
    double *exact = doubles(parameters, f->model.parameters);
    for (size_t t = 0; t < STEPS; t++) {
        memcpy(states + (t + 1) * size, states + t * size, size * sizeof *states);
        oracle_step(&f->model, exact, states + (t + 1) * size, s->x + t * f->inputs, output);
    }
    for (size_t n = 0; n < f->model.learned_count; n++)
        for (size_t k = 0; k < tensor_size(&f->model.tensors[n]); k++) {
            double *p = exact + f->model.tensors[n].offset + k, value = *p, both[2];
            for (int side = 0; side < 2; side++) {
                *p = side ? value - step : value + step;
                both[side] = held_loss(f, s, exact, states, &f->model.tensors[n]);
            }
            *p = value;
            expected[f->model.tensors[n].offset + k] = (both[0] - both[1]) / (2.0 * step);
        }
    free(parameters);
    free(states);
    free(exact);
}

static void check_columns(const struct architecture *architecture, const char *name) {
    struct fixture *f, *again;
    struct played_sequence s;
    open_rule(&f, architecture, RULE_snap1, OPTIMIZER_sgd, 1);
    open_rule(&again, architecture, RULE_snap1, OPTIMIZER_sgd, 1);
    size_t count = f->model.parameters;
    float *gradient = calloc(count, sizeof *gradient), *other = calloc(count, sizeof *other);
    double *expected = calloc(count, sizeof *expected), *whole = calloc(count, sizeof *whole);
    make_sequence(f, &s);
    held_gradient(f, &s, expected);
    exact_gradient(f, &s, whole);
    play(f, &s, true, gradient);
    play(again, &s, false, other);
    if (memcmp(gradient, other, count * sizeof *gradient) != 0)
        fail_msg("%s: steps recomputed give other bits than fresh ones", name);
    compare(f, gradient, expected, name);
    if (architecture->layer_count < 3 && !layer_is_columns(&architecture->layers[1]))
        compare(f, gradient, whole, name);
    free(gradient);
    free(other);
    free(expected);
    free(whole);
    fixture_close(&f);
    fixture_close(&again);
}

/* One layer of columns exactly; under another one, through the current step of that. */
static void traces_of_columns_are_exact(void **state) {
    for (enum cell cell = CELL_rnn; cell < CELLS && under_test_is_cpu(); cell++)
        for (size_t layers = 1; layers <= 4; layers++)
            for (enum norm norm = NORM_none; norm <= NORM_layer; norm++) {
                struct layer layer = {.cell = cell, .size = 7, .norm = norm};
                if (cell_kind(cell)->spatial)
                    continue;
                layer.diagonal = !cell_kind(cell)->columns;
                const struct layer dense = {
                    .cell = CELL_dense, .size = 5, .norm = norm, .activation = ACTIVATION_tanh};
                const struct architecture a = {
                    .input = {.kind = INPUT_REAL, .size = 3},
                    .layers = {layer, dense, {.cell = CELL_rtu, .size = 18, .norm = norm}, layer},
                    .layer_count = layers,
                    .output = output_of(LOSS_squared),
                };
                char name[64];
                snprintf(name, sizeof name, "%zu layers of %s, norm %s", layers,
                         cell_kind(cell)->kind.name, norm_kind(norm)->kind.name);
                check_columns(&a, name);
            }
    for (size_t k = 0; k < ALL_INPUTS && under_test_is_cpu(); k++) {
        const struct architecture a = {
            .input = INPUTS[k],
            .layers = {{.cell = CELL_rtu, .size = 8, .norm = NORM_layer},
                       {.cell = CELL_gru, .size = 5, .norm = NORM_layer, .diagonal = true}},
            .layer_count = 2,
            .output = {.loss = LOSS_softmax, .size = 6, .skip = true},
        };
        check_columns(&a, "columns with another input");
    }
}

/* Every cell of a rule with every norm, and several layers. */
static void traces_as_their_equations(void **state) {
    for (enum rule rule = 0; rule < RULES && under_test_is_cpu(); rule++)
        for (enum cell cell = 0; cell < CELLS; cell++)
            for (enum norm norm = 0; norm < NORMS; norm++) {
                const struct architecture a = {
                    .input = {.kind = INPUT_REAL, .size = 3},
                    .layers =
                        {{.cell = cell, .size = 7, .norm = norm, .activation = ACTIVATION_tanh},
                         {.cell = CELL_dense, .size = 4, .activation = ACTIVATION_tanh},
                         {.cell = cell, .size = 5, .norm = norm, .activation = ACTIVATION_tanh}},
                    .layer_count = norm == NORM_rms ? 1 : 3,
                    .output = output_of(LOSS_squared),
                };
                char name[64];
                snprintf(name, sizeof name, "%s of %s, norm %s", rule_kind(rule)->name,
                         cell_kind(cell)->kind.name, norm_kind(norm)->kind.name);
                if (rule_kind(rule)->keeps == KEEPS_TRACE && rule_takes(rule, cell, false) &&
                    !cell_kind(cell)->columns && !norm_kind(norm)->by_age)
                    check_trace(rule, &a, name);
            }
}

/* Zero recurrent weights except, with `own`, those of a unit from itself. */
static void cut_weights(struct fixture *f, bool own) {
    float *values = calloc(f->model.parameters, sizeof *values);
    fixture_read(f, ENGINE_PARAMETERS, values);
    const struct tensor *t = model_find(&f->model, TENSOR_WEIGHT_HH, 0);
    for (size_t i = 0; i < tensor_size(t); i++)
        if (!own || i / t->columns % t->columns != i % t->columns)
            values[t->offset + i] = 0.0F;
    fixture_write(f, ENGINE_PARAMETERS, values);
    free(values);
}

/* If a parameter affects only its own unit's state, nothing is dropped, and the gradient is
   exact: with units that are not connected, and for eprop not even with themselves. */
static void traces_are_exact_where_units_are_alone(void **state) {
    const enum norm norms[] = {NORM_none, NORM_batch, NORM_weight};
    for (enum rule rule = 0; rule < RULES && under_test_is_cpu(); rule++)
        for (enum cell cell = 0; cell < CELLS; cell++)
            for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
                const struct rule_kind *kind = rule_kind(rule);
                bool zero = !kind->through_weights && norms[k] == NORM_weight; /* rows of norm 0 */
                const struct architecture a = {
                    .input = {.kind = INPUT_REAL, .size = 3},
                    .layers = {{.cell = cell, .size = 9, .norm = norms[k]}},
                    .layer_count = 1,
                    .output = output_of(LOSS_squared),
                };
                struct fixture *f, *exact;
                struct played_sequence s;
                if (kind->keeps != KEEPS_TRACE || cell_kind(cell)->states != kind->states ||
                    cell_kind(cell)->columns || zero)
                    continue;
                open_rule(&f, &a, rule, OPTIMIZER_sgd, 1);
                open_rule(&exact, &a, RULE_rtrl, OPTIMIZER_sgd, 1);
                cut_weights(f, kind->through_weights);
                cut_weights(exact, kind->through_weights);
                make_sequence(f, &s);
                size_t count = f->model.parameters;
                float *gradient = calloc(count, sizeof *gradient);
                float *expected = calloc(count, sizeof *expected);
                play(f, &s, true, gradient);
                play(exact, &s, true, expected);
                double *doubled = doubles(expected, count);
                compare(f, gradient, doubled, kind->name);
                free(gradient);
                free(expected);
                free(doubled);
                fixture_close(&f);
                fixture_close(&exact);
            }
}

/* ---- All rules ---- */

static struct architecture network_for(enum rule rule) {
    struct architecture a = {
        .input = INPUTS[ALL_INPUTS - 1],
        .layers = {{.cell = CELL_dense, .size = 6, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 9, .norm = NORM_layer},
                   {.cell = CELL_lstm, .size = 7, .norm = NORM_weight},
                   {.cell = CELL_rnn, .size = 7, .norm = NORM_recurrent_batch},
                   {.cell = CELL_dense, .size = 3}},
        .layer_count = 5,
        .output = {.loss = LOSS_squared, .size = 2, .skip = true},
    };
    for (size_t n = 0; n < a.layer_count; n++)
        if (!rule_takes(rule, a.layers[n].cell, false))
            a.layers[n].cell = rule_takes(rule, CELL_lstm, false) ? CELL_lstm : CELL_gru;
    if (rule_takes(rule, CELL_rtu, false)) {
        a.layers[2] = (struct layer){.cell = CELL_rtu, .size = 7, .norm = NORM_layer};
        a.layers[4] = (struct layer){.cell = CELL_lstm, .size = 3, .diagonal = true};
    }
    return a;
}

/* Every rule with data, on the CPU: for (...) over a fixture of it. */
#define EACH_RULE(rule)                                                                            \
    (enum rule rule = 0; rule < RULES;                                                             \
     rule++) if (under_test_is_cpu() && rule_kind(rule)->keeps != KEEPS_NOTHING)

static void assert_same(struct fixture *a, struct fixture *b) {
    size_t count = a->model.parameters;
    float *first = calloc(count, sizeof *first), *second = calloc(count, sizeof *second);
    fixture_read(a, ENGINE_PARAMETERS, first);
    fixture_read(b, ENGINE_PARAMETERS, second);
    assert_memory_equal(first, second, count * sizeof *first);
    free(first);
    free(second);
}

static void plans_are_cut_anywhere(void **state) {
    for
        EACH_RULE(rule) {
            const struct architecture architecture = network_for(rule);
            struct fixture *whole, *cut;
            struct played_sequence s;
            open_rule(&whole, &architecture, rule, OPTIMIZER_adam, 2);
            open_rule(&cut, &architecture, rule, OPTIMIZER_adam, 2);
            make_sequence(whole, &s);
            for (size_t cycle = 0; cycle < ALL_CYCLES; cycle++) {
                gather(whole, 0, &s, cycle, true);
                gather(whole, 1, &s, cycle, true);
                for (size_t slot = 0; slot < 2; slot++) {
                    gather(cut, slot, &s, cycle, false);
                    fixture_play(cut, 0.01, 1.0);
                }
            }
            fixture_play(whole, 0.01, 1.0);
            assert_same(whole, cut);
            fixture_close(&whole);
            fixture_close(&cut);
        }
}

/* A stream's data is forgotten with it: the next stream starts without it. */
static void a_stream_begins_with_nothing(void **state) {
    for
        EACH_RULE(rule) {
            const struct architecture architecture = network_for(rule);
            struct fixture *used, *fresh;
            struct played_sequence before, s;
            open_rule(&used, &architecture, rule, OPTIMIZER_sgd, 1);
            open_rule(&fresh, &architecture, rule, OPTIMIZER_sgd, 1);
            make_sequence(used, &before);
            make_sequence(used, &s);
            for (size_t cycle = 0; cycle < ALL_CYCLES; cycle++)
                gather(used, 0, &before, cycle, true);
            fixture_forget(used, 0);
            fixture_play(used, 0.0, 0.0);
            for (size_t cycle = 0; cycle < ALL_CYCLES; cycle++) {
                gather(used, 0, &s, cycle, true);
                gather(fresh, 0, &s, cycle, true);
            }
            fixture_play(used, 0.01, 1.0);
            fixture_play(fresh, 0.01, 1.0);
            assert_same(used, fresh);
            fixture_close(&used);
            fixture_close(&fresh);
        }
}

/* Another engine needs only the parameters and the slot's record. */
static void another_engine_can_continue(void **state) {
    for
        EACH_RULE(rule) {
            const struct architecture architecture = network_for(rule);
            struct fixture *first, *second;
            struct played_sequence s;
            open_rule(&first, &architecture, rule, OPTIMIZER_sgd, 1);
            open_rule(&second, &architecture, rule, OPTIMIZER_sgd, 1);
            make_sequence(first, &s);
            gather(first, 0, &s, 0, true);
            gather(first, 0, &s, 1, true);
            fixture_play(first, 0.01, 1.0);
            size_t size = slot_record_size(&first->model, STRIDE);
            size_t kept = rule_record_size(&first->model, rule), moved = 0;
            float *record = calloc(size + kept, sizeof *record);
            float *values = calloc(first->model.parameters, sizeof *values);
            assert_int_equal(first->ops->read(first->engine, ENGINE_SLOT, 0, record, NULL), 0);
            for (size_t k = 0; k < kept; k++)
                moved += record[size + k] != 0.0F;
            assert_true(moved > 0);
            fixture_read(first, ENGINE_PARAMETERS, values);
            fixture_write(second, ENGINE_PARAMETERS, values);
            assert_int_equal(second->ops->write(second->engine, ENGINE_SLOT, 0, record, NULL), 0);
            for (size_t cycle = 2; cycle < ALL_CYCLES; cycle++) {
                gather(first, 0, &s, cycle, true);
                gather(second, 0, &s, cycle, true);
            }
            fixture_play(first, 0.01, 1.0);
            fixture_play(second, 0.01, 1.0);
            assert_same(first, second);
            free(record);
            free(values);
            fixture_close(&first);
            fixture_close(&second);
        }
}

/* One wild step: gradients of the steps after it are numbers. */
static void a_wild_step_passes(void **state) {
    for
        EACH_RULE(rule) {
            struct architecture architecture = network_for(rule);
            struct fixture *f;
            struct played_sequence s;
            architecture.input = (struct input){.kind = INPUT_REAL, .size = 5};
            for (size_t n = 0; n < architecture.layer_count; n++)
                architecture.layers[n].norm = NORM_none;
            open_rule(&f, &architecture, rule, OPTIMIZER_sgd, 1);
            make_sequence(f, &s);
            s.x[0].real = 3e38F;
            s.x[f->inputs].real = -3e38F;
            for (size_t cycle = 0; cycle < ALL_CYCLES; cycle++)
                gather(f, 0, &s, cycle, true);
            fixture_play(f, 0.01, 1.0);
            assert_true(f->updates[f->model.horizons].applied);
            assert_true(isfinite(f->updates[1].gradient_norm));
            fixture_close(&f);
        }
}

static void a_gpu_refuses_them(void **state) {
    for (enum rule rule = 0; rule < RULES && !under_test_is_cpu(); rule++) {
        const struct architecture architecture = network_for(rule);
        struct model model;
        struct engine *engine;
        struct error error;
        model_build(&model, &architecture);
        const struct engine_options options = {.rule = rule, .window = STRIDE, .slots = 1};
        int status = under_test_ops()->open(&engine, &model, &options, under_test_device(), &error);
        assert_int_equal(status == 0, rule_kind(rule)->keeps == KEEPS_NOTHING);
        if (status)
            assert_non_null(strstr(error.text, "learning.rule"));
        under_test_ops()->close(&engine);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rtrl_of_every_cell_norm_and_loss),
        cmocka_unit_test(rtrl_of_layers_mixed),
        cmocka_unit_test(rtrl_of_every_input),
        cmocka_unit_test(traces_of_columns_are_exact),
        cmocka_unit_test(traces_as_their_equations),
        cmocka_unit_test(traces_are_exact_where_units_are_alone),
        cmocka_unit_test(plans_are_cut_anywhere),
        cmocka_unit_test(a_stream_begins_with_nothing),
        cmocka_unit_test(another_engine_can_continue),
        cmocka_unit_test(a_wild_step_passes),
        cmocka_unit_test(a_gpu_refuses_them),
    };
    return under_test_run(tests);
}
