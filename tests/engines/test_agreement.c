/* All engines learn the same: each later engine is compared with the first one. The models and
   plans use the parts in which engines differ: windows long enough for matrix products, layers
   wider than a block, more steps and shapes of plans than are cached. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "under_test.h"

enum { RECORDS = 15 + OPTIMIZERS, SEED = 11 };

static const struct optimizer ADAM = {
    .kind = OPTIMIZER_adam, .rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
static const struct optimizer MOMENTUM = {.kind = OPTIMIZER_sgd, .momentum = 0.9};
static const double RATE = 0.001, CLIP = 1.0, TOLERANCE = 2e-4;

/* Results of the first engine in one test. */
struct record {
    double *numbers; /* losses, gradient norms and update ratios, in order; then the parameters */
    size_t count;
};
static struct record records[RECORDS];

struct run {
    struct fixture *fixture;
    size_t window, next; /* position of the next step */
    double *numbers;
    size_t count, capacity;
};

static void keep(struct run *run, double number) {
    if (run->count == run->capacity) {
        run->capacity = 2 * run->capacity + 1024;
        run->numbers = realloc(run->numbers, run->capacity * sizeof *run->numbers);
        assert_non_null(run->numbers);
    }
    run->numbers[run->count++] = number;
}

static struct run begin(const struct architecture *architecture, const struct optimizer *optimizer,
                        size_t window) {
    struct run run = {.window = window};
    fixture_open(&run.fixture, architecture, optimizer, window, 2, SEED);
    return run;
}

static void play(struct run *run) {
    struct fixture *f = run->fixture;
    size_t scores = f->plan.scores, updates = f->plan.updates;
    fixture_play(f, RATE, CLIP);
    for (size_t n = 0; n < scores; n++)
        keep(run, f->losses[n]);
    for (size_t n = 0; n < updates; n++) {
        assert_true(f->updates[n].applied);
        keep(run, f->updates[n].gradient_norm);
        keep(run, f->updates[n].update_ratio);
    }
}

/* `count` steps of slot 0 with targets, `together` in one plan. An output that is solved is
   solved after each. */
static void learn_steps(struct run *run, size_t count, size_t together) {
    struct fixture *f = run->fixture;
    union value *x = calloc(f->inputs, sizeof *x), *y = calloc(f->model.target_size, sizeof *y);
    for (size_t n = 0; n < count; n++) {
        fixture_random_input(f, x);
        fixture_random_target(f, y);
        fixture_step(f, 0, run->next, x);
        fixture_score(f, 0, run->next, y, true);
        if (f->model.solved)
            fixture_solve(f, 0, y);
        run->next = (run->next + 1) % (run->window + 1);
        if ((n + 1) % together == 0)
            play(run);
    }
    if (f->plan.count)
        play(run);
    free(x);
    free(y);
}

/* The update on the last `length` steps. */
static void update(struct run *run, size_t length, size_t closed, bool fresh) {
    size_t ring = run->window + 1, first = (run->next + ring - length) % ring;
    fixture_update(run->fixture, 0, first, length, closed, closed, fresh);
}

/* Compares the run with the first engine's. */
static void end(struct run *run, size_t test) {
    struct fixture *f = run->fixture;
    struct record *record = &records[test];
    size_t numbers = run->count, parameters = f->model.parameters;
    float *values = calloc(parameters, sizeof *values);
    fixture_read(f, ENGINE_PARAMETERS, values);
    for (size_t k = 0; k < parameters; k++)
        keep(run, (double)values[k]);
    free(values);
    fixture_close(&run->fixture);
    if (!record->numbers) {
        *record = (struct record){run->numbers, run->count};
        return;
    }
    assert_int_equal(run->count, record->count);
    for (size_t k = 0; k < numbers; k++)
        if (!(fabs(run->numbers[k] - record->numbers[k]) <=
              TOLERANCE * (1.0 + fabs(record->numbers[k]))))
            fail_msg("number %zu is %.9g, but the first engine had %.9g", k, run->numbers[k],
                     record->numbers[k]);
    double off = distance(run->numbers + numbers, record->numbers + numbers, parameters);
    if (!(off <= TOLERANCE * norm(record->numbers + numbers, parameters)))
        fail_msg("parameters are off by %.3g", off);
    free(run->numbers);
}

/* ---- Cases ---- */

