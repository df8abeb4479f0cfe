/* Compares several updates of every optimizer with its definition (PyTorch's, a paper's) in
   double, with gradients by central differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "kernels/optimizers.h"
#include "oracle.h"
#include "under_test.h"

enum { UPDATES = 6, WINDOW = 2, POSITIONS = WINDOW + 1, INPUTS = 3, TARGETS = 2, SEED = 3 };

/* Relative to all changes since the first update, norm-wise. */
static const double TOLERANCE = 1e-3;

/* The model and its parameters in double, with the same updates. */
struct double_run {
    size_t count;
    double *parameters, *gradient, *start, *now, *moments[MOMENTS_MAX];
    double *state; /* (S,) before the newest window */
};

static double *zeros(size_t count) {
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

static void read_as_double(struct fixture *f, enum engine_block block, double *values) {
    float *floats = calloc(f->model.parameters, sizeof *floats);
    fixture_read(f, block, floats);
    for (size_t k = 0; k < f->model.parameters; k++)
        values[k] = (double)floats[k];
    free(floats);
}

static void run_open(struct double_run *run, struct fixture *f) {
    size_t count = run->count = f->model.parameters;
    double **all[] = {&run->parameters, &run->gradient, &run->start, &run->now};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        *all[n] = zeros(count);
    for (size_t n = 0; n < MOMENTS_MAX; n++)
        run->moments[n] = zeros(count);
    run->state = zeros(f->model.state_size + 1);
    read_as_double(f, ENGINE_PARAMETERS, run->parameters);
    memcpy(run->start, run->parameters, count * sizeof *run->start);
}

/* As the learner does. */
static void write_start(struct fixture *f, struct double_run *run) {
    size_t start = optimizer_start(&f->options.optimizer);
    if (start == SIZE_MAX)
        return;
    float *values = calloc(run->count, sizeof *values);
    fixture_read(f, ENGINE_PARAMETERS, values);
    fixture_write(f, ENGINE_MOMENTS + (unsigned)start, values);
    memcpy(run->moments[start], run->start, run->count * sizeof *run->start);
    free(values);
}

static void run_close(struct double_run *run) {
    free(run->parameters);
    free(run->gradient);
    for (size_t n = 0; n < MOMENTS_MAX; n++)
        free(run->moments[n]);
    free(run->start);
    free(run->now);
    free(run->state);
}

/* One window of new steps and its update, on the engine and in double. */
static void update(struct fixture *f, struct double_run *run, size_t number, double rate,
                   double clip) {
    union value x[WINDOW * INPUTS], y[WINDOW * TARGETS];
    const bool learned[WINDOW] = {true, true};
    for (size_t t = 0; t < WINDOW; t++) {
        fixture_random_input(f, x + t * INPUTS);
        fixture_random_target(f, y + t * TARGETS);
        fixture_step(f, 0, t, x + t * INPUTS);
        fixture_score(f, 0, t, y + t * TARGETS, true);
    }
    fixture_update(f, 0, 0, WINDOW, WINDOW, WINDOW, true);
    fixture_forget(f, 0);
    fixture_play(f, rate, clip);
    assert_true(f->updates[0].applied);

    const struct oracle_window window = {run->state, x, y, learned, WINDOW, WINDOW};
    struct optimizer optimizer = f->options.optimizer;
    optimizer.rate = rate;
    double *before = zeros(run->count);
    memcpy(before, run->parameters, run->count * sizeof *before);
    oracle_gradient(&f->model, run->parameters, &window, run->gradient);
    double gradient_norm = norm(run->gradient, run->count);
    oracle_update(&optimizer, clip, number, run->count, run->parameters, run->gradient,
                  run->moments);
    double ratio = distance(run->parameters, before, run->count) / norm(before, run->count);
    free(before);
    assert_true(fabs(f->updates[0].gradient_norm - gradient_norm) <= TOLERANCE * gradient_norm);
    assert_true(fabs(f->updates[0].update_ratio - ratio) <= TOLERANCE * ratio);
}

static void compare(struct fixture *f, struct double_run *run, const char *name) {
    read_as_double(f, ENGINE_PARAMETERS, run->now);
    for (size_t n = 0; n < f->model.tensor_count; n++) {
        const struct tensor *tensor = &f->model.tensors[n];
        size_t at = tensor->offset, count = tensor_size(tensor);
        double off = distance(run->now + at, run->parameters + at, count);
        double moved = distance(run->parameters + at, run->start + at, count);
        if (!(off <= TOLERANCE * moved))
            fail_msg("%s: %s is off by %.3g after moving %.3g", name, tensor->name, off, moved);
    }
    for (unsigned n = 0; n < optimizer_moments(&f->options.optimizer); n++) {
        read_as_double(f, ENGINE_MOMENTS + n, run->now);
        if (!(distance(run->now, run->moments[n], run->count) <=
              TOLERANCE * norm(run->moments[n], run->count)))
            fail_msg("%s: moment %u differs", name, n + 1);
    }
    uint64_t updates;
    assert_int_equal(f->ops->read(f->engine, ENGINE_UPDATES, 0, &updates, NULL), 0);
    assert_int_equal(updates, UPDATES);
}

static void check(const char *name, const struct optimizer *optimizer, double clip) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = INPUTS},
        .layers = {{.cell = CELL_gru, .size = 5, .norm = NORM_layer},
                   {.cell = CELL_dense, .size = 4, .activation = ACTIVATION_tanh}},
        .layer_count = 2,
        .output = {.loss = LOSS_squared, .size = TARGETS},
    };
    struct fixture *f;
    struct double_run run;
    if (!under_test_plays())
        return;
    fixture_open(&f, &architecture, optimizer, WINDOW, 1, SEED);
    run_open(&run, f);
    write_start(f, &run);
    for (size_t n = 1; n <= UPDATES; n++) {
        /* The plan's rate is used, and may differ between plans. */
        double rate = n > UPDATES / 2 ? optimizer->rate / 2.0 : optimizer->rate;
        update(f, &run, n, rate, clip);
    }
    compare(f, &run, name);
    run_close(&run);
    fixture_close(&f);
}

