/* Properties of predictive distributions, on streams with atoms, a lattice and bounds. The numbers
   themselves are compared by tests/support/play_distribution.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "forecast/distribution.h"

enum { LEVELS = 31, NUMBERS_OF_STATE = sizeof(struct distribution_state) / sizeof(double) };

static uint64_t seed;

static double uniform(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) * 0x1p-53;
}

static double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

/* One column with a moving average as the forecast. */
struct column {
    struct distribution_state state;
    struct distribution issued;
    double mean, last, steps;
};

static void take(struct column *c, double value) {
    if (c->issued.issued > 0)
        distribution_learn(&c->state, &c->issued, value, 1);
    distribution_see(&c->state, value);
    c->mean += (value - c->mean) * (c->steps++ > 0 ? 0.2 : 1);
    double experts[] = {c->mean, c->last = value};
    distribution_issue(&c->state, (c->mean + value) / 2, c->steps * 3600, experts, 2, &c->issued);
    assert_true(distribution_state_valid(&c->state));
    assert_true(distribution_valid(&c->issued));
}

static double continuous(double t) {
    return 20 * sin(t / 9) + normal();
}

static double counts(double t) {
    return floor(fmax(0, 3 + 2 * sin(t / 9) + 2 * normal()));
}

/* Half of all values are 0, the least. */
static double rain(double t) {
    return fmax(0, sin(t) + normal());
}

static double bounded(double t) {
    return fmin(100, fmax(0, 50 + 60 * sin(t / 7) + normal()));
}

static double constant(double t) {
    return t < 100 ? 7 : 7 + (fmod(t, 50) < 1);
}

static double shifting(double t) {
    return normal() + (fmod(t, 100) < 50 ? 0 : 1e6);
}

static double (*const kinds[])(double) = {continuous, counts, rain, bounded, constant, shifting};

static void check_quantiles(const struct distribution *issued) {
    double levels[LEVELS], values[LEVELS];
    for (size_t n = 0; n < LEVELS; n++)
        levels[n] = 0.0005 + 0.999 * (double)n / (LEVELS - 1);
    distribution_quantiles(issued, levels, LEVELS, values);
    for (size_t n = 0; n < LEVELS; n++) {
        double v = values[n], rounding = 4 * DBL_EPSILON * fabs(v);
        assert_true(isfinite(v) && (n == 0 || v >= values[n - 1]));
        assert_true(distribution_score(issued, v - rounding).pit[0] <= levels[n] + 1e-9);
        assert_true(distribution_score(issued, v + rounding).pit[1] >= levels[n] - 1e-9);
    }
}

/* F(x) >= level is first true at the quantile, on a jump too. */
static void quantiles_rise_and_are_the_inverse(void **state) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct column c = {0};
        seed = 88172645463325252U;
        for (double t = 0; t < 500; t++) {
            take(&c, kinds[k](t));
            if (c.issued.issued > 0 && (fmod(t, 10) < 1 || t < 20))
                check_quantiles(&c.issued);
        }
    }
    (void)state;
}

static void probabilities_rise_from_0_to_1(void **state) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct column c = {0};
        double before = 0;
        seed = 88172645463325252U;
        for (double t = 0; t < 300; t++)
            take(&c, kinds[k](t));
        for (double x = -20; x <= 120; x += 0.25) {
            struct distribution_score score = distribution_score(&c.issued, x);
            assert_true(before <= score.pit[0] && score.pit[0] <= score.pit[1]);
            assert_true(score.pit[1] <= 1 && fabs(score.z) <= 8);
            before = score.pit[1];
        }
        assert_true(distribution_score(&c.issued, -1e30).pit[1] < 1e-6);
        assert_true(distribution_score(&c.issued, 1e30).pit[0] > 1 - 1e-6);
    }
    (void)state;
}

/* Values whose spread moves: intervals contain them as often as they promise, and the scores are
   near those of a normal distribution that is known (0.2337 and 1.4189 a unit of the deviation). */