static void long_windows(void **state) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 11},
        .layers = {{.cell = CELL_lstm, .size = 37, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 70, .norm = NORM_layer},
                   {.cell = CELL_rnn, .size = 33, .norm = NORM_layer},
                   {.cell = CELL_dense, .size = 9, .activation = ACTIVATION_tanh}},
        .layer_count = 4,
        .output = {.loss = LOSS_gaussian, .size = 5},
    };
    struct run run = begin(&architecture, &ADAM, 40);
    for (size_t n = 0; n < 3; n++) {
        learn_steps(&run, 40, 40);
        update(&run, 40, 20 + n, n == 0);
        play(&run);
    }
    end(&run, 0);
}

/* Units that do not hear one another. */
static void long_windows_of_units_apart(void **state) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 11},
        .layers = {{.cell = CELL_rtu, .size = 37, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 70, .norm = NORM_layer, .diagonal = true},
                   {.cell = CELL_lstm, .size = 33, .diagonal = true},
                   {.cell = CELL_rnn, .size = 35, .norm = NORM_layer, .diagonal = true},
                   {.cell = CELL_mingru, .size = 140, .norm = NORM_layer}},
        .layer_count = 5,
        .output = {.loss = LOSS_gaussian, .size = 5},
    };
    struct run run = begin(&architecture, &ADAM, 40);
    for (size_t n = 0; n < 3; n++) {
        learn_steps(&run, 40, 40);
        update(&run, 40, 20 + n, n == 0);
        fixture_measure(run.fixture, 0);
        play(&run);
        for (size_t k = 0; k < architecture.layer_count; k++) {
            const struct layer_statistics *found = &run.fixture->measures[k];
            keep(&run, found->hidden.norm);
            keep(&run, found->summed_inputs.std);
            keep(&run, found->summed_recurrent.std);
            keep(&run, found->units.saturated);
            keep(&run, found->weights.norm);
            keep(&run, found->weights.growth);
        }
    }
    end(&run, 14 + OPTIMIZERS);
}

/* Norms of units, with formed gradients and without. */
static void norms_of_units(void **state) {
    enum { SHORT = 9, LONG = 40 };
    const struct architecture architecture = {
        .input = {.kind = INPUT_SYMBOL, .size = 30, .embedding = 11},
        .layers = {{.cell = CELL_lstm, .size = 37, .norm = NORM_weight},
                   {.cell = CELL_gru, .size = 34, .norm = NORM_recurrent_batch, .norm_steps = 70},
                   {.cell = CELL_rnn, .size = 33, .norm = NORM_weight},
                   {.cell = CELL_lstm, .size = 20, .norm = NORM_recurrent_batch},
                   {.cell = CELL_dense, .size = 9, .norm = NORM_batch}},
        .layer_count = 5,
        .output = {.loss = LOSS_gaussian, .size = 5},
    };
    struct run run = begin(&architecture, &ADAM, LONG);
    for (size_t n = 0; n < 4; n++) {
        learn_steps(&run, LONG, LONG);
        update(&run, n % 2 ? SHORT : LONG, n % 2 ? SHORT : LONG - n, n == 0);
        play(&run);
    }
    end(&run, 7);
}

/* Embedded or one-hot, with and without a skip path. */
static void long_windows_of_symbols(void **state) {
    const size_t places[] = {2, 1, 9, 10};
    for (size_t n = 0; n < 4; n++) {
        const struct architecture architecture = {
            .input = {.kind = INPUT_SYMBOL, .size = 300, .embedding = n % 2 ? 10 : 0},
            .layers = {{.cell = CELL_lstm, .size = 20, .norm = NORM_layer}},
            .layer_count = 1,
            .output = {.loss = LOSS_softmax, .size = 300, .skip = n >= 2},
        };
        struct run run = begin(&architecture, &MOMENTUM, 33);
        for (size_t round = 0; round < 3; round++) {
            learn_steps(&run, 33, 17);
            update(&run, round == 1 ? 20 : 33, 7, round == 2);
            play(&run);
        }
        end(&run, places[n]);
    }
}

/* Numbers between symbols, one-hot, embedded and both negated; some tables are wider than a
   warp. */