static void sgd(void **state) {
    struct optimizer o = {.kind = OPTIMIZER_sgd, .rate = 0.1};
    check("sgd", &o, 0.0);
    o.weight_decay = 0.1;
    check("sgd with weight decay", &o, 0.0);
    o.momentum = 0.9;
    check("momentum", &o, 0.0);
    o.nesterov = true;
    check("nesterov", &o, 0.0);
}

static void rmsprop(void **state) {
    struct optimizer o = {.kind = OPTIMIZER_rmsprop, .rate = 0.01, .alpha = 0.9, .epsilon = 1e-5};
    check("rmsprop", &o, 0.0);
    o.weight_decay = 0.1;
    check("rmsprop with weight decay", &o, 0.0);
}

static void adam(void **state) {
    struct optimizer o = {
        .kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-5};
    check("adam", &o, 0.0);
    o.weight_decay = 0.1;
    check("adam with weight decay", &o, 0.0);
    o.kind = OPTIMIZER_adamw;
    check("adamw", &o, 0.0);
}

/* Without an average of the gradient. */
static void adam_without_beta1(void **state) {
    struct optimizer o = {
        .kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0, .beta2 = 0.95, .epsilon = 1e-5};
    check("adam with beta1 0", &o, 0.0);
    o.pull = 20;
    check("adam with beta1 0 and pull", &o, 1.0);
    o.kind = OPTIMIZER_adamw;
    o.weight_decay = 0.1;
    check("adamw with beta1 0 and pull", &o, 0.0);
}

/* rate * pull from 0.05 to 1, and more, which counts as 1. */
static void pull(void **state) {
    struct optimizer o = {
        .kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-5};
    o.pull = 30;
    check("adam with pull", &o, 0.0);
    o.kind = OPTIMIZER_adamw;
    o.weight_decay = 0.1;
    check("adamw with pull", &o, 1.0);
    o = (struct optimizer){.kind = OPTIMIZER_sgd, .rate = 0.1, .pull = 2};
    check("sgd with pull", &o, 0.0);
    o.momentum = 0.9;
    check("momentum with pull", &o, 0.0);
    o = (struct optimizer){
        .kind = OPTIMIZER_rmsprop, .rate = 0.01, .alpha = 0.9, .epsilon = 1e-5, .pull = 5};
    check("rmsprop with pull", &o, 0.0);
    assert_true(optimizer_prepare(&o, 1.0, 1).pull == 1.0F);
}

static void cocob(void **state) {
    struct optimizer o = {.kind = OPTIMIZER_cocob, .rate = RATE_AUTO, .alpha = 100};
    check("cocob", &o, 0.0);
    o.alpha = 3;
    check("cocob with large steps", &o, 1.0);
    o.weight_decay = 0.1;
    check("cocob with weight decay", &o, 0.0);
}

/* A target that a linear network can learn, y = 2 x_0 - x_1 + 1/2, with a plan's rate of any
   sign: cocob's steps grow until it is reached. */
static void cocob_learns(void **state) {
    enum { STEPS = 3000 };
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 2},
        .layers = {{.cell = CELL_dense, .size = 4, .activation = ACTIVATION_identity}},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, .size = 1},
    };
    const struct optimizer optimizer = fixture_optimizer(OPTIMIZER_cocob, RATE_AUTO);
    struct fixture *f;
    if (!under_test_plays())
        return;
    fixture_open(&f, &architecture, &optimizer, 1, 1, SEED);
    double first = 0, last = 0;
    for (size_t t = 0; t < STEPS; t++) {
        union value x[2], y;
        fixture_random_input(f, x);
        y.real = 2.0F * x[0].real - x[1].real + 0.5F;
        fixture_step(f, 0, t % 2, x);
        fixture_score(f, 0, t % 2, &y, true);
        fixture_update(f, 0, t % 2, 1, 1, 1, true);
        fixture_play(f, RATE_AUTO, 0.0);
        first += t < STEPS / 10 ? f->losses[0] : 0;
        last += t >= STEPS - STEPS / 10 ? f->losses[0] : 0;
    }
    if (!(last < first / 100))
        fail_msg("the loss went from %.3g to %.3g", first, last);
    fixture_close(&f);
}

/* Each optimizer of the list, with its defaults. */
static void every_optimizer(void **state) {
    for (enum optimizer_id id = 0; id < OPTIMIZERS; id++) {
        struct optimizer o = fixture_optimizer(id, 0.01);
        o.weight_decay = 0.1;
        check(optimizer_kind(id)->name, &o, 1.0);
    }
}

/* A norm that every gradient exceeds, and one that none exceeds. */
static void clipping(void **state) {
    struct optimizer o = {.kind = OPTIMIZER_sgd, .rate = 0.1, .momentum = 0.5, .weight_decay = 0.1};
    check("clipped to 0.1", &o, 0.1);
    check("clipped to 1000", &o, 1000.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd),          cmocka_unit_test(rmsprop),
        cmocka_unit_test(adam),         cmocka_unit_test(adam_without_beta1),
        cmocka_unit_test(pull),         cmocka_unit_test(every_optimizer),
        cmocka_unit_test(clipping),     cmocka_unit_test(cocob),
        cmocka_unit_test(cocob_learns),
    };
    return under_test_run(tests);
}
