/* Series in Prometheus's text format, and which of them a selector chooses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "streams/sources/feed_metrics.h"

static const char TEXT[] = "# HELP load The load.\n# TYPE load gauge\nload 0.5\n"
                           "requests_total{code=\"200\",method=\"get\"} 10 1395066363000\r\n"
                           "requests_total{ method = \"get\" , code = \"500\" , } 3\n"
                           "requests_total{code=\"500\",method=\"put\"}\t4\n"
                           "odd:name_1{path=\"C:\\\\a\\\"b\\n\",x=\"a}b,c=d\"} -1.5e3\n"
                           "   indented{} 7\n"
                           "nothing NaN\nmuch +Inf\nhex 0x10\nload_more 9\n"
                           "broken{a=\"1} 1\nbroken{a=1} 1\nbroken 1x\nbroken\nbroken{a=\"1\"\n"
                           "{\"quoted\"} 1\n# EOF";

static double sum(const char *text) {
    struct selector selector;
    const struct selector *one = &selector;
    const char *why;
    double sums;
    assert_int_equal(selector_open(&selector, text, &why), 0);
    char *copy = strdup(TEXT);
    assert_non_null(copy);
    metrics_sum(copy, &one, &sums, 1);
    free(copy);
    selector_close(&selector);
    return sums;
}

static void test_what_is_chosen(void **state) {
    assert_true(sum("load") == 0.5);
    assert_true(sum(" load{} ") == 0.5);
    assert_true(sum("requests_total") == 17);
    assert_true(sum("requests_total{code=\"500\"}") == 7);
    assert_true(sum("requests_total{method=\"get\", code=\"500\"}") == 3);
    assert_true(isnan(sum("requests_total{code=\"404\"}")));
    assert_true(isnan(sum("requests_total{codes=\"500\"}")));
    assert_true(sum("odd:name_1{path=\"C:\\\\a\\\"b\\n\"}") == -1500);
    assert_true(sum("odd:name_1{x=\"a}b,c=d\"}") == -1500);
    assert_true(sum("indented") == 7);
    assert_true(isnan(sum("nothing")));
    assert_true(isinf(sum("much")));
    assert_true(isnan(sum("broken")));
    assert_true(isnan(sum("loa")));
}

static void test_selectors_that_are_none(void **state) {
    static const char *const CASES[] = {
        "",    "{}",  "1a",          "a{",          "a{b}",    "a{b=c}", "a{b=\"c}", "a{b=\"c\"} 1",
        "a b", "a-b", "a{b=~\"c\"}", "a{b!=\"c\"}", "a{\"b\"}"};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct selector selector;
        const char *why;
        assert_int_equal(selector_open(&selector, CASES[i], &why), -1);
        assert_non_null(why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_chosen),
        cmocka_unit_test(test_selectors_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