static const struct input COLUMNS = {
    .size = 5,
    .column_count = 5,
    .columns = {{.name = "user", .kind = COLUMN_SYMBOL, .size = 200, .embedding = 37},
                {.name = "load", .mask = true},
                {.name = "state", .kind = COLUMN_SYMBOL, .size = 150},
                {.name = "host", .kind = COLUMN_SYMBOL, .size = 3, .embedding = 2},
                {.name = "heat"}},
};

/* Windows below and above the length at which gradients are formed, cut differently each time;
   with deviations that depend on the rows of W, and with a skip path. */
static void long_windows_of_columns(void **state) {
    for (int skip = 0; skip < 2; skip++) {
        const struct architecture architecture = {
            .input = COLUMNS,
            .layers = {{.cell = CELL_lstm, .size = 20, .norm = skip ? NORM_weight : NORM_layer},
                       {.cell = CELL_gru, .size = 33, .norm = NORM_layer}},
            .layer_count = 2,
            .output = {.loss = LOSS_softmax, .size = 150, .skip = skip},
        };
        struct run run = begin(&architecture, &ADAM, 40);
        for (size_t round = 0; round < 4; round++) {
            learn_steps(&run, 40, round % 2 ? 40 : 7);
            update(&run, round % 2 ? 9 : 40, 7, round == 2);
            play(&run);
        }
        end(&run, 11 + (size_t)skip);
    }
}

static void columns_with_every_optimizer(void **state) {
    for (enum optimizer_id id = 0; id < OPTIMIZERS; id++) {
        const struct architecture architecture = {
            .input = COLUMNS,
            .layers = {{.cell = CELL_gru, .size = 9, .norm = NORM_layer}},
            .layer_count = 1,
            .output = {.loss = LOSS_squared, .size = 2, .skip = true},
        };
        const struct optimizer optimizer = fixture_optimizer(id, RATE);
        struct run run = begin(&architecture, &optimizer, 6);
        for (size_t round = 0; round < 4; round++) {
            learn_steps(&run, 6, 4);
            update(&run, 6, 6, round == 0);
            play(&run);
        }
        end(&run, 13 + (size_t)id);
    }
}

static void wide_layers_and_inputs(void **state) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 1500},
        .layers = {{.cell = CELL_dense, .size = 9, .norm = NORM_layer},
                   {.cell = CELL_lstm, .size = 530, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 90, .norm = NORM_none}},
        .layer_count = 3,
        .output = {.loss = LOSS_mixture, .size = 3, .components = 40},
    };
    struct run run = begin(&architecture, &ADAM, 4);
    learn_steps(&run, 4, 4);
    update(&run, 4, 4, true);
    play(&run);
    update(&run, 4, 3, false);
    play(&run);
    end(&run, 3);
}

/* Least squares between and after updates, with short and long windows. */
static void solved_outputs(void **state) {
    enum { SHORT = 9, LONG = 40 };
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 41},
        .layers = {{.cell = CELL_gru, .size = 37, .norm = NORM_layer},
                   {.cell = CELL_lstm, .size = 70, .norm = NORM_layer}},
        .layer_count = 2,
        .output = {.loss = LOSS_squared, .size = 3, .skip = true, .solved = true},
    };
    struct run run = begin(&architecture, &ADAM, LONG);
    for (size_t n = 0; n < 4; n++) {
        learn_steps(&run, LONG, n % 2 ? LONG : 3);
        update(&run, n % 2 ? SHORT : LONG, n % 2 ? SHORT : LONG - n, n < 2);
        play(&run);
    }
    end(&run, 8);
}

/* Inputs wide enough to be projected for many steps at once give the bits of single steps. */
static void check_together_and_apart(const struct input *input) {
    enum { WINDOW = 10 };
    const struct architecture architecture = {
        .input = *input,
        .layers = {{.cell = CELL_lstm, .size = 64, .norm = NORM_layer}},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, .size = 2},
    };
    const size_t together[] = {1, 3, WINDOW};
    struct run runs[3];
    for (size_t n = 0; n < 3; n++) {
        runs[n] = begin(&architecture, &ADAM, WINDOW);
        learn_steps(&runs[n], WINDOW, together[n]);
        update(&runs[n], WINDOW, WINDOW, n == 0);
        play(&runs[n]);
        assert_int_equal(runs[n].count, runs[0].count);
        assert_memory_equal(runs[n].numbers, runs[0].numbers, runs[0].count * sizeof(double));
    }
    for (size_t n = 0; n < 3; n++) {
        fixture_close(&runs[n].fixture);
        free(runs[n].numbers);
    }
}

