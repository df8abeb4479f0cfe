/* Several networks on the CUDA engine, played together: every bit equals that of each network
   alone, for different properties, in step or not, and in any order of blocks.
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

enum { SKIP = 77 };

/* Alone in the natural order, together in another one: the same bytes. */
static void same_both_ways(const char *scope, struct played played) {
    FILE *alone = played_results(&played, (const char *[]){"HOSTCUDA_SEED", "0", NULL});
    played.together = true;
    FILE *together = played_results(
        &played, (const char *[]){"HOSTCUDA_SEED", "11", "RUNNEL_SCOPE", scope, NULL});
    played_same(alone, together, played.name);
    fclose(alone);
    fclose(together);
}

/* In step, then also out of step. */
static void members_of_two_shapes(void **state) {
    struct played played = played_members;
    played.out_of_step = false;
    same_both_ways("cluster", played);
    same_both_ways("grid", played_members);
}

static void members_out_of_step(void **state) {
    struct played played = played_members;
    played.other = NULL;
    same_both_ways("block", played);
}

/* More than one launch plays. */
static void very_many_members(void **state) {
    struct played played = played_members;
    played.out_of_step = false;
    played.other = NULL;
    played.members = 66;
    played.steps = 0;
    same_both_ways("block", played);
}

/* The number of launches that the runtime reports. */
static size_t launches(size_t members, bool together) {
    struct played played = played_members;
    int reported = dup(STDERR_FILENO);
    FILE *trace = tmpfile();
    char line[1024];
    size_t count = 0;
    played.out_of_step = false;
    played.members = members;
    played.together = together;
    assert_true(reported >= 0 && trace && dup2(fileno(trace), STDERR_FILENO) >= 0);
    fclose(played_results(&played, (const char *[]){"HOSTCUDA_TRACE", "1", NULL}));
    dup2(reported, STDERR_FILENO);
    close(reported);
    rewind(trace);
    while (fgets(line, sizeof line, trace))
        count += strstr(line, "<<<") != NULL;
    fclose(trace);
    return count;
}

/* A plan is one launch, also of networks of several shapes. */
static void many_members_take_the_launches_of_one(void **state) {
    enum { PLANS = 6 + 3 };
    assert_int_equal(launches(1, true), PLANS);
    assert_int_equal(launches(4, false), 4 * PLANS);
    assert_int_equal(launches(4, true), PLANS);
}

/* ---- Members that come and go ---- */

/* In one of the scopes, by the seed. */
static void open_member(struct fixture **f, uint64_t seed) {
    static const char *const SCOPES[] = {"block", "cluster", "grid"};
    setenv("RUNNEL_SCOPE", SCOPES[seed % (sizeof SCOPES / sizeof *SCOPES)], 1);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_thread_plays_than_opened),
        cmocka_unit_test(members_of_two_shapes),
        cmocka_unit_test(members_out_of_step),
        cmocka_unit_test(very_many_members),
        cmocka_unit_test(many_members_take_the_launches_of_one),
        cmocka_unit_test(members_come_and_go),
    };
    const char *module = getenv("RUNNEL_CUDA_MODULE");
    if (!module || !strstr(module, "hostcuda"))
        return SKIP;
    while (under_test_is_cpu())
        if (!under_test_next())
            return 1;
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
