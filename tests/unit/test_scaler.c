/* Running statistics against two passes over all values, in long double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parts/scaler.h"

enum { VALUES = 5000, NUMBERS = 4 };

static const double TOLERANCE = 1e-12; /* relative, of double sums over VALUES values */

/* Far from zero, huge, constant, and with gaps. */
static float value_of(size_t n, size_t k) {
    double wave = sin((double)n * (1 + (double)k));
    switch (k) {
    case 0:
        return (float)(1e6 + wave);
    case 1:
        return (float)(3e38 * wave);
    case 2:
        return -7.25f;
    default:
        return n % 3 == 1 ? NAN : (float)(wave * wave);
    }
}

static void exact(size_t k, long double *mean, long double *deviation, size_t *count) {
    long double sum = 0, squares = 0;
    *count = 0;
    for (size_t n = 0; n < VALUES; n++)
        if (!isnan(value_of(n, k))) {
            sum += value_of(n, k);
            ++*count;
        }
    *mean = sum / *count;
    for (size_t n = 0; n < VALUES; n++)
        if (!isnan(value_of(n, k)))
            squares += (value_of(n, k) - *mean) * (value_of(n, k) - *mean);
    *deviation = sqrtl(squares / *count);
}

static struct scaler *filled(void) {
    struct scaler *scaler;
    assert_int_equal(scaler_open(&scaler, NUMBERS, 0, 0, NULL), 0);
    for (size_t n = 0; n < VALUES; n++) {
        char bytes[1 + NUMBERS * sizeof(float)]; /* x can be unaligned */
        for (size_t k = 0; k < NUMBERS; k++) {
            float value = value_of(n, k);
            memcpy(bytes + 1 + k * sizeof value, &value, sizeof value);
        }
        scaler_add(scaler, bytes + 1);
    }
    return scaler;
}

static void agrees_with_two_passes(void **unused) {
    struct scaler *scaler = filled();
    for (size_t k = 0; k < NUMBERS; k++) {
        long double mean, deviation;
        size_t count;
        exact(k, &mean, &deviation, &count);
        long double size = fabsl(mean) + deviation;
        assert_int_equal(scaler_read(scaler, k).count, count);
        assert_true(fabsl(scaler_means(scaler)[k] - mean) <= TOLERANCE * size);
        assert_true(fabsl(scaler_deviations(scaler)[k] - deviation) <= TOLERANCE * size);
    }
    scaler_close(&scaler);
    assert_null(scaler);
}

static void scales_by_mean_and_deviation(void **unused) {
    struct scaler *scaler;
    assert_int_equal(scaler_open(&scaler, 1, 0, 0, NULL), 0);
    assert_true(scaler_scale(scaler, 0, 5) == 0); /* no value yet */
    scaler_add(scaler, &(float){4});
    assert_true(scaler_scale(scaler, 0, 4) == 0); /* sd 0 */
    scaler_add(scaler, &(float){8});
    assert_true(scaler_scale(scaler, 0, 8) == 1); /* mean 6, population sd 2 */
    assert_true(scaler_scale(scaler, 0, 3) == -1.5f);
    scaler_add(scaler, &(float){NAN});
    assert_true(scaler_scale(scaler, 0, 8) == 1);
    scaler_reset(scaler);
    assert_true(scaler_scale(scaler, 0, 8) == 0);
    assert_int_equal(scaler_read(scaler, 0).count, 0);
    scaler_close(&scaler);
}

/* A copy by struct scaler_number continues with the same bits. */
static void goes_on_from_a_copy(void **unused) {
    struct scaler *scaler = filled(), *copy;
    assert_int_equal(scaler_open(&copy, NUMBERS, 0, 0, NULL), 0);
    for (size_t k = 0; k < NUMBERS; k++) {
        struct scaler_number number = scaler_read(scaler, k);
        scaler_write(copy, k, &number);
    }
    const float x[NUMBERS] = {1, 2, 3, 4};
    for (size_t n = 0; n < 10; n++) {
        scaler_add(scaler, x);
        scaler_add(copy, x);
        assert_memory_equal(scaler_means(scaler), scaler_means(copy), NUMBERS * sizeof(double));
        assert_memory_equal(scaler_deviations(scaler), scaler_deviations(copy),
                            NUMBERS * sizeof(double));
    }
    scaler_close(&scaler);
    scaler_close(&copy);
}

/* ---- memory and limit ---- */

static struct scaler *limited(uint64_t memory, double limit) {
    struct scaler *scaler;
    assert_int_equal(scaler_open(&scaler, 1, memory, limit, NULL), 0);
    return scaler;
}

static void assert_near(double found, double expected) {
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.17g, expected %.17g", found, expected);
}

/* A wave, one wild value, and a new level: expected figures from a numpy implementation of the same
   rules. */
