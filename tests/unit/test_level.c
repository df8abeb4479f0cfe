/* Properties of the level score and of the calibration of scores to rates. The scores themselves
   are compared by tests/support/play_level.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "anomaly/alarm.h"
#include "anomaly/calibration.h"
#include "anomaly/level.h"

enum { COLUMNS = 4 };
#define THRESHOLD 1.5

static uint64_t seed = 88172645463325252U;

static uint64_t draw(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static double uniform(void) {
    return (double)(draw() >> 11) * 0x1p-53;
}

static double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

/* ---- Level ---- */

struct stream {
    struct level level;
    struct level_state *state;
    double factor;
};

static void open_stream(struct stream *stream, double half) {
    assert_true(level_open(&stream->level, COLUMNS, half));
    stream->state = calloc(level_size(COLUMNS), sizeof(double));
    assert_non_null(stream->state);
    assert_true(level_valid(&stream->level, stream->state));
    stream->factor = 0;
}

static void close_stream(struct stream *stream) {
    free(stream->state);
    level_close(&stream->level);
}

static struct level_result take(struct stream *stream, const float *x, bool learn) {
    struct level_result result = level_take(&stream->level, stream->state, x, learn);
    double sum = 0;
    for (size_t k = 0; k < COLUMNS && !isnan(result.doubt); k++) {
        assert_true(stream->level.shares[k] >= 0);
        sum += stream->level.shares[k];
    }
    assert_true(isnan(result.doubt) || result.doubt == 0 || fabs(sum - 1) < 1e-6);
    assert_true(isnan(result.score) || (result.score >= 0 && isfinite(result.score)));
    assert_true(level_valid(&stream->level, stream->state));
    return result;
}

/* Columns of one factor; `shift` moves column 2 only. */
static void usual(struct stream *stream, double shift, float x[COLUMNS]) {
    stream->factor = 0.9 * stream->factor + normal();
    for (size_t k = 0; k < COLUMNS; k++)
        x[k] = (float)((double)(1 + k) * stream->factor + normal() + (k == 2 ? shift : 0));
}

static struct level_result play(struct stream *stream, size_t steps, double shift, bool learn) {
    struct level_result result = {NAN, NAN, NAN};
    float x[COLUMNS];
    for (size_t n = 0; n < steps; n++) {
        usual(stream, shift, x);
        result = take(stream, x, learn);
    }
    return result;
}

static void a_column_that_leaves_the_others_is_named_while_it_does(void **state) {
    struct stream stream;
    open_stream(&stream, 4000);
    assert_true(isnan(play(&stream, 51, 0, true).score));
    assert_true(play(&stream, 1000, 0, true).score < THRESHOLD);
    for (size_t n = 0; n < 5; n++) {
        assert_true(play(&stream, 40, 10, true).score > THRESHOLD);
        assert_true(stream.level.shares[2] > 0.5);
    }
    assert_true(play(&stream, 100, 0, true).score < THRESHOLD);
    close_stream(&stream);
    (void)state;
}

/* A lasting shift becomes normal after about `half` steps, and never without learning. */
static void a_new_normal_is_accepted_only_by_learning(void **state) {
    struct stream stream;
    for (int learn = 0; learn < 2; learn++) {
        open_stream(&stream, 300);
        play(&stream, 2000, 0, true);
        assert_true(play(&stream, 100, 10, learn).score > THRESHOLD);
        assert_int_equal(play(&stream, 2000, 10, learn).score < THRESHOLD, learn);
        close_stream(&stream);
    }
    (void)state;
}

static void values_marked_as_normal_are_normal_at_once(void **state) {
    enum { STEPS = 32 };
    double smoothed[STEPS][COLUMNS];
    struct stream stream;
    open_stream(&stream, 4000);
    play(&stream, 1000, 0, true);
    play(&stream, 40, 10, true);
    for (size_t n = 0; n < STEPS; n++) {
        assert_true(play(&stream, 1, 10, true).score > THRESHOLD);
        level_smoothed(&stream.level, stream.state, smoothed[n]);
    }
    level_mark_normal(&stream.level, stream.state, *smoothed, STEPS, 1.0 / STEPS);
    assert_true(play(&stream, 20, 10, true).score < THRESHOLD);
    for (size_t n = 0; n < 3000; n++)
        level_mark_normal(&stream.level, stream.state, *smoothed, STEPS, 1.0 / STEPS);
    assert_true(level_valid(&stream.level, stream.state));
    assert_true(isfinite(play(&stream, 1, 0, true).score));
    close_stream(&stream);
    (void)state;
}

static void a_step_without_values_is_not_a_step(void **state) {
    const float missing[COLUMNS] = {NAN, NAN, NAN, NAN};
    struct stream stream;
    open_stream(&stream, 4000);
    for (size_t n = 0; n < 300; n++)
        assert_true(isnan(take(&stream, missing, true).doubt));
    assert_true(isnan(play(&stream, 50, 0, true).doubt));
    assert_true(play(&stream, 1, 0, true).doubt >= 0);
    close_stream(&stream);
    (void)state;
}

