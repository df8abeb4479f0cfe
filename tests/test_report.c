/* What messages say: predictions in the units of their targets, and text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "learner.h"
#include "model.h"
#include "report.h"

struct scale {
    double mean[2], deviation[2];
};

static json_t *predict_scaled(const struct architecture *architecture, const float *outputs,
                              size_t steps, const struct scale *scale) {
    struct model model;
    model_build(&model, architecture);
    const struct learned learned = {.examples = 1,
                                    .key = "a",
                                    .key_size = 1,
                                    .outputs = outputs,
                                    .output_steps = steps,
                                    .mean = scale->mean,
                                    .deviation = scale->deviation};
    json_t *object = json_object();
    report_prediction(object, &model, &learned);
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

static void predictions_mean_what_the_loss_says(void **state) {
    (void)state;
    struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 2},
        .layers = {{.cell = CELL_DENSE, .size = 3}},
        .layer_count = 1,
        .output = {.loss = LOSS_GAUSSIAN, .size = 1, .target = TARGET_GIVEN},
    };
    const float gaussian[] = {3, 2 * logf(5)};
    json_t *prediction = predict(&architecture, gaussian, 1);
    assert_true(at(json_object_get(prediction, "mean"), 0) == 3);
    assert_true(fabs(at(json_object_get(prediction, "sd"), 0) - 5) < 1e-5);
    json_decref(prediction);

    /* What is scaled as the inputs are is given back in original units: 10 and 20 +- 2 and 4. */
    const float scaled[] = {3, -1, 2 * logf(5), 0};
    architecture.output = (struct output){.loss = LOSS_GAUSSIAN, .size = 2, .target = TARGET_NEXT};
    prediction = predict(&architecture, scaled, 1);
    assert_true(at(json_object_get(prediction, "mean"), 0) == 16);
    assert_true(at(json_object_get(prediction, "mean"), 1) == 16);
    assert_true(fabs(at(json_object_get(prediction, "sd"), 0) - 10) < 1e-5);
    assert_true(at(json_object_get(prediction, "sd"), 1) == 4);
    json_decref(prediction);

    architecture.output = (struct output){.loss = LOSS_SOFTMAX, .size = 2};
    const float logits[] = {1000, 1000 + logf(3), 0, INFINITY};
    prediction = predict(&architecture, logits, 2);
    assert_true(fabs(at(json_array_get(prediction, 0), 1) - 0.75) < 1e-5);
    assert_true(json_is_null(json_array_get(json_array_get(prediction, 1), 1)));
    json_decref(prediction);

    architecture.output = (struct output){.loss = LOSS_MIXTURE, .size = 3, .components = 2};
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

/* The first number has been 10 each time, the second has not been observed. */
static void what_is_not_known_yet_is_not_predicted(void **state) {
    (void)state;
    struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 2, .standard = true, .hold = true},
        .layers = {{.cell = CELL_DENSE, .size = 3}},
        .layer_count = 1,
        .output = {.loss = LOSS_GAUSSIAN, .size = 2, .target = TARGET_NEXT},
    };
    const struct scale scale = {{10, NAN}, {0, 0}};
    const float outputs[] = {3, -1, 1, 1};
    json_t *prediction = predict_scaled(&architecture, outputs, 1, &scale);
    json_t *mean = json_object_get(prediction, "mean"), *sd = json_object_get(prediction, "sd");
    assert_true(at(mean, 0) == 10 && json_is_null(json_array_get(mean, 1)));
    assert_int_equal(json_array_size(sd), 2);
    assert_true(json_is_null(json_array_get(sd, 0)) && json_is_null(json_array_get(sd, 1)));
    json_decref(prediction);
    architecture.output.loss = LOSS_SQUARED;
    prediction = predict_scaled(&architecture, outputs, 1, &scale);
    assert_true(at(prediction, 0) == 10 && json_is_null(json_array_get(prediction, 1)));
    json_decref(prediction);
}

static void text_is_always_utf8(void **state) {
    (void)state;
    json_t *good = report_text("gr\xc3\xbcn", 5), *bad = report_text("gr\xfcn\0", 5);
    assert_string_equal(json_string_value(good), "gr\xc3\xbcn");
    assert_string_equal(json_string_value(bad), "gr?n?");
    json_decref(good);
    json_decref(bad);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_mean_what_the_loss_says),
        cmocka_unit_test(what_is_not_known_yet_is_not_predicted),
        cmocka_unit_test(text_is_always_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
