/* The CUDA engine with every access of its kernels watched (tests/hostcuda/race.h): a race of any
   two threads, whatever order they came in, fails the launch. Then its stores are weak, and its
   blocks and threads permuted: no bit of any result may change. Every kernel of the engine is
   played, with every cell, norm, loss and optimizer. With a case's name as argument only that is
   played, once. tests/programs/test_races.py shows that the watch sees what it should. Skipped
   where the module that is watched has not been built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "played.h"
#include "under_test.h"

enum { SKIP = 77 };

/* Wider than a warp and no multiple of one. */
static const struct played CASES[] = {
    {"layer",
     {.input = {.kind = INPUT_REAL, .size = 5},
      .layers = {{.cell = CELL_lstm, .size = 37, .norm = NORM_layer},
                 {.cell = CELL_gru, .size = 41, .norm = NORM_layer}},
      .layer_count = 2,
      .output = {.loss = LOSS_gaussian, .size = 3}},
     OPTIMIZER_adam,
     4,
     6},
    {"embedding",
     {.input = {.kind = INPUT_SYMBOL, .size = 40, .embedding = 9},
      .layers =
          {{.cell = CELL_dense, .size = 35, .norm = NORM_layer, .activation = ACTIVATION_tanh},
           {.cell = CELL_rnn, .size = 33, .norm = NORM_layer},
           {.cell = CELL_gru, .size = 7}},
      .layer_count = 3,
      .output = {.loss = LOSS_softmax, .size = 40}},
     OPTIMIZER_sgd,
     3,
     4},
    {"one-hot",
     {.input = {.kind = INPUT_SYMBOL, .size = 40},
      .layers = {{.cell = CELL_gru, .size = 35, .norm = NORM_layer}},
      .layer_count = 1,
      .output = {.loss = LOSS_softmax, .size = 40, .skip = true}},
     OPTIMIZER_rmsprop,
     3,
     4},
    {"mixture",
     {.input = {.kind = INPUT_REAL, .size = 3},
      .layers = {{.cell = CELL_lstm, .size = 34}},
      .layer_count = 1,
      .output = {.loss = LOSS_mixture, .size = 3, .components = 6}},
     OPTIMIZER_adamw,
     3,
     4},
    {"rows",
     {.input = {.kind = INPUT_REAL, .size = 5},
      .layers =
          {{.cell = CELL_lstm, .size = 37, .norm = NORM_weight},
           {.cell = CELL_gru, .size = 41, .norm = NORM_recurrent_batch},
           {.cell = CELL_rnn, .size = 33, .norm = NORM_weight},
           {.cell = CELL_dense, .size = 35, .norm = NORM_batch, .activation = ACTIVATION_tanh}},
      .layer_count = 4,
      .output = {.loss = LOSS_gaussian, .size = 3}},
     OPTIMIZER_adam,
     3,
     4},
    {"solved",
     {.input = {.kind = INPUT_REAL, .size = 5},
      .layers = {{.cell = CELL_gru, .size = 37, .norm = NORM_layer}},
      .layer_count = 1,
      .output = {.loss = LOSS_squared, .size = 3, .skip = true, .solved = true}},
     OPTIMIZER_adam,
     3,
     4},
    {"columns",
     {.input = {.size = 4,
                .column_count = 4,
                .columns = {{.name = "user", .kind = COLUMN_SYMBOL, .size = 5, .embedding = 37},
                            {.name = "load", .mask = true},
                            {.name = "state", .kind = COLUMN_SYMBOL, .size = 40},
                            {.name = "host", .kind = COLUMN_SYMBOL, .size = 3, .embedding = 2}}},
      .layers = {{.cell = CELL_gru, .size = 37, .norm = NORM_layer}},
      .layer_count = 1,
      .output = {.loss = LOSS_squared, .size = 3, .skip = true}},
     OPTIMIZER_cocob,
     3,
     4},
    {"rms",
     {.input = {.kind = INPUT_REAL, .size = 5},
      .layers = {{.cell = CELL_lstm, .size = 37, .norm = NORM_rms},
                 {.cell = CELL_gru, .size = 33, .norm = NORM_rms},
                 {.cell = CELL_rnn, .size = 34}},
      .layer_count = 3,
      .output = {.loss = LOSS_bernoulli, .size = 3}},
     OPTIMIZER_adam,
     3,
     4},
    /* windows whose gradient cuBLAS makes */
    {"long",
     {.input = {.kind = INPUT_REAL, .size = 5},
      .layers = {{.cell = CELL_lstm, .size = 34, .norm = NORM_weight}},
      .layer_count = 1,
      .output = {.loss = LOSS_gaussian, .size = 3}},
     OPTIMIZER_cocob,
     33,
     0},
    {"long one-hot",
     {.input = {.kind = INPUT_SYMBOL, .size = 20},
      .layers = {{.cell = CELL_gru, .size = 33, .norm = NORM_layer}},
      .layer_count = 1,
      .output = {.loss = LOSS_softmax, .size = 20}},
     OPTIMIZER_sgd,
     33,
     0},
    /* one that cuBLAS does not make, and that is staged in two parts */
    {"staged",
     {.input = {.kind = INPUT_REAL, .size = 5},
      .layers = {{.cell = CELL_gru, .size = 33, .norm = NORM_layer}},
      .layer_count = 1,
      .output = {.loss = LOSS_squared, .size = 3}},
     OPTIMIZER_sgd,
     20,
     0},
    /* a W_ih that is read once for eight steps */
    {"projected",
     {.input = {.kind = INPUT_REAL, .size = 512},
      .layers = {{.cell = CELL_dense, .size = 512, .activation = ACTIVATION_tanh}},
      .layer_count = 1,
      .output = {.loss = LOSS_squared, .size = 2}},
     OPTIMIZER_sgd,
     8,
     0},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static void play_case(void **state) {
    const struct played *played = *state;
    FILE *plain =
        played_results(played, (const char *[]){"HOSTCUDA_WEAK", "0", "HOSTCUDA_SEED", "0", NULL});
    FILE *weak =
        played_results(played, (const char *[]){"HOSTCUDA_WEAK", "1", "HOSTCUDA_SEED", "7", NULL});
    played_same(plain, weak, "HOSTCUDA_WEAK=1 HOSTCUDA_SEED=7");
    fclose(weak);
    fclose(plain);
}

static int play_once(const char *name) {
    for (size_t n = 0; n < CASE_COUNT; n++)
        if (strcmp(CASES[n].name, name) == 0) {
            fclose(played_results(&CASES[n], (const char *[]){NULL}));
            return 0;
        }
    fprintf(stderr, "no case %s\n", name);
    return 1;
}

/* The watched module: named already, or beside the one that is played otherwise. */
static bool use_module(void) {
    const char *module = getenv("RUNNEL_CUDA_MODULE");
    char path[4096];
    if (!module || !strstr(module, "hostcuda"))
        return false;
    snprintf(path, sizeof path, "%.*s/runnel-races.so", (int)(strrchr(module, '/') - module),
             module);
    if (!strstr(module, "runnel-races") && setenv("RUNNEL_CUDA_MODULE", path, 1))
        return false;
    return access(getenv("RUNNEL_CUDA_MODULE"), R_OK) == 0;
}

int main(int count, char **arguments) {
    struct CMUnitTest tests[CASE_COUNT];
    if (!use_module())
        return SKIP;
    while (under_test_is_cpu())
        if (!under_test_next())
            return 1;
    if (count > 1)
        return play_once(arguments[1]);
    for (size_t n = 0; n < CASE_COUNT; n++)
        tests[n] = (struct CMUnitTest){CASES[n].name, play_case, NULL, NULL, (void *)&CASES[n]};
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
