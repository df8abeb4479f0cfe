/* The detectors of drift with known series: changes and false alarms. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/random.h"
#include "tools/alert/alert_adwin.h"
#include "tools/alert/alert_page_hinkley.h"

#define assert_near(value, expected, most) assert_true(fabs((value) - (expected)) <= (most))

/* A common interface for both detectors. */
struct detector {
    struct page_hinkley page_hinkley;
    struct adwin adwin;
    bool is_adwin;
};

static struct detector detector_of(bool is_adwin) {
    static struct detector detector;
    detector.is_adwin = is_adwin;
    page_hinkley_open(&detector.page_hinkley, PAGE_HINKLEY_DELTA, PAGE_HINKLEY_LAMBDA);
    adwin_open(&detector.adwin, ADWIN_DELTA);
    return detector;
}

static struct change add(struct detector *d, double value) {
    return d->is_adwin ? adwin_add(&d->adwin, value) : page_hinkley_add(&d->page_hinkley, value);
}

/* In (0, 1], for the Box-Muller method. */
static double uniform(uint64_t *state) {
    return ((double)(random_bits(state) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * M_PI * uniform(state));
}

/* The number of changes of a kind in `count` values around `mean`; *first: the number of values
   until the first one. */
static int count_changes(struct detector *d, uint64_t *state, int count, double mean, double sd,
                         enum change_kind kind, int *first) {
    int found = 0;
    for (int i = 1; i <= count; i++) {
        if (add(d, mean + sd * normal(state)).kind != kind)
            continue;
        if (found++ == 0 && first)
            *first = i;
    }
    return found;
}

/* m(t) calculated by hand: 30 values of deviation 1 around 0, then 4s. Each adds 4 - 0.5 = 3.5
   to m in the first step. Each counts for the estimates as at most 3, so the fifth value exceeds
   15. */
static void page_hinkley_sums_up(void **unused) {
    struct detector d = detector_of(false);
    struct change change = {0};
    for (int i = 0; i < PAGE_HINKLEY_WARM; i++)
        assert_int_equal(add(&d, i % 2 ? 1 : -1).kind, CHANGE_NONE);
    assert_near(d.page_hinkley.mean, 0, 1e-12);
    assert_near(d.page_hinkley.variance, 1, 1e-12);
    assert_int_equal(add(&d, 4).kind, CHANGE_NONE);
    assert_near(d.page_hinkley.rise, 3.5, 1e-12);
    assert_near(d.page_hinkley.mean, 3.0 / 31, 1e-12);
    int needed = 1;
    while (change.kind == CHANGE_NONE && needed < 100) {
        change = add(&d, 4);
        needed++;
    }
    assert_int_equal(change.kind, CHANGE_ROSE);
    assert_int_equal(needed, 7);
    assert_near(change.after, 4, 1e-12);
    assert_near(change.before, 0, 1e-12);
}

/* A single outlier is not a change. */
static void one_outlier_is_not_a_change(void **unused) {
    for (int is_adwin = 0; is_adwin < 2; is_adwin++) {
        struct detector d = detector_of(is_adwin);
        uint64_t state = 7;
        assert_int_equal(count_changes(&d, &state, 500, 0, 0.3, CHANGE_ROSE, NULL), 0);
        assert_int_equal(add(&d, 1e9).kind, CHANGE_NONE);
        assert_int_equal(count_changes(&d, &state, 500, 0, 0.3, CHANGE_ROSE, NULL), 0);
    }
}

/* A series of equal values has no variance, so the smallest change is detected. */
static void constant_series(void **unused) {
    for (int is_adwin = 0; is_adwin < 2; is_adwin++) {
        struct detector d = detector_of(is_adwin);
        uint64_t state = 1;
        int first = 0;
        assert_int_equal(count_changes(&d, &state, 1000, -3, 0, CHANGE_ROSE, NULL), 0);
        assert_int_equal(count_changes(&d, &state, 100, 2, 0, CHANGE_ROSE, &first), 1);
        assert_in_range(first, 1, 20);
    }
}

/* 200,000 values without a change, from eight seeds. */
static void no_false_alarm(void **unused) {
    for (int is_adwin = 0; is_adwin < 2; is_adwin++) {
        for (uint64_t seed = 1; seed <= 8; seed++) {
            struct detector d = detector_of(is_adwin);
            uint64_t state = seed;
            assert_int_equal(count_changes(&d, &state, 25000, -4, 0.45, CHANGE_ROSE, NULL), 0);
        }
    }
}

/* A rise of two deviations is detected within 40 values, once. It ends by a return or by a
   stable new level. */
static void rise_is_found_once(void **unused) {
    for (int is_adwin = 0; is_adwin < 2; is_adwin++) {
        for (uint64_t seed = 1; seed <= 8; seed++) {
            struct detector d = detector_of(is_adwin);
            uint64_t state = seed;
            int first = 0;
            assert_int_equal(count_changes(&d, &state, 1000, 0, 0.5, CHANGE_ROSE, NULL), 0);
            assert_int_equal(count_changes(&d, &state, 40, 1, 0.5, CHANGE_ROSE, &first), 1);
            assert_in_range(first, 2, 40);
            assert_int_equal(count_changes(&d, &state, 20, 0, 0.5, CHANGE_BACK, NULL), 1);
        }
    }
}

static void rise_that_stays_is_learned(void **unused) {
    for (int is_adwin = 0; is_adwin < 2; is_adwin++) {
        struct detector d = detector_of(is_adwin);
        uint64_t state = 3;
        int first = 0;
        assert_int_equal(count_changes(&d, &state, 1000, 0, 0.5, CHANGE_ROSE, NULL), 0);
        assert_int_equal(count_changes(&d, &state, 30, 3, 0.5, CHANGE_ROSE, NULL), 1);
        assert_int_equal(count_changes(&d, &state, 300, 3, 0.5, CHANGE_STAYED, &first), 1);
        /* The new level is the reference: another rise is detected. */
        assert_int_equal(count_changes(&d, &state, 1000, 3, 0.5, CHANGE_ROSE, NULL), 0);
        assert_int_equal(count_changes(&d, &state, 40, 6, 0.5, CHANGE_ROSE, NULL), 1);
    }
}

/* A long decrease of the loss during learning is not an alarm, but a rise after it is. */
static void fall_is_not_a_rise(void **unused) {
    for (int is_adwin = 0; is_adwin < 2; is_adwin++) {
        struct detector d = detector_of(is_adwin);
        uint64_t state = 11;
        for (int i = 0; i < 3000; i++) {
            double value = 5 * exp(-i / 300.0) + 0.3 * normal(&state);
            assert_int_not_equal(add(&d, value).kind, CHANGE_ROSE);
        }
        assert_int_equal(count_changes(&d, &state, 60, 1.5, 0.3, CHANGE_ROSE, NULL), 1);
    }
}

/* The sums of the window agree with those of its values. */
static void adwin_sums_match_its_values(void **unused) {
    enum { COUNT = 5000 };
    static double values[COUNT];
    struct adwin window;
    uint64_t state = 5;
    adwin_open(&window, ADWIN_DELTA);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (i < 2000 ? 0 : 2) + 0.2 * normal(&state);
        adwin_add(&window, values[i]);
    }
    /* Almost none of the 2000 old values remain; the window contains the newest values. */
    assert_in_range(window.count, 2950, 3050);
    double sum = 0, squares = 0, mean;
    for (uint64_t i = 0; i < window.count; i++)
        sum += values[COUNT - 1 - i];
    mean = sum / (double)window.count;
    for (uint64_t i = 0; i < window.count; i++)
        squares += (values[COUNT - 1 - i] - mean) * (values[COUNT - 1 - i] - mean);
    assert_near(adwin_mean(&window), mean, 0.01);
    assert_near(window.squares / squares, 1, 0.1);
    uint64_t held = 0;
    for (int row = 0; row < ADWIN_ROWS; row++) {
        assert_in_range(window.rows[row].count, 0, ADWIN_BUCKETS);
        held += (uint64_t)window.rows[row].count << row;
    }
    assert_int_equal(held, window.count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_hinkley_sums_up), cmocka_unit_test(one_outlier_is_not_a_change),
        cmocka_unit_test(constant_series),      cmocka_unit_test(no_false_alarm),
        cmocka_unit_test(rise_is_found_once),   cmocka_unit_test(rise_that_stays_is_learned),
        cmocka_unit_test(fall_is_not_a_rise),   cmocka_unit_test(adwin_sums_match_its_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
