/* Scores of streams: surprise, and broken habits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>
#include <sysexits.h>

#include "anomaly/anomaly.h"
#include "anomaly/novelty.h"
#include "common/error.h"

enum { COLUMNS = 2, SLOTS = 4, SLOT = 1, OTHER = 3, HABIT = 200 };

#define BEGIN 1e9
#define MINUTE 60.0

static struct anomaly *opened_with(bool has_errors, size_t memory) {
    const struct anomaly_options options = {
        .slots = SLOTS, .columns = COLUMNS, .memory = memory, .has_errors = has_errors, .seed = 1};
    struct anomaly *anomaly;
    struct error error;
    assert_int_equal(anomaly_open(&anomaly, &options, &error), 0);
    anomaly_begin(anomaly, SLOT);
    return anomaly;
}

static struct anomaly *opened(bool has_errors) {
    return opened_with(has_errors, 40);
}

static float noise(unsigned n) {
    return (float)(n * 2654435761U % 1000) / 1000;
}

static double take(struct anomaly *anomaly, float first, float second) {
    const float x[COLUMNS] = {first, second};
    return anomaly_take(anomaly, SLOT, x, 0);
}

/* A stream that moves at each step. */
static struct anomaly *lively_with(size_t memory) {
    struct anomaly *anomaly = opened_with(true, memory);
    for (unsigned n = 0; n < HABIT; n++)
        take(anomaly, noise(n), -noise(n));
    return anomaly;
}

static struct anomaly *lively(void) {
    return lively_with(40);
}

static void the_largest_column_is_the_streams(void **state) {
    struct anomaly *anomaly = lively();
    anomaly_clear(anomaly);
    assert_true(isnan(anomaly_result(anomaly).score));
    double score = take(anomaly, 0.5f, 50);
    struct anomaly_result result = anomaly_result(anomaly);
    assert_true(result.scores[1] > result.scores[0] && result.score == result.scores[1]);
    assert_true(score == result.score && isnan(result.surprise));
    take(anomaly, 0.4f, 0.6f); /* the largest since the last clear stays */
    assert_true(anomaly_result(anomaly).score >= score);
    take(anomaly, NAN, NAN);
    anomaly_clear(anomaly);
    assert_true(isnan(take(anomaly, NAN, NAN)));
    anomaly_close(&anomaly);
}

/* A step with that forecast error, and whether it raises an alarm of surprise. */
static bool is_off(struct anomaly *anomaly, const struct alarm_rule *rule, double error) {
    const double errors[COLUMNS] = {error, NAN};
    double surprise = anomaly_wrong(anomaly, SLOT, errors, rule);
    take(anomaly, (float)error, 0);
    uint64_t number = anomaly_steps(anomaly, SLOT) - 1;
    return rule && alarm_raised(anomaly_alarm(anomaly, SLOT, true), rule, surprise, number);
}

static const struct alarm_rule SURPRISE_RULE = {.threshold = 7, .rest = 20, .recovery = 1};

static void a_repeated_spike_remains_one(void **state) {
    struct anomaly *anomaly = opened(true);
    size_t alarms = 0, spikes = 0;
    for (unsigned n = 0; n < 4000; n++) {
        bool spike = n >= 1000 && n % 100 == 0, after = n >= 1000 && n % 100 == 1;
        bool alarm = is_off(anomaly, &SURPRISE_RULE,
                            spike   ? 300
                            : after ? 100 /* its forecasts suffer from it */
                                    : (double)noise(n) - 0.5);
        assert_true(!alarm || spike);
        alarms += alarm;
        spikes += spike;
        assert_true(anomaly_is_echo(anomaly, SLOT) == (alarms > 0 && n % 100 > 0 && n % 100 < 64));
    }
    assert_true(spikes == 30 && alarms == spikes);
    anomaly_close(&anomaly);
}

static void what_lasts_is_learned(void **state) {
    struct anomaly *anomaly = opened(true);
    size_t alarms = 0;
    for (unsigned n = 0; n < 6000; n++)
        alarms += is_off(anomaly, &SURPRISE_RULE, (noise(n) - 0.5) * (n < 2000 ? 1 : 1000));
    assert_in_range(alarms, 1, 5);
    anomaly_close(&anomaly);
}

