/* Plays the cases of an executable specification against src/forecast/distribution.h:
   play_distribution CASE.json... prints one line a case, and exits with 1 when any differs by more
   than 1e-9 (relative above 1). A case: levels; horizons; cadence; steps: [truth, time, [[forecast,
   [experts]] of each horizon]]; expected, a list of each horizon: [step, pit below, pit, log score,
   crps, quantiles]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "forecast/distribution.h"

enum { HORIZON_MAX = 64, EXPERTS_MAX = 16, LEVELS_MAX = 32 };

static double worst;

static void compare(const json_t *expected, double got) {
    if (json_is_null(expected))
        return;
    double want = json_number_value(expected), difference = fabs(got - want) / (1 + fabs(want));
    if (!(difference <= worst))
        worst = difference;
}

static double number(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void play_horizon(const json_t *play, size_t k) {
    size_t h = (size_t)json_integer_value(json_array_get(json_object_get(play, "horizons"), k));
    const json_t *steps = json_object_get(play, "steps"), *levels = json_object_get(play, "levels");
    const json_t *rows = json_array_get(json_object_get(play, "expected"), k);
    double cadence = number(json_object_get(play, "cadence"));
    static struct distribution waiting[HORIZON_MAX];
    struct distribution_state state = {0};
    for (size_t n = 0; n < HORIZON_MAX; n++)
        waiting[n].issued = 0;
    for (size_t n = 0; n < json_array_size(steps); n++) {
        const json_t *step = json_array_get(steps, n), *row = json_array_get(rows, n);
        const json_t *forecast = json_array_get(json_array_get(step, 2), k);
        double truth = number(json_array_get(step, 0)), experts[EXPERTS_MAX];
        double time = number(json_array_get(step, 1)) + (double)h * cadence;
        struct distribution *issued = &waiting[n % h];
        size_t count = json_array_size(json_array_get(forecast, 1));
        if (issued->issued > 0 && isfinite(truth)) {
            struct distribution_score score = distribution_score(issued, truth);
            compare(json_array_get(row, 1), score.pit[0]);
            compare(json_array_get(row, 2), score.pit[1]);
            compare(json_array_get(row, 3), score.log_score);
            compare(json_array_get(row, 4), score.crps);
            distribution_learn(&state, issued, truth, h);
        } else if (!json_is_null(json_array_get(row, 2))) {
            worst = INFINITY;
        }
        if (isfinite(truth))
            distribution_see(&state, truth);
        else
            distribution_miss(&state);
        for (size_t i = 0; i < count; i++)
            experts[i] = number(json_array_get(json_array_get(forecast, 1), i));
        distribution_issue(&state, number(json_array_get(forecast, 0)), time, experts, count,
                           issued);
        const json_t *quantiles = json_array_get(row, 5);
        double level[LEVELS_MAX], value[LEVELS_MAX];
        for (size_t i = 0; i < json_array_size(levels); i++)
            level[i] = number(json_array_get(levels, i));
        distribution_quantiles(issued, level, json_array_size(levels), value);
        for (size_t i = 0; i < json_array_size(quantiles); i++)
            compare(json_array_get(quantiles, i), value[i]);
        if (!distribution_state_valid(&state) || !distribution_valid(issued))
            worst = INFINITY;
    }
}

int main(int argc, char **argv) {
    int failed = argc < 2;
    for (int n = 1; n < argc; n++) {
        json_error_t error;
        json_t *play = json_load_file(argv[n], 0, &error);
        worst = play ? 0 : INFINITY;
        size_t horizons = json_array_size(json_object_get(play, "horizons"));
        if (!horizons)
            worst = INFINITY;
        for (size_t k = 0; k < horizons; k++)
            play_horizon(play, k);
        bool good = worst <= 1e-9;
        printf("%s %s: differs by %g at most\n", good ? "ok  " : "FAIL", argv[n], worst);
        failed |= !good;
        json_decref(play);
    }
    return failed;
}
