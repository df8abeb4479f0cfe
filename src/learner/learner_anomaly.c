/* How abnormal each example is (anomaly/anomaly.h). While it plans, the learner keeps what came;
   when the plan has been played, and the errors of its forecasts are known, step by step each
   stream's memory is asked, and alarms are told. Nothing that is learned depends on it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "anomaly/kept.h"
#include "common/error.h"
#include "common/unaligned.h"
#include "learner_internal.h"

/* Those that are real, and which of them targets are. */
static int choose_columns(struct learner *learner, struct error *error) {
    const struct input *input = &learner->model->architecture.input;
    const struct output *output = &learner->model->architecture.output;
    struct watch *watch = &learner->watch;
    bool next = output->target == TARGET_NEXT;
    watch->at = calloc(input->column_count, sizeof *watch->at);
    watch->of_target = calloc(learner->target_row, sizeof *watch->of_target);
    if (!watch->at || !watch->of_target)
        return error_no_memory(error);
    for (size_t k = 0; k < learner->target_row; k++)
        watch->of_target[k] = SIZE_MAX;
    for (size_t column = 0; column < input->column_count; column++) {
        if (input->columns[column].kind != COLUMN_REAL)
            continue;
        for (size_t k = 0; next && k < output->column_count; k++)
            if (output->columns[k] == column)
                watch->of_target[k] = watch->columns;
        watch->at[watch->columns++] = (uint16_t)column;
    }
    return 0;
}

static bool all_share(const struct share_config *share) {
    for (size_t n = 0; n < share->count; n++)
        if (!*share->prefixes[n])
            return true;
    return false;
}

int watch_open(struct learner *learner, const struct config *config, struct error *error) {
    const struct architecture *architecture = &learner->model->architecture;
    bool numbers = architecture->input.kind == INPUT_REAL;
    struct watch *watch = &learner->watch;
    if (config->anomaly.enabled && learner->columns.wanted && choose_columns(learner, error))
        return -1;
    const struct anomaly_options options = {
        .slots = config->learning.max_streams,
        .columns = !numbers    ? 0
                   : watch->at ? watch->columns
                               : learner->input_row,
        .memory = config->anomaly.memory,
        .groups = numbers ? config->anomaly.share.count : 0,
        .all_share = numbers && all_share(&config->anomaly.share),
        .symbols = !numbers && architecture->output.target == TARGET_NEXT,
        .has_errors = numbers && architecture->output.target == TARGET_NEXT &&
                      loss_kind(architecture->output.loss)->squares,
        .seed = config->seed,
        .half = config->anomaly.by_preset,
    };
    if (!config->anomaly.enabled)
        return 0;
    watch->rule = config->anomaly.rule;
    watch->configured_threshold = watch->rule.threshold;
    watch->alarms_of_surprise = config->anomaly.surprise;
    watch->surprise_rule = (struct alarm_rule){.threshold = config->anomaly.surprise_threshold,
                                               .rest = config->anomaly.surprise_rest,
                                               .recovery = 1}; /* of no fatigue */
    if (options.groups)
        watch->share = config->anomaly.share;
    watch->columns = options.columns;
    watch->symbols = options.symbols;
    watch->has_errors = options.has_errors;
    watch->errors = calloc(options.columns + 1, sizeof *watch->errors);
    watch->forecast = calloc(options.columns + 1, sizeof *watch->forecast);
    if (!watch->errors || !watch->forecast)
        return error_no_memory(error);
    if (anomaly_open(&watch->anomaly, &options, error) == 0)
        return 0;
    /* Who has not asked for it must not go without all else. */
    if (config->anomaly.by_preset)
        snprintf(watch->off, sizeof watch->off, "%s", error->text);
    return config->anomaly.by_preset ? 0 : -1;
}

void watch_close(struct learner *learner) {
    anomaly_close(&learner->watch.anomaly);
    free(learner->watch.at);
    free(learner->watch.of_target);
    free(learner->watch.errors);
    free(learner->watch.forecast);
    free(learner->watch.x);
    free(learner->watch.scores);
}

bool watch_plan_open(struct learner *learner) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly)
        return true;
    watch->x = calloc(learner->plan_steps, (watch->columns + 1) * sizeof *watch->x);
    watch->scores = calloc(learner->plan_steps, sizeof *watch->scores);
    return watch->x && watch->scores;
}

size_t watch_plan_bytes(const struct learner *learner) {
    const struct watch *watch = &learner->watch;
    return watch->anomaly ? watch->columns * sizeof *watch->x + sizeof *watch->scores : 0;
}

/* ---- Planning ---- */

void plan_watch(struct learner *learner, const void *x) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly)
        return;
    float *kept = watch->x + learner->steps * watch->columns;
    if (!watch->at)
        memcpy(kept, x, watch->columns * sizeof *kept);
    for (size_t k = 0; watch->at && k < watch->columns; k++)
        kept[k] = unaligned_float(x, watch->at[k]);
    watch->scores[learner->steps] = 0;
}

void plan_watch_scores(struct learner *learner, size_t step, size_t scores) {
    if (learner->watch.anomaly && scores)
        learner->watch.scores[step] = scores;
}

