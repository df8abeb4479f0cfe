/* Compares the engine's losses and gradients with an independent computation in double by
   central differences: every cell, normalization, activation and loss, several mixed layers,
   windows over several steps that begin with a state, and targets that are missing, not learned
   or before the closed steps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "oracle.h"
#include "under_test.h"

enum {
    WARM = 3, /* steps before the window */
    LENGTH = 4,
    CLOSED = 3,
    STEPS = WARM + LENGTH,
    WINDOW = LENGTH,
    POSITIONS = WINDOW + 1,
};

/* The update is RATE * gradient: much larger than the parameters, so that before - after keeps
   the gradient's precision; a power of two, so that dividing by it is exact. */
static const double RATE = 1024.0;

/* Float arithmetic compared with double, norm-wise. */
static const double LOSS_TOLERANCE = 2e-5;
static const double GRADIENT_TOLERANCE = 1e-4;

/* Rounding of a gradient that is 0, relative to that of all tensors. */
static const double GRADIENT_FLOOR = 1e-5;

static const bool LEARNED[STEPS] = {true, true, true, /* the window: */ true, true, false, true};
enum { TERMS = 2 }; /* learned among the last CLOSED */

struct played_sequence {
    union value x[STEPS * ORACLE_WIDTH_MAX], y[STEPS * ORACLE_WIDTH_MAX];
};

/* Plays the sequence and one update at its end; `after` are the parameters then. */
static void play(struct fixture *f, const struct played_sequence *s, bool fresh, float *after) {
    for (size_t t = 0; t < STEPS; t++) {
        fixture_step(f, 0, t % POSITIONS, s->x + t * f->inputs);
        fixture_score(f, 0, t % POSITIONS, s->y + t * f->model.target_size, LEARNED[t]);
    }
    fixture_update(f, 0, WARM % POSITIONS, LENGTH, CLOSED, TERMS, fresh);
    fixture_play(f, RATE, 0.0);
    assert_true(f->updates[0].applied);
    fixture_read(f, ENGINE_PARAMETERS, after);
}

/* Compares the losses of every step with the oracle's; leaves the state at the window's start. */
static void check_losses(struct fixture *f, const struct played_sequence *s,
                         const double *parameters, double *at_window, const char *name) {
    double *state = calloc(f->model.state_size + 1, sizeof *state);
    double output[ORACLE_OUTPUTS_MAX];
    for (size_t t = 0; t < STEPS; t++) {
        if (t == WARM)
            memcpy(at_window, state, f->model.state_size * sizeof *state);
        oracle_step(&f->model, parameters, state, s->x + t * f->inputs, output);
        double loss = oracle_loss(&f->model, output, s->y + t * f->model.target_size);
        if (!(fabs(f->losses[t] - loss) <= LOSS_TOLERANCE * (1.0 + fabs(loss))))
            fail_msg("%s: loss of step %zu is %.9g, but should be %.9g", name, t, f->losses[t],
                     loss);
        for (size_t k = 0; k < f->model.outputs; k++) {
            double scored = (double)f->scored[t * f->model.outputs + k];
            if (!(fabs(scored - output[k]) <= LOSS_TOLERANCE * (1.0 + fabs(output[k]))))
                fail_msg("%s: output %zu of step %zu is %.9g, but should be %.9g", name, k, t,
                         scored, output[k]);
            assert_true(f->outputs[t * f->model.outputs + k] ==
                        f->scored[t * f->model.outputs + k]);
        }
    }
    free(state);
}

static void compare(const struct fixture *f, const double *engine, const double *oracle,
                    const char *name) {
    double floor = GRADIENT_FLOOR * norm(oracle, f->model.learned);
    for (size_t n = 0; n < f->model.learned_count; n++) {
        const struct tensor *tensor = &f->model.tensors[n];
        size_t count = tensor_size(tensor);
        double off = distance(engine + tensor->offset, oracle + tensor->offset, count);
        double expected = norm(oracle + tensor->offset, count);
        if (!(off <= GRADIENT_TOLERANCE * expected + floor))
            fail_msg("%s: gradient of %s is off by %.3g, its norm is %.3g", name, tensor->name, off,
                     expected);
    }
}

