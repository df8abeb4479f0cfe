/* Running statistics against two passes over all values, in long double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "learner/scaler.h"

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
    assert_int_equal(scaler_open(&scaler, NUMBERS, NULL), 0);
    for (size_t n = 0; n < VALUES; n++) {
        char bytes[1 + NUMBERS * sizeof(float)]; /* x may lie at any address */
        for (size_t k = 0; k < NUMBERS; k++) {
            float value = value_of(n, k);
            memcpy(bytes + 1 + k * sizeof value, &value, sizeof value);
        }
        scaler_add(scaler, bytes + 1);
    }
    return scaler;
}

static void agrees_with_two_passes(void **unused) {
    (void)unused;
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
    (void)unused;
    struct scaler *scaler;
    assert_int_equal(scaler_open(&scaler, 1, NULL), 0);
    assert_true(scaler_scale(scaler, 0, 5) == 0); /* nothing seen */
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

/* A copy through struct scaler_number continues with the same bits. */
static void goes_on_from_a_copy(void **unused) {
    (void)unused;
    struct scaler *scaler = filled(), *copy;
    assert_int_equal(scaler_open(&copy, NUMBERS, NULL), 0);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_two_passes),
        cmocka_unit_test(scales_by_mean_and_deviation),
        cmocka_unit_test(goes_on_from_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
