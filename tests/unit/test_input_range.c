/* Numbers out of scale, and how the range follows them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "parts/range.h"

enum { COLUMNS = 2 };

static struct out_of_scale take(struct input_range *range, float a, float b) {
    const float x[COLUMNS] = {a, b};
    char bytes[1 + sizeof x]; /* x can be unaligned */
    memcpy(bytes + 1, x, sizeof x);
    return input_range_take(range, bytes + 1, 1);
}

static struct input_range *begun(float a, float b, int count) {
    struct input_range *range;
    assert_int_equal(input_range_open(&range, COLUMNS, NULL), 0);
    for (int n = 0; n < count; n++)
        assert_int_equal(take(range, a, b).count, 0);
    return range;
}

static void a_number_far_out_is_found(void **unused) {
    struct input_range *range = begun(-2, 5, INPUT_RANGE_FIRST);
    assert_int_equal(take(range, 200, -500).count, 0); /* a hundred times: this is now the range */
    struct out_of_scale found = take(range, 20001, 7);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.column, 0);
    assert_true(found.value == 20001 && found.largest == 200);
    found = take(range, 0, -1e30f);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.column, 1);
    assert_true(found.value == -1e30f && found.largest == 500);
    input_range_close(&range);
    assert_null(range);
}

/* The range grows only by the factor: another number is found, and a new unit is accepted after a
   few. */
static void the_range_follows_slowly(void **unused) {
    struct input_range *range = begun(1, 1, INPUT_RANGE_FIRST);
    int found = 0;
    for (int n = 0; n < 100; n++)
        found += take(range, 1e5f, 1).count == 1;
    assert_int_equal(found, 2); /* 1, then 100, then 10,000 */
    for (int n = 0; n < 100; n++)
        found += take(range, 1, 3e38f).count == 1;
    assert_int_equal(found, 2 + 19);
    input_range_close(&range);
}

static void nothing_is_known_at_first(void **unused) {
    struct input_range *range = begun(1, 0, INPUT_RANGE_FIRST - 1);
    assert_int_equal(take(range, 1e30f, 1e30f).count, 0);
    input_range_reset(range);
    for (int n = 0; n < INPUT_RANGE_FIRST - 1; n++)
        take(range, 1, NAN);
    assert_int_equal(take(range, 1e6f, NAN).count, 0);
    input_range_close(&range);
    range = begun(1, NAN, 2 * INPUT_RANGE_FIRST); /* a column of gaps */
    assert_int_equal(take(range, 1, 1e30f).count, 0);
    input_range_close(&range);
    range = begun(1, 0, 2 * INPUT_RANGE_FIRST); /* a column of zeros */
    assert_int_equal(take(range, 1, 1e30f).count, 0);
    assert_int_equal(take(range, NAN, 1e30f).count, 0);
    input_range_close(&range);
}

static void what_was_known_counts(void **unused) {
    struct input_range *range = begun(0, 0, 0);
    input_range_known(range, 0, 1000, 20);
    input_range_known(range, 1, 3, 1e300);
    assert_int_equal(take(range, 2001, 1).column, 0);
    assert_int_equal(take(range, 3e38f, 3e38f).count, 1);
    const float steps[3 * COLUMNS] = {1, 1, 3e38f, 1, 1, 3e38f};
    assert_int_equal(input_range_take(range, steps, 3).count, 1);
    input_range_close(&range);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_far_out_is_found),
        cmocka_unit_test(the_range_follows_slowly),
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(what_was_known_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