/* Alarms of streams that have stopped are told at once: by the time the plan has been played,
   others may have taken their places. */
static void look_for_silence(struct learner *learner, double time) {
    const struct learner_observer *observer = &learner->observer;
    struct anomaly *anomaly = learner->watch.anomaly;
    const struct streams *streams = learner->streams;
    uint32_t slot = streams_oldest(streams);
    for (; slot != STREAMS_NONE; slot = streams_newer(streams, slot)) {
        bool changed, silent = anomaly_is_silent(anomaly, slot, &changed);
        if (changed)
            learner_mark(learner, slot);
        if (!silent || !observer->alarmed)
            continue;
        struct learner_alarm told = {.kind = ALARM_SILENT,
                                     .example = learner->taken,
                                     .time = time,
                                     .score = NAN,
                                     .threshold = NAN,
                                     .column = SIZE_MAX};
        told.key = streams_key(streams, slot, &told.key_size);
        observer->alarmed(observer->context, &told);
    }
}

void plan_heard(struct learner *learner, const struct planned *example) {
    struct anomaly *anomaly = learner->watch.anomaly;
    if (!anomaly)
        return;
    anomaly_heard(anomaly, example->slot, example->time, example->begins);
    if (anomaly_may_be_silent(anomaly))
        look_for_silence(learner, example->time);
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

/* That of the longest prefix of the key. */
static void join(struct watch *watch, uint32_t slot, const char *key, size_t key_size) {
    const struct share_config *share = &watch->share;
    uint32_t group = ANOMALY_ALONE;
    size_t longest = 0;
    for (uint32_t n = 0; n < share->count; n++) {
        size_t size = strlen(share->prefixes[n]);
        if (size < longest || size > key_size || memcmp(share->prefixes[n], key, size) != 0)
            continue;
        group = n;
        longest = size;
    }
    anomaly_join(watch->anomaly, slot, group);
}

/* One that goes on from another plan has begun. */
void watch_begin(struct learner *learner, struct planned *example) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly)
        return;
    anomaly_learn(watch->anomaly, example->learn);
    if (!example->begun) {
        join(watch, example->slot, example->key, example->key_size);
        anomaly_clear(watch->anomaly);
        clear_errors(watch);
    }
    if (example->steps && example->begins)
        anomaly_begin(watch->anomaly, example->slot);
    example->begins = false;
}

const char *learner_alarm_name(enum learner_alarm_kind kind) {
    static const char *const names[] = {"novelty", "surprise", "stuck", "silent"};
    return names[kind];
}

/* The column with the largest; SIZE_MAX where none has one. */
static size_t largest(const double *scores, size_t columns) {
    size_t at = SIZE_MAX;
    for (size_t k = 0; k < columns; k++)
        if (!isnan(scores[k]) && (at == SIZE_MAX || scores[k] > scores[at]))
            at = k;
    return at;
}

static struct learner_alarm describe(struct learner *learner, const struct planned *example,
                                     enum learner_alarm_kind kind, const float *x) {
    struct watch *watch = &learner->watch;
    return (struct learner_alarm){
        .kind = kind,
        .key = example->key,
        .key_size = example->key_size,
        .example = learner->counters.examples + 1,
        .stream_step = anomaly_steps(watch->anomaly, example->slot) - 1,
        .time = example->time,
        .score = NAN,
        .threshold = NAN,
        .column = SIZE_MAX,
        .columns = watch->columns,
        .at = watch->at,
        .said = anomaly_said(watch->anomaly),
        .x = x,
        .forecast = watch->has_errors ? watch->forecast : NULL,
    };
}

/* The largest of several columns is that much more often large. */
static double of_columns(const struct watch *watch, enum learner_alarm_kind kind) {
    bool many = kind == ALARM_NOVELTY || watch->has_errors;
    return many && watch->columns > 1 ? log10((double)watch->columns) : 0;
}

static struct alarm_rule rule_of(const struct watch *watch, enum learner_alarm_kind kind) {
    struct alarm_rule rule = kind == ALARM_SURPRISE ? watch->surprise_rule : watch->rule;
    rule.threshold += of_columns(watch, kind);
    return rule;
}

static void judge(struct learner *learner, const struct planned *example, const float *x,
                  double score, enum learner_alarm_kind kind) {
    struct watch *watch = &learner->watch;
    const struct learner_observer *observer = &learner->observer;
    struct alarm *alarm = anomaly_alarm(watch->anomaly, example->slot, kind == ALARM_SURPRISE);
    struct learner_alarm told = describe(learner, example, kind, x);
    struct alarm_rule rule = rule_of(watch, kind);
    /* Scores of symbols come before the steps of their example. */
    bool of_losses = watch->symbols && kind == ALARM_NOVELTY;
    if (of_losses)
        told.stream_step = anomaly_losses(watch->anomaly, example->slot);
    if (kind == ALARM_NOVELTY && !of_losses && watch->alarms_of_surprise &&
        anomaly_is_echo(watch->anomaly, example->slot))
        return;
    if (!alarm_raised(alarm, &rule, score, told.stream_step))
        return;
    if (kind == ALARM_NOVELTY && !of_losses)
        anomaly_keep(
            watch->anomaly, example->slot, x,
            &(struct anomaly_kept){.time = example->time > 0 ? example->time : 0, .score = score});
    if (!observer->alarmed)
        return;
    told.score = score;
    told.threshold = rule.threshold;
    told.column =
        largest(kind == ALARM_SURPRISE ? told.said.surprises : told.said.scores, watch->columns);
    observer->alarmed(observer->context, &told);
}

