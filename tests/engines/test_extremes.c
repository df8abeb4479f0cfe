/* Numbers at the edge of float: losses stay finite, states stay numbers, updates that cannot be
   computed change nothing, and decaying values become zero. */
#include <fenv.h>
#include <float.h>
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

enum { WINDOW = 3, POSITIONS = WINDOW + 1, SLOTS = 1, INPUTS = 3, TARGETS = 2, SEED = 5 };

static const struct optimizer ADAM = {
    .kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
static const struct optimizer SGD = {.kind = OPTIMIZER_sgd, .rate = 0.01};
static const double RATE = 0.01;

static struct architecture architecture_of(enum cell cell, enum norm norm, enum loss loss) {
    size_t size = loss_kind(loss)->size;
    return (struct architecture){
        .input = {.kind = INPUT_REAL, .size = INPUTS},
        .layers = {{.cell = cell, .size = 6, .norm = norm}},
        .layer_count = 1,
        .output = {.loss = loss, .size = size ? size : TARGETS, .components = 2},
    };
}

static float *parameters(struct fixture *f) {
    float *values = calloc(f->model.parameters, sizeof *values);
    assert_non_null(values);
    fixture_read(f, ENGINE_PARAMETERS, values);
    return values;
}

static void assert_finite_losses(struct fixture *f, size_t count, const char *what) {
    const struct architecture *a = &f->model.architecture;
    for (size_t n = 0; n < count; n++)
        if (!isfinite(f->losses[n]))
            fail_msg("%s, norm %s, %s, %s: loss %zu is %g", cell_kind(a->layers[0].cell)->kind.name,
                     norm_kind(a->layers[0].norm)->kind.name, loss_kind(a->output.loss)->name, what,
                     n, f->losses[n]);
}

/* Parameters and running statistics: a checkpoint with others is rejected. */
static void assert_finite_parameters(struct fixture *f, const char *what) {
    float *values = parameters(f);
    for (size_t k = 0; k < f->model.parameters; k++)
        if (!isfinite(values[k]))
            fail_msg("%s, %s: number %zu of the parameters is %g",
                     norm_kind(f->model.architecture.layers[0].norm)->kind.name, what, k,
                     (double)values[k]);
    free(values);
}

/* A step with such inputs, ordinary ones after it, and an update on all but the newest. */
static void play_extreme_input(const struct architecture *architecture, const float *pattern) {
    struct fixture *f;
    union value x[INPUTS], y[3];
    fixture_open(&f, architecture, &SGD, WINDOW, SLOTS, SEED);
    for (size_t t = 0; t < POSITIONS; t++) {
        fixture_random_input(f, x);
        if (t == 1)
            for (size_t k = 0; k < INPUTS; k++)
                x[k].real = pattern[k];
        fixture_random_target(f, y);
        fixture_step(f, 0, t, x);
        fixture_score(f, 0, t, y, true);
        if (t == 2)
            fixture_update(f, 0, 0, WINDOW, WINDOW, WINDOW, true);
    }
    fixture_play(f, RATE, 1.0);
    char what[64];
    snprintf(what, sizeof what, "inputs %g %g %g", (double)pattern[0], (double)pattern[1],
             (double)pattern[2]);
    assert_finite_losses(f, POSITIONS, what);
    assert_finite_parameters(f, what);
    fixture_close(&f);
}

static void losses_are_finite_for_extreme_inputs(void **state) {
    const float patterns[][INPUTS] = {
        {1e38F, 1e38F, 1e38F},       {-1e38F, 1e38F, -1e38F}, {FLT_MAX, FLT_MAX, FLT_MAX},
        {FLT_MAX, -FLT_MAX, 0.0F},   {1e20F, -1e19F, 1e18F},  {1e-45F, -1e-45F, 0.0F},
        {FLT_MIN, FLT_MAX, -1e-38F},
    };
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (enum norm norm = 0; norm < NORMS; norm++)
            for (enum loss loss = 0; loss < LOSSES && !loss_kind(loss)->ranks; loss++)
                for (size_t n = 0; n < sizeof patterns / sizeof *patterns; n++) {
                    struct architecture architecture = architecture_of(cell, norm, loss);
                    struct layer *layer = &architecture.layers[0];
                    if (under_test_plays() && fixture_takes(&architecture))
                        play_extreme_input(&architecture, patterns[n]);
                    layer->diagonal = cell_kind(cell)->states > 0 && !cell_kind(cell)->columns;
                    if (under_test_plays() && layer->diagonal && fixture_takes(&architecture))
                        play_extreme_input(&architecture, patterns[n]);
                    if (cell != CELL_dense || !under_test_is_cpu())
                        continue;
                    layer[0].taps = 2;
                    layer[1] = layer[0];
                    layer[1].residual = true;
                    architecture.layer_count = 2;
                    if (under_test_plays())
                        play_extreme_input(&architecture, patterns[n]);
                }
}

static void losses_are_finite_for_extreme_targets(void **state) {
    const float extremes[] = {1e38F, -1e38F, FLT_MAX, -FLT_MAX, 1e-45F};
    const enum loss losses[] = {LOSS_squared, LOSS_gaussian, LOSS_mixture};
    for (size_t n = 0; n < 3; n++) {
        const struct architecture architecture = architecture_of(CELL_lstm, NORM_layer, losses[n]);
        struct fixture *f;
        union value x[INPUTS], y[3];
        fixture_open(&f, &architecture, &SGD, WINDOW, SLOTS, SEED);
        for (size_t e = 0; e < 5; e++) {
            fixture_random_input(f, x);
            y[0].real = y[1].real = extremes[e];
            y[2].real = 1.0F;
            fixture_step(f, 0, e % POSITIONS, x);
            fixture_score(f, 0, e % POSITIONS, y, true);
        }
        fixture_play(f, RATE, 0.0);
        assert_finite_losses(f, 5, "extreme targets");
        fixture_close(&f);
    }
}

/* Outputs of that size, through output.bias, with signs from `signs`. Returns the loss. */
static double loss_of_outputs(struct fixture *f, float size, unsigned signs, const union value *y) {
    float *values = parameters(f);
    const struct tensor *weight = model_named(&f->model, "output.weight");
    const struct tensor *bias = model_named(&f->model, "output.bias");
    for (size_t k = 0; k < tensor_size(weight); k++)
        values[weight->offset + k] = 0.0F;
    for (size_t k = 0; k < tensor_size(bias); k++)
        values[bias->offset + k] = signs >> k & 1U ? -size : size;
    fixture_write(f, ENGINE_PARAMETERS, values);
    free(values);
    const union value x[INPUTS] = {{.real = 0.5F}, {.real = -0.5F}, {.real = 1.0F}};
    fixture_step(f, 0, 0, x);
    fixture_score(f, 0, 0, y, true);
    fixture_play(f, RATE, 0.0);
    return f->losses[0];
}

static void losses_are_finite_for_extreme_outputs(void **state) {
    const float sizes[] = {20.0F, 89.0F, 1000.0F, 1e10F, 1e38F, FLT_MAX};
    for (enum loss loss = 0; loss < LOSSES && !loss_kind(loss)->ranks; loss++) {
        const struct architecture architecture = architecture_of(CELL_rnn, NORM_layer, loss);
        struct fixture *f;
        union value y[3];
        fixture_open(&f, &architecture, &SGD, WINDOW, SLOTS, SEED);
        fixture_random_target(f, y);
        unsigned patterns = 1U << f->model.outputs;
        /* A plan on another engine costs a thousand times as much; an odd stride covers every
           sign. */
        unsigned by = under_test_is_cpu() || patterns < 256 ? 1 : 149;
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
            for (unsigned signs = 0; signs < patterns; signs += by) {
                if (!under_test_plays())
                    continue;
                double found = loss_of_outputs(f, sizes[n], signs, y);
                double a[ORACLE_OUTPUTS_MAX];
                for (size_t k = 0; k < f->model.outputs; k++)
                    a[k] = (double)(signs >> k & 1U ? -sizes[n] : sizes[n]);
                double expected = oracle_loss(&f->model, a, y);
                if (!isfinite(found))
                    fail_msg("%s: outputs of +-%g give the loss %g", loss_kind(loss)->name,
                             (double)sizes[n], found);
                /* Only a finite result is required beyond the stable range of exp(-log
                   variance). */
                bool plain = loss != LOSS_gaussian && loss != LOSS_mixture;
                if ((plain || sizes[n] <= 20.0F) &&
                    !(fabs(found - expected) <= 1e-6 * (1.0 + fabs(expected))))
                    fail_msg("%s: outputs of +-%g give the loss %.9g, but should give %.9g",
                             loss_kind(loss)->name, (double)sizes[n], found, expected);
            }
        fixture_close(&f);
    }
}

/* ---- Skipped updates ---- */

/* All that an update may change. */
struct image {
    float *blocks[1 + MOMENTS_MAX];
    size_t count; /* number of blocks: parameters, and the optimizer's moments */
    uint64_t updates;
};

static struct image take_image(struct fixture *f) {
    struct image image = {.count = 1 + optimizer_moments(&f->options.optimizer)};
    for (unsigned n = 0; n < image.count; n++) {
        image.blocks[n] = calloc(f->model.parameters, sizeof(float));
        fixture_read(f, n ? ENGINE_MOMENTS + n - 1 : ENGINE_PARAMETERS, image.blocks[n]);
    }
    assert_int_equal(f->ops->read(f->engine, ENGINE_UPDATES, 0, &image.updates, NULL), 0);
    return image;
}

static void free_image(struct image *image) {
    for (size_t n = 0; n < image->count; n++)
        free(image->blocks[n]);
}

static void assert_unchanged(struct fixture *f, const struct image *before) {
    struct image now = take_image(f);
    for (size_t n = 0; n < now.count; n++)
        assert_memory_equal(now.blocks[n], before->blocks[n], f->model.parameters * sizeof(float));
    assert_int_equal(now.updates, before->updates);
    free_image(&now);
}

/* One step with such targets, and the update on it alone. */
static void gather_target(struct fixture *f, float y0, float y1) {
    union value x[INPUTS], y[TARGETS] = {{.real = y0}, {.real = y1}};
    fixture_random_input(f, x);
    fixture_step(f, 0, 0, x);
    fixture_score(f, 0, 0, y, true);
    fixture_update(f, 0, 0, 1, 1, 1, true);
}

/* 2 (a - y) exceeds float for the only observed number: no clipping can correct it. */
static void an_infinite_gradient_changes_nothing_with(enum norm norm,
                                                      const struct optimizer *optimizer) {
    const struct architecture architecture = architecture_of(CELL_lstm, norm, LOSS_squared);
    const double clips[] = {0.0, 1.0};
    struct fixture *f;
    fixture_open(&f, &architecture, optimizer, WINDOW, SLOTS, SEED);
    gather_target(f, 0.5F, -0.5F);
    fixture_play(f, RATE, 0.0);
    assert_true(f->updates[0].applied);

    for (size_t n = 0; n < 2; n++) {
        struct image before = take_image(f);
        gather_target(f, FLT_MAX, NAN);
        fixture_play(f, RATE, clips[n]);
        assert_false(f->updates[0].applied);
        assert_unchanged(f, &before);
        free_image(&before);
    }
    /* The next update works. */
    gather_target(f, 0.5F, -0.5F);
    fixture_play(f, RATE, 0.0);
    assert_true(f->updates[0].applied);
    assert_true(isfinite(f->updates[0].gradient_norm) && f->updates[0].update_ratio > 0.0);
    fixture_close(&f);
}

/* Running statistics do not change, either. */
static void an_infinite_gradient_changes_nothing(void **state) {
    for (enum norm norm = 0; norm < NORMS; norm++)
        an_infinite_gradient_changes_nothing_with(norm, &ADAM);
    for (enum optimizer_id id = 0; id < OPTIMIZERS; id++) {
        const struct optimizer optimizer = fixture_optimizer(id, RATE);
        an_infinite_gradient_changes_nothing_with(NORM_none, &optimizer);
    }
}

/* A finite gradient whose square is not finite: the second moment would be infinite forever, and
   its weights would never change again. */
static void a_huge_gradient_leaves_moments_finite(void **state) {
    const struct architecture architecture = architecture_of(CELL_lstm, NORM_layer, LOSS_squared);
    const struct optimizer rmsprop = {.kind = OPTIMIZER_rmsprop, .alpha = 0.9, .epsilon = 1e-8};
    const struct optimizer cocob = fixture_optimizer(OPTIMIZER_cocob, RATE_AUTO);
    const struct optimizer *optimizers[] = {&ADAM, &rmsprop, &cocob};
    for (size_t n = 0; n < sizeof optimizers / sizeof *optimizers; n++) {
        struct fixture *f;
        fixture_open(&f, &architecture, optimizers[n], WINDOW, SLOTS, SEED);
        gather_target(f, 1e25F, -1e25F);
        fixture_play(f, RATE, 0.0);
        struct image after = take_image(f);
        for (size_t block = 0; block < after.count; block++)
            for (size_t k = 0; k < f->model.parameters; k++)
                assert_true(isfinite(after.blocks[block][k]));
        free_image(&after);
        /* A clipped one works. */
        gather_target(f, 1e25F, -1e25F);
        fixture_play(f, RATE, 1.0);
        assert_true(f->updates[0].applied);
        fixture_close(&f);
    }
}

static void a_loss_that_is_no_number_changes_nothing(void **state) {
    const struct architecture architecture = architecture_of(CELL_gru, NORM_none, LOSS_squared);
    struct fixture *f;
    fixture_open(&f, &architecture, &ADAM, WINDOW, SLOTS, SEED);
    float *values = parameters(f);
    values[model_named(&f->model, "output.bias")->offset] = NAN;
    fixture_write(f, ENGINE_PARAMETERS, values);
    struct image before = take_image(f);
    gather_target(f, 0.5F, -0.5F);
    fixture_play(f, RATE, 1.0);
    assert_true(isnan(f->losses[0]));
    assert_false(f->updates[0].applied);
    assert_unchanged(f, &before);
    free_image(&before);
    free(values);
    fixture_close(&f);
}

/* ---- Numbers below the smallest normal ---- */

/* Compares bits, since a thread that flushes to zero treats a denormal as 0. */
static bool is_denormal(float value) {
    const uint32_t exponent = 0x7f800000, fraction = 0x007fffff;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & exponent) == 0 && (bits & fraction) != 0;
}

