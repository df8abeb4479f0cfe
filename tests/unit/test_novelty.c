/* Compares novelty and alarms of a column with stored cases, tests/support/novelty: "steps
   memory", then a line per step: x, minute of the day, score, 1 at an alarm. `generate` there
   makes them with the executable specification, in float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "anomaly/alarm.h"
#include "anomaly/novelty.h"

static const struct alarm_rule RULE = {
    .threshold = 1.5, .rest = 100, .fatigue = 0.2, .recovery = 700};

struct memory {
    struct novelty novelty;
    float *floats;
    size_t size;
};

static void open_memory(struct memory *memory, size_t size, uint64_t seed) {
    memory->size = size;
    memory->floats = calloc(novelty_floats(size), sizeof(float));
    assert_non_null(memory->floats);
    novelty_begin(&memory->novelty, seed);
}

static double take(struct memory *memory, double x, unsigned minute) {
    return novelty_take(&memory->novelty, memory->floats, memory->size, x, minute, true).score;
}

static bool is_valid(const struct memory *memory) {
    return novelty_valid(&memory->novelty, memory->floats, memory->size);
}

/* Returns the number of alarms. */
static unsigned play(const char *name) {
    char path[512];
    const char *source = getenv("srcdir");
    snprintf(path, sizeof path, "%s/tests/support/novelty/%s", source ? source : ".", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    struct memory memory;
    struct alarm alarm = {0};
    unsigned steps, alarms = 0;
    size_t size;
    assert_int_equal(fscanf(file, "%u %zu", &steps, &size), 2);
    open_memory(&memory, size, 1);
    for (unsigned n = 0; n < steps; n++) {
        double x, expected;
        unsigned minute, expected_alarm;
        assert_int_equal(fscanf(file, "%lf %u %lf %u", &x, &minute, &expected, &expected_alarm), 4);
        double score = take(&memory, (double)(float)x, minute);
        /* The reference has 0 while too few values are known. */
        if (isnan(score) ? expected != 0 || n > 170 : fabs(score - expected) > 1e-4)
            fail_msg("%s: %.9g at step %u instead of %.9g", name, score, n, expected);
        bool raised = alarm_raised(&alarm, &RULE, score, n);
        assert_int_equal(raised, expected_alarm);
        alarms += raised;
    }
    assert_true(is_valid(&memory) && alarm_valid(&alarm));
    fclose(file);
    free(memory.floats);
    return alarms;
}

static void scores_are_those_of_the_specification(void **state) {
    assert_int_equal(play("daily"), 1);
    assert_int_equal(play("walk"), 2);
    assert_int_equal(play("steps"), 1);
}

/* A noise with a long period, without libm. */
static double noise(unsigned n) {
    return (double)(n * 2654435761U % 1000) / 1000;
}

/* Longer than until all masses are divided. */
static void long_streams_go_on(void **state) {
    enum { STEPS = 30000 };
    struct memory memory;
    open_memory(&memory, 20, 1);
    double most = 0;
    for (unsigned n = 0; n < STEPS; n++) {
        double score = take(&memory, noise(n), 0);
        most = n > STEPS - 100 ? fmax(most, score) : most;
    }
    assert_true(memory.novelty.novel.sums.weight < 1e6);
    assert_true(is_valid(&memory) && most < RULE.threshold);
    for (unsigned n = 0; n < 10; n++)
        most = fmax(most, take(&memory, 30, 0));
    assert_true(most > RULE.threshold);
    free(memory.floats);
}

/* A copy of the state continues with the same bits. */
static void a_copy_goes_on_alike(void **state) {
    struct memory one, other;
    open_memory(&one, 50, 7);
    open_memory(&other, 50, 1);
    for (unsigned n = 0; n < 777; n++)
        take(&one, noise(n), n % NOVELTY_MINUTES);
    other.novelty = one.novelty;
    memcpy(other.floats, one.floats, novelty_floats(one.size) * sizeof(float));
    for (unsigned n = 777; n < 1500; n++) {
        double expected = take(&one, noise(n), 0), score = take(&other, noise(n), 0);
        assert_memory_equal(&score, &expected, sizeof score);
    }
    free(one.floats);
    free(other.floats);
}

static void seeds_fill_memories_differently(void **state) {
    struct memory one, other;
    open_memory(&one, 50, 1);
    open_memory(&other, 50, 2);
    double apart = 0;
    for (unsigned n = 0; n < 1000; n++) {
        double a = take(&one, noise(n), 0), b = take(&other, noise(n), 0);
        apart = n > 250 ? fmax(apart, fabs(a - b)) : apart;
    }
    assert_true(apart > 0);
    free(one.floats);
    free(other.floats);
}

/* For any finite numbers scores are finite, and the memory stays valid. */
static void wild_and_constant_values_pass(void **state) {
    static const double values[] = {0, FLT_MAX, -FLT_MAX, FLT_MIN, 1e30, -0.0, 5};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        struct memory memory;
        open_memory(&memory, 33, 1);
        for (unsigned n = 0; n < 600; n++) {
            double x = n < 300 ? values[v] : values[n * v % (sizeof values / sizeof *values)];
            double score = take(&memory, x, 0);
            assert_true(isnan(score) ? n < 171 : isfinite(score) && score >= 0);
        }
        assert_true(is_valid(&memory));
        free(memory.floats);
    }
}

static void what_was_not_written_here_is_not_valid(void **state) {
    struct memory memory;
    open_memory(&memory, 10, 1);
    for (unsigned n = 0; n < 200; n++)
        take(&memory, noise(n), 0);
    assert_true(is_valid(&memory));
    struct novelty good = memory.novelty;
    memory.novelty.used = 11;
    assert_false(is_valid(&memory));
    memory.novelty = good;
    memory.novelty.level.sums.top = TAIL_BINS;
    assert_false(is_valid(&memory));
    memory.novelty = good;
    memory.floats[3] = NAN;
    assert_false(is_valid(&memory));
    free(memory.floats);
}

/* A pause of 100 steps after an alarm; then the threshold is 0.2 higher, and decays. */
static void alarms_rest_and_tire(void **state) {
    struct alarm alarm = {0};
    assert_false(alarm_raised(&alarm, &RULE, 1.49, 0));
    assert_false(alarm_raised(&alarm, &RULE, NAN, 0));
    assert_true(alarm_raised(&alarm, &RULE, 1.5, 0));
    assert_false(alarm_raised(&alarm, &RULE, 9, 100));
    assert_false(alarm_raised(&alarm, &RULE, 1.5 + 0.2 * exp(-101.0 / 700) - 1e-9, 101));
    assert_true(alarm_raised(&alarm, &RULE, 1.5 + 0.2 * exp(-101.0 / 700), 101));
    assert_false(alarm_raised(&alarm, &RULE, 1.7, 202));
    assert_true(alarm_raised(&alarm, &RULE, 1.5, 100000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_the_specification),
        cmocka_unit_test(long_streams_go_on),
        cmocka_unit_test(a_copy_goes_on_alike),
        cmocka_unit_test(seeds_fill_memories_differently),
        cmocka_unit_test(wild_and_constant_values_pass),
        cmocka_unit_test(what_was_not_written_here_is_not_valid),
        cmocka_unit_test(alarms_rest_and_tire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
