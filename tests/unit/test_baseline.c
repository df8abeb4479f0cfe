/* The simplest forecasts against numbers computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "parts/baseline.h"

enum { SLOTS = 2, SLOT = 1 };

static const double log_2pi = 1.83787706640934548356;

static struct baseline *opened(enum loss_baseline kind, bool next, size_t size) {
    struct baseline *baseline;
    struct error error;
    assert_int_equal(baseline_open(&baseline, kind, next, size, SLOTS, &error), 0);
    baseline_begin(baseline, SLOT);
    return baseline;
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-12;
}

static double score(struct baseline *b, float y, double p) {
    return baseline_score(b, SLOT, &(union value){.real = y}, &p);
}

static void see(struct baseline *b, float x, float z) {
    baseline_see_last(b, SLOT, &x, &(union value){.real = z}, 1);
}

static void the_last_value_is_kept(void **state) {
    struct baseline *b = opened(BASELINE_VALUE, true, 1);
    assert_true(isnan(baseline_value(b, SLOT, 0)));
    see(b, NAN, 0); /* missing, without an earlier one: the network receives 0 */
    assert_true(isnan(baseline_value(b, SLOT, 0)) && baseline_scaled(b, SLOT)[0] == 0);
    see(b, 40, 1.5f);
    assert_true(baseline_value(b, SLOT, 0) == 40 && baseline_scaled(b, SLOT)[0] == 1.5);
    see(b, NAN, 1.25f); /* missing: the last one is held, in the current scale */
    assert_true(baseline_value(b, SLOT, 0) == 40 && baseline_scaled(b, SLOT)[0] == 1.25);
    assert_true(score(b, 2, 1.25) == 0.5625);
    baseline_lost(b, SLOT);
    assert_true(isnan(baseline_scaled(b, SLOT)[0]));
    assert_true(isnan(score(b, 2, baseline_scaled(b, SLOT)[0])));
    baseline_close(&b);
}

static void a_mean_is_that_of_all_targets(void **state) {
    struct baseline *b = opened(BASELINE_VALUE, false, 2);
    const float targets[][2] = {{1, 10}, {2, NAN}, {6, 30}};
    for (size_t n = 0; n < 3; n++)
        baseline_see_target(b, SLOT, targets[n]);
    assert_true(near(baseline_value(b, SLOT, 0), 3) && near(baseline_value(b, SLOT, 1), 20));
    /* The mean over observed numbers: ((3 - 5)^2 + (20 - 23)^2) / 2, and the first alone. */
    const union value both[] = {{.real = 5}, {.real = 23}}, one[] = {{.real = 5}, {.real = NAN}};
    const double p[] = {3, 20};
    assert_true(baseline_score(b, SLOT, both, p) == 6.5);
    assert_true(baseline_score(b, SLOT, one, p) == 4);
    /* Score and mean together: the mean of 1, 2, 6 and 7 is 4. */
    const float last[] = {7, NAN};
    double errors[2];
    assert_true(near(baseline_score_mean(b, SLOT, last, errors), 16));
    assert_true(near(errors[0], -4) && isnan(errors[1]));
    assert_true(near(baseline_value(b, SLOT, 0), 4) && near(baseline_value(b, SLOT, 1), 20));
    baseline_close(&b);
}

/* Errors 2 and 4: variances 1 (none yet), 4, 10. */
static void a_normal_has_the_variance_of_its_errors(void **state) {
    struct baseline *b = opened(BASELINE_NORMAL, true, 1);
    assert_true(baseline_deviation(b, SLOT, 0) == 1);
    assert_true(near(score(b, 5, 3), (log_2pi + 4) / 2));
    assert_true(baseline_deviation(b, SLOT, 0) == 2);
    assert_true(near(score(b, 1, 5), (log_2pi + log(4) + 16.0 / 4) / 2));
    assert_true(near(baseline_deviation(b, SLOT, 0), sqrt(10)));
    assert_true(near(score(b, 1, 1), (log_2pi + log(10)) / 2));
    baseline_close(&b);
}