static void what_lasts_is_learned_with_the_shortest_rest(void **state) {
    const struct alarm_rule rule = {.threshold = 7, .rest = SURPRISE_REST_MIN, .recovery = 1};
    /* one error for all columns: no band limits its score */
    struct anomaly *anomaly = opened(false);
    size_t alarms = 0, late = 0;
    for (unsigned n = 0; n < 6000; n++) {
        bool alarm = is_off(anomaly, &rule, (1 + (double)noise(n)) * (n < 2000 ? 1 : 1000));
        alarms += alarm;
        late += alarm && n >= 3000;
    }
    assert_true(alarms > 0 && late == 0);
    anomaly_close(&anomaly);
}

/* Values that jump all the time, and have good forecasts until then: no jump is outside the
   band. */
static void errors_in_band_are_no_alarms(void **state) {
    struct anomaly *anomaly = opened(true);
    for (unsigned n = 0; n < 4000; n++) {
        const double errors[COLUMNS] = {n % 144 == 0 ? 60 : 1e-9, NAN};
        double surprise = anomaly_wrong(anomaly, SLOT, errors, &SURPRISE_RULE);
        assert_true(isnan(surprise) || surprise <= SURPRISE_IN_BAND);
        take(anomaly, n / 144 % 2 ? 80 : 20, 0);
    }
    anomaly_close(&anomaly);
}

static void large_errors_surprise(void **state) {
    struct anomaly *anomaly = lively();
    for (unsigned n = 0; n < HABIT; n++) {
        const double errors[COLUMNS] = {(double)noise(n) - 0.5, NAN};
        double surprise = anomaly_wrong(anomaly, SLOT, errors, NULL);
        assert_true(n < 20 ? isnan(surprise) : n < 30 || surprise < 2);
    }
    anomaly_clear(anomaly);
    const double wrong[COLUMNS] = {-30, 2};
    double surprise = anomaly_wrong(anomaly, SLOT, wrong, NULL);
    struct anomaly_result result = anomaly_result(anomaly);
    assert_true(surprise > 2 && result.surprise == surprise && result.surprises[0] == surprise);
    assert_true(isnan(result.surprises[1])); /* no error of that column is known */
    anomaly_close(&anomaly);
    anomaly = opened(false);
    for (unsigned n = 0; n < 2 * HABIT; n++) {
        const double density = exp(noise(n));
        take(anomaly, noise(n), 0);
        surprise = anomaly_wrong(anomaly, SLOT, &density, NULL);
    }
    const double unlikely = exp(9);
    assert_true(surprise < 2 && anomaly_wrong(anomaly, SLOT, &unlikely, NULL) > 2);
    anomaly_close(&anomaly);
}

/* Reported once, and only if values used to move. */
static void a_column_that_freezes_is_stuck(void **state) {
    struct anomaly *anomaly = lively();
    unsigned reported = 0;
    for (unsigned n = 0; n < HABIT; n++) {
        take(anomaly, 7, noise(n));
        assert_int_equal(anomaly_habit(anomaly, 1), HABIT_KEPT);
        reported += anomaly_habit(anomaly, 0) == HABIT_STUCK;
        assert_int_equal(reported, n > 30);
    }
    anomaly_close(&anomaly);
    anomaly = opened(true);
    for (unsigned n = 0; n < 5000; n++) {
        take(anomaly, 7, (float)(n / 20 % 2)); /* constant; and two states that last 20 steps */
        assert_int_equal(anomaly_habit(anomaly, 0), HABIT_KEPT);
        assert_int_equal(anomaly_habit(anomaly, 1), HABIT_KEPT);
    }
    for (unsigned n = 0; n < 100; n++) {
        take(anomaly, 7, 2);
        assert_int_equal(anomaly_habit(anomaly, 1), n == 58 ? HABIT_STUCK : HABIT_KEPT);
    }
    anomaly_close(&anomaly);
}