static void wild_values_and_new_levels_are_followed_slowly(void **unused) {
    enum { WILD = 200, LEVEL = 500, COUNT = 3000 };
    static const struct {
        size_t count;
        double mean, deviation;
    } expected[] = {
        {2, 3.0998333692550659, 0.099833369255065918},
        {30, 4.3208519220352173, 0.58894005175726993},
        {31, 4.287348308870869, 0.60773055323320624},
        {200, 3.0545777291059486, 1.3969807430983965},
        {201, 3.2630823176280974, 3.2613921343058534},
        {210, 3.3344297075822427, 3.208538462550393},
        {500, 3.0822011624090742, 2.349116429796557},
        {501, 3.1608300028915721, 2.9323336460715113},
        {540, 6.1060233346393886, 10.929941673338238},
        {1000, 23.043395792996549, 20.055217188189676},
        {1001, 23.062339667558778, 20.054127660958954},
        {3000, 40.305387985937891, 10.13363568855006},
    };
    struct scaler *scaler = limited(1000, 30);
    size_t next = 0;
    for (size_t n = 0; n < COUNT; n++) {
        float x = (float)(3 + 2 * sin(0.1 * (double)n) + (n >= LEVEL ? 40 : 0));
        x = n == WILD ? 1e30f : x;
        scaler_add(scaler, &x);
        if (n == WILD)
            assert_true(scaler_scale(scaler, 0, x) == 30);
        if (n + 1 != expected[next].count)
            continue;
        assert_near(scaler_means(scaler)[0], expected[next].mean);
        assert_near(scaler_deviations(scaler)[0], expected[next].deviation);
        next++;
    }
    scaler_close(&scaler);
}

/* Adds the values `x` (count,), then `more` values of the wave. */
static struct scaler *begun(const float *x, size_t count, size_t more) {
    struct scaler *scaler = limited(1000, 30);
    for (size_t n = 0; n < count + more; n++) {
        float value = n < count ? x[n] : (float)sin((double)n);
        scaler_add(scaler, &value);
    }
    return scaler;
}

/* Wild values among the first ones are left out once these are complete, at any place. */
static void wild_first_values_are_left_out(void **unused) {
    for (size_t at = 0; at < SCALER_FIRST; at++) {
        float x[SCALER_FIRST], others[SCALER_FIRST];
        size_t count = 0;
        for (size_t n = 0; n < SCALER_FIRST; n++) {
            bool wild = n == at || n == (at + 7) % SCALER_FIRST;
            x[n] = wild ? (n == at ? 1e30f : -3e7f) : (float)(5 + sin((double)n));
            if (!wild)
                others[count++] = x[n];
        }
        double mean = 0, squares = 0;
        for (size_t n = 0; n < count; n++)
            mean += others[n] / (double)count;
        for (size_t n = 0; n < count; n++)
            squares += (others[n] - mean) * (others[n] - mean);
        struct scaler *scaler = begun(x, SCALER_FIRST, 0);
        assert_near(scaler_means(scaler)[0], mean);
        assert_near(scaler_deviations(scaler)[0], sqrt(squares / (double)count));
        assert_int_equal(scaler_read(scaler, 0).count, SCALER_FIRST);
        scaler_close(&scaler);
    }
}

static double constant_then(size_t constants, float value, size_t values) {
    float x[SCALER_FIRST] = {0};
    for (size_t n = constants; n < constants + values; n++)
        x[n] = value;
    struct scaler *scaler = begun(x, SCALER_FIRST, 0);
    double mean = scaler_means(scaler)[0];
    scaler_close(&scaler);
    return mean;
}

/* Values that differ from all others without being wild: a switch, or a counter that starts. */
static void unusual_first_values_count(void **unused) {
    assert_near(constant_then(10, 1, 1), 1.0 / SCALER_FIRST);
    assert_near(constant_then(10, 4e9f, 1), 4e9 / SCALER_FIRST);
    assert_near(constant_then(10, 1e20f, SCALER_WILD_MAX + 1),
                (double)1e20f * (SCALER_WILD_MAX + 1) / SCALER_FIRST);
    assert_true(constant_then(10, 1e30f, 1) == 0);
}

/* A column that was constant is followed once it changes. */
static void a_constant_column_may_begin_to_change(void **unused) {
    float x[2 * SCALER_FIRST] = {0};
    struct scaler *scaler = begun(x, 2 * SCALER_FIRST, 200);
    assert_true(scaler_deviations(scaler)[0] > 0.3);
    scaler_close(&scaler);
}

/* This includes the time of the first values. */
static void a_limited_one_goes_on_from_a_copy(void **unused) {
    float x[SCALER_FIRST];
    for (size_t n = 0; n < SCALER_FIRST; n++)
        x[n] = n == 3 ? 1e30f : (float)n;
    for (size_t count = 1; count < 2 * SCALER_FIRST; count++) {
        size_t first = count < SCALER_FIRST ? count : SCALER_FIRST;
        struct scaler *scaler = begun(x, first, count - first), *copy = limited(1000, 30);
        struct scaler_number number = scaler_read(scaler, 0);
        scaler_write(copy, 0, &number);
        memcpy(scaler_first(copy, 0), scaler_first(scaler, 0), sizeof x);
        for (size_t n = 0; n < 2 * SCALER_FIRST; n++) {
            scaler_add(scaler, &x[n % SCALER_FIRST]);
            scaler_add(copy, &x[n % SCALER_FIRST]);
            assert_memory_equal(scaler_means(scaler), scaler_means(copy), sizeof(double));
            assert_memory_equal(scaler_deviations(scaler), scaler_deviations(copy), sizeof(double));
        }
        scaler_close(&scaler);
        scaler_close(&copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_two_passes),
        cmocka_unit_test(scales_by_mean_and_deviation),
        cmocka_unit_test(goes_on_from_a_copy),
        cmocka_unit_test(wild_values_and_new_levels_are_followed_slowly),
        cmocka_unit_test(wild_first_values_are_left_out),
        cmocka_unit_test(unusual_first_values_count),
        cmocka_unit_test(a_constant_column_may_begin_to_change),
        cmocka_unit_test(a_limited_one_goes_on_from_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