static size_t denormals(const float *values, size_t count) {
    size_t found = 0;
    for (size_t k = 0; k < count; k++)
        found += is_denormal(values[k]);
    return found;
}

/* The arithmetic of a thread without an open engine: only engines flush. */
static void keep_denormals(void) {
    volatile float smallest = FLT_MIN;
    assert_int_equal(fesetenv(FE_DFL_ENV), 0);
    assert_true(is_denormal(smallest / 2.0F));
}

static const struct architecture DECAYING = {
    .input = {.kind = INPUT_REAL, .size = 1},
    .layers = {{.cell = CELL_lstm, .size = 5}, {.cell = CELL_gru, .size = 3}},
    .layer_count = 2,
    .output = {.loss = LOSS_squared, .size = 1},
};

/* Every gate is 1/2 with parameters of 0: each step halves an lstm's c and a gru's h. */
static void a_state_that_decays_becomes_zero(void **state) {
    enum { HALVINGS = 4, STEPS = HALVINGS + 3 };
    const struct optimizer sgd = {.kind = OPTIMIZER_sgd, .rate = 0.1};
    const union value x = {.real = 0.0F};
    struct fixture *f;
    keep_denormals();
    fixture_open(&f, &DECAYING, &sgd, 1, 1, 1);
    float *zeros = calloc(f->model.parameters, sizeof *zeros);
    size_t size = slot_record_size(&f->model, 1), live = f->model.state_size;
    float *record = calloc(size, sizeof *record);
    assert_true(zeros && record);
    fixture_write(f, ENGINE_PARAMETERS, zeros);
    for (size_t k = 0; k < live; k++)
        record[k] = ldexpf(FLT_MIN, HALVINGS);
    assert_int_equal(f->ops->write(f->engine, ENGINE_SLOT, 0, record, NULL), 0);
    for (size_t t = 0; t < STEPS; t++) {
        fixture_step(f, 0, t % 2, &x);
        fixture_play(f, 0.1, 0.0);
        assert_int_equal(f->ops->read(f->engine, ENGINE_SLOT, 0, record, NULL), 0);
        assert_int_equal(denormals(record, size), 0);
        size_t left = 0;
        for (size_t k = 0; k < live; k++)
            left += record[k] != 0.0F;
        assert_int_equal(left > 0, t < HALVINGS);
    }
    free(zeros);
    free(record);
    fixture_close(&f);
}