static void a_column_that_is_missing_is_silent(void **state) {
    struct anomaly *anomaly = lively();
    for (unsigned n = 0; n < 50; n++) {
        take(anomaly, NAN, noise(n));
        assert_int_equal(anomaly_habit(anomaly, 0), n == 30 ? HABIT_SILENT : HABIT_KEPT);
        assert_int_equal(anomaly_habit(anomaly, 1), HABIT_KEPT);
    }
    /* A column that is constant for forty steps from the start has that habit. */
    anomaly_begin(anomaly, SLOT);
    for (unsigned n = 0; n < 8000; n++) {
        take(anomaly, n % 40 ? NAN : noise(n), noise(n));
        assert_int_equal(anomaly_habit(anomaly, 0), HABIT_KEPT);
    }
    anomaly_close(&anomaly);
}

/* After an example of OTHER at that time. */
static void nobody_is_silent(struct anomaly *anomaly, double time) {
    anomaly_received(anomaly, OTHER, time, false);
    if (!anomaly_may_be_silent(anomaly))
        return;
    assert_false(anomaly_is_silent(anomaly, SLOT, NULL));
    assert_false(anomaly_is_silent(anomaly, OTHER, NULL));
}

/* Two streams, every minute; then one continues alone. Returns the minute at which the other is
   reported silent, 0 = never; fails if reported twice. */
static unsigned silent_at(struct anomaly *anomaly, double step, unsigned minutes) {
    unsigned reported = 0;
    double time = BEGIN;
    for (unsigned n = 0; n < HABIT; n++, time += MINUTE) {
        anomaly_received(anomaly, SLOT, time, n == 0);
        nobody_is_silent(anomaly, time);
    }
    for (unsigned n = 1; n <= minutes; n++) {
        time = BEGIN + HABIT * MINUTE + n * step;
        anomaly_received(anomaly, OTHER, time, false);
        if (!anomaly_may_be_silent(anomaly))
            continue;
        assert_false(anomaly_is_silent(anomaly, OTHER, NULL));
        if (anomaly_is_silent(anomaly, SLOT, NULL)) {
            assert_int_equal(reported, 0);
            reported = n;
        }
    }
    return reported;
}

static void a_stream_that_stops_is_silent(void **state) {
    struct anomaly *anomaly = opened(true);
    /* Three minutes after its last example, and confirmed by the next one. */
    assert_int_equal(silent_at(anomaly, MINUTE, 100), 3);
    anomaly_close(&anomaly);
    anomaly = opened(true);
    assert_int_equal(silent_at(anomaly, 1e6, 100), 0); /* a leap into another year */
    /* A single wrong time, or one that jumps back, has no effect. */
    anomaly_close(&anomaly);
    anomaly = opened(true);
    silent_at(anomaly, MINUTE, 0);
    nobody_is_silent(anomaly, BEGIN + 1e8);
    nobody_is_silent(anomaly, BEGIN + HABIT * MINUTE);
    nobody_is_silent(anomaly, BEGIN);
    nobody_is_silent(anomaly, 0);
    anomaly_received(anomaly, SLOT, BEGIN, false);
    assert_true(anomaly_written(anomaly, SLOT));
    anomaly_close(&anomaly);
}

/* Minutes of two streams, SLOT `lag` seconds behind; then OTHER goes on alone. Returns how often
   SLOT is reported silent: before, and then. */
static void silences(struct anomaly *anomaly, double begin, double lag, unsigned reported[2]) {
    reported[0] = reported[1] = 0;
    for (unsigned n = 0; n < 3 * HABIT; n++) {
        double time = begin + n * MINUTE;
        if (n < 2 * HABIT) {
            anomaly_received(anomaly, SLOT, time - lag, false);
            reported[0] += anomaly_may_be_silent(anomaly) && anomaly_is_silent(anomaly, SLOT, NULL);
        }
        for (unsigned twice = 0; twice < 2; twice++) {
            anomaly_received(anomaly, OTHER, time, false);
            if (!anomaly_may_be_silent(anomaly))
                continue;
            assert_false(anomaly_is_silent(anomaly, OTHER, NULL));
            reported[n >= 2 * HABIT] += anomaly_is_silent(anomaly, SLOT, NULL);
        }
    }
}