static void a_copy_goes_on_with_the_same_bits(void **state) {
    struct stream one, other;
    float x[COLUMNS];
    open_stream(&one, 100);
    open_stream(&other, 100);
    play(&one, 700, 0, true);
    memcpy(other.state, one.state, level_size(COLUMNS) * sizeof(double));
    for (size_t n = 0; n < 700; n++) {
        usual(&one, n > 500 ? 5 : 0, x);
        x[n % COLUMNS] = n % 3 ? x[n % COLUMNS] : NAN;
        const struct level_result expected = take(&one, x, true), result = take(&other, x, true);
        assert_memory_equal(&result, &expected, sizeof result);
    }
    assert_memory_equal(other.state, one.state, level_size(COLUMNS) * sizeof(double));
    close_stream(&one);
    close_stream(&other);
    (void)state;
}

static void another_half_begins_anew(void **state) {
    struct stream stream, other;
    open_stream(&stream, 100);
    open_stream(&other, 200);
    play(&stream, 300, 0, true);
    memcpy(other.state, stream.state, level_size(COLUMNS) * sizeof(double));
    assert_true(isnan(play(&other, 50, 0, true).doubt));
    assert_true(play(&stream, 1, 0, true).doubt >= 0);
    close_stream(&stream);
    close_stream(&other);
    (void)state;
}

/* Constants, the largest floats, stuck columns, columns that are missing for thousands of steps. */
static void wild_values_keep_the_state_valid(void **state) {
    static const float values[] = {0, FLT_MAX, -FLT_MAX, FLT_MIN, 1e30F, -0.0F, 5, NAN};
    static const double halves[] = {10, 4000, 1e9};
    enum { VALUES = sizeof values / sizeof *values };
    for (size_t v = 0; v < VALUES * 3; v++) {
        struct stream stream;
        open_stream(&stream, halves[v % 3]);
        for (size_t n = 0; n < 4500; n++) {
            float x[COLUMNS];
            usual(&stream, 0, x);
            x[0] = values[v % VALUES];
            x[1] = n < 400 || n > 4300 ? x[1] : NAN;
            x[3] = n > 500 ? values[draw() % VALUES] : x[3];
            take(&stream, x, n % 5);
        }
        close_stream(&stream);
    }
    (void)state;
}

static void fill(void *bytes, size_t size) {
    for (size_t n = 0; n < size; n++)
        ((unsigned char *)bytes)[n] = (unsigned char)draw();
}

/* A number that a damaged file may contain. */
static double damage(double number) {
    static const double numbers[] = {0,     -1,  1,    0.5,     1e-300, 1e9,
                                     1e300, NAN, 1e40, DBL_MAX, 639,    INFINITY};
    size_t n = draw() % (sizeof numbers / sizeof *numbers + 2);
    fill(&number, n == 12 ? sizeof number : n == 13 ? 2 : 0);
    return n < 12 ? numbers[n] : number;
}

static void damaged_states_are_rejected_or_harmless(void **state) {
    struct stream stream;
    size_t size = level_size(COLUMNS), accepted = 0;
    double *before = malloc(size * sizeof *before);
    assert_non_null(before);
    open_stream(&stream, 100);
    play(&stream, 400, 0, true);
    double *numbers = (double *)(void *)stream.state;
    memcpy(before, stream.state, size * sizeof *before);
    for (size_t n = 0; n < 20000; n++) {
        size_t columns = (6 + 2 * COLUMNS) * COLUMNS;
        size_t at = draw() % (n % 2 ? columns : size) + (n % 2 ? size - columns : 0);
        memcpy(stream.state, before, size * sizeof *before);
        numbers[at] = damage(numbers[at]);
        if (n % 100 == 0)
            fill(stream.state, size * sizeof *before);
        if (!level_valid(&stream.level, stream.state))
            continue;
        play(&stream, 3, 0, true);
        accepted++;
    }
    assert_true(accepted > 1000);
    free(before);
    close_stream(&stream);
    (void)state;
}

/* ---- Calibration ---- */

enum { STEPS = 200000, FROM = 5000, REST = 100 };
#define RATE 1e-3

/* Scores of one kind, with their own scale. */
static double light(void) {
    return -log10(uniform());
}

static double heavy(void) {
    return pow(uniform(), -0.25) - 1;
}

static double moving(void) {
    static double value;
    value = 0.9 * value + normal();
    return fmax(value, 0);
}

static double (*const kinds[])(void) = {light, heavy, moving};

