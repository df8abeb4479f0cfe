/* The contents of messages: predictions in the units of their targets, and text. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/json_text.h"
#include "daemon/report.h"
#include "learner/learner.h"
#include "model/model.h"

struct scale {
    double mean[2], deviation[2];
};

/* Returns the text as parsed by jansson. */
static json_t *written(struct json_text *text) {
    assert_true(json_text_end(text));
    json_t *object = json_loadb(text->bytes, text->size, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    json_text_free(text);
    return object;
}

static json_t *predict_scaled(const struct architecture *architecture, const float *outputs,
                              size_t steps, const struct scale *scale) {
    struct model model;
    model_build(&model, architecture);
    bool next = architecture->output.target == TARGET_NEXT;
    const struct learned learned = {.examples = 1,
                                    .key = "a",
                                    .key_size = 1,
                                    .outputs = outputs,
                                    .output_steps = steps,
                                    .mean = scale->mean,
                                    .deviation = scale->deviation,
                                    .target_mean = next ? scale->mean : NULL,
                                    .target_deviation = next ? scale->deviation : NULL};
    struct json_text text = {0};
    json_text_begin(&text);
    report_prediction(&text, &model, NULL, false, 5, &learned);
    json_t *object = written(&text);
    json_t *prediction = json_incref(json_object_get(object, "prediction"));
    json_decref(object);
    return prediction;
}

static json_t *predict(const struct architecture *architecture, const float *outputs,
                       size_t steps) {
    return predict_scaled(architecture, outputs, steps, &(struct scale){{10, 20}, {2, 4}});
}

static double at(const json_t *array, size_t index) {
    return json_real_value(json_array_get(array, index));
}

static void predictions_have_the_units_of_targets(void **state) {
    struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 2},
        .layers = {{.cell = CELL_dense, .size = 3}},
        .layer_count = 1,
        .output = {.loss = LOSS_gaussian, .size = 1, .target = TARGET_GIVEN},
    };
    const float gaussian[] = {3, 2 * logf(5)};
    json_t *prediction = predict(&architecture, gaussian, 1);
    assert_true(at(json_object_get(prediction, "mean"), 0) == 3);
    assert_true(fabs(at(json_object_get(prediction, "sd"), 0) - 5) < 1e-5);
    json_decref(prediction);

    /* Values scaled like the inputs are returned in original units: 10 and 20 +- 2 and 4. */
    const float scaled[] = {3, -1, 2 * logf(5), 0};
    architecture.output = (struct output){.loss = LOSS_gaussian, .size = 2, .target = TARGET_NEXT};
    prediction = predict(&architecture, scaled, 1);
    assert_true(at(json_object_get(prediction, "mean"), 0) == 16);
    assert_true(at(json_object_get(prediction, "mean"), 1) == 16);
    assert_true(fabs(at(json_object_get(prediction, "sd"), 0) - 10) < 1e-5);
    assert_true(at(json_object_get(prediction, "sd"), 1) == 4);
    json_decref(prediction);

    architecture.output = (struct output){.loss = LOSS_softmax, .size = 2};
    const float logits[] = {1000, 1000 + logf(3), 0, INFINITY};
    prediction = predict(&architecture, logits, 2);
    assert_true(fabs(at(json_array_get(prediction, 0), 1) - 0.75) < 1e-5);
    assert_true(json_is_null(json_array_get(json_array_get(prediction, 1), 1)));
    json_decref(prediction);

    architecture.output = (struct output){.loss = LOSS_mixture, .size = 3, .components = 2};
    const float mixture[] = {0, 1, 1, 2, 3, 4, 5, 0, logf(2), logf(3), 0, 0, 0.5f};
    prediction = predict(&architecture, mixture, 1);
    assert_true(json_real_value(json_object_get(prediction, "end")) == 0.5);
    assert_true(at(json_object_get(prediction, "weights"), 0) == 0.5);
    assert_true(at(json_object_get(prediction, "mean1"), 1) == 3);
    assert_true(at(json_object_get(prediction, "mean2"), 0) == 4);
    assert_true(fabs(at(json_object_get(prediction, "sd1"), 1) - 2) < 1e-6);
    assert_true(fabs(at(json_object_get(prediction, "sd2"), 0) - 3) < 1e-6);
    assert_true(fabs(at(json_object_get(prediction, "rho"), 1) - tanh(0.5)) < 1e-7);
    json_decref(prediction);
}

/* The first number was 10 each time, the second was never observed. */
static void what_is_not_known_yet_is_not_predicted(void **state) {
    struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 2, .scale = SCALE_STANDARD, .hold = true},
        .layers = {{.cell = CELL_dense, .size = 3}},
        .layer_count = 1,
        .output = {.loss = LOSS_gaussian, .size = 2, .target = TARGET_NEXT},
    };
    const struct scale scale = {{10, NAN}, {0, 0}};
    const float outputs[] = {3, -1, 1, 1};
    json_t *prediction = predict_scaled(&architecture, outputs, 1, &scale);
    json_t *mean = json_object_get(prediction, "mean"), *sd = json_object_get(prediction, "sd");
    assert_true(at(mean, 0) == 10 && json_is_null(json_array_get(mean, 1)));
    assert_int_equal(json_array_size(sd), 2);
    assert_true(json_is_null(json_array_get(sd, 0)) && json_is_null(json_array_get(sd, 1)));
    json_decref(prediction);
    architecture.output.loss = LOSS_squared;
    prediction = predict_scaled(&architecture, outputs, 1, &scale);
    assert_true(at(prediction, 0) == 10 && json_is_null(json_array_get(prediction, 1)));
    json_decref(prediction);
}