/* The running statistics of norms after the update. */
static void check_running(const struct fixture *f, const float *after, double *parameters,
                          const struct oracle_window *window, const char *name) {
    oracle_absorb(&f->model, parameters, window);
    for (size_t k = f->model.learned; k < f->model.parameters; k++)
        if (!(fabs((double)after[k] - parameters[k]) <=
              LOSS_TOLERANCE * (1.0 + fabs(parameters[k]))))
            fail_msg("%s: number %zu of running statistics is %.9g, but should be %.9g", name,
                     k - f->model.learned, (double)after[k], parameters[k]);
}

static void check_gradient(const struct architecture *architecture, const char *name) {
    const struct optimizer sgd = {.kind = OPTIMIZER_sgd};
    struct fixture *f, *again;
    struct played_sequence s;
    if (!under_test_plays() || !fixture_takes(architecture))
        return;
    fixture_open(&f, architecture, &sgd, WINDOW, 1, 1);
    fixture_open(&again, architecture, &sgd, WINDOW, 1, 1);
    size_t count = f->model.parameters;
    for (size_t t = 0; t < STEPS; t++) {
        fixture_random_input(f, s.x + t * f->inputs);
        fixture_random_target(f, s.y + t * f->model.target_size);
    }
    float *before = calloc(count, sizeof *before), *after = calloc(count, sizeof *after);
    float *recomputed = calloc(count, sizeof *recomputed);
    fixture_read(f, ENGINE_PARAMETERS, before);
    play(f, &s, true, after);
    play(again, &s, false, recomputed);
    if (memcmp(after, recomputed, count * sizeof *after) != 0)
        fail_msg("%s: a recomputed window gives other bits than a fresh one", name);

    double *parameters = doubles(before, count);
    double *state = calloc(f->model.state_size + 1, sizeof *state);
    double *expected = calloc(count, sizeof *expected), *gradient = calloc(count, sizeof *gradient);
    check_losses(f, &s, parameters, state, name);
    const struct oracle_window window = {.state = state,
                                         .inputs = s.x + WARM * f->inputs,
                                         .targets = s.y + WARM * f->model.target_size,
                                         .learned = LEARNED + WARM,
                                         .length = LENGTH,
                                         .closed = CLOSED};
    oracle_gradient(&f->model, parameters, &window, expected);
    for (size_t k = 0; k < count; k++)
        gradient[k] = ((double)before[k] - (double)after[k]) / RATE;
    compare(f, gradient, expected, name);
    check_running(f, after, parameters, &window, name);
    double expected_norm = norm(expected, f->model.learned);
    if (!(fabs(f->updates[0].gradient_norm - expected_norm) <= GRADIENT_TOLERANCE * expected_norm))
        fail_msg("%s: gradient norm is %.9g, but should be %.9g", name, f->updates[0].gradient_norm,
                 expected_norm);

    free(before);
    free(after);
    free(recomputed);
    free(parameters);
    free(state);
    free(expected);
    free(gradient);
    fixture_close(&f);
    fixture_close(&again);
}

static struct output output_of(enum loss loss) {
    size_t size = loss_kind(loss)->size;
    return (struct output){.loss = loss, .size = size ? size : 5, .components = 4};
}

static void every_cell_norm_and_loss(void **state) {
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (enum norm norm = 0; norm < NORMS; norm++)
            for (enum loss loss = 0; loss < LOSSES && !loss_kind(loss)->ranks; loss++) {
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
                check_gradient(&architecture, name);
            }
}

static void every_activation(void **state) {
    for (enum activation a = 0; a < ACTIVATIONS; a++)
        for (enum norm norm = 0; norm < NORMS; norm++) {
            const struct architecture architecture = {
                .input = {.kind = INPUT_REAL, .size = 4},
                .layers = {{.cell = CELL_dense, .size = 9, .norm = norm, .activation = a},
                           {.cell = CELL_dense, .size = 6, .norm = norm, .activation = a}},
                .layer_count = 2,
                .output = output_of(LOSS_squared),
            };
            check_gradient(&architecture, activation_kind(a)->kind.name);
        }
}

