/* Several networks on the CUDA engine, played together: every bit equals that of each network
   alone, for different properties, in step or not, and in any order of blocks and branches.
   Skipped without the tests' runtime: a GPU has its own orders. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "played_cases.h"
#include "under_test.h"

enum { MEMBERS = 3, SKIP = 77 };

/* Alone in the natural order, together in another one, where calls of `failing` may fail: the
   same bytes. */
static void same_both_ways_where(struct played played, const char *failing) {
    FILE *alone = played_results(&played, (const char *[]){"HOSTCUDA_SEED", "0", NULL});
    played.together = true;
    FILE *together = played_results(
        &played, (const char *[]){"HOSTCUDA_SEED", "11", "HOSTCUDA_FAIL", failing, NULL});
    played_same(alone, together, played.name);
    fclose(alone);
    fclose(together);
}

static void same_both_ways(struct played played) {
    same_both_ways_where(played, "");
}

/* Every cell, norm, loss, optimizer and kind of input, and windows with cuBLAS. */
static void members_of_one_shape(void **state) {
    const struct played *played = *state;
    struct played members = *played;
    if (!under_test_plays())
        return;
    members.members = MEMBERS;
    same_both_ways(members);
}

/* Branches of a graph: of two shapes, then also out of step. */
static void members_of_two_shapes(void **state) {
    struct played played = played_members;
    played.out_of_step = false;
    same_both_ways(played);
    same_both_ways(played_members);
}

static void members_out_of_step(void **state) {
    struct played played = played_members;
    played.other = NULL;
    same_both_ways(played);
}

/* More than one launch plays. */
static void very_many_members(void **state) {
    struct played played = played_members;
    played.out_of_step = false;
    played.other = NULL;
    played.members = 66;
    played.steps = 0;
    same_both_ways(played);
}

/* Failures of graphs, one after another, and of the resources for playing members together. */
static void members_on_a_full_device(void **state) {
    static const char *const FAILING[] = {
        "cudaStreamEndCapture:1:cudaErrorMemoryAllocation",
        "cudaGraphInstantiate:2:cudaErrorMemoryAllocation",
        "cudaGraphLaunch:3:cudaErrorMemoryAllocation",
        "cudaEventCreateWithFlags:2:cudaErrorMemoryAllocation",
    };
    for (size_t n = 0; n < sizeof FAILING / sizeof *FAILING; n++)
        if (under_test_plays())
            same_both_ways_where(played_members, FAILING[n]);
}

/* The number of such reports by the runtime. */
static size_t times_reported(const struct played *played, const char *what) {
    int reported = dup(STDERR_FILENO);
    FILE *trace = tmpfile();
    char line[1024];
    size_t count = 0;
    assert_true(reported >= 0 && trace && dup2(fileno(trace), STDERR_FILENO) >= 0);
    fclose(played_results(played, (const char *[]){"HOSTCUDA_TRACE", "1", NULL}));
    dup2(reported, STDERR_FILENO);
    close(reported);
    rewind(trace);
    while (fgets(line, sizeof line, trace))
        count += strstr(line, what) != NULL;
    fclose(trace);
    return count;
}

/* Launches of kernels, directly or in graphs. */
static size_t launches(size_t members, bool together) {
    struct played played = played_members;
    played.out_of_step = false;
    played.other = NULL;
    played.members = members;
    played.together = together;
    return times_reported(&played, "<<<");
}

/* Besides one of each before it learns, for the norms of its starting weights. */
static void many_members_take_the_launches_of_one(void **state) {
    size_t one = launches(1, true);
    assert_true(one > 0);
    assert_int_equal(launches(4, false), 4 * one);
    assert_int_equal(launches(4, true), one + 3);
}

/* Joint launches make a graph as small as that of one member, for any number of tensors. */
static void many_members_have_the_graphs_of_one(void **state) {
    static const char GRAPH[] = " nodes";
    struct played played = {
        .name = "graphs",
        .model = {.input = {.kind = INPUT_REAL, .size = 3},
                  .layers = {{.cell = CELL_lstm, .size = 3, .norm = NORM_layer},
                             {.cell = CELL_lstm, .size = 3, .norm = NORM_layer}},
                  .layer_count = 2,
                  .output = {.loss = LOSS_squared, .size = 2}},
        .optimizer = OPTIMIZER_sgd,
        .window = 2,
        .steps = 6,
        .runs = 3,
        .members = 1,
        .together = true};
    size_t one = times_reported(&played, GRAPH);
    assert_true(one > 0);
    played.members = 64;
    assert_int_equal(times_reported(&played, GRAPH), one);
}