static void silence_is_measured_by_the_others(void **state) {
    unsigned reported[2];
    struct anomaly *anomaly = opened(true);
    silences(anomaly, BEGIN, 10 * MINUTE, reported);
    assert_true(reported[0] == 0 && reported[1] == 1);
    /* A wrong time stamp long ago or far ahead, and a year without examples, do not disable the
       check. */
    const double wrong[] = {1000, BEGIN + 1e8};
    for (unsigned i = 0; i < 2; i++) {
        anomaly_received(anomaly, SLOT, wrong[i], false);
        silences(anomaly, BEGIN + (i + 1) * 1e7, 0, reported);
        if (reported[0] != 0 || reported[1] != 1)
            fail_msg("after %g: %u, %u", wrong[i], reported[0], reported[1]);
    }
    /* Data that starts again earlier is checked again after a while. */
    silences(anomaly, BEGIN, 0, reported);
    if (reported[0] != 0 || reported[1] != 1)
        fail_msg("%u, %u", reported[0], reported[1]);
    anomaly_close(&anomaly);
}

/* Recordings one after the other, each of a separate stream, days apart: a stream that begins
   days later has no pause of days. */
static void a_recording_that_ends_is_not_silent(void **state) {
    struct anomaly *anomaly = opened(true);
    double time = BEGIN;
    for (uint32_t slot = 0; slot < SLOTS; slot++, time += (slot + 1) * 1e5)
        for (unsigned n = 0; n < HABIT; n++, time += MINUTE) {
            anomaly_received(anomaly, slot, time, n == 0);
            bool may_be = anomaly_may_be_silent(anomaly);
            for (uint32_t other = 0; may_be && other <= slot; other++)
                assert_false(anomaly_is_silent(anomaly, other, NULL));
        }
    anomaly_close(&anomaly);
}

/* The first stream after a restart does not make the others silent. With the clock, which earlier
   checkpoints lack, all pauses are as without the restart. */
static void a_restart_is_no_silence(void **state) {
    for (int clock = 0; clock < 2; clock++) {
        struct anomaly *before = opened(true), *after = opened(true);
        silent_at(before, MINUTE, 0);
        nobody_is_silent(before, BEGIN + HABIT * MINUTE);
        if (clock)
            memcpy(anomaly_clock(after), anomaly_clock(before), ANOMALY_CLOCK * sizeof(double));
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            struct anomaly_state from = anomaly_state(before, slot),
                                 to = anomaly_state(after, slot);
            memcpy(to.numbers, from.numbers, from.numbers_size * sizeof(double));
            assert_true(anomaly_written(after, slot));
        }
        for (unsigned n = 0; n < 10; n++) {
            nobody_is_silent(before, BEGIN + 1e7 + n * MINUTE);
            nobody_is_silent(after, BEGIN + 1e7 + n * MINUTE);
        }
        for (uint32_t slot = 0; slot < SLOTS && clock; slot++) {
            struct anomaly_state from = anomaly_state(before, slot);
            assert_memory_equal(anomaly_state(after, slot).numbers, from.numbers,
                                from.numbers_size * sizeof(double));
        }
        anomaly_close(&before);
        anomaly_close(&after);
    }
}

/* A state that is copied to another place continues with the same scores. */
static void a_state_goes_on_elsewhere(void **state) {
    struct anomaly *one = lively(), *other = opened(true);
    struct anomaly_state from = anomaly_state(one, SLOT), to = anomaly_state(other, SLOT);
    memcpy(to.numbers, from.numbers, from.numbers_size * sizeof(double));
    memcpy(to.alarms, from.alarms, from.alarms_size * sizeof(double));
    memcpy(to.contexts, from.contexts, from.contexts_size * sizeof(float));
    assert_true(anomaly_written(other, SLOT));
    for (unsigned n = HABIT; n < 2 * HABIT; n++) {
        double expected = take(one, noise(n), noise(n + 1)),
               score = take(other, noise(n), noise(n + 1));
        assert_memory_equal(&score, &expected, sizeof score);
    }
    to.numbers[0] = -1;
    assert_false(anomaly_written(other, SLOT));
    anomaly_close(&one);
    anomaly_close(&other);
}