static void layers_mixed(void **state) {
    const struct architecture normed = {
        .input = {.kind = INPUT_REAL, .size = 5},
        .layers =
            {{.cell = CELL_dense, .size = 9, .norm = NORM_layer, .activation = ACTIVATION_relu},
             {.cell = CELL_lstm, .size = 6, .norm = NORM_layer},
             {.cell = CELL_gru, .size = 8, .norm = NORM_none},
             {.cell = CELL_rnn, .size = 5, .norm = NORM_layer},
             {.cell = CELL_dense, .size = 7, .norm = NORM_none, .activation = ACTIVATION_tanh}},
        .layer_count = 5,
        .output = output_of(LOSS_gaussian),
    };
    check_gradient(&normed, "dense, lstm, gru, rnn, dense");
    const struct architecture stacked = {
        .input = {.kind = INPUT_REAL, .size = 2},
        .layers = {{.cell = CELL_lstm, .size = 6, .norm = NORM_none},
                   {.cell = CELL_lstm, .size = 5, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 4, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 7, .norm = NORM_layer}},
        .layer_count = 4,
        .output = output_of(LOSS_mixture),
    };
    check_gradient(&stacked, "lstm, lstm, gru, gru");
}

static void symbols(void **state) {
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (size_t embedding = 0; embedding <= 5; embedding += 5)
            for (enum norm norm = 0; norm < NORMS; norm++) {
                const struct architecture architecture = {
                    .input = {.kind = INPUT_SYMBOL, .size = 6, .embedding = embedding},
                    .layers = {{.cell = cell, .size = 8, .norm = norm}},
                    .layer_count = 1,
                    .output = {.loss = LOSS_softmax, .size = 6},
                };
                char name[64];
                snprintf(name, sizeof name, "%s, norm %s, symbols%s", cell_kind(cell)->kind.name,
                         norm_kind(norm)->kind.name, embedding ? " embedded" : "");
                check_gradient(&architecture, name);
            }
}

/* A linear path from the input: of real numbers with every loss, of symbols, wider than a warp,
   and for a solved output, through which the gradient passes as through a constant. */
static void skip_path(void **state) {
    for (enum loss loss = 0; loss < LOSSES && !loss_kind(loss)->ranks; loss++) {
        struct architecture architecture = {
            .input = {.kind = INPUT_REAL, .size = 3},
            .layers = {{.cell = CELL_gru, .size = 7, .norm = NORM_layer}},
            .layer_count = 1,
            .output = output_of(loss),
        };
        architecture.output.skip = true;
        check_gradient(&architecture, loss_kind(loss)->name);
    }
    for (size_t embedding = 0; embedding <= 5; embedding += 5) {
        const struct architecture symbols = {
            .input = {.kind = INPUT_SYMBOL, .size = 36, .embedding = embedding},
            .layers = {{.cell = CELL_lstm, .size = 8, .norm = NORM_layer},
                       {.cell = CELL_rnn, .size = 5}},
            .layer_count = 2,
            .output = {.loss = LOSS_softmax, .size = 6, .skip = true},
        };
        check_gradient(&symbols, embedding ? "skip path of embedded symbols" : "of symbols");
    }
    struct architecture wide = {
        .input = {.kind = INPUT_REAL, .size = 43},
        .layers = {{.cell = CELL_gru, .size = 21, .norm = NORM_batch},
                   {.cell = CELL_dense, .size = 35, .activation = ACTIVATION_tanh}},
        .layer_count = 2,
        .output = {.loss = LOSS_squared, .size = 5, .skip = true},
    };
    check_gradient(&wide, "wide skip path");
    wide.output.solved = true;
    check_gradient(&wide, "wide skip path, solved");
    wide.output.skip = false;
    check_gradient(&wide, "solved without a skip path");
    wide.layers[1] = (struct layer){.cell = CELL_rtu, .size = 18, .norm = NORM_layer};
    check_gradient(&wide, "solved with two outputs of a unit");
    for (size_t embedding = 0; embedding <= 4; embedding += 4) {
        const struct architecture symbols = {
            .input = {.kind = INPUT_SYMBOL, .size = 9, .embedding = embedding},
            .layers = {{.cell = CELL_lstm, .size = 7, .norm = NORM_layer}},
            .layer_count = 1,
            .output = {.loss = LOSS_softmax, .size = 9, .skip = true},
        };
        check_gradient(&symbols, embedding ? "embedded skip path" : "one-hot skip path");
    }
}