static void wide_inputs_together_and_apart(void **state) {
    const struct input symbol = {.kind = INPUT_SYMBOL, .size = 20, .embedding = 1030};
    const struct input columns = {
        .size = 2,
        .column_count = 2,
        .columns = {{.name = "a"},
                    {.name = "b", .kind = COLUMN_SYMBOL, .size = 20, .embedding = 1030}}};
    check_together_and_apart(&symbol);
    check_together_and_apart(&columns);
}

/* A run longer than an engine plays at once, and a window with more kernels than a graph may
   have. */
static void a_window_of_hundreds(void **state) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 2},
        .layers = {{.cell = CELL_rnn, .size = 6, .norm = NORM_layer}},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, .size = 2},
    };
    struct run run = begin(&architecture, &ADAM, 500);
    for (size_t n = 0; n < 2; n++) {
        learn_steps(&run, 500, 100);
        update(&run, 500, 500, n == 0);
        play(&run);
    }
    end(&run, 4);
}

/* Runs and windows of every length: more shapes of plans than any cache holds. */
static void plans_of_many_shapes(void **state) {
    enum { LONGEST = 12 };
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 3},
        .layers = {{.cell = CELL_gru, .size = 5, .norm = NORM_layer}},
        .layer_count = 1,
        .output = {.loss = LOSS_bernoulli, .size = 2},
    };
    struct run run = begin(&architecture, &ADAM, LONGEST);
    learn_steps(&run, LONGEST, LONGEST);
    for (size_t round = 0; round < 2; round++)
        for (size_t steps = 1; steps <= LONGEST; steps++)
            for (size_t length = 1; length <= LONGEST; length += 2) {
                learn_steps(&run, steps, steps + 1);
                update(&run, length, length, false);
                play(&run);
            }
    end(&run, 5);
}

/* Two streams in turn, one of them forgotten now and then, with measurements. */
static void check_by_turns(const struct input *input, size_t test) {
    enum { WINDOW = 3, TURNS = 24 };
    const struct architecture architecture = {
        .input = *input,
        .layers = {{.cell = CELL_lstm, .size = 8, .norm = NORM_layer}},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, .size = 2},
    };
    struct run run = begin(&architecture, &ADAM, WINDOW);
    struct fixture *f = run.fixture;
    for (size_t turn = 0; turn < TURNS; turn++) {
        size_t slot = turn % 2, t = turn / 2;
        union value x[8], y[2];
        fixture_random_input(f, x);
        fixture_random_target(f, y);
        if (t % 5 == 0)
            fixture_forget(f, slot);
        fixture_step(f, slot, t % (WINDOW + 1), x);
        if (turn % 3 == 0)
            fixture_measure(f, slot);
        fixture_score(f, slot, t % (WINDOW + 1), y, true);
        if (t % 5 >= WINDOW)
            fixture_update(f, slot, (t + 2) % (WINDOW + 1), WINDOW, WINDOW, WINDOW, false);
        if (turn % 7 == 6) {
            size_t measures = f->plan.measures;
            play(&run);
            for (size_t n = 0; n < measures; n++) {
                keep(&run, f->measures[n].hidden.norm);
                keep(&run, f->measures[n].summed_inputs.std);
            }
        }
    }
    play(&run);
    end(&run, test);
}

static void streams_by_turns(void **state) {
    const struct input numbers = {.kind = INPUT_REAL, .size = 3};
    check_by_turns(&numbers, 6);
    check_by_turns(&COLUMNS, 13 + OPTIMIZERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_windows_of_units_apart),
        cmocka_unit_test(norms_of_units),
        cmocka_unit_test(long_windows),
        cmocka_unit_test(long_windows_of_symbols),
        cmocka_unit_test(wide_layers_and_inputs),
        cmocka_unit_test(solved_outputs),
        cmocka_unit_test(wide_inputs_together_and_apart),
        cmocka_unit_test(a_window_of_hundreds),
        cmocka_unit_test(plans_of_many_shapes),
        cmocka_unit_test(streams_by_turns),
        cmocka_unit_test(long_windows_of_columns),
        cmocka_unit_test(columns_with_every_optimizer),
    };
    int failed = under_test_run(tests);
    for (size_t k = 0; k < RECORDS; k++)
        free(records[k].numbers);
    return failed;
}