static void what_is_normal_is_not_novel(void **state) {
    struct anomaly *normal = lively_with(1000), *other = lively_with(1000);
    struct anomaly *both[] = {normal, other};
    const float odd[COLUMNS] = {3, -4};
    struct anomaly_kept found, alarm = {.time = BEGIN, .score = 2};
    assert_false(anomaly_mark_normal(normal, SLOT, ANOMALY_ANY, NAN, &found));
    assert_true(isnan(found.score));
    for (int i = 0; i < 2; i++) {
        anomaly_take(both[i], SLOT, odd, BEGIN);
        anomaly_keep(both[i], SLOT, odd, &alarm);
        take(both[i], noise(1), -noise(1));
    }
    assert_false(anomaly_mark_normal(normal, SLOT, ANOMALY_ANY, BEGIN + 1, &found));
    assert_true(found.time == BEGIN && found.score == 2);
    assert_true(anomaly_mark_normal(normal, SLOT, ANOMALY_ANY, BEGIN + 0.9, &found));
    assert_true(anomaly_written(normal, SLOT));
    /* Marking it again has no effect. */
    struct anomaly_state now = anomaly_state(normal, SLOT);
    float before[4];
    memcpy(before, now.contexts + now.contexts_size - 4, sizeof before);
    double count = now.numbers[0];
    assert_true(anomaly_mark_normal(normal, SLOT, ANOMALY_ANY, NAN, &found) &&
                count == now.numbers[0]);
    assert_memory_equal(before, now.contexts + now.contexts_size - 4, sizeof before);
    for (int i = 0; i < 2; i++) {
        for (unsigned n = 2; n < 60; n++)
            take(both[i], noise(n), -noise(n));
        anomaly_clear(both[i]);
        anomaly_take(both[i], SLOT, odd, BEGIN);
    }
    assert_true(anomaly_result(normal).score < anomaly_result(other).score);
    now.alarms[0] = 0.5;
    assert_false(anomaly_written(normal, SLOT));
    anomaly_close(&normal);
    anomaly_close(&other);
}

/* A step of the stream at another level and scale. */
static double take_of(struct anomaly *anomaly, uint32_t slot, unsigned n, float odd) {
    float x = (float)sin(n * 0.1) + noise(n * 7 + slot) / 10 + odd;
    const float both[COLUMNS] = {(float)slot * 100 + x * (float)(1 + 50 * slot), -x};
    return anomaly_take(anomaly, slot, both, 0);
}

static struct anomaly *shared(void) {
    const struct anomaly_options options = {.slots = SLOTS,
                                            .columns = COLUMNS,
                                            .memory = 500,
                                            .groups = 1,
                                            .all_share = true,
                                            .has_errors = true,
                                            .seed = 1};
    struct anomaly *anomaly;
    struct error error;
    assert_int_equal(anomaly_open(&anomaly, &options, &error), 0);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        anomaly_join(anomaly, slot, 0);
    for (unsigned n = 0; n < 2000; n++)
        for (uint32_t slot = 0; slot < SLOT; slot++)
            take_of(anomaly, slot, n, 0);
    return anomaly;
}

/* Streams of a group share a memory: a new one has scores at once, without novelty. A reset
   clears it. */
static void streams_share_what_they_remember(void **state) {
    enum { FIRST = 41, WHOLE = 171 };
    struct anomaly *anomaly = shared();
    for (unsigned begun = 0; begun < 2; begun++) {
        for (unsigned n = 0; n < 300; n++) {
            double score = take_of(anomaly, SLOT, n, 0);
            assert_true(isnan(score) == (n < (begun ? WHOLE : FIRST)));
            assert_true(begun || !(score > 1.5));
        }
        assert_true(anomaly_written(anomaly, SLOT) && anomaly_written(anomaly, SLOTS));
        anomaly_begin(anomaly, SLOT);
        anomaly_reset(anomaly);
    }
    anomaly_close(&anomaly);
}

