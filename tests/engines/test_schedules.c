/* The CUDA engine under other schedules of threads and blocks: each seed of the tests' runtime
   ($HOSTCUDA_SEED, tests/hostcuda) runs them in another order, as a GPU may. No bit of any
   result may depend on it. Skipped without that runtime: a GPU has no seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "played.h"
#include "under_test.h"

enum { WINDOW = 4, STEPS = 6, RUNS = 3, SEEDS = 6, SKIP = 77 };

/* Every cell, wider than a warp and not a multiple of one. */
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
    {.input = {.kind = INPUT_REAL, .size = 5},
     .layers = {{.cell = CELL_rtu, .size = 37, .norm = NORM_layer},
                {.cell = CELL_lstm, .size = 35, .norm = NORM_layer, .diagonal = true},
                {.cell = CELL_gru, .size = 34, .norm = NORM_layer, .diagonal = true},
                {.cell = CELL_rnn, .size = 7, .diagonal = true},
                {.cell = CELL_mingru, .size = 33}},
     .layer_count = 5,
     .output = {.loss = LOSS_squared, .size = 3}},
};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

static void schedules_change_no_bit(void **state) {
    for (size_t n = 0; n < MODEL_COUNT; n++) {
        const struct played played = {.name = "a model",
                                      .model = MODELS[n],
                                      .optimizer = OPTIMIZER_adam,
                                      .window = WINDOW,
                                      .steps = STEPS,
                                      .runs = RUNS};
        if (!under_test_plays())
            continue;
        FILE *natural = played_results(&played, (const char *[]){"HOSTCUDA_SEED", "0", NULL});
        for (int seed = 1; seed < SEEDS; seed++) {
            char text[16], what[32];
            snprintf(text, sizeof text, "%d", seed);
            snprintf(what, sizeof what, "HOSTCUDA_SEED=%d", seed);
            FILE *permuted = played_results(&played, (const char *[]){"HOSTCUDA_SEED", text, NULL});
            played_same(natural, permuted, what);
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
