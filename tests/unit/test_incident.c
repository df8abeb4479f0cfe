/* The parts of an incident: begin, end, peak, and the union of several streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "anomaly/incident.h"

#define REST 10.0
#define SILENCE 5000.0

static struct incident_peak peak_at(double example, double score) {
    return (struct incident_peak){{example, 60 * example}, score, score - 2, 1};
}

/* A step with that score, whose number is that of its example. */
static bool add(struct incident *incident, double example, double score, bool alarm) {
    const struct incident_peak peak = peak_at(example, score);
    return incident_add(incident, example, &peak, alarm);
}

static struct incident begun(double example, double score) {
    struct incident incident = {.newest = 1, .silence = SILENCE};
    incident_begin(&incident, example);
    add(&incident, example, score, true);
    return incident;
}

static void it_ends_rest_steps_after_the_last_abnormal_one(void **state) {
    struct incident incident = begun(100, 3);
    assert_true(add(&incident, 107, 4, false));
    for (double step = 107; step < 107 + REST; step++)
        assert_false(incident_ends(&incident, step, REST));
    assert_true(incident_ends(&incident, 107 + REST, REST));
    assert_false(incident_ends(&incident, 108 + REST, REST)); /* once */
    assert_true(incident.begin.example == 100 && incident.end.example == 107);
    assert_true(incident.end.time == 107 * 60 && incident.steps == 2 && incident.alarms == 1);
    (void)state;
}

static void without_rest_it_ends_with_the_next_normal_step(void **state) {
    struct incident incident = begun(100, 3);
    assert_false(incident_ends(&incident, 100, 0));
    assert_true(incident_ends(&incident, 101, 0));
    (void)state;
}

static void a_step_with_several_reasons_counts_once(void **state) {
    struct incident incident = begun(100, 3);
    assert_false(add(&incident, 100, 5, true));
    assert_true(incident.steps == 1 && incident.alarms == 2 && incident.peak.score == 5);
    (void)state;
}

static void the_peak_is_furthest_above_its_threshold(void **state) {
    struct incident incident = begun(100, 3);
    const struct incident_peak surprise = {{101, 0}, 7.5, 0.5, 2}, none = {{102, 0}, -1, -1, 3};
    incident_add(&incident, 101, &surprise, true);
    incident_add(&incident, 102, &none, true);
    assert_true(incident.peak.at.example == 100 && incident.peak.score == 3);
    assert_true(incident.end.example == 102 && incident.alarms == 3);
    (void)state;
}

static void it_goes_on_or_begins_again(void **state) {
    struct incident incident = begun(100, 3);
    assert_true(incident_ends(&incident, 150, REST));
    incident.open = 1; /* its group is still open */
    add(&incident, 160, 2.5, true);
    assert_true(incident.begin.example == 100 && incident.steps == 2 && incident.peak.score == 3);
    incident_begin(&incident, 200);
    add(&incident, 200, 2.5, true);
    assert_true(incident.begin.example == 200 && incident.steps == 1 && incident.peak.score == 2.5);
    assert_true(incident.silence == SILENCE && incident.newest == 1);
    (void)state;
}

static void parts_join(void **state) {
    struct incident all = begun(100, 3), other = begun(90, 2.5), late = begun(120, 4);
    incident_join(&all, &other);
    incident_join(&all, &late);
    assert_true(all.begin.example == 90 && all.end.example == 120 && all.peak.at.example == 120);
    assert_true(all.steps == 3 && all.alarms == 3);
    (void)state;
}

/* Each number of a valid state, replaced by invalid ones. */
static void damaged_states_are_rejected(void **state) {
    struct {
        struct incident incident;
        struct incident_column columns[2];
    } damaged, valid = {.incident = begun(100, 3)};
    double *numbers = (double *)(void *)&damaged;
    assert_true(incident_valid(&valid.incident, valid.columns, 2));
    for (size_t n = 0; n < sizeof valid / sizeof(double); n++)
        for (size_t k = 0; k < 2; k++) {
            damaged = valid;
            numbers[n] = k ? (double)INFINITY : (double)NAN;
            assert_false(incident_valid(&damaged.incident, damaged.columns, 2));
        }
    damaged = valid;
    damaged.columns[1].count = INCIDENT_VALUES + 1;
    assert_false(incident_valid(&damaged.incident, damaged.columns, 2));
    damaged = valid;
    damaged.incident.number = 0; /* open, but none has begun */
    assert_false(incident_valid(&damaged.incident, damaged.columns, 2));
    damaged = valid;
    damaged.incident.steps = 0; /* shares are divided by it */
    assert_false(incident_valid(&damaged.incident, damaged.columns, 2));
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_rest_steps_after_the_last_abnormal_one),
        cmocka_unit_test(without_rest_it_ends_with_the_next_normal_step),
        cmocka_unit_test(a_step_with_several_reasons_counts_once),
        cmocka_unit_test(the_peak_is_furthest_above_its_threshold),
        cmocka_unit_test(it_goes_on_or_begins_again),
        cmocka_unit_test(parts_join),
        cmocka_unit_test(damaged_states_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