/* Units that do not hear one another, alone and with a part of their size in every unit of a warp,
   between other layers, below a skip path and below a solved output. */
static void units_apart(void **state) {
    static const enum cell CELLS_APART[] = {CELL_rnn, CELL_gru, CELL_lstm, CELL_mingru, CELL_rtu};
    for (size_t c = 0; c < sizeof CELLS_APART / sizeof *CELLS_APART; c++)
        for (enum norm norm = 0; norm < NORMS; norm++)
            for (size_t layers = 1; layers <= 2; layers++) {
                enum cell cell = CELLS_APART[c];
                bool diagonal = !cell_kind(cell)->columns;
                struct architecture architecture = {
                    .input = {.kind = INPUT_REAL, .size = 5},
                    .layers = {{.cell = cell, .size = 19, .norm = norm, .diagonal = diagonal},
                               {.cell = cell, .size = 7, .norm = norm, .diagonal = diagonal}},
                    .layer_count = layers,
                    .output = {.loss = LOSS_squared, .size = 3, .skip = layers == 2},
                };
                char name[64];
                snprintf(name, sizeof name, "%zu layers of %s apart, norm %s", layers,
                         cell_kind(cell)->kind.name, norm_kind(norm)->kind.name);
                check_gradient(&architecture, name);
                architecture.output.solved = layers == 1;
                check_gradient(&architecture, name);
            }
    const struct architecture mixed = {
        .input = {.kind = INPUT_SYMBOL, .size = 6, .embedding = 5},
        .layers = {{.cell = CELL_rtu, .size = 9, .norm = NORM_layer},
                   {.cell = CELL_lstm, .size = 6, .norm = NORM_layer},
                   {.cell = CELL_lstm, .size = 6, .norm = NORM_none, .diagonal = true},
                   {.cell = CELL_dense, .size = 7, .norm = NORM_rms},
                   {.cell = CELL_mingru, .size = 8, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 5, .norm = NORM_batch}},
        .layer_count = 6,
        .output = output_of(LOSS_gaussian),
    };
    check_gradient(&mixed, "rtu, lstm, lstm apart, dense, mingru, gru");
}

/* Numbers, masks, sines and symbols together: symbols first, last and adjacent, as rows of
   several tables and one-hot, also negated; in windows where a symbol occurs twice. */
static const struct input MIXED = {
    .size = 7,
    .column_count = 7,
    .columns = {{.name = "host", .kind = COLUMN_SYMBOL, .size = 3, .embedding = 4},
                {.name = "load", .mask = true},
                {.name = "hour", .kind = COLUMN_CYCLE, .period = 24, .harmonics = 2},
                {.name = "state", .kind = COLUMN_SYMBOL, .size = 5},
                {.name = "user", .kind = COLUMN_SYMBOL, .size = 2, .embedding = 9},
                {.name = "heat"},
                {.name = "shift", .kind = COLUMN_SYMBOL, .size = 3}},
};

