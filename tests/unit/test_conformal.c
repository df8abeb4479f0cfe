/* Compares intervals with numbers computed manually from the header's formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "common/error.h"
#include "forecast/conformal.h"

enum { COLUMN = 1, COLUMNS = 2, SLOT = 2, SLOTS = 3 };

static const struct conformal_bounds NOTHING = {NAN, NAN};

static struct conformal *opened(void) {
    struct conformal *c;
    struct error error;
    assert_int_equal(conformal_open(&c, COLUMNS, SLOTS, &error), 0);
    return c;
}

/* Errors 1 to 20, unordered. */
static struct conformal *with_twenty(void) {
    struct conformal *c = opened();
    for (int n = 0; n < 20; n++) {
        assert_true(isnan(conformal_bounds(c, SLOT, COLUMN, 0).low));
        conformal_learn(c, SLOT, COLUMN, 0, NOTHING, 1 + n * 7 % 20);
    }
    return c;
}

static void is_around(const struct conformal *c, double p, double low, double high) {
    struct conformal_bounds bounds = conformal_bounds(c, SLOT, COLUMN, p);
    assert_true(fabs(bounds.low - (p + low)) < 1e-9);
    assert_true(fabs(bounds.high - (p + high)) < 1e-9);
}

static double level(struct conformal *c) {
    return 0.1 + conformal_state(c, SLOT)[COLUMN * CONFORMAL_STATE];
}

/* n = 20, a = 0.1: rank 21 * 0.05 = 1.05. */
static void begins_with_twenty_errors(void **state) {
    struct conformal *c = with_twenty();
    is_around(c, 100, 1.05, 19.95);
    assert_true(isnan(conformal_bounds(c, SLOT, COLUMN, NAN).low));
    assert_true(isnan(conformal_bounds(c, SLOT, 0, 100).low));
    assert_true(isnan(conformal_bounds(c, 0, COLUMN, 100).low));
    conformal_begin(c, SLOT);
    assert_true(isnan(conformal_bounds(c, SLOT, COLUMN, 100).high));
    conformal_close(&c);
}

/* A miss: a = 0.1 - 0.005 * 0.9 = 0.0955. Then n = 21, rank 22 * 0.0955 / 2 = 1.0505, and the two
   greatest errors are 20 and 25. A hit: a = 0.0955 + 0.005 * 0.1 = 0.096, n = 22, rank 1.104. */
static void misses_widen_and_hits_narrow(void **state) {
    struct conformal *c = with_twenty();
    conformal_learn(c, SLOT, COLUMN, 100, conformal_bounds(c, SLOT, COLUMN, 100), 125);
    assert_true(fabs(level(c) - 0.0955) < 1e-12);
    is_around(c, -3, 1.0505, 25 - 0.0505 * 5);
    conformal_learn(c, SLOT, COLUMN, 0, conformal_bounds(c, SLOT, COLUMN, 0), 10);
    assert_true(fabs(level(c) - 0.096) < 1e-12);
    is_around(c, 0, 1.104, 25 - 0.104 * 5);
    conformal_close(&c);
}

/* Ten misses of size 10: a = 0.055, n = 30, rank 31 * 0.0275 = 0.8525: beyond the outermost
   errors, 1 and 20, by 0.1475 of their distance. */
static void goes_beyond_all_errors(void **state) {
    const struct conformal_bounds missing = {-1, 1};
    struct conformal *c = with_twenty();
    for (int n = 0; n < 10; n++)
        conformal_learn(c, SLOT, COLUMN, 0, missing, 10);
    is_around(c, 0, 1 - 0.1475 * 19, 20 + 0.1475 * 19);
    for (int n = 0; n < 100; n++)
        conformal_learn(c, SLOT, COLUMN, 0, missing, n % 2 ? 2 : -2);
    assert_true(fabs(level(c)) < 1e-12);
    is_around(c, 0, -2 - 4, 2 + 4);
    conformal_close(&c);
}

