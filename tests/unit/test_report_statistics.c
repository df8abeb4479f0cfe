/* Compares statistics of reports with SciPy 1.17, statsmodels, and closed forms. The pairs are
   Student's sleep data (1908), as in R. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "tools/experiment/report_statistics.h"

static const double TOLERANCE = 1e-9; /* relative, for p: lgamma of a million */

static void assert_near(double found, double expected) {
    if (!(fabs(found - expected) <= TOLERANCE * fabs(expected)))
        fail_msg("found %.17g, expected %.17g", found, expected);
}

/* 2 * scipy.stats.t.sf(t, degrees) */
static void test_student(void **state) {
    static const struct {
        double t, degrees, p;
    } cases[] = {
        {2.0, 4, 0.11611652351681556},     {0.1, 4, 0.92515584093945324},
        {1e-6, 9, 0.99999922393018226},    {12.5, 4, 0.00023561604689269973},
        {50, 2, 0.00039976015988808057},   {3, 100, 0.0034079153433294465},
        {1.96, 1e6, 0.049996067585269852}, {5, 1e4, 5.8303266136626591e-07},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_near(statistics_student(cases[i].t, cases[i].degrees), cases[i].p);
        assert_near(statistics_student(-cases[i].t, cases[i].degrees), cases[i].p);
    }
    assert_near(statistics_student(0, 3), 1);
    assert_true(statistics_student(INFINITY, 3) == 0);
    assert_true(isnan(statistics_student(NAN, 3)));
    for (double t = 1e-3; t < 1e4; t *= 3) { /* one and two degrees, in closed form */
        assert_near(statistics_student(t, 1), 2 / acos(-1) * atan(1 / t));
        assert_near(statistics_student(t, 2), 2 / (2 + t * t + t * sqrt(2 + t * t)));
    }
}

static void test_pairs(void **state) {
    static const double sleep[] = {1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, NAN, 4.6, 1.4};
    struct statistics_test test = statistics_paired(sleep, sizeof sleep / sizeof *sleep);
    assert_int_equal(test.pairs, 10);
    assert_near(test.mean, 1.58);
    assert_near(test.p, 0.002832890197384273); /* scipy.stats.ttest_rel, R: 0.002833 */
    struct statistics_sample sample = statistics_of(sleep, sizeof sleep / sizeof *sleep);
    assert_near(sample.deviation, 1.2299954832798732);
    assert_true(sample.least == 0 && sample.greatest == 4.6 && sample.count == 10);
}

/* Too few values for a test. */
static void test_few(void **state) {
    static const double one[] = {NAN, 0.5}, same[] = {0.1, 0.1, 0.1}, none[] = {0, 0, 0};
    assert_true(isnan(statistics_paired(one, 2).p));
    assert_true(statistics_paired(one, 2).mean == 0.5);
    assert_true(isnan(statistics_paired(same, 3).p));
    assert_true(statistics_of(same, 3).mean == same[0] && statistics_of(same, 3).deviation == 0);
    assert_true(statistics_paired(none, 3).p == 1);
    assert_true(isnan(statistics_of(one, 1).mean) && isnan(statistics_of(one, 2).deviation));
}

static void test_ranks(void **state) {
    static const double values[] = {0.5, NAN, 0.2, 0.5, 0.9, INFINITY, -1};
    static const double smaller[] = {3.5, 6.5, 2, 3.5, 5, 6.5, 1},
                        larger[] = {2.5, 6.5, 4, 2.5, 1, 6.5, 5};
    enum { COUNT = sizeof values / sizeof *values };
    double ranks[COUNT];
    statistics_ranks(values, COUNT, false, ranks);
    assert_memory_equal(ranks, smaller, sizeof ranks);
    statistics_ranks(values, COUNT, true, ranks);
    assert_memory_equal(ranks, larger, sizeof ranks);
}

/* statsmodels.stats.multitest.multipletests(p, method="holm"), R: p.adjust */
static void test_holm(void **state) {
    double p[] = {0.01, 0.04, NAN, 0.03, 0.005, 0.9}, equal[] = {0.5, 0, 0.5, 0};
    static const double adjusted[] = {0.04, 0.09, NAN, 0.09, 0.025, 0.9};
    statistics_holm(p, sizeof p / sizeof *p);
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        if (isnan(adjusted[i]))
            assert_true(isnan(p[i]));
        else
            assert_near(p[i], adjusted[i]);
    statistics_holm(equal, sizeof equal / sizeof *equal);
    assert_true(equal[0] == 1 && equal[1] == 0 && equal[2] == 1 && equal[3] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_student), cmocka_unit_test(test_pairs), cmocka_unit_test(test_few),
        cmocka_unit_test(test_ranks),   cmocka_unit_test(test_holm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