static void intervals_hold_what_they_promise(void **state) {
    static const double shares[] = {0.5, 0.9, 0.99};
    struct column c = {0};
    double held[3] = {0}, crps = 0, surprise = 0, z = 0, z2 = 0, n = 0;
    seed = 88172645463325252U;
    for (double t = 0; t < 20000; t++) {
        double deviation = 2 + sin(t / 500), y = deviation * normal();
        if (t > 500) {
            struct distribution_score score = distribution_score(&c.issued, y);
            for (size_t i = 0; i < 3; i++)
                held[i] += fabs(score.pit[1] - 0.5) <= shares[i] / 2;
            crps += score.crps / deviation;
            surprise += score.log_score - log(deviation);
            z += score.z;
            z2 += score.z * score.z;
            n++;
        }
        if (c.issued.issued > 0)
            distribution_learn(&c.state, &c.issued, y, 1);
        distribution_see(&c.state, y);
        distribution_issue(&c.state, 0, NAN, NULL, 0, &c.issued);
    }
    assert_true(fabs(held[0] / n - 0.5) < 0.01);
    assert_true(fabs(held[1] / n - 0.9) < 0.01);
    assert_true(fabs(held[2] / n - 0.99) < 0.003);
    assert_true(fabs(z / n) < 0.03 && fabs(z2 / n - 1) < 0.05);
    assert_true(fabs(crps / n - 0.5642) < 0.03 && fabs(surprise / n - 1.4189) < 0.05);
    (void)state;
}

/* A zero has its share of probability, and there is next to none below. */
static void values_that_repeat_are_atoms(void **state) {
    struct column c = {0};
    double zero = 0, probability = 0;
    seed = 88172645463325252U;
    for (double t = 0; t < 4000; t++) {
        double y = uniform() < 0.4 ? 0 : -log(1 - uniform());
        if (t > 1000) {
            struct distribution_score score = distribution_score(&c.issued, 0);
            assert_true(score.pit[0] < 0.02);
            probability += score.pit[1] - score.pit[0];
            zero += y == 0;
        }
        take(&c, y);
    }
    assert_true(fabs(probability - zero) / 3000 < 0.06);
    (void)state;
}

static void extremes_leave_a_state_of_numbers(void **state) {
    static const double extremes[] = {1e30,  -1e30,  0,     5e-324, 1e-300, -3.4e38, 3.4e38,
                                      1e-45, 123456, 1e-38, 1e15,   -1,     0.1,     1e38};
    static const double levels[] = {0.0005, 0.5, 0.9995};
    enum { COUNT = sizeof extremes / sizeof *extremes };
    struct column c = {0};
    double values[3], experts[] = {INFINITY, -INFINITY, NAN};
    seed = 88172645463325252U;
    for (size_t n = 0; n < 3000; n++) {
        double y = uniform() < 0.1 ? extremes[(size_t)(uniform() * COUNT)] : normal();
        take(&c, y);
        if (n % 3 == 0)
            distribution_issue(&c.state, extremes[n % COUNT], 1e300, experts, 3, &c.issued);
        if (!(c.issued.issued > 0))
            continue;
        assert_true(distribution_valid(&c.issued));
        struct distribution_score score = distribution_score(&c.issued, extremes[n % COUNT]);
        assert_true(isfinite(score.crps) && isfinite(score.log_score) && fabs(score.z) <= 8);
        distribution_quantiles(&c.issued, levels, 3, values);
        assert_true(values[0] <= values[1] && values[1] <= values[2]);
        assert_true(isfinite(values[0]) && isfinite(values[2]));
    }
    (void)state;
}

/* One value of 1e30 does not widen what follows, and zeros at the beginning leave no trace. */
static void wild_beginnings_are_forgotten(void **state) {
    static const double levels[] = {0.05, 0.95};
    double wild[2], calm[2];
    struct column with = {0}, without = {0};
    seed = 88172645463325252U;
    for (double t = 0; t < 3000; t++) {
        double value = t < 40 ? 0 : continuous(t);
        take(&without, value);
        take(&with, t == 1000 ? 1e30 : value);
        assert_true(t < 50 || with.state.size > 0);
    }
    distribution_quantiles(&with.issued, levels, 2, wild);
    distribution_quantiles(&without.issued, levels, 2, calm);
    assert_true(wild[1] - wild[0] < 3 * (calm[1] - calm[0]));
    (void)state;
}

