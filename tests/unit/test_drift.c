/* The detectors of drift: what they find in series that are known, and what they leave alone. */
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

/* Either detector, with one interface. */
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

/* In (0, 1], and Box and Muller. */
static double uniform(uint64_t *state) {
    return ((double)(random_bits(state) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * M_PI * uniform(state));
}

/* How many changes of a kind `count` values around `mean` bring; *first is after how many values,
   from 1, the first came. */
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

/* m(t) by hand: 30 values of deviation 1 around 0, then 4s. Each adds 4 - 0.5 = 3.5 to m in the
   first step, and the estimates take part with 3 at most, so 15 is passed with the fifth. */
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

/* One value, however wild, is no change. */
static void one_value_is_no_change(void **unused) {
    for (int is_adwin = 0; is_adwin < 2; is_adwin++) {
        struct detector d = detector_of(is_adwin);
        uint64_t state = 7;
        assert_int_equal(count_changes(&d, &state, 500, 0, 0.3, CHANGE_ROSE, NULL), 0);
        assert_int_equal(add(&d, 1e9).kind, CHANGE_NONE);
        assert_int_equal(count_changes(&d, &state, 500, 0, 0.3, CHANGE_ROSE, NULL), 0);
    }
}

/* A series of one value has no variance, and the least change stands out. */
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

/* A rise of two deviations is found within 40 values, once; then it is over, by return or by habit.
 */
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
        /* What is usual now is the new level: another rise starts from there. */
        assert_int_equal(count_changes(&d, &state, 1000, 3, 0.5, CHANGE_ROSE, NULL), 0);
        assert_int_equal(count_changes(&d, &state, 40, 6, 0.5, CHANGE_ROSE, NULL), 1);
    }
}

/* Learning: the loss falls for long, which is no alarm, and a rise afterwards is found. */
static void fall_is_no_rise(void **unused) {
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

/* The window's own sums agree with those of the values that it holds. */
static void adwin_keeps_what_it_says(void **unused) {
    enum { COUNT = 5000 };
    static double values[COUNT];
    struct adwin window;
    uint64_t state = 5;
    adwin_open(&window, ADWIN_DELTA);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (i < 2000 ? 0 : 2) + 0.2 * normal(&state);
        adwin_add(&window, values[i]);
    }
    /* Of the 2000 old values next to nothing is left; the window is what came last. */
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
        cmocka_unit_test(page_hinkley_sums_up), cmocka_unit_test(one_value_is_no_change),
        cmocka_unit_test(constant_series),      cmocka_unit_test(no_false_alarm),
        cmocka_unit_test(rise_is_found_once),   cmocka_unit_test(rise_that_stays_is_learned),
        cmocka_unit_test(fall_is_no_rise),      cmocka_unit_test(adwin_keeps_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
