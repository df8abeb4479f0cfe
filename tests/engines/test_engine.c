/* Requirements of an engine besides gradients: the same bits for any cut of a plan, reused
   rings, independent streams, blocks that can be copied to another engine, numbers at the edge
   of float, and completely skipped updates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "under_test.h"

enum { WINDOW = 3, POSITIONS = WINDOW + 1, SLOTS = 2, INPUTS = 12, TARGETS = 2, SEED = 5 };

static const struct optimizer ADAM = {
    .kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
static const struct optimizer SGD = {.kind = OPTIMIZER_sgd, .rate = 0.01};
static const double RATE = 0.01;

static struct architecture two_layers(void) {
    return (struct architecture){
        .input = {.kind = INPUT_REAL, .size = INPUTS},
        .layers = {{.cell = CELL_lstm, .size = 6, .norm = NORM_layer},
                   {.cell = CELL_gru, .size = 5, .norm = NORM_layer}},
        .layer_count = 2,
        .output = {.loss = LOSS_squared, .size = TARGETS},
    };
}

static struct architecture with_grids(void) {
    return (struct architecture){
        .input = {.kind = INPUT_REAL, .size = INPUTS, .shape = {1, 3, 4}},
        .layers = {{.cell = CELL_conv, .norm = NORM_batch, .shape.channels = 5, .kernel = 2},
                   {.cell = CELL_conv, .norm = NORM_layer, .shape.channels = 3, .kernel = 2},
                   {.cell = CELL_gru, .size = 5, .norm = NORM_layer}},
        .layer_count = 3,
        .output = {.loss = LOSS_squared, .size = TARGETS},
    };
}

static float *parameters(struct fixture *f) {
    float *values = calloc(f->model.parameters, sizeof *values);
    assert_non_null(values);
    fixture_read(f, ENGINE_PARAMETERS, values);
    return values;
}

static void assert_same_parameters(struct fixture *a, struct fixture *b) {
    float *left = parameters(a), *right = parameters(b);
    assert_memory_equal(left, right, a->model.parameters * sizeof *left);
    free(left);
    free(right);
}

/* Step `t` of a generated stream: the same numbers for the same seed. */
static void make_step(const struct fixture *f, size_t seed, size_t t, union value *x,
                      union value *y) {
    for (size_t k = 0; k < f->inputs; k++)
        x[k].real = (float)sin((double)(seed + 3 * t + k) * 1.3);
    for (size_t k = 0; k < f->model.target_size; k++)
        y[k].real = (float)cos((double)(seed + 2 * t + k) * 0.7);
}

/* One step and its target in `slot`, where it is the stream's step `t`. */
static void gather_step(struct fixture *f, size_t slot, size_t t) {
    union value x[INPUTS], y[TARGETS];
    make_step(f, 100 * slot, t, x, y);
    fixture_step(f, slot, t % POSITIONS, x);
    fixture_score(f, slot, t % POSITIONS, y, true);
}

/* The update after step `t`: the window is full, and all of it is learned. */
static void gather_update(struct fixture *f, size_t slot, size_t t, bool fresh) {
    fixture_update(f, slot, (t + 1 - WINDOW) % POSITIONS, WINDOW, WINDOW, WINDOW, fresh);
}

enum { STEPS = 12 };

static void cut_plans(const struct architecture *architecture) {
    const size_t every[] = {1, 2, 5, STEPS};
    double losses[4][STEPS];
    struct fixture *fixtures[4];
    for (size_t n = 0; n < 4; n++) {
        struct fixture *f;
        fixture_open(&f, architecture, &ADAM, WINDOW, SLOTS, SEED);
        fixtures[n] = f;
        size_t scored = 0;
        for (size_t t = 0; t < STEPS; t++) {
            gather_step(f, 0, t);
            if (t % WINDOW == WINDOW - 1)
                gather_update(f, 0, t, true);
            if ((t + 1) % every[n] == 0 || t + 1 == STEPS) {
                size_t count = f->plan.scores;
                fixture_play(f, RATE, 1.0);
                memcpy(losses[n] + scored, f->losses, count * sizeof *f->losses);
                scored += count;
            }
        }
        assert_int_equal(scored, STEPS);
        assert_memory_equal(losses[n], losses[0], sizeof losses[n]);
        assert_same_parameters(f, fixtures[0]);
    }
    for (size_t n = 0; n < 4; n++)
        fixture_close(&fixtures[n]);
}