void watch_score(struct learner *learner, const struct planned *example, double loss) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly || !watch->listens)
        return;
    if (!watch->has_errors)
        watch->errors[0] = exp(loss);
    const struct alarm_rule rule = rule_of(watch, ALARM_SURPRISE);
    double surprise = anomaly_wrong(watch->anomaly, example->slot, watch->errors,
                                    watch->alarms_of_surprise ? &rule : NULL);
    watch->surprise = fmax(watch->surprise, surprise);
    if (watch->symbols)
        judge(learner, example, NULL, anomaly_lost(watch->anomaly, example->slot, loss),
              ALARM_NOVELTY);
}

static void look_at_habits(struct learner *learner, const struct planned *example, const float *x) {
    const struct learner_observer *observer = &learner->observer;
    for (size_t k = 0; observer->alarmed && k < learner->watch.columns; k++) {
        enum anomaly_habit habit = anomaly_habit(learner->watch.anomaly, k);
        if (habit == HABIT_KEPT)
            continue;
        struct learner_alarm told =
            describe(learner, example, habit == HABIT_STUCK ? ALARM_STUCK : ALARM_SILENT, x);
        told.column = k;
        observer->alarmed(observer->context, &told);
    }
}

size_t watch_scores(const struct learner *learner, size_t step) {
    return learner->watch.anomaly ? learner->watch.scores[step] : 0;
}

void watch_step(struct learner *learner, const struct planned *example, size_t step) {
    struct watch *watch = &learner->watch;
    if (!watch->anomaly)
        return;
    const float *x = watch->x + step * watch->columns;
    for (size_t k = 0; k < watch->columns; k++)
        watch->forecast[k] = (double)x[k] + watch->errors[k];
    double score = anomaly_take(watch->anomaly, example->slot, x, example->time);
    judge(learner, example, x, score, ALARM_NOVELTY); /* of symbols there is none here */
    if (watch->alarms_of_surprise)
        judge(learner, example, x, watch->surprise, ALARM_SURPRISE);
    look_at_habits(learner, example, x);
    anomaly_end_step(watch->anomaly, example->slot, x);
    clear_errors(watch);
}

/* The truths that a label brings have no step. */
void watch_end(struct learner *learner, const struct planned *example) {
    struct watch *watch = &learner->watch;
    if (watch->anomaly && watch->alarms_of_surprise && !example->steps && example->scored)
        judge(learner, example, NULL, watch->surprise, ALARM_SURPRISE);
}

/* ---- In flight ---- */

bool learner_watches(const struct learner *learner) {
    return learner->watch.anomaly != NULL;
}

const char *learner_watches_not(const struct learner *learner) {
    return learner->watch.off;
}

double learner_threshold(const struct learner *learner) {
    return learner->watch.rule.threshold;
}

double learner_limit(const struct learner *learner) {
    return learner->watch.rule.threshold + of_columns(&learner->watch, ALARM_NOVELTY);
}

/* ---- Checkpoints ---- */

struct anomaly_contexts learner_contexts(struct learner *learner, uint32_t slot, size_t k) {
    return anomaly_contexts(learner->watch.anomaly, slot, k);
}

size_t learner_shared(const struct learner *learner) {
    return learner->watch.share.count;
}

uint32_t learner_shared_slot(const struct learner *learner, size_t n) {
    return (uint32_t)(streams_capacity(learner->streams) + n);
}

static void join_slot(struct learner *learner, uint32_t slot) {
    size_t size;
    const char *key = streams_key(learner->streams, slot, &size);
    join(&learner->watch, slot, key, size);
}

bool learner_anomaly_written(struct learner *learner, uint32_t slot) {
    if (slot < streams_capacity(learner->streams))
        join_slot(learner, slot);
    return anomaly_written(learner->watch.anomaly, slot);
}

void watch_expect(struct learner *learner, uint32_t slot) {
    if (!learner->watch.anomaly)
        return;
    join_slot(learner, slot);
    anomaly_expect(learner->watch.anomaly, slot);
}

void watch_settle(struct learner *learner, uint32_t slot, bool arrived) {
    if (learner->watch.anomaly)
        anomaly_settle(learner->watch.anomaly, slot, arrived);
}

struct learner_thresholds learner_thresholds(const struct learner *learner) {
    return (struct learner_thresholds){learner->watch.rule.threshold,
                                       learner->watch.configured_threshold};
}

void learner_write_thresholds(struct learner *learner,
                              const struct learner_thresholds *thresholds) {
    learner->watch.rule.threshold = thresholds->threshold;
    learner->watch.configured_threshold = thresholds->configured;
}
