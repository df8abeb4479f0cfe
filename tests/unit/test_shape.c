/* Properties of shape: its equation, forms that novelty does not notice, and its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "anomaly/novelty.h"
#include "anomaly/shape.h"

enum { MEMORY = 400, PERIOD = 40, LENGTH = 2600, ODD = 2000 };

struct column {
    struct novelty novelty;
    struct shape shape;
    float *floats, *contexts;
    double score; /* shape of the newest value */
};

static void open_column(struct column *column, size_t memory) {
    memset(column, 0, sizeof *column);
    novelty_begin(&column->novelty, 1);
    column->floats = calloc(novelty_floats(MEMORY), sizeof(float));
    column->contexts = calloc(SHAPE_SCALES * memory * SHAPE_CONTEXT, sizeof(float));
    assert_true(column->floats && column->contexts);
    assert_true(shape_valid(&column->shape, column->contexts, memory));
}

static void close_column(struct column *column) {
    free(column->floats);
    free(column->contexts);
}

static void take(struct column *column, size_t memory, double x, bool learn) {
    novelty_take(&column->novelty, column->floats, MEMORY, x, 0, true);
    column->score =
        shape_take(&column->shape, column->contexts, memory, &column->novelty, x, learn);
}

static double noise(size_t t) {
    return 0.05 * sin(1e4 * sin(1e4 * (double)t));
}

/* A sine; in odd periods, the same values in another order. */
static double wave(size_t t, bool odd) {
    double phase = (double)(t % PERIOD) / PERIOD;
    return sin(2 * M_PI * (odd ? fmod(3 * phase, 1) : phase)) + noise(t);
}

static bool is_odd(size_t t) {
    return t >= ODD && t < ODD + 2 * (size_t)PERIOD;
}

/* Plays waves, with odd ones or not. Learns these and the windows that contain them, or not.
   Returns the largest shape of the odd periods. */
static double play(struct column *column, bool odd, bool learn) {
    double most = 0;
    for (size_t t = 0; t < LENGTH; t++) {
        bool late = is_odd(t);
        take(column, MEMORY, wave(t, odd && late), learn || t < ODD || t >= LENGTH - PERIOD);
        most = fmax(most, late ? column->score : 0);
    }
    return most;
}

static void finds_a_form_whatever_its_level_and_size(void **unused) {
    (void)unused;
    struct column column;
    open_column(&column, MEMORY);
    double usual = play(&column, false, true);
    close_column(&column);
    open_column(&column, MEMORY);
    double odd = play(&column, true, true);
    assert_true(odd > 2.5 && odd > 1.5 * usual);
    close_column(&column);
    struct column other;
    open_column(&column, MEMORY);
    open_column(&other, MEMORY);
    for (size_t t = 0; t < LENGTH; t++) {
        take(&column, MEMORY, wave(t, is_odd(t)), true);
        take(&other, MEMORY, 1000 + 8 * wave(t, is_odd(t)), true);
        assert_true(fabs(column.score - other.score) < 0.1); /* another bin at most */
    }
    close_column(&other);
    close_column(&column);
}

/* The distance to the nearest context of a scale, from all values. */
static double nearest(const double *x, size_t t, size_t block, size_t delay) {
    enum { CONTEXT = SHAPE_CONTEXT };
    static double contexts[ODD][CONTEXT];
    double least = INFINITY;
    size_t at = t % ODD, window = block * CONTEXT;
    double mean = 0, middle = 0, squares = 0, deviation = 0;
    if (t + 1 < window)
        return NAN;
    for (size_t n = 0; n <= t; n++)
        mean += x[n] / (double)(t + 1);
    for (size_t n = 0; n <= t; n++)
        squares += (x[n] - mean) * (x[n] - mean);
    for (size_t j = 0; j < CONTEXT; j++) {
        contexts[at][j] = 0;
        for (size_t i = 0; i < block; i++)
            contexts[at][j] += x[t - j * block - i] / (double)block;
        middle += contexts[at][j] / CONTEXT;
    }
    for (size_t j = 0; j < CONTEXT; j++)
        deviation += (contexts[at][j] - middle) * (contexts[at][j] - middle) / CONTEXT;
    deviation = fmax(sqrt(deviation), 0.1 * sqrt(squares / (double)(t + 1)));
    for (size_t j = 0; j < CONTEXT; j++)
        contexts[at][j] = (contexts[at][j] - middle) / deviation;
    for (size_t n = window - 1; n + delay <= t; n++) {
        double sum = 0;
        for (size_t j = 0; j < CONTEXT; j++)
            sum += (contexts[n][j] - contexts[at][j]) * (contexts[n][j] - contexts[at][j]);
        least = fmin(least, sqrt(sum));
    }
    return isinf(least) ? NAN : least;
}

