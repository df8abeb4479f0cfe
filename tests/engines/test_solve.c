/* SOLVE on every engine: recursive least squares in the form of the contract, in double; updates
   in between, whose gradient uses the current output; the same bits for any cut of a plan and
   after a copy; and a covariance that has become too large. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "oracle.h"
#include "under_test.h"

enum {
    WINDOW = 4,
    POSITIONS = WINDOW + 1,
    INPUTS = 3,
    TARGETS = 2,
    UNITS = 21, /* of the last layer */
    SOLVED = UNITS + INPUTS + 1,
    SEED = 31,
};

static const struct optimizer ADAM = {
    .kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
static const double RATE = 0.01, CLIP = 1.0, TOLERANCE = 1e-4;

static const struct architecture MODEL = {
    .input = {.kind = INPUT_REAL, .size = INPUTS},
    .layers = {{.cell = CELL_lstm, .size = 9, .norm = NORM_layer},
               {.cell = CELL_gru, .size = UNITS, .norm = NORM_layer}},
    .layer_count = 2,
    .output = {.loss = LOSS_squared, .size = TARGETS, .skip = true, .solved = true},
};

static struct fixture *opened(const struct optimizer *optimizer) {
    struct fixture *f;
    fixture_open(&f, &MODEL, optimizer, WINDOW, 1, SEED);
    assert_int_equal(f->model.solved, SOLVED);
    return f;
}

static float *parameters(struct fixture *f) {
    float *values = calloc(f->model.parameters, sizeof *values);
    assert_non_null(values);
    fixture_read(f, ENGINE_PARAMETERS, values);
    return values;
}

/* The block of the engine's least squares, and its bytes. */
static double *solution(struct fixture *f, size_t *bytes) {
    const struct least_squares ls = engine_solution(&f->model);
    *bytes = least_squares_size(&ls) * sizeof(double);
    double *block = calloc(1, *bytes);
    assert_non_null(block);
    assert_int_equal(f->ops->read(f->engine, ENGINE_SOLUTION, 0, block, NULL), 0);
    return block;
}

/* ---- The equations ---- */

/* Recursive least squares, directly from the equations. */
struct plain {
    double p[SOLVED][SOLVED];
};

static double *weight(const struct model *model, double *values, size_t k, size_t i) {
    size_t weights = model_find(model, TENSOR_OUTPUT_WEIGHT, 0)->offset;
    size_t skip = model_find(model, TENSOR_OUTPUT_SKIP, 0)->offset;
    if (i < UNITS)
        return values + weights + k * UNITS + i;
    if (i < SOLVED - 1)
        return values + skip + k * INPUTS + i - UNITS;
    return values + model_find(model, TENSOR_OUTPUT_BIAS, 0)->offset + k;
}

static void plain_learn(struct plain *plain, const struct model *model, double *values,
                        const double *phi, const union value *y) {
    const double keep = 0.9998, most = 6.0;
    double gain[SOLVED] = {0}, q = 0.0;
    for (size_t i = 0; i < SOLVED; i++)
        for (size_t j = 0; j < SOLVED; j++)
            gain[i] += plain->p[i][j] * phi[j];
    for (size_t i = 0; i < SOLVED; i++)
        q += phi[i] * gain[i];
    for (size_t k = 0; k < TARGETS; k++) {
        double error = (double)y[k].real;
        for (size_t i = 0; i < SOLVED; i++)
            error -= *weight(model, values, k, i) * phi[i];
        for (size_t i = 0; i < SOLVED && !isnan(error); i++)
            *weight(model, values, k, i) += gain[i] / (keep + q) * fmax(-most, fmin(most, error));
    }
    for (size_t i = 0; i < SOLVED; i++)
        for (size_t j = 0; j < SOLVED; j++)
            plain->p[i][j] = (plain->p[i][j] - gain[i] * gain[j] / (keep + q)) / keep;
}

/* A target. Some numbers, or sometimes all, are not observed, and one is far away. */
static bool random_target(struct fixture *f, size_t t, union value *y) {
    enum { NONE_OF = 5, FAR_OFF = 11 };
    fixture_random_target(f, y);
    if (t == FAR_OFF)
        y[0].real = 50.0F;
    for (size_t k = 0; k < TARGETS && t % NONE_OF == NONE_OF - 1; k++)
        y[k].real = NAN;
    return t % NONE_OF != NONE_OF - 1;
}

static void is_recursive_least_squares(void **state) {
    enum { STEPS = 60 };
    const double prior = 100.0;
    struct fixture *f = opened(&ADAM);
    const struct model *model = &f->model;
    float *begun = parameters(f);
    double *values = doubles(begun, model->parameters);
    double *carried = calloc(model->state_size, sizeof *carried);
    struct plain plain = {.p = {{0}}};
    for (size_t i = 0; i < SOLVED; i++)
        plain.p[i][i] = 1.0 / prior;
    for (size_t t = 0; t < STEPS; t++) {
        union value x[INPUTS], y[TARGETS];
        double output[ORACLE_OUTPUTS_MAX], phi[SOLVED];
        fixture_random_input(f, x);
        bool observed = random_target(f, t, y);
        fixture_step(f, 0, t % POSITIONS, x);
        if (observed)
            fixture_score(f, 0, t % POSITIONS, y, true);
        fixture_solve(f, 0, y);
        fixture_play(f, RATE, CLIP);
        oracle_step(model, values, carried, x, output);
        for (size_t k = 0; k < TARGETS; k++)
            if (!(fabs((double)f->outputs[k] - output[k]) <= TOLERANCE * (1.0 + fabs(output[k]))))
                fail_msg("step %zu: output %zu is %.9g, but should be %.9g", t, k,
                         (double)f->outputs[k], output[k]);
        memcpy(phi, carried + model->state_offset[1], UNITS * sizeof *phi);
        for (size_t i = 0; i < INPUTS; i++)
            phi[UNITS + i] = (double)x[i].real;
        phi[SOLVED - 1] = 1.0;
        plain_learn(&plain, model, values, phi, y);
    }
    float *now = parameters(f);
    double *found = doubles(now, model->parameters);
    double *first = doubles(begun, model->parameters);
    assert_true(distance(found, first, model->parameters) > 0.1);
    assert_true(distance(found, values, model->parameters) < TOLERANCE);
    free(begun);
    free(values);
    free(carried);
    free(now);
    free(found);
    free(first);
    fixture_close(&f);
}

/* Steps whose output is solved after each, then one update by gradient descent. */
static void learn_window(struct fixture *f, const union value *x, const union value *y, bool fresh,
                         double rate, float **before) {
    for (size_t t = 0; t < WINDOW; t++) {
        fixture_step(f, 0, t, x + t * INPUTS);
        fixture_score(f, 0, t, y + t * TARGETS, true);
        fixture_solve(f, 0, y + t * TARGETS);
    }
    fixture_play(f, RATE, CLIP);
    *before = parameters(f);
    fixture_update(f, 0, 0, WINDOW, WINDOW, WINDOW, fresh);
    fixture_play(f, rate, 0.0);
    assert_true(f->updates[0].applied);
}

static void an_update_sees_the_output_of_today(void **state) {
    const struct optimizer sgd = {.kind = OPTIMIZER_sgd};
    const double rate = 1024.0; /* before - after keeps the gradient's precision */
    const bool learned[WINDOW] = {true, true, true, true};
    union value x[WINDOW * INPUTS], y[WINDOW * TARGETS];
    struct fixture *f = opened(&sgd), *again = opened(&sgd);
    size_t count = f->model.parameters;
    for (size_t t = 0; t < WINDOW; t++) {
        fixture_random_input(f, x + t * INPUTS);
        fixture_random_target(f, y + t * TARGETS);
    }
    float *before, *same;
    learn_window(f, x, y, true, rate, &before);
    learn_window(again, x, y, false, rate, &same);
    float *after = parameters(f), *recomputed = parameters(again);
    assert_memory_equal(after, recomputed, count * sizeof *after);

    double *values = doubles(before, count);
    double *carried = calloc(f->model.state_size, sizeof *carried);
    double *expected = calloc(count, sizeof *expected), *gradient = calloc(count, sizeof *gradient);
    const struct oracle_window window = {carried, x, y, learned, WINDOW, WINDOW};
    oracle_gradient(&f->model, values, &window, expected);
    for (size_t k = 0; k < count; k++)
        gradient[k] = ((double)before[k] - (double)after[k]) / rate;
    assert_true(distance(gradient, expected, f->model.learned) <=
                TOLERANCE * norm(expected, f->model.learned));
    for (size_t k = f->model.learned; k < count; k++)
        assert_true(before[k] == after[k]);
    free(before);
    free(same);
    free(after);
    free(recomputed);
    free(values);
    free(carried);
    free(expected);
    free(gradient);
    fixture_close(&f);
    fixture_close(&again);
}

/* ---- Bits ---- */

enum { STEPS = 23, SCORES = STEPS - 1 };

/* Step `t` of a generated stream, and the target of the previous step: always the same numbers. */
static void make_step(size_t t, union value *x, union value *y) {
    for (size_t k = 0; k < INPUTS; k++)
        x[k].real = (float)sin((double)(3 * t + k) * 1.3);
    for (size_t k = 0; k < TARGETS; k++)
        y[k].real = t % 7 == k ? NAN : (float)cos((double)(2 * t + k) * 0.7);
}

/* The operations, and the number after which they are played. */
struct player {
    struct fixture *f;
    size_t every, scores;
    double losses[SCORES];
};

static void played(struct player *p, bool now) {
    if (p->f->plan.count == 0 || (!now && p->f->plan.count < p->every))
        return;
    size_t count = p->f->plan.scores;
    fixture_play(p->f, RATE, CLIP);
    memcpy(p->losses + p->scores, p->f->losses, count * sizeof *p->losses);
    p->scores += count;
}

/* The learner's plan when step `t` arrives: score, update if due, readout, step. */
static void arrive(struct player *p, size_t t, bool fresh) {
    union value x[INPUTS], y[TARGETS];
    make_step(t, x, y);
    if (t > 0) {
        fixture_score(p->f, 0, (t - 1) % POSITIONS, y, true);
        played(p, false);
        if (t % WINDOW == 0) {
            fixture_update(p->f, 0, (t - WINDOW) % POSITIONS, WINDOW, WINDOW, WINDOW, fresh);
            played(p, false);
        }
        fixture_solve(p->f, 0, y);
        played(p, false);
    }
    fixture_step(p->f, 0, t % POSITIONS, x);
    played(p, false);
}

static void assert_same_engines(struct fixture *a, struct fixture *b) {
    size_t bytes;
    float *left = parameters(a), *right = parameters(b);
    assert_memory_equal(left, right, a->model.parameters * sizeof *left);
    double *first = solution(a, &bytes), *second = solution(b, &bytes);
    assert_memory_equal(first, second, bytes);
    free(left);
    free(right);
    free(first);
    free(second);
}

static void plans_can_be_cut_anywhere(void **state) {
    enum { WHOLE = 1000, WAYS = 7 };
    const size_t every[WAYS] = {1, 2, 3, 4, 5, 11, WHOLE};
    struct player players[WAYS];
    for (size_t n = 0; n < WAYS; n++) {
        struct player *p = &players[n];
        *p = (struct player){.f = opened(&ADAM), .every = every[n]};
        for (size_t t = 0; t < STEPS; t++)
            arrive(p, t, n % 2 == 0);
        played(p, true);
        assert_int_equal(p->scores, SCORES);
        assert_memory_equal(p->losses, players[0].losses, sizeof p->losses);
        assert_same_engines(p->f, players[0].f);
    }
    for (size_t n = 0; n < WAYS; n++)
        fixture_close(&players[n].f);
}

/* Copies all blocks of an engine to another. */
static void carry(struct fixture *from, struct fixture *to) {
    const enum engine_block blocks[] = {ENGINE_PARAMETERS, ENGINE_MOMENTS, ENGINE_MOMENTS + 1};
    size_t bytes;
    float *values = calloc(from->model.parameters, sizeof *values);
    for (size_t n = 0; n < sizeof blocks / sizeof *blocks; n++) {
        fixture_read(from, blocks[n], values);
        fixture_write(to, blocks[n], values);
    }
    free(values);
    double *block = solution(from, &bytes);
    assert_int_equal(to->ops->write(to->engine, ENGINE_SOLUTION, 0, block, NULL), 0);
    free(block);
    float *record = calloc(slot_record_size(&from->model, WINDOW), sizeof *record);
    uint64_t updates = 0;
    assert_int_equal(from->ops->read(from->engine, ENGINE_SLOT, 0, record, NULL), 0);
    assert_int_equal(to->ops->write(to->engine, ENGINE_SLOT, 0, record, NULL), 0);
    assert_int_equal(from->ops->read(from->engine, ENGINE_UPDATES, 0, &updates, NULL), 0);
    assert_int_equal(to->ops->write(to->engine, ENGINE_UPDATES, 0, &updates, NULL), 0);
    free(record);
}

/* The copied step still waits for the target to be solved. */
static void another_engine_can_go_on(void **state) {
    enum { STOP = 10 };
    struct player first = {.f = opened(&ADAM), .every = 2};
    struct player second = {.f = opened(&ADAM), .every = 2};
    for (size_t t = 0; t < STOP; t++)
        arrive(&first, t, false);
    played(&first, true);
    carry(first.f, second.f);
    for (size_t t = STOP; t < STEPS; t++) {
        arrive(&first, t, false);
        arrive(&second, t, false);
    }
    played(&first, true);
    played(&second, true);
    assert_int_equal(first.scores - second.scores, STOP - 1);
    assert_memory_equal(first.losses + STOP - 1, second.losses, second.scores * sizeof(double));
    assert_same_engines(first.f, second.f);
    fixture_close(&first.f);
    fixture_close(&second.f);
}

/* ---- Values that are too large ---- */

static void a_covariance_out_of_range_begins_again(void **state) {
    struct player p = {.f = opened(&ADAM), .every = 1};
    const struct least_squares ls = engine_solution(&p.f->model);
    size_t bytes;
    arrive(&p, 0, false);
    float *before = parameters(p.f);
    double *block = solution(p.f, &bytes);
    for (size_t i = 0; i < ls.inputs; i++)
        block[i * ls.stride + i] = 2.0 * LEAST_SQUARES_Q_MOST;
    assert_int_equal(p.f->ops->write(p.f->engine, ENGINE_SOLUTION, 0, block, NULL), 0);
    arrive(&p, 1, false);
    double *again = solution(p.f, &bytes);
    least_squares_begin(&ls, block);
    assert_memory_equal(again, block, ls.inputs * ls.stride * sizeof *again);
    float *after = parameters(p.f);
    assert_memory_equal(before, after, p.f->model.parameters * sizeof *after);
    for (size_t t = 2; t < STEPS; t++)
        arrive(&p, t, false);
    for (size_t n = 0; n < p.scores; n++)
        assert_true(isfinite(p.losses[n]));
    free(before);
    free(block);
    free(again);
    free(after);
    fixture_close(&p.f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_recursive_least_squares),
        cmocka_unit_test(an_update_sees_the_output_of_today),
        cmocka_unit_test(plans_can_be_cut_anywhere),
        cmocka_unit_test(another_engine_can_go_on),
        cmocka_unit_test(a_covariance_out_of_range_begins_again),
    };
    return under_test_run(tests);
}