/* Of the steps after FROM with a P of 3, and of alarms at RATE, over those expected. */
static void rates_are_nominal(void **state) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        static struct calibration c;
        struct alarm alarm = {0};
        double rare = 0, alarms = 0;
        memset(&c, 0, sizeof c);
        for (uint64_t n = 0; n < STEPS; n++) {
            double score = kinds[k](), p = calibration_rarity(&c, score);
            const struct alarm_rule rule = {
                .threshold = calibration_threshold(&c, RATE), .rest = REST, .recovery = 1};
            assert_int_equal(isnan(p) != 0, n < 101);
            rare += n >= FROM && p >= 3;
            alarms += n >= FROM && alarm_raised(&alarm, &rule, p, n);
            calibration_learn(&c, score, p, REST);
        }
        double nominal = (STEPS - FROM) * RATE;
        assert_true(rare > nominal / 2 && rare < nominal * 2);
        assert_true(alarms > nominal / 2 && alarms < nominal * 2);
        assert_true(calibration_valid(&c) && c.bunches <= c.exceeding);
    }
    (void)state;
}

/* Longer than until all masses are divided. */
static void long_streams_go_on(void **state) {
    static struct calibration c;
    double rare = 0;
    memset(&c, 0, sizeof c);
    for (uint64_t n = 0; n < 8 * STEPS; n++) {
        double score = light(), p = calibration_rarity(&c, score);
        rare += n >= 7 * STEPS && p >= 3;
        calibration_learn(&c, score, p, REST);
    }
    assert_true(c.sums.weight < 1e6 && calibration_valid(&c));
    assert_true(rare > STEPS * RATE / 2 && rare < STEPS * RATE * 2);
    (void)state;
}

static void larger_scores_are_rarer(void **state) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        static struct calibration c;
        memset(&c, 0, sizeof c);
        for (size_t n = 0; n < 3000; n++) {
            double before = 0;
            double score = kinds[k]();
            calibration_learn(&c, score, calibration_rarity(&c, score), REST);
            for (double s = -1; n > 100 && n % 50 == 0 && s < 40; s += 0.01) {
                double p = calibration_rarity(&c, s);
                assert_true(isfinite(p) && p >= before - 1e-9);
                before = p;
            }
        }
    }
    (void)state;
}

static void extreme_scores_keep_the_state_valid(void **state) {
    static const double values[] = {0, 1e300, -5, INFINITY, NAN, 31.999999, 0.0249, 3};
    enum { VALUES = sizeof values / sizeof *values };
    for (size_t v = 0; v < VALUES; v++) {
        static struct calibration c;
        memset(&c, 0, sizeof c);
        assert_true(calibration_valid(&c));
        for (size_t n = 0; n < 2000; n++) {
            double score = n < 500 ? values[v] : values[draw() % VALUES];
            double p = calibration_rarity(&c, score);
            assert_true(isnan(p) || (isfinite(p) && p >= 0));
            calibration_learn(&c, score, p, REST);
            assert_true(calibration_valid(&c));
        }
    }
    (void)state;
}

static void damaged_calibrations_are_rejected_or_harmless(void **state) {
    static struct calibration before, c;
    size_t accepted = 0, size = sizeof c / sizeof(double);
    memset(&before, 0, sizeof before);
    for (size_t n = 0; n < 5000; n++) {
        double score = light();
        calibration_learn(&before, score, calibration_rarity(&before, score), REST);
    }
    for (size_t n = 0; n < 20000; n++) {
        size_t at = draw() % (n % 2 ? 12 : size);
        c = before;
        (&c.steps)[at] = damage((&c.steps)[at]);
        if (n % 100 == 0)
            fill(&c, sizeof c);
        if (!calibration_valid(&c))
            continue;
        accepted++;
        for (double s = 0; s < 10; s++) {
            double p = calibration_rarity(&c, s);
            assert_true(isnan(p) || isfinite(p));
            calibration_learn(&c, s, p, REST);
        }
        assert_true(isfinite(calibration_threshold(&c, RATE)) && calibration_valid(&c));
    }
    assert_true(accepted > 1000);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_that_leaves_the_others_is_named_while_it_does),
        cmocka_unit_test(a_new_normal_is_accepted_only_by_learning),
        cmocka_unit_test(values_marked_as_normal_are_normal_at_once),
        cmocka_unit_test(a_step_without_values_is_not_a_step),
        cmocka_unit_test(a_copy_goes_on_with_the_same_bits),
        cmocka_unit_test(another_half_begins_anew),
        cmocka_unit_test(wild_values_keep_the_state_valid),
        cmocka_unit_test(damaged_states_are_rejected_or_harmless),
        cmocka_unit_test(rates_are_nominal),
        cmocka_unit_test(long_streams_go_on),
        cmocka_unit_test(larger_scores_are_rarer),
        cmocka_unit_test(extreme_scores_keep_the_state_valid),
        cmocka_unit_test(damaged_calibrations_are_rejected_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