/* ---- Members that come and go ---- */

static void open_member(struct fixture **f, uint64_t seed) {
    struct optimizer optimizer = fixture_optimizer(OPTIMIZER_adam, 0.01);
    fixture_open(f, &played_members.model, &optimizer, 3, 1, seed);
}

static void learn(struct fixture *f, size_t step) {
    union value x[FIXTURE_NUMBERS], y[FIXTURE_NUMBERS];
    fixture_random_input(f, x);
    fixture_random_target(f, y);
    fixture_step(f, 0, step % 4, x);
    fixture_score(f, 0, step % 4, y, true);
    fixture_update(f, 0, step % 4, 1, 1, 1, false);
}

static void assert_same(struct fixture *a, struct fixture *b) {
    float *of_a = calloc(2 * a->model.parameters, sizeof *of_a), *of_b = of_a + a->model.parameters;
    assert_non_null(of_a);
    fixture_read(a, ENGINE_PARAMETERS, of_a);
    fixture_read(b, ENGINE_PARAMETERS, of_b);
    assert_memory_equal(of_a, of_b, a->model.parameters * sizeof *of_a);
    free(of_a);
}

/* One member is closed and opened again, one is added later, all in turn are played alone. */
static void members_come_and_go(void **state) {
    enum { COUNT = 3, STEPS = 12, AGAIN = 4, LATER = 7 };
    const double rates[COUNT] = {0.01, 0.02, 0.03}, clips[COUNT] = {0};
    struct fixture *together[COUNT], *alone[COUNT];
    for (size_t m = 0; m < COUNT; m++) {
        open_member(&together[m], m);
        open_member(&alone[m], m);
    }
    for (size_t t = 0; t < STEPS; t++) {
        if (t == AGAIN)
            for (struct fixture **all = together; all; all = all == together ? alone : NULL) {
                fixture_close(&all[0]);
                open_member(&all[0], COUNT);
            }
        size_t count = t < LATER ? COUNT - 1 : COUNT;
        for (size_t m = 0; m < count; m++) {
            learn(together[m], t);
            learn(alone[m], t);
            fixture_play(alone[m], rates[m], clips[m]);
        }
        size_t single = t % COUNT;
        if (single < count)
            fixture_play(together[single], rates[single], clips[single]);
        fixture_play_together(together, count, rates, clips);
    }
    for (size_t m = 0; m < COUNT; m++) {
        assert_same(together[m], alone[m]);
        fixture_close(&together[m]);
        fixture_close(&alone[m]);
    }
}

/* ---- Threads ---- */

static void *play_one(void *fixture) {
    fixture_play(fixture, 0.01, 0.0);
    return NULL;
}

static void play_on_the_second_device(void) {
    struct fixture *f;
    pthread_t thread;
    setenv("HOSTCUDA_DEVICES", "2", 1);
    under_test_use("cuda:1");
    open_member(&f, 1);
    learn(f, 0);
    assert_int_equal(pthread_create(&thread, NULL, play_one, f), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fixture_close(&f);
}

/* The current device of a thread is the first one until it selects another. This is the first
   test, since the runtime reads its environment once. */
static void another_thread_plays_than_opened(void **state) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        play_on_the_second_device();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) {
    enum { OTHERS = 8 };
    struct CMUnitTest tests[PLAYED_CASES + OTHERS] = {
        cmocka_unit_test(another_thread_plays_than_opened),
        cmocka_unit_test(members_of_two_shapes),
        cmocka_unit_test(members_out_of_step),
        cmocka_unit_test(very_many_members),
        cmocka_unit_test(members_on_a_full_device),
        cmocka_unit_test(many_members_take_the_launches_of_one),
        cmocka_unit_test(many_members_have_the_graphs_of_one),
        cmocka_unit_test(members_come_and_go),
    };
    const char *module = getenv("RUNNEL_CUDA_MODULE");
    if (!module || !strstr(module, "hostcuda"))
        return SKIP;
    while (under_test_is_cpu())
        if (!under_test_next())
            return 1;
    for (size_t n = 0; n < PLAYED_CASES; n++)
        tests[OTHERS + n] = (struct CMUnitTest){played_cases[n].name, members_of_one_shape, NULL,
                                                NULL, (void *)&played_cases[n]};
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