/* A normal alarm of one stream of a group is normal in all of them. */
static void what_is_normal_in_one_is_normal_in_all(void **state) {
    double scores[2];
    for (int normal = 0; normal < 2; normal++) {
        struct anomaly *anomaly = shared();
        struct anomaly_kept found, alarm = {.score = 2};
        for (unsigned n = 0; n < 400; n++)
            for (uint32_t slot = SLOT; slot <= SLOT + 1; slot++)
                take_of(anomaly, slot, n, 0);
        take_of(anomaly, SLOT, 400, 9);
        anomaly_keep(anomaly, SLOT, (const float[COLUMNS]){0}, &alarm);
        if (normal)
            assert_true(anomaly_mark_normal(anomaly, SLOT, ANOMALY_ANY, NAN, &found));
        scores[normal] = take_of(anomaly, SLOT + 1, 400, 9);
        anomaly_close(&anomaly);
    }
    if (!(scores[0] > 1.5 && scores[1] < 1))
        fail_msg("%g, then %g", scores[0], scores[1]);
}

/* One large loss means little; many in a row raise an alarm. */
static void losses_of_symbols_count_together(void **state) {
    enum { KNOWS = 171, MANY = 2000, RUN = 20 };
    const double odd = 6;
    const struct anomaly_options options = {.slots = SLOTS, .memory = 40, .symbols = true};
    struct anomaly *anomaly;
    struct error error;
    assert_int_equal(anomaly_open(&anomaly, &options, &error), 0);
    anomaly_begin(anomaly, SLOT);
    double score = NAN;
    for (unsigned n = 0; n < MANY; n++) {
        double rare = n % 50 == 7 ? odd : 0;
        score = anomaly_lost(anomaly, SLOT, (double)noise(n) + rare);
        assert_true(isnan(score) == (n < KNOWS));
        assert_true(n < 2 * HABIT || score < 1.5);
    }
    assert_true(isnan(anomaly_lost(anomaly, SLOT, INFINITY)));
    assert_int_equal(anomaly_losses(anomaly, SLOT), MANY);
    anomaly_clear(anomaly);
    for (unsigned n = 0; n < RUN; n++)
        score = anomaly_lost(anomaly, SLOT, odd);
    assert_true(score > 1.5 && anomaly_result(anomaly).score >= score);
    struct anomaly_state kept = anomaly_state(anomaly, SLOT);
    assert_true(anomaly_written(anomaly, SLOT));
    kept.numbers[kept.numbers_size - 1] = NAN;
    assert_false(anomaly_written(anomaly, SLOT));
    anomaly_close(&anomaly);
}

/* Offsets in a stream's state: arrival (5 doubles), begun, steps, two alarms, the tail of
   errors. */
static void what_cannot_have_been_written_is_refused(void **state) {
    enum { STEPS = 6, ALARM_LAST = 8, TAIL_TOTAL = 12, ENDED = 3 };
    static const struct {
        size_t place;
        double value;
    } WRONG[] = {{STEPS, 0.5},      {STEPS, 1e300},  {ALARM_LAST, 1e300}, {ALARM_LAST, NAN},
                 {TAIL_TOTAL, 1e9}, {TAIL_TOTAL, 0}, {TAIL_TOTAL, NAN},   {ENDED, 1e17}};
    struct anomaly *anomaly = opened(false);
    for (unsigned n = 0; n < 2 * HABIT; n++) {
        const double density = exp(noise(n));
        take(anomaly, noise(n), 0);
        anomaly_wrong(anomaly, SLOT, &density, NULL);
    }
    double *numbers = anomaly_state(anomaly, SLOT).numbers;
    assert_true(anomaly_written(anomaly, SLOT));
    for (size_t n = 0; n < sizeof WRONG / sizeof *WRONG; n++) {
        double right = numbers[WRONG[n].place];
        numbers[WRONG[n].place] = WRONG[n].value;
        if (anomaly_written(anomaly, SLOT))
            fail_msg("%zu", n);
        numbers[WRONG[n].place] = right;
    }
    assert_true(anomaly_written(anomaly, SLOT));
    double *alarms = anomaly_state(anomaly, SLOT).alarms, kept_steps = alarms[1];
    alarms[1] = 2 * HABIT + 1; /* an alarm after the newest step */
    assert_false(anomaly_written(anomaly, SLOT));
    alarms[1] = kept_steps;
    anomaly_close(&anomaly);
}