static void plans_can_be_cut_anywhere(void **state) {
    const struct architecture layers = two_layers(), grids = with_grids();
    cut_plans(&layers);
    if (fixture_takes(&grids))
        cut_plans(&grids);
}

static void slots_do_not_touch_one_another(void **state) {
    const struct architecture architecture = two_layers();
    struct fixture *alone, *beside;
    fixture_open(&alone, &architecture, &SGD, WINDOW, SLOTS, SEED);
    fixture_open(&beside, &architecture, &SGD, WINDOW, SLOTS, SEED);
    for (size_t t = 0; t < WINDOW; t++)
        gather_step(alone, 0, t);
    gather_update(alone, 0, WINDOW - 1, true);
    gather_step(alone, 0, WINDOW);
    fixture_play(alone, RATE, 0.0);

    for (size_t t = 0; t < WINDOW; t++) {
        gather_step(beside, 0, t);
        gather_step(beside, 1, t);
    }
    gather_update(beside, 0, WINDOW - 1, false);
    gather_step(beside, 0, WINDOW);
    fixture_play(beside, RATE, 0.0);
    for (size_t t = 0; t < WINDOW; t++)
        assert_true(alone->losses[t] == beside->losses[2 * t]);
    assert_true(alone->losses[WINDOW] == beside->losses[2 * WINDOW]);
    assert_same_parameters(alone, beside);
    fixture_close(&alone);
    fixture_close(&beside);
}

/* Steps whose score must not be learned, or without a score: only the others count. */
static void targets_not_learned_do_not_count(void **state) {
    const struct architecture architecture = two_layers();
    struct fixture *f, *other;
    union value x[INPUTS], y[TARGETS];
    fixture_open(&f, &architecture, &SGD, WINDOW, SLOTS, SEED);
    fixture_open(&other, &architecture, &SGD, WINDOW, SLOTS, SEED);
    /* Every position had a target before; later steps there have none. */
    for (size_t t = 0; t < POSITIONS; t++)
        gather_step(f, 0, t);
    fixture_forget(f, 0);
    for (struct fixture *each = f; each; each = each == f ? other : NULL) {
        for (size_t t = 0; t < WINDOW; t++) {
            make_step(each, 0, t, x, y);
            fixture_step(each, 0, t, x);
            if (t == 1)
                fixture_score(each, 0, t, y, true);
            if (t == 2 && each == f)
                fixture_score(each, 0, t, y, false);
        }
        fixture_update(each, 0, 0, WINDOW, WINDOW, 1, true);
        fixture_play(each, RATE, 0.0);
        assert_true(each->updates[0].applied);
    }
    assert_same_parameters(f, other);
    fixture_close(&f);
    fixture_close(&other);
}

/* An update leaves the running state unchanged: the next step continues from it. */
static void an_update_does_not_rewrite_the_state(void **state) {
    const struct architecture architecture = two_layers();
    struct fixture *f;
    fixture_open(&f, &architecture, &SGD, WINDOW, SLOTS, SEED);
    for (size_t t = 0; t < WINDOW; t++)
        gather_step(f, 0, t);
    fixture_play(f, RATE, 0.0);
    size_t size = slot_record_size(&f->model, WINDOW);
    float *before = calloc(size, sizeof *before), *after = calloc(size, sizeof *after);
    struct error *none = NULL;
    assert_int_equal(f->ops->read(f->engine, ENGINE_SLOT, 0, before, none), 0);
    for (int round = 0; round < 2; round++) {
        gather_update(f, 0, WINDOW - 1, round == 0);
        fixture_play(f, 10 * RATE, 0.0);
        assert_int_equal(f->ops->read(f->engine, ENGINE_SLOT, 0, after, none), 0);
        assert_memory_equal(before, after, size * sizeof *before);
    }
    free(before);
    free(after);
    fixture_close(&f);
}

/* Copies all blocks of an engine to another. */
static void carry(struct fixture *from, struct fixture *to) {
    const enum engine_block blocks[] = {ENGINE_PARAMETERS, ENGINE_MOMENTS, ENGINE_MOMENTS + 1};
    float *values = calloc(from->model.parameters, sizeof *values);
    for (size_t n = 0; n < 3; n++) {
        fixture_read(from, blocks[n], values);
        fixture_write(to, blocks[n], values);
    }
    free(values);
    float *record = calloc(slot_record_size(&from->model, WINDOW), sizeof *record);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        assert_int_equal(from->ops->read(from->engine, ENGINE_SLOT, slot, record, NULL), 0);
        assert_int_equal(to->ops->write(to->engine, ENGINE_SLOT, slot, record, NULL), 0);
    }
    free(record);
    uint64_t updates = 0;
    assert_int_equal(from->ops->read(from->engine, ENGINE_UPDATES, 0, &updates, NULL), 0);
    assert_int_equal(updates, 2);
    assert_int_equal(to->ops->write(to->engine, ENGINE_UPDATES, 0, &updates, NULL), 0);
}