/* The newest hundred count; a hit of an interval without width does not move the level. */
static void forgets_and_takes_no_level_from_a_constant(void **state) {
    struct conformal *c = with_twenty();
    for (int n = 0; n < 100; n++)
        conformal_learn(c, SLOT, COLUMN, 0, NOTHING, 3);
    is_around(c, 5, 3, 3);
    for (int n = 0; n < 10; n++)
        conformal_learn(c, SLOT, COLUMN, 0, conformal_bounds(c, SLOT, COLUMN, 0), 3);
    assert_true(level(c) == 0.1);
    conformal_learn(c, SLOT, COLUMN, 0, conformal_bounds(c, SLOT, COLUMN, 0), 4);
    assert_true(fabs(level(c) - 0.0955) < 1e-12);
    conformal_close(&c);
}

static void wild_numbers_stay_numbers(void **state) {
    struct conformal *c = with_twenty();
    for (int n = 0; n < 30; n++) {
        struct conformal_bounds bounds = conformal_bounds(c, SLOT, COLUMN, 0);
        assert_true(isfinite(bounds.low) && bounds.low <= bounds.high && isfinite(bounds.high));
        conformal_learn(c, SLOT, COLUMN, n % 2 ? 3e38 : -3e38, bounds, n % 2 ? -3e38 : 3e38);
    }
    conformal_close(&c);
}

static double random_number(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

/* Errors that triple, become skewed, and shrink again: coverage tends to 90% in each third. */
static void covers_what_changes(void **state) {
    enum { STEPS = 9000, THIRD = STEPS / 3 };
    struct conformal *c = opened();
    uint64_t seed = 1;
    size_t held[3] = {0};
    for (int n = 0; n < STEPS; n++) {
        double a = random_number(&seed) + random_number(&seed) - 1;
        double y = n / THIRD == 1 ? 3 * a * a * a + 2 : a;
        struct conformal_bounds bounds = conformal_bounds(c, SLOT, COLUMN, 0);
        held[n / THIRD] += conformal_holds(bounds, y);
        conformal_learn(c, SLOT, COLUMN, 0, bounds, y);
    }
    for (size_t n = 0; n < 3; n++)
        assert_in_range(held[n], THIRD * 88 / 100, THIRD * 92 / 100);
    conformal_close(&c);
}

static void resumes_from_what_is_kept(void **state) {
    struct conformal *c = with_twenty(), *other = opened();
    for (int n = 0; n < 130; n++)
        conformal_learn(c, SLOT, COLUMN, 0, conformal_bounds(c, SLOT, COLUMN, 0), n * 37 % 101);
    memcpy(conformal_state(other, 0), conformal_state(c, SLOT),
           COLUMNS * CONFORMAL_STATE * sizeof(double));
    memcpy(conformal_errors(other, 0), conformal_errors(c, SLOT),
           COLUMNS * CONFORMAL_ERRORS * sizeof(float));
    assert_true(conformal_written(other, 0));
    for (int n = 0; n < 130; n++) {
        struct conformal_bounds a = conformal_bounds(c, SLOT, COLUMN, n);
        struct conformal_bounds b = conformal_bounds(other, 0, COLUMN, n);
        assert_true(a.low == b.low && a.high == b.high);
        conformal_learn(c, SLOT, COLUMN, n, a, n * 11 % 31);
        conformal_learn(other, 0, COLUMN, n, b, n * 11 % 31);
    }
    conformal_errors(other, 0)[3] = INFINITY;
    assert_false(conformal_written(other, 0));
    conformal_begin(other, 0);
    assert_true(conformal_written(other, 0));
    conformal_state(other, 0)[0] = 0.5; /* a level of 0.6 */
    assert_false(conformal_written(other, 0));
    conformal_state(other, 0)[0] = 0;
    conformal_state(other, 0)[1] = 0.5; /* errors */
    assert_false(conformal_written(other, 0));
    conformal_close(&c);
    conformal_close(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_with_twenty_errors),
        cmocka_unit_test(misses_widen_and_hits_narrow),
        cmocka_unit_test(goes_beyond_all_errors),
        cmocka_unit_test(forgets_and_takes_no_level_from_a_constant),
        cmocka_unit_test(wild_numbers_stay_numbers),
        cmocka_unit_test(covers_what_changes),
        cmocka_unit_test(resumes_from_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
