/* Checks the error in original units with `scale: standard` and `target: next`: it is that of
   the published predictions, each converted back by the scaler at the time of the prediction. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/metrics.h"
#include "learner/learner.h"
#include "parts/scaler.h"
#include "parts/scaling.h"
#include "under_test.h"
#include "workload.h"

enum { SIZE = 2, KEYS = 3, EXAMPLES = 200, OUTLIER = 120 };

static struct workload_options scaled(enum loss loss) {
    return (struct workload_options){
        .architecture =
            {.input = {.kind = INPUT_REAL, .size = SIZE, .scale = SCALE_STANDARD, .hold = true},
             .layers = {{.cell = CELL_gru, .size = 4, .norm = NORM_layer, .gain = 1}},
             .layer_count = 1,
             .output = {.loss = loss, .size = SIZE, .target = TARGET_NEXT}},
        .window = 4,
        .stride = 4,
        .max_streams = KEYS,
        .optimizer = {.kind = OPTIMIZER_sgd, .rate = 0.05},
        .examples = EXAMPLES,
        .keys = KEYS,
        .steps = 4,
        .end = 0.05,
        .missing = 0.3,
        .seed = 3,
    };
}

static struct learner *open_learner(const struct workload *workload, size_t plan_steps,
                                    const struct learner_observer *observer) {
    struct learner *learner;
    struct config config = workload->config;
    snprintf(config.device, sizeof config.device, "%s", under_test_device());
    assert_int_equal(learner_open(&learner, &config, &workload->model, under_test_ops(), plan_steps,
                                  observer, NULL),
                     0);
    return learner;
}

/* ---- One number, step by step ---- */

struct seen {
    double squared_error, mean, deviation;
    size_t scored, observed;
};

static void see(void *context, const struct learned *learned) {
    struct seen *seen = context;
    *seen = (struct seen){learned->squared_error, learned->mean[0], learned->deviation[0],
                          learned->scored, learned->observed};
}

static void an_error_is_in_the_scale_of_its_prediction(void **unused) {
    struct workload_options options = scaled(LOSS_squared);
    options.architecture.input.size = options.architecture.output.size = 1;
    options.architecture.layers[0] =
        (struct layer){.cell = CELL_dense, .size = 1, .activation = ACTIVATION_identity};
    struct workload *workload = workload_open(&options);
    struct seen seen;
    struct learner_observer observer = {.context = &seen, .learned = see};
    struct learner *learner = open_learner(workload, 8, &observer);
    assert_int_equal(learner_set_rate(learner, LEARNER_ALL, 0, NULL), 0);
    const struct {
        float x;
        double mean, deviation;
        size_t scored, observed; /* a number without values has no prediction */
    } steps[] = {
        {NAN, NAN, 0, 0, 0},
        {3, 3, 0, 1, 0},
        {5, 4, 1, 1, 1},
        {NAN, 4, 1, 0, 0},
        {10, 6, sqrt(26.0 / 3.0), 1, 1},
    };
    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++) {
        struct example example = {
            .key = "s", .key_size = 1, .steps = 1, .x = &steps[n].x, .learn = true};
        assert_int_equal(learner_take(learner, &example, NULL), 0);
        assert_int_equal(learner_flush(learner, NULL), 0);
        assert_true(isnan(steps[n].mean) ? isnan(seen.mean)
                                         : fabs(seen.mean - steps[n].mean) < 1e-12);
        assert_true(fabs(seen.deviation - steps[n].deviation) < 1e-12);
        assert_int_equal(seen.scored, steps[n].scored);
        assert_int_equal(seen.observed, steps[n].observed);
        if (n == 2) /* the prediction is the mean without variation */
            assert_true(seen.squared_error == (5 - 3) * (5 - 3));
    }
    /* The last x was predicted from the held 5, with the scale at that time: z = (5 - 4) / 1. */
    float w[4];
    const struct tensor *t = workload->model.tensors;
    assert_int_equal(workload->model.tensor_count, 4);
    for (size_t n = 0; n < 4; n++)
        assert_int_equal(learner_read_parameters(learner, 0, n, w + t[n].offset, NULL), 0);
    double hidden = (double)w[t[0].offset] * 1 + w[t[1].offset];
    double output = (double)w[t[2].offset] * hidden + w[t[3].offset];
    double predicted = 4 + 1 * output;
    assert_true(fabs(seen.squared_error - (predicted - 10) * (predicted - 10)) < 1e-4);
    assert_true(scaler_means(scaling_scaler(learner_host(learner)))[0] == seen.mean);
    learner_close(&learner);
    workload_close(&workload);
}

