/* The number of threads that share a network's products and its optimizer's step changes no bit:
   every cell, norm, loss, rule and optimizer, with products cut as finely as possible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/threads.h"
#include "fixture.h"
#include "kernels/kinds.h"
#include "model/rule.h"
#include "under_test.h"

enum {
    WINDOW = 3,
    STEPS = 6,
    NUMBERS = 64,
    SEED = 7,
    SIZE = 77,  /* rows in several panels and a rest of each gate, columns with a rest */
    SMALL = 21, /* size for rules whose cost grows with the square of the states */
    INPUTS = 5,
    CLASSES = 9,
    ALONE = 1,
};
static const size_t THREADS[] = {2, 3, 8};

struct network_of {
    struct architecture architecture;
    enum rule rule;
    enum optimizer_id optimizer;
};

static uint64_t hash_parameters(struct fixture *f, enum engine_block block, uint64_t hash) {
    float *values = calloc(f->model.parameters, sizeof *values);
    assert_non_null(values);
    fixture_read(f, block, values);
    hash = hash_bytes(hash, values, f->model.parameters * sizeof *values);
    free(values);
    return hash;
}

static uint64_t hash_results(const struct fixture *f, const struct plan *plan, uint64_t hash) {
    hash = hash_bytes(hash, f->losses, plan->scores * sizeof *f->losses);
    hash = hash_bytes(hash, f->outputs, plan->steps * f->model.outputs * sizeof *f->outputs);
    for (size_t n = 0; n < plan->updates; n++) {
        assert_true(f->updates[n].applied);
        hash = hash_bytes(hash, &f->updates[n].gradient_norm, sizeof(double));
        hash = hash_bytes(hash, &f->updates[n].update_ratio, sizeof(double));
    }
    return hash;
}

/* Steps of a stream, an update after each WINDOW of them: once fresh, once recomputed. */
static uint64_t learn(struct fixture *f) {
    uint64_t hash = HASH_BEGIN;
    for (size_t t = 0; t < STEPS; t++) {
        union value x[NUMBERS], y[NUMBERS];
        bool due = (t + 1) % WINDOW == 0;
        size_t first = (t + 1 - WINDOW) % (WINDOW + 1);
        fixture_random_input(f, x);
        fixture_random_target(f, y);
        fixture_step(f, 0, t % (WINDOW + 1), x);
        fixture_score(f, 0, t % (WINDOW + 1), y, true);
        if (due)
            fixture_update(f, 0, first, WINDOW, WINDOW, WINDOW, t < WINDOW);
        if (!due)
            continue;
        const struct plan plan = f->plan;
        fixture_play(f, 0.01, 1.0);
        hash = hash_results(f, &plan, hash);
    }
    return hash_parameters(f, ENGINE_PARAMETERS, hash);
}

static uint64_t played(const struct network_of *network, size_t count) {
    struct threads *threads = NULL;
    struct error error;
    struct fixture *f;
    if (count > ALONE && threads_open(&threads, count, NULL, &error))
        fail_msg("%s", error.text);
    struct engine_options options = {.optimizer = fixture_optimizer(network->optimizer, 0.01),
                                     .rule = network->rule,
                                     .window = WINDOW,
                                     .slots = 1,
                                     .threads = threads};
    if (optimizer_kind(network->optimizer)->rateless)
        options.optimizer.rate = RATE_AUTO;
    fixture_open_with(&f, &network->architecture, &options, SEED);
    uint64_t hash = learn(f);
    for (unsigned k = 0; k < optimizer_moments(&options.optimizer); k++)
        hash = hash_parameters(f, ENGINE_MOMENTS + k, hash);
    fixture_close(&f);
    threads_close(&threads);
    return hash;
}

static void check(const struct network_of *network, const char *what) {
    uint64_t alone = played(network, ALONE);
    for (size_t n = 0; n < sizeof THREADS / sizeof *THREADS; n++)
        if (played(network, THREADS[n]) != alone)
            fail_msg("%s: %zu threads give other bits", what, THREADS[n]);
}

