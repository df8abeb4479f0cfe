/* Compares units, lag, experts and mixture with stored cases, tests/support/forecasts: "steps
   columns", then a line per step: x, the loss of the forecast before it, and 1 if forecasts of
   the next x follow: the mixture, every expert, and their weights. A second implementation, the
   executable specification of docs/explanation/forecasts.md, computed them in float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "forecast/forecast.h"
#include "forecast/least_squares.h"
#include "forecast/mixture.h"

enum { COLUMNS_MAX = 16, SLOT = 1, SLOTS = 2 };

struct pair {
    struct forecaster *forecaster;
    struct mixture *mixture;
    size_t columns;
    double *p;
};

static const size_t one_step = 1;

static void open_ahead(struct pair *pair, size_t columns, unsigned combine, size_t ahead) {
    struct error error;
    *pair = (struct pair){.columns = columns, .p = calloc(columns, sizeof *pair->p)};
    assert_int_equal(
        forecaster_open(&pair->forecaster, columns, 0, EXPERTS_ALL, &ahead, 1, SLOTS, &error), 0);
    assert_int_equal(
        mixture_open(&pair->mixture, columns, EXPERT_known, combine, &ahead, 1, SLOTS, &error), 0);
    forecaster_begin(pair->forecaster, SLOT);
    mixture_begin(pair->mixture, SLOT);
}

static void open_pair(struct pair *pair, size_t columns, unsigned combine) {
    open_ahead(pair, columns, combine, one_step);
}

static void close_pair(struct pair *pair) {
    forecaster_close(&pair->forecaster);
    mixture_close(&pair->mixture);
    free(pair->p);
}

/* One x; its loss, NaN if it was not a target. */
static double take(struct pair *pair, const float *x, struct forecast_step *step) {
    double loss = NAN;
    forecaster_take(pair->forecaster, SLOT, x, true, step);
    if (step->of->settles) {
        struct mixture_score score =
            mixture_learn(pair->mixture, SLOT, 0, step->number, step->of->y, true);
        loss = score.observed ? score.loss : NAN;
    }
    mixture_predict(pair->mixture, SLOT, 0, step->number, step->of->experts, step->of->ds, pair->p);
    return loss;
}

static double next(FILE *file) {
    double value;
    assert_int_equal(fscanf(file, "%lf", &value), 1);
    return value;
}

static void check(double got, double expected, double unit) {
    const double tolerance = 1e-9;
    if (isnan(expected) ? !isnan(got)
                        : !(fabs(got - expected) <= tolerance * (unit + fabs(expected))))
        fail_msg("%.12g is said instead of %.12g", got, expected);
}

static void check_forecasts(struct pair *pair, const struct forecast_step *step, FILE *file) {
    size_t columns = pair->columns;
    double weights[EXPERT_known * COLUMNS_MAX];
    mixture_weights(pair->mixture, SLOT, 0, weights);
    for (size_t n = 0; n < (1 + EXPERT_known) * columns; n++) {
        size_t k = n % columns;
        double p = n < columns ? pair->p[k] : step->of->experts[n - columns];
        check(step->x[k] + step->of->ds[k] * p + step->unseen[k], next(file), step->of->ds[k]);
    }
    for (size_t n = 0; n < EXPERT_known * columns; n++)
        check(weights[n], next(file), 1);
}