static void nothing_is_issued_before_two_values(void **state) {
    struct column c = {0};
    double level = 0.5, value = 0;
    take(&c, 1);
    distribution_quantiles(&c.issued, &level, 1, &value);
    assert_true(isnan(value));
    take(&c, 2);
    assert_true(c.issued.issued > 0);
    distribution_issue(&c.state, NAN, 0, NULL, 0, &c.issued);
    assert_true(c.issued.issued == 0 && distribution_valid(&c.issued));
    (void)state;
}

/* Only the change since the last value is forgotten. */
static void missing_values_teach_nothing(void **state) {
    struct column c = {0};
    seed = 88172645463325252U;
    for (double t = 0; t < 100; t++)
        take(&c, continuous(t));
    struct distribution_state before = c.state;
    distribution_miss(&c.state);
    assert_true(before.change > 0 && c.state.change == 0);
    before.change = 0;
    assert_memory_equal(&before, &c.state, sizeof before);
    (void)state;
}

static void copies_continue_with_the_same_bits(void **state) {
    struct column c = {0}, copy;
    seed = 88172645463325252U;
    for (double t = 0; t < 200; t++)
        take(&c, rain(t));
    memcpy(&copy, &c, sizeof c);
    for (double t = 0; t < 200; t++) {
        double y = rain(t);
        take(&c, y);
        take(&copy, y);
    }
    assert_memory_equal(&c, &copy, sizeof c);
    (void)state;
}

/* Checkpoints may be crafted. A state or a distribution that is accepted is used, without a crash
   or an endless loop (sanitizers look for the rest). */
static void crafted_numbers_are_refused_or_harmless(void **state) {
    static const double numbers[] = {NAN,   INFINITY, -INFINITY, -1,  0,    1,     2,
                                     1e308, -1e308,   5e-324,    0.5, 1e30, 1e-30, 17};
    static const double levels[] = {0.0005, 0.3, 0.99};
    struct column good = {0};
    double values[3];
    size_t accepted = 0, refused = 0;
    seed = 88172645463325252U;
    for (double t = 0; t < 200; t++)
        take(&good, counts(t));
    for (size_t n = 0; n < 30000; n++) {
        struct column c = good;
        double *bad = n % 2 ? &c.state.begun : &c.issued.issued;
        size_t size = n % 2 ? NUMBERS_OF_STATE : sizeof c.issued / sizeof *bad;
        for (double more = 1; more > 0.5; more = uniform()) {
            double number = numbers[(size_t)(uniform() * sizeof numbers / sizeof *numbers)];
            bad[(size_t)(uniform() * (double)size)] = number;
        }
        if (!distribution_state_valid(&c.state) || !distribution_valid(&c.issued)) {
            refused++;
            continue;
        }
        accepted++;
        if (c.issued.issued > 0) {
            distribution_score(&c.issued, 3);
            distribution_quantiles(&c.issued, levels, 3, values);
            distribution_learn(&c.state, &c.issued, 4, 1);
        }
        distribution_see(&c.state, 4);
        distribution_issue(&c.state, 3, 1e9, levels, 3, &c.issued);
        distribution_quantiles(&c.issued, levels, 3, values);
    }
    assert_true(accepted > 1000 && refused > 1000);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_rise_and_are_the_inverse),
        cmocka_unit_test(probabilities_rise_from_0_to_1),
        cmocka_unit_test(intervals_hold_what_they_promise),
        cmocka_unit_test(values_that_repeat_are_atoms),
        cmocka_unit_test(extremes_leave_a_state_of_numbers),
        cmocka_unit_test(wild_beginnings_are_forgotten),
        cmocka_unit_test(nothing_is_issued_before_two_values),
        cmocka_unit_test(missing_values_teach_nothing),
        cmocka_unit_test(copies_continue_with_the_same_bits),
        cmocka_unit_test(crafted_numbers_are_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
