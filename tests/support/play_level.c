/* Plays the cases of an executable specification against src/anomaly/level.h: play_level
   CASE.json... prints one line a case, and exits with 1 when any differs by more than 1e-9
   (relative above 1). A case: columns; half; x: rows; learn: of each row, or null; normal: [step,
   first, last], the smoothed values first..last are learned as normal after the step, or null; and
   of each row level, L, q, share: the number of the column with the largest share. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "anomaly/level.h"

static double worst;

static double number(const json_t *of, const char *key, size_t n) {
    const json_t *value = json_array_get(json_object_get(of, key), n);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static void compare(double want, double got) {
    if (isnan(want) && isnan(got))
        return;
    double difference = fabs(got - want) / (1 + fabs(want));
    if (!(difference <= worst))
        worst = isnan(difference) ? (double)INFINITY : difference;
}

static size_t largest(const struct level *level) {
    size_t at = 0;
    for (size_t k = 1; k < level->columns; k++)
        if (level->shares[k] > level->shares[at])
            at = k;
    return at;
}

static void play(const json_t *of) {
    const json_t *rows = json_object_get(of, "x");
    size_t columns = (size_t)json_integer_value(json_object_get(of, "columns"));
    struct level level;
    if (!level_open(&level, columns, json_number_value(json_object_get(of, "half"))))
        exit(1);
    struct level_state *stream = calloc(level_size(columns), sizeof(double));
    double *smoothed = calloc(json_array_size(rows) * columns, sizeof *smoothed);
    float *x = calloc(columns, sizeof *x);
    if (!stream || !smoothed || !x)
        exit(1);
    for (size_t n = 0; n < json_array_size(rows); n++) {
        for (size_t k = 0; k < columns; k++) {
            const json_t *value = json_array_get(json_array_get(rows, n), k);
            x[k] = json_is_number(value) ? (float)json_number_value(value) : NAN;
        }
        const struct level_result result =
            level_take(&level, stream, x, !(number(of, "learn", n) <= 0));
        level_smoothed(&level, stream, smoothed + n * columns);
        compare(number(of, "level", n), result.score);
        compare(number(of, "L", n), result.unlikeliness);
        compare(number(of, "q", n), result.doubt);
        compare(number(of, "share", n),
                isnan(result.doubt) ? (double)NAN : (double)largest(&level));
        if (number(of, "normal", 0) == (double)n) {
            size_t first = (size_t)number(of, "normal", 1);
            size_t count = (size_t)number(of, "normal", 2) + 1 - first;
            level_mark_normal(&level, stream, smoothed + first * columns, count, 1 / (double)count);
        }
        if (!level_valid(&level, stream))
            worst = INFINITY;
    }
    free(stream);
    free(smoothed);
    free(x);
    level_close(&level);
}

int main(int argc, char **argv) {
    int failed = argc < 2;
    for (int n = 1; n < argc; n++) {
        json_error_t error;
        json_t *of = json_load_file(argv[n], 0, &error);
        worst = json_array_size(json_object_get(of, "x")) ? 0 : INFINITY;
        play(of);
        printf("%s %s: differs by %g at most\n", worst <= 1e-9 ? "ok  " : "FAIL", argv[n], worst);
        failed |= !(worst <= 1e-9);
        json_decref(of);
    }
    return failed;
}