/* ---- A run, from a subscriber's view ---- */

struct subscriber {
    const struct workload *workload;
    size_t example;               /* the next to be observed */
    double predicted[KEYS][SIZE]; /* predictions of each stream's next x; NaN: none */
    char keys[KEYS][256];
    size_t streams;
    double sum;
    size_t count;
    struct metrics metrics;
};

static double *prediction_of(struct subscriber *s, const struct learned *learned) {
    size_t n = 0;
    while (n < s->streams && (strlen(s->keys[n]) != learned->key_size ||
                              memcmp(s->keys[n], learned->key, learned->key_size)))
        n++;
    if (n == s->streams) {
        assert_true(n < KEYS);
        memcpy(s->keys[s->streams++], learned->key, learned->key_size);
        s->predicted[n][0] = s->predicted[n][1] = NAN;
    }
    return s->predicted[n];
}

static void subscribe(void *context, const struct learned *learned) {
    struct subscriber *s = context;
    const struct example *example = &s->workload->examples[s->example++];
    double *predicted = prediction_of(s, learned);
    for (size_t t = 0; t < example->steps; t++)
        for (size_t k = 0; k < SIZE; k++) {
            float x;
            memcpy(&x, (const char *)example->x + (t * SIZE + k) * sizeof x, sizeof x);
            double difference = predicted[k] - x;
            if (!isnan(difference)) {
                s->sum += difference * difference;
                s->count++;
            }
            float output = learned->outputs[t * s->workload->model.outputs + k];
            predicted[k] = learned->mean[k] + learned->deviation[k] * output;
        }
    if (example->end)
        predicted[0] = predicted[1] = NAN;
    metrics_add(&s->metrics, learned, 1);
}

static void rmse_is_that_of_the_published_predictions(void **unused) {
    static const enum loss losses[] = {LOSS_squared, LOSS_gaussian};
    for (size_t n = 0; n < 2; n++) {
        struct workload_options options = scaled(losses[n]);
        struct workload *workload = workload_open(&options);
        const float outlier[SIZE] = {1e6f, -1e6f};
        memcpy((char *)workload->examples[OUTLIER].x, outlier, sizeof outlier);
        struct subscriber *s = calloc(1, sizeof *s);
        assert_non_null(s);
        s->workload = workload;
        metrics_begin(&s->metrics, &(struct learner_counters){0}, 0, 0);
        struct learner_observer observer = {.context = s, .learned = subscribe};
        struct learner *learner = open_learner(workload, 16, &observer);
        learner_want_outputs(learner, true);
        for (size_t e = 0; e < EXAMPLES; e++)
            assert_int_equal(learner_take(learner, &workload->examples[e], NULL), 0);
        assert_int_equal(learner_flush(learner, NULL), 0);
        assert_int_equal(s->example, EXAMPLES);
        struct loss_fields report;
        metrics_recent(&s->metrics, 2, &report);
        double rmse = sqrt(s->sum / (double)s->count);
        assert_true(s->count > EXAMPLES / 2 && rmse > 1e4); /* the outlier counts */
        assert_true(fabs(report.metric_rmse - rmse) < 1e-9 * rmse);
        learner_close(&learner);
        workload_close(&workload);
        free(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_in_the_scale_of_its_prediction),
        cmocka_unit_test(rmse_is_that_of_the_published_predictions),
    };
    return under_test_run(tests);
}