static void a_normal_without_errors_stays_finite(void **state) {
    struct baseline *b = opened(BASELINE_NORMAL, false, 1);
    for (int n = 0; n < 3; n++)
        assert_true(isfinite(score(b, 7, 7)));
    assert_true(baseline_deviation(b, SLOT, 0) == sqrt(BASELINE_VARIANCE_LEAST));
    assert_true(isfinite(score(b, 3e38f, -3e38)));
    assert_true(isfinite(score(b, 7, 7)));
    baseline_close(&b);
}

static void classes_are_as_frequent_as_they_were(void **state) {
    struct baseline *b = opened(BASELINE_CLASSES, true, 3);
    const uint32_t ids[] = {2, 2, 0};
    const double shares[] = {1.0 / 3, 2.0 / 4, 1.0 / 5};
    double probabilities[3];
    for (size_t n = 0; n < 3; n++)
        assert_true(
            near(baseline_score(b, SLOT, &(union value){.id = ids[n]}, NULL), -log(shares[n])));
    baseline_probabilities(b, SLOT, probabilities);
    assert_true(near(probabilities[0], 2.0 / 6) && near(probabilities[1], 1.0 / 6) &&
                near(probabilities[2], 3.0 / 6));
    baseline_close(&b);
}

/* The mean over the atoms and the end, which is a class of its own; words that are not in use yet
   have no share, except the last. */
static void a_message_ends(void **state) {
    struct baseline *b = opened(BASELINE_MESSAGE, true, 4);
    const union value words[] = {{.id = 2}, {.id = 0}, {.id = 3}},
                      unknown[] = {{.id = 1}, {.id = 2}};
    baseline_set_classes(b, 1);
    assert_int_equal(baseline_size(b), 6);
    /* The end first: 1/3, then 1/4 and 1/5. */
    assert_true(near(baseline_score(b, SLOT, words, NULL), (log(3) + log(4) + log(5)) / 3));
    assert_true(near(baseline_score(b, SLOT, words, NULL), (log(3) + log(7 / 2.) + log(4)) / 3));
    assert_true(isinf(baseline_score(b, SLOT, unknown, NULL)));
    baseline_close(&b);
}

static void a_rate_is_that_of_its_number(void **state) {
    struct baseline *b = opened(BASELINE_RATES, false, 2);
    const union value targets[][2] = {{{.real = 1}, {.real = NAN}}, {{.real = 0.25f}, {.real = 0}}};
    double probabilities[2], losses[2];
    for (size_t n = 0; n < 2; n++)
        losses[n] = baseline_score(b, SLOT, targets[n], NULL);
    /* The first number has 1/2, then (1 + 1/2) / 2 = 3/4; the second has 1/2. */
    assert_true(near(losses[0], log(2)));
    assert_true(near(losses[1], (-0.25 * log(0.75) - 0.75 * log(0.25) + log(2)) / 2));
    baseline_probabilities(b, SLOT, probabilities);
    assert_true(near(probabilities[0], 1.75 / 3) && near(probabilities[1], 0.25));
    baseline_close(&b);
}

/* The state of a checkpoint makes the same forecasts in another baseline. */
static void a_state_goes_on(void **state) {
    struct baseline *a = opened(BASELINE_NORMAL, true, 1), *b = opened(BASELINE_NORMAL, true, 1);
    see(a, 4, 0.5f);
    score(a, 2, 0.5);
    see(a, 9, 2);
    memcpy(baseline_state(b, SLOT), baseline_state(a, SLOT), baseline_size(a) * sizeof(double));
    assert_true(baseline_state_valid(b, baseline_state(b, SLOT)));
    assert_true(baseline_value(b, SLOT, 0) == 9 && baseline_scaled(b, SLOT)[0] == 2);
    assert_true(score(b, 1, 2) == score(a, 1, 2));
    baseline_state(b, SLOT)[baseline_size(b) - 1] = -1;
    assert_false(baseline_state_valid(b, baseline_state(b, SLOT)));
    baseline_close(&a);
    baseline_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_value_is_kept),
        cmocka_unit_test(a_mean_is_that_of_all_targets),
        cmocka_unit_test(a_normal_has_the_variance_of_its_errors),
        cmocka_unit_test(a_normal_without_errors_stays_finite),
        cmocka_unit_test(classes_are_as_frequent_as_they_were),
        cmocka_unit_test(a_message_ends),
        cmocka_unit_test(a_rate_is_that_of_its_number),
        cmocka_unit_test(a_state_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