static void columns(void **state) {
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (enum norm norm = 0; norm < NORMS; norm++)
            for (int skip = 0; skip < 2; skip++) {
                struct architecture architecture = {
                    .input = MIXED,
                    .layers = {{.cell = cell, .size = 7, .norm = norm},
                               {.cell = CELL_gru, .size = 5}},
                    .layer_count = 1 + (size_t)skip,
                    .output = {.loss = LOSS_squared, .size = 2, .skip = skip},
                };
                char name[64];
                snprintf(name, sizeof name, "%s, norm %s, columns%s", cell_kind(cell)->kind.name,
                         norm_kind(norm)->kind.name, skip ? " with a skip path" : "");
                check_gradient(&architecture, name);
            }
    const struct architecture one_hot = {
        .input = {.size = 2,
                  .column_count = 2,
                  .columns = {{.name = "a"}, {.name = "b", .kind = COLUMN_SYMBOL, .size = 40}}},
        .layers = {{.cell = CELL_lstm, .size = 9, .norm = NORM_layer}},
        .layer_count = 1,
        .output = {.loss = LOSS_softmax, .size = 4, .skip = true},
    };
    check_gradient(&one_hot, "a wide alphabet beside a number");
    const struct architecture embedded = {
        .input = {.size = 2,
                  .column_count = 2,
                  .columns = {{.name = "a", .kind = COLUMN_SYMBOL, .size = 7, .embedding = 33},
                              {.name = "b", .kind = COLUMN_SYMBOL, .size = 4, .embedding = 1}}},
        .layers = {{.cell = CELL_gru, .size = 9, .norm = NORM_layer}},
        .layer_count = 1,
        .output = {.loss = LOSS_softmax, .size = 4},
    };
    check_gradient(&embedded, "two tables alone");
}

/* A single hashed symbol: its row, or its 1, is negated half of the time. */
static void hashed(void **state) {
    for (size_t embedding = 0; embedding <= 5; embedding += 5)
        for (int skip = 0; skip < 2; skip++)
            for (int column = 0; column < 2; column++) {
                struct architecture architecture = {
                    .input = {.kind = INPUT_SYMBOL, .size = 6, .hash = 6, .embedding = embedding},
                    .layers = {{.cell = CELL_gru, .size = 19, .norm = NORM_layer}},
                    .layer_count = 1,
                    .output = {.loss = LOSS_softmax, .size = 6, .skip = skip},
                };
                const struct input by_name = {.size = 1,
                                              .column_count = 1,
                                              .columns = {{.name = "a",
                                                           .kind = COLUMN_SYMBOL,
                                                           .size = 6,
                                                           .hash = 6,
                                                           .embedding = embedding}}};
                if (column)
                    architecture.input = by_name;
                char name[64];
                snprintf(name, sizeof name, "a hashed %s%s%s", column ? "column" : "symbol",
                         embedding ? " embedded" : "", skip ? " with a skip path" : "");
                check_gradient(&architecture, name);
            }
}

/* Convolutions: every norm, function and number of groups, several positions, below a layer with
   a state and below a skip path; a stride that leaves rows out, a kernel as large as its input, and
   more channels than a panel of a matrix has rows. */
static void grids(void **state) {
    for (enum norm norm = 0; norm < NORMS; norm++)
        for (enum activation a = 0; a < ACTIVATIONS; a++)
            for (size_t groups = 1; groups <= 3; groups += 2) {
                const struct layer first = {.cell = CELL_conv,
                                            .norm = norm,
                                            .activation = a,
                                            .shape.channels = 6,
                                            .kernel = 2,
                                            .norm_groups = groups};
                const struct layer second = {.cell = CELL_conv,
                                             .norm = norm,
                                             .activation = a,
                                             .shape.channels = 3,
                                             .kernel = 2,
                                             .stride = 2,
                                             .norm_groups = groups};
                const struct architecture architecture = {
                    .input = {.kind = INPUT_REAL, .size = 40, .shape = {2, 4, 5}},
                    .layers = {first, second, {.cell = CELL_gru, .size = 5, .norm = NORM_layer}},
                    .layer_count = groups,
                    .output = {.loss = LOSS_squared, .size = 4, .skip = groups == 3},
                };
                char name[64];
                snprintf(name, sizeof name, "grids, norm %s, %s, %zu layers",
                         norm_kind(norm)->kind.name, activation_kind(a)->kind.name, groups);
                check_gradient(&architecture, name);
            }
    const struct architecture wide = {
        .input = {.kind = INPUT_REAL, .size = 20, .shape = {1, 4, 5}},
        .layers = {{.cell = CELL_conv,
                    .norm = NORM_layer,
                    .activation = ACTIVATION_tanh,
                    .shape.channels = 19,
                    .kernel = 2,
                    .stride = 3},
                   {.cell = CELL_conv,
                    .norm = NORM_none,
                    .activation = ACTIVATION_tanh,
                    .shape.channels = 67,
                    .kernel = 1},
                   {.cell = CELL_dense, .size = 5, .activation = ACTIVATION_tanh}},
        .layer_count = 3,
        .output = {.loss = LOSS_softmax, .size = 3},
    };
    check_gradient(&wide, "wide grids");
}