/* An update with a gradient of 0, from moments of the smallest normal number. */
static void moments_that_decay_become_zero(void **state) {
    const union value x = {.real = 0.5F};
    for (enum optimizer_id id = 0; id < OPTIMIZERS; id++) {
        const struct optimizer optimizer = fixture_optimizer(id, 0.1);
        struct fixture *f;
        keep_denormals();
        fixture_open(&f, &DECAYING, &optimizer, 1, 1, 1);
        size_t count = f->model.parameters, kept = optimizer_moments(&optimizer);
        float *moments = calloc(count, sizeof *moments);
        assert_true(moments && kept > 0);
        for (size_t k = 0; k < count; k++)
            moments[k] = FLT_MIN;
        for (unsigned n = 0; n < kept; n++)
            fixture_write(f, ENGINE_MOMENTS + n, moments);
        fixture_step(f, 0, 0, &x);
        fixture_play(f, 0.1, 0.0);
        const union value y = {.real = f->outputs[0]};
        fixture_score(f, 0, 0, &y, true);
        fixture_update(f, 0, 0, 1, 1, 1, true);
        fixture_play(f, 0.1, 0.0);
        assert_true(f->updates[0].applied && f->updates[0].gradient_norm == 0.0);
        for (unsigned n = 0; n < kept; n++) {
            fixture_read(f, ENGINE_MOMENTS + n, moments);
            assert_int_equal(denormals(moments, count), 0);
            for (size_t k = 0; k < count && !optimizer_kind(id)->rateless; k++)
                assert_true(moments[k] == 0.0F); /* sums and largest values stay */
        }
        free(moments);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_finite_for_extreme_inputs),
        cmocka_unit_test(losses_are_finite_for_extreme_targets),
        cmocka_unit_test(losses_are_finite_for_extreme_outputs),
        cmocka_unit_test(an_infinite_gradient_changes_nothing),
        cmocka_unit_test(a_huge_gradient_leaves_moments_finite),
        cmocka_unit_test(a_loss_that_is_no_number_changes_nothing),
        cmocka_unit_test(a_state_that_decays_becomes_zero),
        cmocka_unit_test(moments_that_decay_become_zero),
    };
    return under_test_run(tests);
}
