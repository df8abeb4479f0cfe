/* How abnormal each example is (anomaly/anomaly.h). While it plans, the learner keeps what came;
   when the plan has been played, and the errors of its forecasts are known, step by step each
   stream's memory is asked, and alarms are told. Nothing that is learned depends on it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "learner_internal.h"

int watch_open(struct learner *learner, const struct config *config, struct error *error) {
    const struct architecture *architecture = &learner->model->architecture;
    bool numbers = architecture->input.kind == INPUT_REAL;
    struct watch *watch = &learner->watch;
    const struct anomaly_options options = {
        .slots = config->learning.max_streams,
        .columns = numbers ? learner->input_row : 0,
        .memory = config->anomaly.memory,
        .has_errors = numbers && architecture->output.target == TARGET_NEXT &&
                      loss_kind(architecture->output.loss)->squares,
        .seed = config->seed,
    };
    if (!config->anomaly.enabled)
        return 0;
    watch->rule = config->anomaly.rule;
    watch->configured_threshold = watch->rule.threshold;
    watch->alarms_of_surprise = config->anomaly.surprise;
    watch->columns = options.columns;
    watch->has_errors = watch->listens = options.has_errors;
    watch->errors = calloc(options.columns + 1, sizeof *watch->errors);
    watch->forecast = calloc(options.columns + 1, sizeof *watch->forecast);
    if (!watch->errors || !watch->forecast)
        return error_no_memory(error);
    return anomaly_open(&watch->anomaly, &options, error);
}

void watch_close(struct learner *learner) {
    anomaly_close(&learner->watch.anomaly);
    free(learner->watch.errors);
    free(learner->watch.forecast);
    free(learner->watch.x);
}

bool watch_plan_open(struct learner *learner) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly)
        return true;
    watch->x = calloc(learner->plan_steps, (watch->columns + 1) * sizeof *watch->x);
    return watch->x != NULL;
}

size_t watch_plan_bytes(const struct learner *learner) {
    return learner->watch.anomaly ? learner->watch.columns * sizeof *learner->watch.x : 0;
}

/* ---- Planning ---- */

void plan_watch(struct learner *learner, const void *x) {
    struct watch *watch = &learner->watch;
    if (watch->anomaly)
        memcpy(watch->x + learner->steps * watch->columns, x, watch->columns * sizeof *watch->x);
}

/* ---- After the plan has been played ---- */

static void clear_errors(struct watch *watch) {
    watch->surprise = NAN;
    for (size_t k = 0; k < watch->columns; k++)
        watch->errors[k] = NAN;
}

struct anomaly_said watch_said(const struct learner *learner) {
    return learner->watch.anomaly ? anomaly_said(learner->watch.anomaly) : (struct anomaly_said){0};
}

/* One that goes on from another plan has begun. */
void watch_begin(struct learner *learner, struct planned *example) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly)
        return;
    if (!example->begun)
        anomaly_clear(watch->anomaly);
    clear_errors(watch);
    if (example->steps && example->begins)
        anomaly_begin(watch->anomaly, example->slot);
    example->begins = false;
}

void watch_score(struct learner *learner, const struct planned *example, double loss) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly || (watch->has_errors && !watch->listens))
        return;
    if (!watch->has_errors)
        watch->errors[0] = exp(loss);
    double surprise = anomaly_wrong(watch->anomaly, example->slot, watch->errors);
    watch->surprise = fmax(watch->surprise, surprise);
}

static void raise_alarm(struct learner *learner, const struct planned *example, const float *x,
                        double score, bool of_surprise) {
    struct watch *watch = &learner->watch;
    const struct learner_observer *observer = &learner->observer;
    struct alarm *alarm = anomaly_alarm(watch->anomaly, example->slot, of_surprise);
    uint64_t step = anomaly_steps(watch->anomaly, example->slot) - 1;
    if (!alarm_raised(alarm, &watch->rule, score, step) || !observer->alarmed)
        return;
    const struct learner_alarm told = {
        .key = example->key,
        .key_size = example->key_size,
        .of_surprise = of_surprise,
        .example = learner->counters.examples + 1,
        .stream_step = step,
        .time = example->time,
        .score = score,
        .threshold = watch->rule.threshold,
        .columns = watch->columns,
        .said = anomaly_said(watch->anomaly),
        .x = x,
        .forecast = watch->has_errors ? watch->forecast : NULL,
    };
    observer->alarmed(observer->context, &told);
}

void watch_step(struct learner *learner, const struct planned *example, size_t step) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly)
        return;
    const float *x = watch->x + step * watch->columns;
    for (size_t k = 0; k < watch->columns; k++)
        watch->forecast[k] = (double)x[k] + watch->errors[k];
    double score = anomaly_take(watch->anomaly, example->slot, x, example->time);
    raise_alarm(learner, example, x, score, false);
    if (watch->alarms_of_surprise)
        raise_alarm(learner, example, x, watch->surprise, true);
    clear_errors(watch);
}

/* The truths that a label brings have no step. */
void watch_end(struct learner *learner, const struct planned *example) {
    struct watch *watch = &learner->watch;
    if (watch->anomaly && watch->alarms_of_surprise && !example->steps && example->scored)
        raise_alarm(learner, example, NULL, watch->surprise, true);
}

/* ---- In flight ---- */

bool learner_watches(const struct learner *learner) {
    return learner->watch.anomaly != NULL;
}

double learner_threshold(const struct learner *learner) {
    return learner->watch.rule.threshold;
}

int learner_set_threshold(struct learner *learner, double threshold, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    learner->watch.rule.threshold = threshold;
    return 0;
}

int learner_configure_threshold(struct learner *learner, double threshold, struct error *error) {
    if (learner_set_threshold(learner, threshold, error))
        return -1;
    learner->watch.configured_threshold = threshold;
    return 0;
}

/* ---- Checkpoints ---- */

struct anomaly_state learner_anomaly(struct learner *learner, uint32_t slot) {
    return anomaly_state(learner->watch.anomaly, slot);
}

bool learner_anomaly_written(struct learner *learner, uint32_t slot) {
    return anomaly_written(learner->watch.anomaly, slot);
}

struct learner_thresholds learner_thresholds(const struct learner *learner) {
    return (struct learner_thresholds){learner->watch.rule.threshold,
                                       learner->watch.configured_threshold};
}

/* One that was set in flight stays, until the configuration has another. */
void learner_write_thresholds(struct learner *learner,
                              const struct learner_thresholds *thresholds) {
    if (thresholds->configured == learner->watch.configured_threshold)
        learner->watch.rule.threshold = thresholds->threshold;
}