/* Delay lines within the window and beyond, of numbers, symbols and layers below. */
static void taps(void **state) {
    for (enum norm norm = 0; norm < NORMS && under_test_is_cpu(); norm++)
        for (size_t embedding = 0; embedding <= 6; embedding += 6) {
            struct architecture architecture = {
                .input = {.kind = INPUT_SYMBOL, .size = 9, .embedding = embedding},
                .layers = {{.cell = CELL_dense, .size = 19, .norm = norm, .taps = 3},
                           {.cell = CELL_dense, .size = 19, .norm = norm, .taps = 2, .dilation = 2},
                           {.cell = CELL_gru, .size = 19, .norm = NORM_layer},
                           {.cell = CELL_dense,
                            .size = 19,
                            .norm = norm,
                            .activation = ACTIVATION_tanh,
                            .taps = 4,
                            .dilation = 3}},
                .layer_count = 4,
                .output = {.loss = LOSS_softmax, .size = 6, .skip = true},
            };
            char name[64];
            snprintf(name, sizeof name, "taps, norm %s, symbols%s", norm_kind(norm)->kind.name,
                     embedding ? " embedded" : "");
            for (size_t n = 0; n < 4; n++)
                architecture.layers[n].dilation += !architecture.layers[n].dilation;
            check_gradient(&architecture, name);
            architecture.layers[1].residual = architecture.layers[3].residual = true;
            check_gradient(&architecture, name);
            architecture.input = (struct input){.kind = INPUT_REAL, .size = 19};
            architecture.layers[0].residual = true;
            check_gradient(&architecture, name);
            architecture.layers[0] =
                (struct layer){.cell = CELL_dense, .size = 19, .norm = norm, .residual = true};
            architecture.output.solved = true;
            architecture.output.loss = LOSS_squared;
            check_gradient(&architecture, name);
        }
}

/* Wide enough for the vector loops, and not a multiple of any vector. */
static void wide_layers(void **state) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 19},
        .layers = {{.cell = CELL_lstm, .size = 21, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 18, .norm = NORM_layer}},
        .layer_count = 2,
        .output = {.loss = LOSS_softmax, .size = 37},
    };
    check_gradient(&architecture, "wide lstm, gru");
}

static void layers_of_one_unit(void **state) {
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (enum norm norm = 0; norm < NORMS; norm++) {
            const struct architecture architecture = {
                .input = {.kind = INPUT_REAL, .size = 1},
                .layers = {{.cell = cell, .size = 1, .norm = norm, .activation = ACTIVATION_tanh}},
                .layer_count = 1,
                .output = {.loss = LOSS_squared, .size = 1},
            };
            check_gradient(&architecture, cell_kind(cell)->kind.name);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_norm_and_loss),
        cmocka_unit_test(every_activation),
        cmocka_unit_test(layers_mixed),
        cmocka_unit_test(symbols),
        cmocka_unit_test(skip_path),
        cmocka_unit_test(units_apart),
        cmocka_unit_test(columns),
        cmocka_unit_test(hashed),
        cmocka_unit_test(grids),
        cmocka_unit_test(taps),
        cmocka_unit_test(wide_layers),
        cmocka_unit_test(layers_of_one_unit),
    };
    return under_test_run(tests);
}
