/* The CUDA engine under other schedules of threads and blocks: each seed of the tests' runtime
   ($HOSTCUDA_SEED, tests/hostcuda) runs them in another order, and a GPU in an order of its own. No
   bit of any result may depend on it. Skipped without that runtime: a GPU takes no seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "under_test.h"

enum { WINDOW = 4, POSITIONS = WINDOW + 1, STEPS = 6, SLOTS = 2, SEED = 23, SEEDS = 6, SKIP = 77 };

static const struct optimizer ADAM = {
    .kind = OPTIMIZER_adam, .rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

/* Every cell, wider than a warp and no multiple of one. */
static const struct architecture MODELS[] = {
    {.input = {.kind = INPUT_REAL, .size = 5},
     .layers = {{.cell = CELL_lstm, .size = 37, .norm = NORM_layer},
                {.cell = CELL_gru, .size = 41, .norm = NORM_layer}},
     .layer_count = 2,
     .output = {.loss = LOSS_gaussian, .size = 3}},
    {.input = {.kind = INPUT_SYMBOL, .size = 40, .embedding = 9},
     .layers = {{.cell = CELL_dense, .size = 35, .norm = NORM_layer, .activation = ACTIVATION_tanh},
                {.cell = CELL_rnn, .size = 33, .norm = NORM_layer},
                {.cell = CELL_gru, .size = 7}},
     .layer_count = 3,
     .output = {.loss = LOSS_softmax, .size = 40}},
    {.input = {.kind = INPUT_REAL, .size = 3},
     .layers = {{.cell = CELL_lstm, .size = 34}},
     .layer_count = 1,
     .output = {.loss = LOSS_mixture, .size = 3, .components = 6}},
    {.input = {.kind = INPUT_REAL, .size = 5},
     .layers =
         {{.cell = CELL_lstm, .size = 37, .norm = NORM_weight},
          {.cell = CELL_gru, .size = 41, .norm = NORM_recurrent_batch},
          {.cell = CELL_rnn, .size = 33, .norm = NORM_weight},
          {.cell = CELL_dense, .size = 35, .norm = NORM_batch, .activation = ACTIVATION_tanh}},
     .layer_count = 4,
     .output = {.loss = LOSS_gaussian, .size = 3}},
    {.input = {.kind = INPUT_REAL, .size = 5},
     .layers = {{.cell = CELL_gru, .size = 37, .norm = NORM_layer}},
     .layer_count = 1,
     .output = {.loss = LOSS_squared, .size = 3, .skip = true, .solved = true}},
    {.input = {.size = 4,
               .column_count = 4,
               .columns = {{.name = "user", .kind = COLUMN_SYMBOL, .size = 5, .embedding = 37},
                           {.name = "load", .mask = true},
                           {.name = "state", .kind = COLUMN_SYMBOL, .size = 40},
                           {.name = "host", .kind = COLUMN_SYMBOL, .size = 3, .embedding = 2}}},
     .layers = {{.cell = CELL_gru, .size = 37, .norm = NORM_layer}},
     .layer_count = 1,
     .output = {.loss = LOSS_squared, .size = 3, .skip = true}},
};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

static void put(FILE *file, const void *bytes, size_t size) {
    assert_int_equal(fwrite(bytes, 1, size, file), size);
}

static void gather(struct fixture *f, size_t t) {
    union value x[64], y[64];
    size_t slot = t % SLOTS, step = t / SLOTS;
    fixture_random_input(f, x);
    fixture_random_target(f, y);
    fixture_step(f, slot, step % POSITIONS, x);
    fixture_score(f, slot, step % POSITIONS, y, true);
    if (step + 1 >= WINDOW)
        fixture_update(f, slot, (step + 1 - WINDOW) % POSITIONS, WINDOW, WINDOW, WINDOW, false);
    if (f->model.solved)
        fixture_solve(f, slot, y);
    fixture_measure(f, slot);
}

/* A score for a step whose position the next sequence's steps use again: they clear its mark. */
static void gather_over_a_score(struct fixture *f) {
    union value x[64], y[64];
    fixture_random_input(f, x);
    fixture_random_target(f, y);
    for (size_t t = 0; t < WINDOW; t++)
        fixture_step(f, 0, t, x);
    fixture_play(f, 0.01, 1.0);
    fixture_score(f, 0, WINDOW - 1, y, true);
    fixture_forget(f, 0);
    for (size_t t = 0; t < WINDOW; t++)
        fixture_step(f, 0, t, x);
    fixture_play(f, 0.01, 1.0);
}

static void put_slot(FILE *file, struct fixture *f) {
    size_t size = slot_record_size(&f->model, WINDOW);
    float *record = calloc(size, sizeof *record);
    assert_int_equal(f->ops->read(f->engine, ENGINE_SLOT, 0, record, NULL), 0);
    put(file, record, size * sizeof *record);
    free(record);
}

/* All results of a plan, and the state after it. */
static void write_results(FILE *file, const struct architecture *architecture) {
    struct fixture *f;
    fixture_open(&f, architecture, &ADAM, WINDOW, SLOTS, SEED);
    for (size_t t = 0; t < STEPS * SLOTS; t++) {
        gather(f, t);
        if (t % 3 == 0 || t + 1 == STEPS * SLOTS) {
            const struct plan p = f->plan;
            fixture_play(f, 0.01, 1.0);
            put(file, f->losses, p.scores * sizeof *f->losses);
            put(file, f->outputs, p.steps * f->model.outputs * sizeof *f->outputs);
            for (size_t n = 0; n < p.updates; n++) {
                assert_true(f->updates[n].applied);
                put(file, &f->updates[n].gradient_norm, sizeof f->updates[n].gradient_norm);
                put(file, &f->updates[n].update_ratio, sizeof f->updates[n].update_ratio);
            }
            put(file, f->measures, p.measures * architecture->layer_count * sizeof *f->measures);
        }
    }
    float *values = calloc(f->model.parameters, sizeof *values);
    fixture_read(f, ENGINE_PARAMETERS, values);
    put(file, values, f->model.parameters * sizeof *values);
    free(values);
    gather_over_a_score(f);
    put_slot(file, f);
    fixture_close(&f);
}

/* The results under a seed: in a process of its own, since the runtime reads it once. */
static FILE *results(const struct architecture *architecture, int seed) {
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("HOSTCUDA_SEED", text, 1);
        write_results(file, architecture);
        fclose(file);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("seed %d: the engine ended with status %d", seed, status);
    rewind(file);
    return file;
}

static void assert_same_files(FILE *a, FILE *b, int seed) {
    long count = 0;
    for (int left, right; (left = getc(a)) == (right = getc(b)); count++)
        if (left == EOF) {
            assert_true(count > 0);
            return;
        }
    fail_msg("with HOSTCUDA_SEED=%d byte %ld of the results is another", seed, count);
}

static void schedules_change_no_bit(void **state) {
    (void)state;
    for (size_t n = 0; n < MODEL_COUNT; n++) {
        FILE *natural = results(&MODELS[n], 0);
        for (int seed = 1; seed < SEEDS; seed++) {
            FILE *permuted = results(&MODELS[n], seed);
            rewind(natural);
            assert_same_files(natural, permuted, seed);
            fclose(permuted);
        }
        fclose(natural);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules_change_no_bit)};
    const char *module = getenv("RUNNEL_CUDA_MODULE");
    if (!module || !strstr(module, "hostcuda"))
        return SKIP;
    while (under_test_is_cpu())
        if (!under_test_next())
            return 1;
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