/* The first step of a stream relies on zeros. */
static void a_stream_without_steps_has_no_state(void **state) {
    struct anomaly *anomaly = opened(false);
    const struct anomaly_state numbers = anomaly_state(anomaly, OTHER);
    double *const places[] = {numbers.numbers + numbers.numbers_size - 1, numbers.alarms,
                              numbers.rates + numbers.rates_size - 1};
    assert_true(anomaly_written(anomaly, OTHER));
    for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
        *places[n] = 1;
        assert_false(anomaly_written(anomaly, OTHER));
        *places[n] = 0;
    }
    anomaly_close(&anomaly);
}

/* Steps of one example have the same time. */
static void a_pace_is_that_of_steps(void **state) {
    enum { STEPS = 10 };
    struct anomaly *anomaly = opened(false);
    double interval = 0;
    for (unsigned n = 0; n < 100 * STEPS; n++)
        interval = anomaly_interval(anomaly, SLOT, BEGIN + MINUTE * (n / STEPS));
    assert_true(fabs(interval - MINUTE / STEPS) < MINUTE / STEPS / 50);
    anomaly_close(&anomaly);
}

/* Steps that are not learned neither fill the memory nor calibrate; they still count, and the
   recent values continue. */
static void what_is_not_learned_from_is_forgotten(void **state) {
    enum { KNOWN = 20 };
    struct anomaly *anomaly = opened(true);
    const double errors[COLUMNS] = {0.5, 0.5};
    unsigned n = 0;
    anomaly_learn(anomaly, false);
    for (; n < 2 * HABIT; n++) {
        const float x[COLUMNS] = {noise(n), -noise(n)};
        assert_true(isnan(anomaly_wrong(anomaly, SLOT, errors, NULL)));
        assert_true(isnan(anomaly_take(anomaly, SLOT, x, BEGIN + MINUTE * n)));
        anomaly_end_step(anomaly, SLOT, x);
    }
    assert_true(anomaly_written(anomaly, SLOT));
    anomaly_learn(anomaly, true);
    for (unsigned end = n + NOVELTY_DELAY + KNOWN; n < end; n++) {
        const float x[COLUMNS] = {noise(n), -noise(n)};
        assert_true(isnan(anomaly_take(anomaly, SLOT, x, BEGIN + MINUTE * n)));
        anomaly_end_step(anomaly, SLOT, x);
    }
    for (unsigned end = n + KNOWN; n < end; n++)
        take(anomaly, noise(n), -noise(n));
    assert_true(anomaly_result(anomaly).score >= 0);
    assert_int_equal(anomaly_steps(anomaly, SLOT), n);
    anomaly_close(&anomaly);
}

static void too_much_is_refused(void **state) {
    const struct anomaly_options options = {
        .slots = 1 << 20, .columns = 1000, .memory = 1000000, .has_errors = true};
    struct anomaly *anomaly;
    struct error error;
    assert_int_equal(anomaly_open(&anomaly, &options, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_non_null(strstr(error.text, "lower anomaly.memory or learning.max_streams"));
    assert_null(anomaly);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_column_is_the_streams),
        cmocka_unit_test(what_is_not_learned_from_is_forgotten),
        cmocka_unit_test(large_errors_surprise),
        cmocka_unit_test(a_repeated_spike_remains_one),
        cmocka_unit_test(what_lasts_is_learned),
        cmocka_unit_test(what_lasts_is_learned_with_the_shortest_rest),
        cmocka_unit_test(errors_in_band_are_no_alarms),
        cmocka_unit_test(a_column_that_freezes_is_stuck),
        cmocka_unit_test(a_column_that_is_missing_is_silent),
        cmocka_unit_test(a_stream_that_stops_is_silent),
        cmocka_unit_test(silence_is_measured_by_the_others),
        cmocka_unit_test(a_recording_that_ends_is_not_silent),
        cmocka_unit_test(a_restart_is_no_silence),
        cmocka_unit_test(a_state_goes_on_elsewhere),
        cmocka_unit_test(what_is_normal_is_not_novel),
        cmocka_unit_test(streams_share_what_they_remember),
        cmocka_unit_test(what_is_normal_in_one_is_normal_in_all),
        cmocka_unit_test(losses_of_symbols_count_together),
        cmocka_unit_test(what_cannot_have_been_written_is_refused),
        cmocka_unit_test(a_stream_without_steps_has_no_state),
        cmocka_unit_test(a_pace_is_that_of_steps),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