static void go_on_elsewhere(const struct architecture *architecture) {
    struct fixture *first, *second;
    fixture_open(&first, architecture, &ADAM, WINDOW, SLOTS, SEED);
    fixture_open(&second, architecture, &ADAM, WINDOW, SLOTS, SEED + 1);
    /* Stopped in the middle of a window, with an output that waits for its target. */
    union value x[INPUTS], y[TARGETS];
    for (size_t t = 0; t < 8; t++) {
        gather_step(first, t % SLOTS, t / SLOTS);
        if (t == 4 || t == 5)
            gather_update(first, t % SLOTS, t / SLOTS, false);
    }
    make_step(first, 0, 4, x, y);
    fixture_step(first, 0, 4 % POSITIONS, x);
    fixture_play(first, RATE, 1.0);
    carry(first, second);

    for (struct fixture *each = first; each; each = each == first ? second : NULL) {
        fixture_score(each, 0, 4 % POSITIONS, y, true);
        gather_update(each, 0, 4, false);
        gather_step(each, 0, 5);
        gather_step(each, 1, 4);
        gather_update(each, 1, 4, false);
        fixture_play(each, RATE, 1.0);
    }
    assert_memory_equal(first->losses, second->losses, 3 * sizeof *first->losses);
    assert_memory_equal(first->updates, second->updates, 2 * sizeof *first->updates);
    assert_same_parameters(first, second);
    fixture_close(&first);
    fixture_close(&second);
}

static void another_engine_can_go_on(void **state) {
    const struct architecture layers = two_layers(), grids = with_grids();
    go_on_elsewhere(&layers);
    if (fixture_takes(&grids))
        go_on_elsewhere(&grids);
}

static void forgetting_begins_anew(void **state) {
    const struct architecture architecture = two_layers();
    struct fixture *f;
    fixture_open(&f, &architecture, &SGD, WINDOW, SLOTS, SEED);
    gather_step(f, 0, 0);
    gather_step(f, 0, 1);
    fixture_forget(f, 0);
    gather_step(f, 0, 0);
    fixture_play(f, RATE, 0.0);
    assert_true(f->losses[0] == f->losses[2]);
    assert_true(f->losses[0] != f->losses[1]);
    fixture_close(&f);
}

/* There may be more slots than a model may have tensors: slots and tensors have separate
   numbers. */
static void many_slots_are_written(void **state) {
    enum { MANY = MODEL_TENSORS_MAX + 2 };
    const struct architecture architecture = two_layers();
    struct fixture *from, *to;
    fixture_open(&from, &architecture, &SGD, WINDOW, MANY, SEED);
    fixture_open(&to, &architecture, &SGD, WINDOW, MANY, SEED);
    size_t size = slot_record_size(&from->model, WINDOW);
    float *record = calloc(2 * size, sizeof *record), *again = record + size;
    assert_non_null(record);
    gather_step(from, MANY - 1, 0);
    fixture_play(from, RATE, 0.0);
    assert_int_equal(from->ops->read(from->engine, ENGINE_SLOT, MANY - 1, record, NULL), 0);
    assert_int_equal(to->ops->write(to->engine, ENGINE_SLOT, MANY - 1, record, NULL), 0);
    assert_int_equal(to->ops->read(to->engine, ENGINE_SLOT, MANY - 1, again, NULL), 0);
    assert_memory_equal(record, again, size * sizeof *record);
    free(record);
    fixture_close(&from);
    fixture_close(&to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_can_be_cut_anywhere),
        cmocka_unit_test(slots_do_not_touch_one_another),
        cmocka_unit_test(targets_not_learned_do_not_count),
        cmocka_unit_test(an_update_does_not_rewrite_the_state),
        cmocka_unit_test(another_engine_can_go_on),
        cmocka_unit_test(forgetting_begins_anew),
        cmocka_unit_test(many_slots_are_written),
    };
    return under_test_run(tests);
}