/* As long as the memory has all contexts. Distances at the edge of a bin may differ. */
static void follows_its_equation(void **unused) {
    (void)unused;
    enum { STEPS = 900, ALL = 1000 };
    static const size_t blocks[] = {1, 3, 7}, delays[] = {150, 150, 224};
    static double x[STEPS], expected[STEPS];
    struct column column;
    size_t unlike = 0;
    for (size_t t = 0; t < STEPS; t++)
        x[t] = (double)(float)(wave(t, t % 200 > 150) + (t > 400 && t < 450 ? 0 : noise(t + 7)));
    for (size_t n = 0; n < 3; n++) {
        struct tail tail;
        tail_begin(&tail);
        for (size_t t = 0; t < STEPS; t++) {
            double distance = nearest(x, t, blocks[n], delays[n]);
            if (isnan(distance))
                continue;
            expected[t] += tail_unlikeliness(&tail, distance) / 3;
            tail_learn(&tail, distance);
        }
    }
    open_column(&column, ALL);
    for (size_t t = 0; t < STEPS; t++) {
        take(&column, ALL, x[t], true);
        unlike += fabs(column.score - expected[t]) > 1e-4;
    }
    assert_true(expected[STEPS - 1] > 0 && unlike < STEPS / 100);
    close_column(&column);
}

/* A form that was not learned stays as odd; a learned one is usual once it is in memory. */
static void remembers_what_is_learned(void **unused) {
    (void)unused;
    double again[2];
    for (int learn = 0; learn < 2; learn++) {
        struct column column;
        open_column(&column, MEMORY);
        play(&column, true, learn);
        again[learn] = 0;
        for (size_t t = 0; t < 2 * (size_t)PERIOD; t++) {
            take(&column, MEMORY, wave(t, true), true);
            again[learn] = fmax(again[learn], column.score);
        }

        close_column(&column);
    }
    assert_true(again[0] > 2.5 && again[1] < 0.75 * again[0]);
}

static void has_finite_scores_of_constants(void **unused) {
    (void)unused;
    struct column column;
    open_column(&column, MEMORY);
    for (size_t t = 0; t < LENGTH; t++) {
        take(&column, MEMORY, t < ODD ? 3e38 : -3e38, true);
        assert_true(isfinite(column.score) && column.score >= 0);
    }
    assert_true(shape_valid(&column.shape, column.contexts, MEMORY));
    close_column(&column);
}

static void rejects_invalid_states(void **unused) {
    (void)unused;
    struct column column;
    open_column(&column, MEMORY);
    play(&column, false, true);
    assert_true(shape_valid(&column.shape, column.contexts, MEMORY));
    double *const numbers[] = {&column.shape.count,         &column.shape.random[0],
                               &column.shape.used[1],       &column.shape.values[3],
                               &column.shape.deviations[3], &column.shape.tails[2].mass[5]};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        double before = *numbers[n];
        for (int bad = 0; bad < 2; bad++) {
            *numbers[n] = bad ? (double)NAN : -1e300;
            assert_false(shape_valid(&column.shape, column.contexts, MEMORY));
            assert_in_range(shape_contexts(&column.shape, 1, MEMORY), 0, MEMORY);
        }
        *numbers[n] = before;
    }
    column.contexts[7] = NAN;
    assert_false(shape_valid(&column.shape, column.contexts, MEMORY));
    close_column(&column);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_a_form_whatever_its_level_and_size),
        cmocka_unit_test(follows_its_equation),
        cmocka_unit_test(remembers_what_is_learned),
        cmocka_unit_test(has_finite_scores_of_constants),
        cmocka_unit_test(rejects_invalid_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