static struct output output_of(enum loss loss) {
    struct output output = {.loss = loss, .size = INPUTS};
    if (loss_kind(loss)->class_id)
        output.size = CLASSES;
    if (loss == LOSS_mixture)
        output = (struct output){.loss = loss, .size = 3, .components = 4};
    return output;
}

static struct network_of network_of(enum cell cell, enum norm norm, size_t size) {
    return (struct network_of){
        .architecture = {.input = {.kind = INPUT_REAL, .size = INPUTS},
                         .layers = {{.cell = cell, .size = size, .norm = norm},
                                    {.cell = cell, .size = size + 1, .norm = norm}},
                         .layer_count = 2,
                         .output = output_of(LOSS_squared)},
        .optimizer = OPTIMIZER_adam,
    };
}

static void test_cells_and_norms(void **state) {
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (enum norm norm = 0; norm < NORMS; norm++) {
            char what[64];
            const struct network_of network = network_of(cell, norm, SIZE);
            if (!fixture_takes(&network.architecture))
                continue;
            snprintf(what, sizeof what, "%s, norm %s", cell_kind(cell)->kind.name,
                     norm_kind(norm)->kind.name);
            check(&network, what);
        }
}

static void test_grids(void **state) {
    struct network_of network = network_of(CELL_gru, NORM_layer, SMALL);
    network.architecture.input.shape = (struct grid_shape){1, 3, 4};
    network.architecture.input.size = 12;
    network.architecture.layers[1] = network.architecture.layers[0];
    network.architecture.layers[0] =
        (struct layer){.cell = CELL_conv, .norm = NORM_layer, .shape.channels = 70, .kernel = 2};
    if (fixture_takes(&network.architecture))
        check(&network, "grids");
}

static void test_taps(void **state) {
    struct network_of network = network_of(CELL_dense, NORM_layer, SIZE);
    struct layer *layers = network.architecture.layers;
    layers[0].taps = layers[1].taps = 3;
    layers[1].size = SIZE;
    layers[1].residual = true;
    layers[1].dilation = 2;
    layers[0].dilation = 1;
    check(&network, "taps");
}

static void test_rules(void **state) {
    for (enum rule rule = 0; rule < RULES; rule++)
        for (enum cell cell = 0; cell < CELLS; cell++) {
            char what[64];
            if (!rule_takes(rule, cell, false))
                continue;
            struct network_of network = network_of(cell, NORM_layer, SMALL);
            network.architecture.input = (struct input){
                .kind = INPUT_SYMBOL, .size = CLASSES, .embedding = cell % 2 ? INPUTS : 0};
            network.rule = rule;
            if (!fixture_takes(&network.architecture))
                continue;
            snprintf(what, sizeof what, "%s, rule %s", cell_kind(cell)->kind.name,
                     rule_kind(rule)->name);
            check(&network, what);
        }
}

static void test_losses_and_optimizers(void **state) {
    for (enum loss loss = 0; loss < LOSSES && !loss_kind(loss)->ranks; loss++) {
        struct network_of network = network_of(CELL_gru, NORM_layer, SIZE);
        network.architecture.output = output_of(loss);
        network.architecture.output.skip = true;
        check(&network, loss_kind(loss)->name);
    }
    for (enum optimizer_id optimizer = 0; optimizer < OPTIMIZERS; optimizer++) {
        struct network_of network = network_of(CELL_lstm, NORM_rms, SIZE);
        network.optimizer = optimizer;
        check(&network, optimizer_kind(optimizer)->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_and_norms),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_taps),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_losses_and_optimizers),
    };
    int failed = 0;
    setenv("RUNNEL_SPLIT", "1", 1); /* see kernels/cpu/memory.c */
    for (const char *name; (name = under_test_next()) && under_test_is_cpu();)
        failed += cmocka_run_group_tests_name(name, tests, NULL, NULL);
    return failed;
}