static void play(const char *name, size_t ahead) {
    char path[256];
    const char *srcdir = getenv("srcdir");
    struct pair pair;
    snprintf(path, sizeof path, "%s/tests/support/forecasts/%s", srcdir ? srcdir : ".", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t steps = (size_t)next(file), columns = (size_t)next(file);
    assert_true(columns <= COLUMNS_MAX);
    open_ahead(&pair, columns, COMBINE_MLPOLY, ahead);
    for (size_t t = 0; t < steps; t++) {
        struct forecast_step step;
        float x[COLUMNS_MAX];
        for (size_t k = 0; k < columns; k++)
            x[k] = (float)next(file);
        check(take(&pair, x, &step), next(file), 1);
        if (next(file) > 0)
            check_forecasts(&pair, &step, file);
    }
    close_pair(&pair);
    fclose(file);
}

static void stored_cases(void **state) {
    play("two-columns", 1);  /* missing values, one column late, a value of 1e30 */
    play("nine-columns", 1); /* a regression per column, one column that never changes */
    play("five-ahead", 5);   /* the first case again, five steps ahead */
}

/* A daily course with noise, and optional spikes. */
static float wave(size_t t, unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return sinf((float)t * 0.2618f) + (float)(*seed >> 8) / 0x1p24f * 0.3f;
}

/* One value of 1e30 among the first 30, with or without missing values around it: 5,000 steps
   later the forecasts equal those without it, within 5%. */
static void recovers_from_an_early_wild_value(void **state) {
    enum { STEPS = 6000, LATE = 5000, EARLY = 300, RARE = 3 };
    static const size_t at[] = {0, 12, 29}, count = sizeof at / sizeof *at;
    for (size_t n = 0; n < 2 * count; n++) {
        struct pair pairs[2];
        double errors[2] = {0};
        unsigned seed = 1;
        for (size_t w = 0; w < 2; w++)
            open_pair(&pairs[w], 1, COMBINE_MLPOLY);
        for (size_t t = 0; t < STEPS; t++) {
            float calm = wave(t, &seed);
            if (n % 2 && t < EARLY && t % RARE)
                calm = NAN; /* held: the first 30 take three times as long */
            for (size_t w = 0; w < 2; w++) {
                struct forecast_step step;
                size_t early = n % 2 ? RARE * at[n / 2] : at[n / 2];
                float x = w && t == early ? 1e30f : calm;
                double loss = take(&pairs[w], &x, &step);
                if (t >= LATE && isfinite(loss))
                    errors[w] += loss * step.of->ds[0] * step.of->ds[0];
            }
        }
        if (!(errors[1] < 1.05 * 1.05 * errors[0]))
            fail_msg("case %zu: %g with a wild value, %g without", n, errors[1], errors[0]);
        for (size_t w = 0; w < 2; w++)
            close_pair(&pairs[w]);
    }
}

/* For any input all forecasts are numbers, and the other column's forecasts stay the same. */
static void wild_values_reach_no_other_column(void **state) {
    enum { STEPS = 600 };
    struct pair calm;
    struct pair wild;
    unsigned seed = 1;
    open_pair(&calm, COLUMNS_MAX, COMBINE_MLPOLY);
    open_pair(&wild, COLUMNS_MAX, COMBINE_MLPOLY);
    for (size_t t = 0; t < STEPS; t++) {
        struct forecast_step a;
        struct forecast_step b;
        float x[COLUMNS_MAX] = {0};
        x[0] = wave(t, &seed);
        take(&calm, x, &a);
        x[1] = t % 97 == 5 ? 3e38f : t % 89 == 7 ? -3e38f : x[0];
        x[2] = t % 3 ? NAN : 1e-38f;
        x[3] = t < STEPS / 2 ? NAN : x[0];
        x[4] = (float)(t / 100);
        take(&wild, x, &b);
        assert_memory_equal(&calm.p[0], &wild.p[0], sizeof *calm.p);
        for (size_t k = 0; k < COLUMNS_MAX; k++)
            assert_true(isfinite(wild.p[k]) && isfinite(b.x[k] + b.of->ds[k] * wild.p[k]));
    }
    close_pair(&calm);
    close_pair(&wild);
}

/* A state copied from a slot to another continues with the same bits. */
static void a_state_is_all_there_is(void **state) {
    enum { STEPS = 300, COPIED = 137 };
    struct pair one;
    struct pair other;
    unsigned seed = 2;
    open_pair(&one, 2, COMBINE_BEST);
    open_pair(&other, 2, COMBINE_BEST);
    for (size_t t = 0; t < STEPS; t++) {
        struct forecast_step step;
        const float x[2] = {wave(t, &seed), wave(t, &seed)};
        if (t == COPIED) {
            memcpy(forecaster_state(other.forecaster, SLOT), forecaster_state(one.forecaster, SLOT),
                   forecaster_size(one.forecaster) * sizeof(double));
            memcpy(mixture_state(other.mixture, SLOT), mixture_state(one.mixture, SLOT),
                   mixture_size(one.mixture) * sizeof(double));
        }
        double loss = take(&one, x, &step);
        if (t < COPIED)
            continue;
        double again = take(&other, x, &step);
        assert_memory_equal(&loss, &again, sizeof loss);
        assert_memory_equal(one.p, other.p, 2 * sizeof(double));
    }
    close_pair(&one);
    close_pair(&other);
}

/* A step of pieces of a sine, and whether the references of the next step are numbers. */
static bool forecasts_are_numbers(struct pair *pair, size_t t) {
    struct forecast_step step;
    const float x = (float)sin(0.1 * (double)t);
    forecaster_take(pair->forecaster, SLOT, &x, true, &step);
    return !step.of->settles || isnan(step.of->last[0]) ||
           (isfinite(*step.of->y) && isfinite(*step.of->level));
}

/* Replaces each number of a state: the state is rejected, or the number is not used as a
   divisor. */
static void a_state_that_divides_by_0_is_refused(void **state) {
    enum { STEPS = 64 };
    for (size_t ahead = 1; ahead <= 3; ahead += 2) {
        struct pair pair;
        open_ahead(&pair, 1, COMBINE_MLPOLY, ahead);
        for (size_t t = 0; t < STEPS; t++)
            assert_true(forecasts_are_numbers(&pair, t));
        size_t size = forecaster_size(pair.forecaster), refused = 0;
        double *at = forecaster_state(pair.forecaster, SLOT), *kept = malloc(size * sizeof *kept);
        assert_non_null(kept);
        memcpy(kept, at, size * sizeof *kept);
        assert_true(forecaster_state_valid(pair.forecaster, at, ahead));
        for (size_t n = 0; n < 2 * size; n++) {
            memcpy(at, kept, size * sizeof *kept);
            at[n / 2] = n % 2 ? -1 : 0;
            bool valid = forecaster_state_valid(pair.forecaster, at, ahead);
            refused += !valid;
            for (size_t t = STEPS; valid && t < STEPS + ahead; t++)
                assert_true(forecasts_are_numbers(&pair, t));
        }
        assert_true(refused > 0);
        free(kept);
        close_pair(&pair);
    }
}

/* Steps that networks keep open have forecasts; the number of steps is an integer. */
static void steps_are_as_many_as_are_open(void **state) {
    struct pair pair;
    open_ahead(&pair, 1, COMBINE_MLPOLY, 3);
    for (size_t t = 0; t < 2; t++)
        assert_true(forecasts_are_numbers(&pair, t));
    double *at = forecaster_state(pair.forecaster, SLOT);
    assert_true(forecaster_state_valid(pair.forecaster, at, 0));
    assert_true(forecaster_state_valid(pair.forecaster, at, 2));
    assert_false(forecaster_state_valid(pair.forecaster, at, 3));
    *at = 2.5;
    assert_false(forecaster_state_valid(pair.forecaster, at, 2));
    close_pair(&pair);
}

static void combined_as_asked(void **state) {
    struct mixture *m;
    struct error error;
    const double q[] = {1, 2, 6}, ds = 1;
    double p;
    assert_int_equal(mixture_open(&m, 1, 3, COMBINE_AVERAGE, &one_step, 1, 1, &error), 0);
    mixture_begin(m, 0);
    mixture_predict(m, 0, 0, 0, q, &ds, &p);
    assert_true(p == 3);
    mixture_close(&m);
    assert_int_equal(mixture_open(&m, 1, 3, COMBINE_ONE + 2, &one_step, 1, 1, &error), 0);
    mixture_begin(m, 0);
    mixture_predict(m, 0, 0, 0, q, &ds, &p);
    assert_true(p == 6);
    mixture_close(&m);
    assert_int_equal(mixture_open(&m, 1, 3, COMBINE_BEST, &one_step, 1, 1, &error), 0);
    mixture_begin(m, 0);
    for (size_t t = 0; t < 2; t++) {
        const double y = 2.5;
        mixture_predict(m, 0, 0, 0, q, &ds, &p);
        mixture_learn(m, 0, 0, 0, &y, true);
    }
    assert_true(p == 2);
    mixture_close(&m);
}

/* Finds the weights of the targets, with any padding. */
static void least_squares_find_weights(void **state) {
    enum { INPUTS = 13, STEPS = 2000 };
    const struct least_squares ls = least_squares_of(INPUTS, 2, 0.98, 1e-3);
    double *block = calloc(least_squares_size(&ls), sizeof *block);
    double *work = calloc(least_squares_work(&ls), sizeof *work);
    double *phi = calloc(ls.stride, sizeof *phi);
    unsigned seed = 3;
    least_squares_begin(&ls, block);
    for (size_t t = 0; t < STEPS; t++) {
        double error[2] = {0};
        for (size_t i = 0; i < INPUTS; i++)
            phi[i] = (double)wave(i * t, &seed);
        least_squares_predict(&ls, block, phi, error);
        for (size_t k = 0; k < 2; k++) {
            double y = 0;
            for (size_t i = 0; i < INPUTS; i++)
                y += (double)(i + 1 + k) * phi[i];
            error[k] = t % 5 == k ? NAN : y - error[k];
        }
        least_squares_learn(&ls, block, phi, error, work);
    }
    const double *weights = least_squares_weights(&ls, block);
    for (size_t i = 0; i < INPUTS; i++) {
        assert_true(fabs(weights[i] - (double)(i + 1)) < 0.01);
        assert_true(fabs(weights[ls.stride + i] - (double)(i + 2)) < 0.01);
    }
    free(block);
    free(work);
    free(phi);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_cases),
        cmocka_unit_test(wild_values_reach_no_other_column),
        cmocka_unit_test(recovers_from_an_early_wild_value),
        cmocka_unit_test(a_state_is_all_there_is),
        cmocka_unit_test(a_state_that_divides_by_0_is_refused),
        cmocka_unit_test(steps_are_as_many_as_are_open),
        cmocka_unit_test(combined_as_asked),
        cmocka_unit_test(least_squares_find_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