static void text_is_always_utf8(void **state) {
    json_t *good = json_of_text("gr\xc3\xbcn", 5), *bad = json_of_text("gr\xfcn\0", 5);
    assert_string_equal(json_string_value(good), "gr\xc3\xbcn");
    assert_string_equal(json_string_value(bad), "gr?n?");
    json_decref(good);
    json_decref(bad);
}

/* Writes the numbers, and compares the bytes with those of jansson. */
static void compare_with_jansson(const double *numbers, size_t count) {
    struct json_text text = {0};
    json_t *object = json_object(), *list = json_array();
    json_text_begin(&text);
    json_text_open_list(&text, "numbers");
    for (size_t n = 0; n < count; n++) {
        json_text_number(&text, NULL, numbers[n]);
        json_array_append_new(list, json_of_number(numbers[n]));
    }
    json_text_close_list(&text);
    assert_true(json_text_end(&text));
    json_object_set_new(object, "numbers", list);
    char *expected = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
    assert_int_equal(text.size, strlen(expected));
    assert_memory_equal(text.bytes, expected, text.size);
    free(expected);
    json_decref(object);
    json_text_free(&text);
}

static void numbers_are_written_as_jansson_writes_them(void **state) {
    enum { RANDOM = 200000, EXPONENTS = 640 };
    static double numbers[RANDOM];
    const double chosen[] = {0,
                             -0.0,
                             1,
                             -1,
                             10,
                             0.1,
                             0.5,
                             1.0 / 3,
                             2.0 / 3,
                             1e-4,
                             9.9999e-5,
                             1e-5,
                             123456,
                             999999999999999,
                             1e15,
                             1e16,
                             999999999999999.9,
                             0.1 + 0.2,
                             0.125,
                             1.5,
                             2.5,
                             1e22,
                             1e23,
                             5e-324,
                             DBL_MIN,
                             DBL_MAX,
                             FLT_MAX,
                             FLT_MIN,
                             0.99999999999999944,
                             1.0000000000000002,
                             9007199254740992,
                             1784646123.123456,
                             INFINITY,
                             -INFINITY,
                             NAN,
                             1e27,
                             1e28,
                             1e-12,
                             1e-13};
    compare_with_jansson(chosen, sizeof chosen / sizeof *chosen);
    for (int n = 0; n < EXPONENTS; n++)
        numbers[n] = pow(10, n - EXPONENTS / 2);
    compare_with_jansson(numbers, EXPONENTS);
    uint64_t random = 1;
    for (size_t n = 0; n < RANDOM; n++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        double share = (double)(random >> 11) * 0x1p-53;
        double magnitude = exp2((double)((int)(random % 97) - 48));
        /* Doubles, floats, short decimals, and halves of the last digit. */
        numbers[n] = n % 4 == 0   ? share * magnitude
                     : n % 4 == 1 ? (double)(float)(share * magnitude)
                     : n % 4 == 2 ? floor(share * 1e5) / 1e3
                                  : floor(share * 1e15) / 8;
        if (random & 4096)
            numbers[n] = -numbers[n];
    }
    compare_with_jansson(numbers, RANDOM);
}

static void text_is_escaped_as_jansson_escapes_it(void **state) {
    struct json_text text = {0};
    char all[127];
    for (size_t n = 0; n < sizeof all; n++)
        all[n] = (char)(n + 1);
    json_t *details = json_pack("{s:s, s:[i]}", "who", "gr\xc3\xbcn", "list", 3);
    json_text_begin(&text);
    json_text_members(&text, NULL);
    json_text_string(&text, "all", all, sizeof all);
    json_text_string(&text, "bad", "gr\xfcn\0", 5);
    json_text_members(&text, details);
    json_text_open_object(&text, "object");
    json_text_count(&text, "count", UINT64_MAX / 2);
    json_text_flag(&text, "yes", true);
    json_text_flag(&text, "no", false);
    json_text_null(&text, "nothing");
    json_text_close_object(&text);
    json_text_open_list(&text, "none");
    json_text_close_list(&text);
    json_t *expected =
        json_pack("{s:s#, s:s, s:s, s:[i], s:{s:I, s:b, s:b, s:n}, s:[]}", "all", all, sizeof all,
                  "bad", "gr?n?", "who", "gr\xc3\xbcn", "list", 3, "object", "count",
                  (json_int_t)(UINT64_MAX / 2), "yes", 1, "no", 0, "nothing", "none");
    json_t *object = written(&text);
    assert_true(json_equal(object, expected));
    json_decref(object);
    json_decref(expected);
    json_decref(details);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_have_the_units_of_targets),
        cmocka_unit_test(what_is_not_known_yet_is_not_predicted),
        cmocka_unit_test(text_is_always_utf8),
        cmocka_unit_test(numbers_are_written_as_jansson_writes_them),
        cmocka_unit_test(text_is_escaped_as_jansson_escapes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
