/* Processing of log lines: masked numbers, and times. tests/programs/test_feed_lines.py compares
   templates with a second implementation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/stamp.h"
#include "streams/sources/feed_drain.h"

static void test_numbers_are_masked(void **state) {
    static const char *const CASES[][2] = {
        {"", ""},
        {"no number", "no number"},
        {"took 12 ms", "took <N> ms"},
        {"took 12ms", "took <N>ms"},
        {"took -1.5 s, +3", "took <N> s, <N>"},
        {"a-5 b_5", "a-<N> b_<N>"},
        {"10.0.0.1:22 [::1]:80", "<N> [::<N>]:<N>"},
        {"2026-11-22 12:34:56,7", "<N> <N>"},
        {"port=5 (7%)", "port=<N> (<N>%)"},
        {"sshd[123]: x", "sshd[<N>]: x"},
        {"python3.11-minimal eth0 web12a3", "python<N>-minimal eth<N> web<N>a<N>"},
        {"0x7fFF 0xZ", "<N> <N>xZ"},
        {"550e8400-e29b-41d4-a716-446655440000", "<N>"},
        {"dead beef 9f8e cafe1", "dead beef <N> <N>"},
        {"größe5", "größe<N>"},
        {"1/2 1.", "<N>/<N> <N>."},
    };
    char masked[DRAIN_MASKED_SIZE];
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        drain_mask(CASES[i][0], masked);
        assert_string_equal(masked, CASES[i][1]);
    }
}

/* The worst line: only numbers, and too long. */
static void test_long_lines_are_cut(void **state) {
    static char line[3 * DRAIN_LINE_MAX], masked[DRAIN_MASKED_SIZE];
    for (size_t i = 0; i + 1 < sizeof line; i++)
        line[i] = i % 2 ? '/' : '1';
    drain_mask(line, masked);
    assert_int_equal(strlen(masked), (DRAIN_LINE_MAX - 1) / 2 * 4 + 3);
    memset(line, 'a', sizeof line - 1);
    drain_mask(line, masked);
    assert_string_equal(masked, "");
}

static void test_times_are_read(void **state) {
    static const double NOW = 1795341600; /* 2026-11-22 10:00:00 UTC */
    static const struct {
        const char *line;
        double time;
        const char *rest; /* NULL: no time */
    } CASES[] = {
        {"2016-07-01T12:34:56Z x", 1467376496, "x"},
        {"2016-07-01T12:34:56.789+02:00 x", 1467376496.789 - 7200, "x"},
        {"2016-07-01 12:34:56.5-0130 x", 1467376496.5 + 5400, "x"},
        {"2016-07-01 12:34:56,789 +01 x", 1467376496.789 - 3600, "x"},
        {"2016/07/01 12:34:56 [error] x", 1467376496 - 32400,
         "[error] x"}, /* TZ is nine hours east of UTC */
        {"2016-07-01 12:34:56", 1467376496 - 32400, ""},
        {"[2016-07-01 12:34:56] x", 1467376496 - 32400, " x"},
        {"2016-07-01 12:34:56: x", 1467376496 - 32400, " x"},
        {"<34>1 2016-07-01T12:34:56Z h", 1467376496, "h"},
        {"<34>Nov 22 10:00:01 h", 1795341601 - 32400, "h"},
        {"Nov  2 10:00:01.25 h", 1793613601.25 - 32400, "h"},
        {"Dec 31 10:00:00 h", 1767175200 - 32400, "h"}, /* of the previous year */
        {"1467376496 x", 1467376496, "x"},
        {"[1467376496.25] x", 1467376496.25, " x"},
        {"[1467376496.25 x", 0, NULL},
        {"146737649 x", 0, NULL},
        {"14673764960 x", 0, NULL},
        {"2016-13-01 12:34:56 x", 0, NULL},
        {"2016-07-01 24:34:56 x", 0, NULL},
        {"2016-07-01 12:34 x", 0, NULL},
        {"2016-07-01", 0, NULL},
        {"16-07-01 12:34:56 x", 0, NULL},
        {"2016-07-01T12:34:56Zulu", 0, NULL},
        {"Nov 22 10:00 h", 0, NULL},
        {"November 22", 0, NULL},
        {"<34", 0, NULL},
        {"", 0, NULL},
        {"x", 0, NULL},
    };
    setenv("TZ", "JST-9", 1);
    tzset();
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        double found;
        const char *rest = stamp_read(CASES[i].line, NOW, &found);
        if (!CASES[i].rest) {
            assert_null(rest);
            continue;
        }
        assert_non_null(rest);
        assert_string_equal(rest, CASES[i].rest);
        assert_true(fabs(found - CASES[i].time) < 1e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_masked),
        cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_times_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
