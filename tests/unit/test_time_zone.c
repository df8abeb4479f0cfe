/* Rules of zones that this machine's tzdata does not contain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/time_zone.c" /* for its static rules */

static const double hour = 3600;

static const struct time_zone *ruled(const char *rule) {
    static struct time_zone zone;
    memset(&zone, 0, sizeof zone);
    assert_true(add_rule(&zone, rule));
    return &zone;
}

/* RFC 8536, 3.3.1: summer ends as the next one begins. */
static void summer_may_be_all_year(void **unused) {
    static const struct {
        const char *rule;
        double hours;
    } rules[] = {{"XXX3EDT4,0/0,J365/23", -4}, {"EST5EDT,0/0,J365/25", -4}};
    for (size_t n = 0; n < sizeof rules / sizeof *rules; n++) {
        const struct time_zone *zone = ruled(rules[n].rule);
        for (long year = 1971; year < 2800; year++) {
            double begins = (double)time_zone_year_begins(year) * SECONDS_PER_DAY;
            for (int at = -1; at < 6; at++) /* around the change from one summer to the next */
                assert_true(time_zone_offset(zone, begins + at * hour) == rules[n].hours * hour);
            assert_true(time_zone_offset(zone, begins + 180.0 * SECONDS_PER_DAY) ==
                        rules[n].hours * hour);
        }
    }
}

/* Clocks of Berlin: the same any multiple of 400 years later. */
static void dates_repeat(void **unused) {
    const double summer = 1.625e9, winter = 1.61e9; /* in 2021 */
    const struct time_zone *zone = ruled("CET-1CEST,M3.5.0,M10.5.0/3");
    for (int n = 0; n < 20; n++) {
        assert_true(time_zone_offset(zone, summer + n * CYCLE_SECONDS) == 2 * hour);
        assert_true(time_zone_offset(zone, winter + n * CYCLE_SECONDS) == hour);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summer_may_be_all_year),
        cmocka_unit_test(dates_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
