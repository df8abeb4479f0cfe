/* Anomaly scores of examples (anomaly/anomaly.h). Planning stores the inputs. After the plan has
   been played, and the forecast errors are known, each step is compared with its stream's memory,
   and alarms are raised. Learning does not depend on it. */
#include "anomalies.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "anomaly/anomaly.h"
#include "anomaly/kept.h"
#include "common/finite.h"
#include "common/text.h"
#include "common/unaligned.h"
#include "distributions.h"
#include "incidents.h"
#include "part.h"
#include "rows.h"

struct anomalies {
    struct part_host *host;
    struct anomaly *anomaly;
    struct incidents *incidents;
    struct alarm_rule rule, surprise_rule;
    struct share_config share; /* none with symbols */
    bool alarms_of_surprise;
    const char *rate_text; /* "": alarms by thresholds */
    struct alarm_rate rate;
    struct anomalies_rates rates; /* numbers of alarms, by rate */
    bool capped;                  /* thresholds need a rare P, too */
    struct anomaly_rarity rarity; /* of the newest step */
    size_t columns;               /* real ones; 0 with symbols */
    uint16_t *at;                 /* (columns,) their numbers in x; NULL: all of x */
    /* (target_size,) the column of number k of a target, SIZE_MAX: none; NULL: all of x. */
    size_t *of_target;
    bool symbols;     /* each has a forecast and one loss */
    bool has_errors;  /* forecasts are numbers, so each column has an error */
    float *x;         /* (plan_steps, columns) as received */
    double *errors;   /* (columns,) of the newest score, prediction less truth; or one number */
    double *forecast; /* (columns,) of the current step */
    double surprise;  /* the largest among the scores before the step */
    double configured_threshold;
    struct anomaly_result result; /* result of the reported example */
};

/* ---- Memory ---- */

/* Chooses the real columns, and maps targets to them. */
static int choose_columns(struct anomalies *a, struct error *error) {
    const struct model *model = a->host->model;
    const struct input *input = &model->architecture.input;
    const struct output *output = &model->architecture.output;
    a->at = calloc(input->column_count, sizeof *a->at);
    a->of_target = calloc(model->target_size, sizeof *a->of_target);
    if (!a->at || !a->of_target)
        return error_no_memory(error);
    for (size_t k = 0; k < model->target_size; k++)
        a->of_target[k] = SIZE_MAX;
    for (size_t column = 0; column < input->column_count; column++) {
        if (!column_is_real(&input->columns[column]) || input->columns[column].known)
            continue;
        for (size_t k = 0; targets_are_inputs(model) && k < output->column_count; k++)
            if (output->columns[k] == column)
                a->of_target[k] = a->columns;
        a->at[a->columns++] = (uint16_t)column;
    }
    return 0;
}

static bool all_share(const struct share_config *share) {
    for (size_t n = 0; n < share->count; n++)
        if (!*share->prefixes[n])
            return true;
    return false;
}

static bool anomalies_wanted(const struct part_host *host) {
    return host->config->anomaly.enabled;
}

static void clear_errors(struct anomalies *a) {
    a->surprise = NAN;
    for (size_t k = 0; k < a->columns; k++)
        a->errors[k] = NAN;
}

static void describe_alarms(struct anomalies *a, const struct config *config) {
    a->rule = config->anomaly.rule;
    a->configured_threshold = a->rule.threshold;
    a->rate_text = config->anomaly.rate;
    config_alarm_rate(a->rate_text, &a->rate);
    a->capped = !config->anomaly.thresholds;
    a->alarms_of_surprise = config->anomaly.surprise;
    a->surprise_rule = (struct alarm_rule){.threshold = config->anomaly.surprise_threshold,
                                           .rest = config->anomaly.surprise_rest,
                                           .recovery = 1}; /* no fatigue */
}

static int anomalies_open(void **self, struct part_host *host, struct error *error) {
    const struct config *config = host->config;
    const struct architecture *architecture = &host->model->architecture;
    const struct input *input = &architecture->input;
    /* A message is read as a whole: its loss is like that of a symbol. */
    bool numbers = input_is_real(input) && !input_is_message(input),
         next = targets_are_inputs(host->model);
    struct anomalies *a = *self = calloc(1, sizeof *a);
    if (!a)
        return error_no_memory(error);
    a->host = host;
    a->columns = !numbers                           ? 0
                 : inputs_have_experts(host->model) ? host->model->target_size
                                                    : host->model->x_size;
    if (numbers && input->column_count && !inputs_have_experts(host->model)) {
        a->columns = 0;
        if (choose_columns(a, error))
            return -1;
    }
    const struct anomaly_options options = {
        .slots = host->slots,
        .columns = a->columns,
        .memory = config->anomaly.memory,
        .groups = numbers ? config->anomaly.share.count : 0,
        .all_share = numbers && all_share(&config->anomaly.share),
        .symbols = !numbers && next,
        .has_errors = numbers && next && loss_kind(architecture->output.loss)->squares,
        .seed = config->seed,
        .surprise = config->anomaly.surprise,
        .accept = config->anomaly.level ? config->anomaly.accept : 0,
        .shape = config->anomaly.shape,
        .half = config->anomaly.by_preset,
    };
    describe_alarms(a, config);
    if (options.groups)
        a->share = config->anomaly.share;
    a->symbols = options.symbols;
    a->has_errors = options.has_errors;
    a->errors = calloc(options.columns + 1, sizeof *a->errors);
    a->forecast = calloc(options.columns + 1, sizeof *a->forecast);
    if (!a->errors || !a->forecast)
        return error_no_memory(error);
    if (anomaly_open(&a->anomaly, &options, error) == 0) {
        a->incidents = incidents_open(host, config, a->anomaly, a->columns, a->at);
        return a->incidents ? 0 : error_no_memory(error);
    }
    /* If only the preset requests anomalies, the learner works without them. */
    return config->anomaly.by_preset ? 1 : -1;
}

static void anomalies_close(void *self) {
    struct anomalies *a = self;
    anomaly_close(&a->anomaly);
    incidents_close(a->incidents);
    free(a->at);
    free(a->of_target);
    free(a->errors);
    free(a->forecast);
    free(a->x);
    free(a);
}

static bool anomalies_plan_open(void *self) {
    struct anomalies *a = self;
    a->x = calloc(a->host->plan_steps, (a->columns + 1) * sizeof *a->x);
    return a->x != NULL;
}

static size_t anomalies_step_bytes(const void *self) {
    const struct anomalies *a = self;
    /* the second term is the learner's count of scores */
    return a->columns * sizeof *a->x + sizeof(size_t);
}

static void anomalies_reset(void *self) {
    struct anomalies *a = self;
    a->rule.threshold = a->configured_threshold;
    a->rates = (struct anomalies_rates){0};
    anomaly_reset(a->anomaly);
    incidents_reset(a->incidents);
}

/* ---- Planning ---- */

static void anomalies_input(void *self, struct step *step) {
    struct anomalies *a = self;
    float *kept = a->x + step->number * a->columns;
    if (!a->at)
        memcpy(kept, step->x, a->columns * sizeof *kept);
    for (size_t k = 0; a->at && k < a->columns; k++)
        kept[k] = unaligned_float(step->x, a->at[k]);
}

/* Reports silent streams at once: when the plan has been played, other streams can have their
   slots. */
static void find_silent(struct anomalies *a, double time) {
    const struct learner_observer *observer = &a->host->observer;
    const struct streams *streams = a->host->streams;
    uint32_t slot = streams_oldest(streams);
    for (; slot != STREAMS_NONE; slot = streams_newer(streams, slot)) {
        bool changed, silent = anomaly_is_silent(a->anomaly, slot, &changed);
        if (changed)
            a->host->mark(a->host, slot);
        if (!silent || !observer->alarmed)
            continue;
        struct learner_alarm event = {.kind = ALARM_SILENT,
                                      .example = a->host->taken,
                                      .time = time,
                                      .score = NAN,
                                      .threshold = NAN,
                                      .column = SIZE_MAX,
                                      .silenced = incidents_are_silenced(a->incidents, slot, time)};
        event.key = streams_key(streams, slot, &event.key_size);
        observer->alarmed(observer->context, &event);
    }
}

static void anomalies_example(void *self, const struct example *example) {
    struct anomalies *a = self;
    const struct planned *planned = a->host->planned;
    if (example->label)
        return;
    anomaly_received(a->anomaly, planned->slot, planned->time, planned->begins);
    if (anomaly_may_be_silent(a->anomaly))
        find_silent(a, planned->time);
}

/* ---- After the plan has been played ---- */

/* Joins the memory of the longest matching prefix. */
static void join(struct anomalies *a, uint32_t slot, const char *key, size_t key_size) {
    size_t group = config_prefix(&a->share, key, key_size);
    anomaly_join(a->anomaly, slot, group == SIZE_MAX ? ANOMALY_ALONE : (uint32_t)group);
}

/* An example that continues from an earlier plan has already begun. */
static void anomalies_resumed(void *self, struct planned *example) {
    struct anomalies *a = self;
    anomaly_learn(a->anomaly, example->learn);
    if (!example->begun) {
        if (example->slot != STREAMS_NONE) /* a label can have no stream */
            join(a, example->slot, example->key, example->key_size);
        anomaly_clear(a->anomaly);
        clear_errors(a);
    }
    if (example->steps && example->begins) {
        incidents_drop(a->incidents, example->slot, a->host->counters.examples + 1);
        anomaly_begin(a->anomaly, example->slot);
    }
    example->begins = false;
}

const char *anomalies_alarm_name(enum learner_alarm_kind kind) {
    static const char *const names[] = {"novelty", "surprise", "level", "stuck", "silent"};
    return names[kind];
}

const double *anomalies_alarm_scores(const struct learner_alarm *alarm) {
    const struct anomaly_result *result = &alarm->result;
    return alarm->kind == ALARM_LEVEL      ? result->shares
           : alarm->kind == ALARM_SURPRISE ? result->surprises
                                           : result->scores;
}

/* Returns the column with the largest score; SIZE_MAX: no score. */
static size_t largest(const double *scores, size_t columns) {
    size_t at = SIZE_MAX;
    for (size_t k = 0; k < columns; k++)
        if (!isnan(scores[k]) && (at == SIZE_MAX || scores[k] > scores[at]))
            at = k;
    return at;
}

static struct learner_alarm describe(const struct anomalies *a, const struct planned *example,
                                     enum learner_alarm_kind kind, const float *x) {
    return (struct learner_alarm){
        .kind = kind,
        .key = example->key,
        .key_size = example->key_size,
        .example = a->host->counters.examples + 1,
        .stream_step = anomaly_steps(a->anomaly, example->slot) - 1,
        .time = example->time,
        .score = NAN,
        .threshold = NAN,
        .column = SIZE_MAX,
        .columns = a->columns,
        .at = a->at,
        .result = anomaly_result(a->anomaly),
        .x = x,
        .forecast = a->has_errors ? a->forecast : NULL,
    };
}

/* Returns the margin for the largest of several columns, which is large that much more often. */
static double of_columns(const struct anomalies *a, enum learner_alarm_kind kind) {
    bool many = kind == ALARM_NOVELTY || (kind == ALARM_SURPRISE && a->has_errors);
    return many && a->columns > 1 ? log10((double)a->columns) : 0;
}

static struct alarm_rule rule_of(const struct anomalies *a, enum learner_alarm_kind kind) {
    struct alarm_rule rule = kind == ALARM_SURPRISE ? a->surprise_rule : a->rule;
    rule.threshold += of_columns(a, kind);
    return rule;
}

static void keep_alarm(struct anomalies *a, const struct planned *example,
                       const struct learner_alarm *event, enum anomaly_reason reason) {
    anomaly_keep(a->anomaly, example->slot, event->x,
                 &(struct anomaly_kept){.reason = reason,
                                        .time = example->time > 0 ? example->time : 0,
                                        .score = event->score});
}

/* Keeps and announces an alarm. One of surprise by its rate is kept as what it would be without a
   forecast, so that it can be normal. */
static void raise_alarm(struct anomalies *a, const struct planned *example,
                        struct learner_alarm *event) {
    const struct learner_observer *observer = &a->host->observer;
    bool kept = event->x && a->columns, other = kept && *a->rate_text;
    if (kept && (event->kind == ALARM_NOVELTY || (other && event->kind == ALARM_SURPRISE)))
        keep_alarm(a, example, event, ANOMALY_NOVELTY);
    if (kept && (event->kind == ALARM_LEVEL ||
                 (other && event->kind == ALARM_SURPRISE && !isnan(anomaly_level(a->anomaly)))))
        keep_alarm(a, example, event, ANOMALY_LEVEL);
    event->column = largest(anomalies_alarm_scores(event), a->columns);
    if (observer->alarmed)
        observer->alarmed(observer->context, event);
}

/* From this number of steps on thresholds need a P of this rate, too. */
#define CAP_STEPS 20000
#define CAP_EVERY 5000.0

/* Not surprise: a repeated fault is a fault each time, although it becomes common. */
static bool is_capped(const struct anomalies *a, enum learner_alarm_kind kind) {
    return a->capped && !a->symbols && kind != ALARM_SURPRISE &&
           a->rule.threshold == a->configured_threshold && a->rarity.steps >= CAP_STEPS &&
           !(a->rarity.p >= a->rarity.base + log10(CAP_EVERY));
}

/* With a rate, a score above its threshold does not raise an alarm, but prolongs an incident: P
   gets used to a long fault. */
static void check_alarm(struct anomalies *a, const struct planned *example, const float *x,
                        double score, enum learner_alarm_kind kind) {
    struct alarm *alarm = anomaly_alarm(a->anomaly, example->slot, (enum anomaly_reason)kind);
    struct alarm_rule rule = rule_of(a, kind);
    /* Scores of symbols precede the steps of their example. */
    bool of_losses = a->symbols && kind == ALARM_NOVELTY;
    if (!(score >= rule.threshold) ||
        (kind == ALARM_NOVELTY && !of_losses && a->alarms_of_surprise &&
         anomaly_is_echo(a->anomaly, example->slot)))
        return;
    struct learner_alarm event = describe(a, example, kind, x);
    if (of_losses)
        event.stream_step = anomaly_losses(a->anomaly, example->slot);
    event.score = score;
    event.threshold = rule.threshold;
    bool raised = !*a->rate_text && !is_capped(a, kind) &&
                  alarm_raised(alarm, &rule, score, event.stream_step);
    event.silenced = incidents_take(a->incidents, example, &event, raised);
    if (raised)
        raise_alarm(a, example, &event);
}

/* The alarm of a step by its rate; `scores` are those of the reasons. Its incident has their
   scale. */
static void check_rate(struct anomalies *a, const struct planned *example, const float *x,
                       const double scores[ANOMALY_REASONS]) {
    double interval = anomaly_interval(a->anomaly, example->slot, example->time);
    double p = a->rarity.p, own = scores[a->rarity.reason];
    double rate =
        a->rate.time ? interval / a->rate.every * a->rate.alarms : a->rate.alarms / a->rate.every;
    struct alarm_rule rule = {.rest = a->rule.rest, .recovery = 1};
    if (isnan(p))
        return;
    rate = fmin(rate > 0 ? rate : 1 / CAP_EVERY, 1);
    a->rates.nominal += rate;
    rule.threshold = a->rarity.base - log10(rate);
    struct learner_alarm event = describe(a, example, (enum learner_alarm_kind)a->rarity.reason, x);
    if (!alarm_raised(anomaly_alarm(a->anomaly, example->slot, ANOMALY_NOVELTY), &rule, p,
                      event.stream_step))
        return;
    a->rates.observed++;
    event.score = isnan(own) ? p : own;
    event.threshold = rule_of(a, event.kind).threshold;
    event.silenced = incidents_take(a->incidents, example, &event, true);
    event.score = p;
    event.threshold = rule.threshold;
    raise_alarm(a, example, &event);
}

/* Uses the nearest of several horizons. */
static void anomalies_scored(void *self, struct planned *example, struct scored *score) {
    struct anomalies *a = self;
    if (score->horizon)
        return;
    for (size_t k = 0; a->has_errors && k < a->host->model->target_size; k++) {
        size_t column = a->of_target ? a->of_target[k] : k;
        if (column != SIZE_MAX)
            a->errors[column] = score->errors[k];
    }
    if (!a->has_errors)
        a->errors[0] = exp(score->loss);
    const struct alarm_rule rule = rule_of(a, ALARM_SURPRISE);
    double surprise = anomaly_wrong(a->anomaly, example->slot, a->errors,
                                    a->alarms_of_surprise && !*a->rate_text ? &rule : NULL);
    const double *z = distributions_z(a->host);
    if (z)
        anomaly_set_surprise(a->anomaly, -log10(erfc(*z * M_SQRT1_2)));
    a->surprise = fmax(a->surprise, surprise);
    if (a->symbols)
        check_alarm(a, example, NULL, anomaly_lost(a->anomaly, example->slot, score->loss),
                    ALARM_NOVELTY);
}

static void check_habits(const struct anomalies *a, const struct planned *example, const float *x) {
    const struct learner_observer *observer = &a->host->observer;
    for (size_t k = 0; k < a->columns; k++) {
        enum anomaly_habit habit = anomaly_habit(a->anomaly, k);
        if (habit == HABIT_KEPT)
            continue;
        struct learner_alarm event =
            describe(a, example, habit == HABIT_STUCK ? ALARM_STUCK : ALARM_SILENT, x);
        event.column = k;
        event.silenced = incidents_take(a->incidents, example, &event, true);
        if (observer->alarmed)
            observer->alarmed(observer->context, &event);
    }
}

static void anomalies_played(void *self, struct planned *example, size_t step) {
    struct anomalies *a = self;
    const float *x = a->x + step * a->columns;
    for (size_t k = 0; k < a->columns; k++)
        a->forecast[k] = (double)x[k] + a->errors[k];
    double score = anomaly_take(a->anomaly, example->slot, x, example->time);
    a->rarity = anomaly_rarity(a->anomaly, example->slot, a->rule.rest);
    if (*a->rate_text)
        check_rate(a, example, x, (double[]){score, a->surprise, anomaly_level(a->anomaly)});
    if (!isnan(anomaly_level(a->anomaly))) /* first: its shares count */
        check_alarm(a, example, x, anomaly_level(a->anomaly), ALARM_LEVEL);
    check_alarm(a, example, x, score, ALARM_NOVELTY); /* not of symbols */
    if (a->alarms_of_surprise)
        check_alarm(a, example, x, a->surprise, ALARM_SURPRISE);
    check_habits(a, example, x);
    incidents_played(a->incidents, example);
    anomaly_end_step(a->anomaly, example->slot, x);
    clear_errors(a);
}

/* The truths of a label have no step. */
static void anomalies_given(void *self, struct planned *example, const struct given *given) {
    struct anomalies *a = self;
    (void)given;
    if (!example->finished)
        return;
    if (!example->steps && example->scored) {
        a->rarity = anomaly_rarity(a->anomaly, example->slot, a->rule.rest);
        if (*a->rate_text)
            check_rate(a, example, NULL, (double[]){NAN, a->surprise, NAN});
        if (a->alarms_of_surprise)
            check_alarm(a, example, NULL, a->surprise, ALARM_SURPRISE);
    }
    if (example->ends)
        incidents_drop(a->incidents, example->slot, a->host->counters.examples + 1);
}

static void anomalies_report(void *self, const struct planned *example, const struct given *given) {
    struct anomalies *a = self;
    (void)example;
    a->result = anomaly_result(a->anomaly);
    a->result.by_rate = *a->rate_text != 0;
    given->learned->anomaly = &a->result;
}

/* ---- In flight ---- */

struct learner_thresholds anomalies_thresholds(const struct part_host *host) {
    const struct anomalies *a = part_find(host, &anomalies_part);
    return a ? (struct learner_thresholds){a->rule.threshold, a->configured_threshold}
             : (struct learner_thresholds){0};
}

void anomalies_set_thresholds(const struct part_host *host,
                              const struct learner_thresholds *thresholds) {
    struct anomalies *a = part_find(host, &anomalies_part);
    if (!a)
        return;
    a->rule.threshold = thresholds->threshold;
    a->configured_threshold = thresholds->configured;
}

double anomalies_limit(const struct part_host *host) {
    const struct anomalies *a = part_find(host, &anomalies_part);
    return a ? a->rule.threshold + of_columns(a, ALARM_NOVELTY) : 0;
}

const char *anomalies_rate(const struct part_host *host) {
    const struct anomalies *a = part_find(host, &anomalies_part);
    return a ? a->rate_text : "";
}

struct anomalies_rates anomalies_rates(const struct part_host *host) {
    const struct anomalies *a = part_find(host, &anomalies_part);
    return a ? a->rates : (struct anomalies_rates){0};
}

size_t anomalies_open_incidents(const struct part_host *host) {
    const struct anomalies *a = part_find(host, &anomalies_part);
    return a ? incidents_count(a->incidents) : 0;
}

size_t anomalies_shared(const struct part_host *host) {
    const struct anomalies *a = part_find(host, &anomalies_part);
    return a ? a->share.count : 0;
}

/* ---- Feedback on alarms ---- */

#define ALARMS_HINT "runnel-watch -t anomaly displays alarms"

static int no_alarm(const char *stream, enum anomaly_reason reason, double at,
                    const struct anomaly_kept *newest, struct error *error) {
    const char *of = reason == ANOMALY_LEVEL     ? "level"
                     : reason == ANOMALY_NOVELTY ? "novelty"
                                                 : "novelty or level";
    if (isnan(newest->score))
        return error_set(error, EX_USAGE, "stream %s has no alarm of %s; " ALARMS_HINT, stream, of);
    if (newest->time == 0)
        return error_set(error, EX_USAGE,
                         "stream %s has no alarm of %s at @%.3f: its data have no time; omit "
                         "the time to use the newest alarm",
                         stream, of, at);
    return error_set(error, EX_USAGE,
                     "stream %s has no alarm of %s at @%.3f among its last %d; the newest is "
                     "at @%.3f (seconds since 1970); " ALARMS_HINT,
                     stream, of, at, (int)KEPT_ALARMS, newest->time);
}

/* Returns the slot of a stream; STREAMS_NONE with an error. `marks`: it needs kept alarms. */
static uint32_t find_watched(const struct anomalies *a, const struct part_host *host,
                             const char *key, size_t key_size, bool marks, struct error *error) {
    char quoted[TEXT_QUOTE_SIZE];
    uint32_t slot = streams_find(host->streams, key, key_size);
    if (!a)
        error_set(error, EX_USAGE,
                  "anomaly detection is off; start the daemon with anomaly.enabled: true");
    else if (marks && !a->columns)
        error_set(
            error, EX_USAGE,
            "alarms of symbols cannot be marked, since they have no memory: the network learns "
            "repeated symbols; to get fewer alarms, use runnel-ctl set anomaly.threshold");
    else if (slot == STREAMS_NONE)
        error_set(error, EX_USAGE, "stream %s not found in memory; " ALARMS_HINT,
                  text_quote(quoted, key, key_size));
    else
        return slot;
    return STREAMS_NONE;
}

int anomalies_silence(struct part_host *host, const char *key, size_t key_size, double seconds,
                      double now, double *until, struct error *error) {
    struct anomalies *a = part_find(host, &anomalies_part);
    uint32_t slot = find_watched(a, host, key, key_size, false, error);
    if (slot == STREAMS_NONE)
        return 1;
    *until = incidents_silence(a->incidents, slot, seconds, now);
    host->mark(host, slot);
    return 0;
}

int anomalies_find(const struct part_host *host, const char *key, size_t key_size, double at,
                   struct anomaly_kept *found, struct error *error) {
    const struct anomalies *a = part_find(host, &anomalies_part);
    char quoted[TEXT_QUOTE_SIZE];
    uint32_t slot = find_watched(a, host, key, key_size, true, error);
    if (slot == STREAMS_NONE)
        return 1;
    if (anomaly_find_alarm(a->anomaly, slot, ANOMALY_ANY, at, found))
        return 0;
    no_alarm(text_quote(quoted, key, key_size), ANOMALY_ANY, at, found, error);
    return 1;
}

int anomalies_mark_normal(struct part_host *host, const char *key, size_t key_size,
                          enum anomaly_reason reason, double at, struct anomaly_kept *found,
                          struct error *error) {
    struct anomalies *a = part_find(host, &anomalies_part);
    char quoted[TEXT_QUOTE_SIZE];
    uint32_t slot = find_watched(a, host, key, key_size, true, error);
    if (slot == STREAMS_NONE)
        return 1;
    if (anomaly_mark_normal(a->anomaly, slot, reason, at, found)) {
        host->mark(host, slot);
        return 0;
    }
    no_alarm(text_quote(quoted, key, key_size), reason, at, found, error);
    return 1;
}

/* ---- Checkpoints ---- */

static void join_slot(struct anomalies *a, uint32_t slot) {
    size_t size;
    const char *key = streams_key(a->host->streams, slot, &size);
    join(a, slot, key, size);
}

/* A slot is about to be written, or has been written, with a stream from another daemon. */
static void anomalies_adopt(void *self, uint32_t slot, enum part_adopt what) {
    struct anomalies *a = self;
    if (what == ADOPT_ARRIVED)
        incidents_arrived(a->incidents, slot);
    if (what != ADOPT_EXPECTED) {
        anomaly_settle(a->anomaly, slot, what == ADOPT_ARRIVED);
        return;
    }
    incidents_expect(a->incidents, slot);
    join_slot(a, slot);
    anomaly_expect(a->anomaly, slot);
}

static void anomalies_forget(void *self, uint32_t slot) {
    const struct anomalies *a = self;
    incidents_drop(a->incidents, slot, a->host->counters.examples);
}

enum { THRESHOLDS = 2 };
_Static_assert(sizeof(struct learner_thresholds) == THRESHOLDS * sizeof(double), "one row");

static int read_thresholds(const struct state_place *p, void *numbers, struct error *error) {
    const struct learner_thresholds t = anomalies_thresholds(((struct anomalies *)p->self)->host);
    memcpy(numbers, &t, sizeof t);
    return (void)error, 0;
}

static int write_thresholds(const struct state_place *p, const void *numbers, struct error *error) {
    struct learner_thresholds t;
    memcpy(&t, numbers, sizeof t);
    if (!(t.threshold >= 0 && t.configured >= 0 && isfinite(t.threshold + t.configured)))
        return 1;
    anomalies_set_thresholds(((struct anomalies *)p->self)->host, &t);
    return (void)error, 0;
}

/* state_row.which */
enum { OF_STREAM, OF_ALARMS, OF_RATES, OF_LEVEL, OF_SHAPE };

static size_t numbers_size(const struct state_place *p) {
    const struct anomalies *a = p->self;
    const struct anomaly_state s = anomaly_state(a->anomaly, p->slot);
    const size_t sizes[] = {s.numbers_size, s.alarms_size, s.rates_size, s.level_size,
                            s.shapes_size};
    return sizes[p->row->which];
}

static size_t shared_size(const struct state_place *p) {
    return ((struct anomalies *)p->self)->share.count ? numbers_size(p) : 0;
}

static void *numbers_at(const struct state_place *p, size_t n) {
    const struct anomalies *a = p->self;
    const struct anomaly_state s = anomaly_state(a->anomaly, p->slot);
    double *const all[] = {s.numbers, s.alarms, s.rates, s.level, s.shapes};
    return (void)n, all[p->row->which];
}

static void *rates_at(const struct state_place *p, size_t n) {
    return (void)n, &((struct anomalies *)p->self)->rates;
}

static int rates_filled(const struct state_place *p) {
    const struct anomalies_rates *r = rates_at(p, 0);
    return !(r->nominal >= 0 && r->observed >= 0 && isfinite(r->nominal + r->observed));
}

static void *clock_at(const struct state_place *p, size_t n) {
    return (void)n, anomaly_clock(((struct anomalies *)p->self)->anomaly);
}

static int clock_filled(const struct state_place *p) {
    return !finite_within(clock_at(p, 0), ANOMALY_CLOCK, DBL_MAX); /* senders choose times */
}

static void *incident_at(const struct state_place *p, size_t n) {
    return (void)n, incidents_state(((struct anomalies *)p->self)->incidents, p->slot);
}

static size_t incident_size(const struct state_place *p) {
    return incidents_size(((struct anomalies *)p->self)->incidents);
}

static struct anomaly_contexts contexts_of(const struct state_place *p, size_t n) {
    const struct anomalies *a = p->self;
    return anomaly_contexts(a->anomaly, p->slot, p->row->which == OF_SHAPE, n);
}

static size_t contexts_size(const struct state_place *p) {
    return contexts_of(p, 0).size;
}

static void *contexts_at(const struct state_place *p, size_t n) {
    return contexts_of(p, n).floats;
}

static size_t contexts_used(const struct state_place *p, size_t n) {
    return contexts_of(p, n).count;
}

static size_t contexts_at_most(const struct state_place *p) {
    return contexts_of(p, 0).most;
}

static const char *anomalies_valid(void *self, uint32_t slot) {
    const struct anomalies *a = self;
    if (!anomaly_valid(a->anomaly, slot))
        return "streams.anomaly";
    return slot < a->host->slots && !incidents_valid(a->incidents, slot) ? "streams.incidents"
                                                                         : NULL;
}

static const char *anomalies_filled(void *self, uint32_t slot) {
    struct anomalies *a = self;
    if (slot < a->host->slots)
        join_slot(a, slot);
    if (!anomaly_written(a->anomaly, slot))
        return "streams.anomaly";
    const char *invalid = anomalies_valid(self, slot);
    if (!invalid && slot < a->host->slots)
        incidents_filled(a->incidents, slot);
    return invalid;
}

enum { KEPT = STATE_LATER | STATE_WATCH };

static const struct state_row rows[] = {
    STATE_ROW("learner.thresholds", F64, STATE_ONCE | KEPT, .count = 1, .width = THRESHOLDS,
              STATE_COPIED(thresholds)),
    STATE_ROW("learner.clock", F64, STATE_ONCE | KEPT, .count = ANOMALY_CLOCK, .at = clock_at,
              .filled = clock_filled),
    STATE_ROW("streams.anomaly", F64, KEPT | STATE_MEMORY, .own = ANOMALY_OWN, .size = numbers_size,
              .at = numbers_at),
    STATE_ROW("shared.anomaly", F64, KEPT | STATE_SHARED | STATE_ALONE, .size = shared_size,
              .at = numbers_at),
    STATE_ROW(ANOMALY_HELD, F64, KEPT, .count = 0),
    STATE_ROW("streams.contexts", F32, KEPT | STATE_SHARED | STATE_MEMORY, .size = contexts_size,
              .at = contexts_at, .used = contexts_used, .most = contexts_at_most),
    STATE_ROW("learner.alarm_rates", F64, STATE_ONCE | KEPT, .count = 1, .width = 2, .at = rates_at,
              .filled = rates_filled),
    STATE_ROW("streams.rates", F64, KEPT, .which = OF_RATES, .size = numbers_size,
              .at = numbers_at),
    STATE_ROW("streams.level", F64, KEPT, .which = OF_LEVEL, .size = numbers_size,
              .at = numbers_at),
    STATE_ROW("streams.shape", F64, KEPT, .which = OF_SHAPE, .size = numbers_size,
              .at = numbers_at),
    STATE_ROW("streams.shape_contexts", F32, KEPT, .which = OF_SHAPE, .size = contexts_size,
              .at = contexts_at, .used = contexts_used, .most = contexts_at_most),
    STATE_ROW("streams.alarms", F64, KEPT, .which = OF_ALARMS, .size = numbers_size,
              .at = numbers_at),
    STATE_ROW("streams.incidents", F64, KEPT, .size = incident_size, .at = incident_at),
};

const struct part_kind anomalies_part = {
    .name = "anomalies",
    .wanted = anomalies_wanted,
    .open = anomalies_open,
    .close = anomalies_close,
    .step_bytes = anomalies_step_bytes,
    .plan_open = anomalies_plan_open,
    .reset = anomalies_reset,
    .adopt = anomalies_adopt,
    .forget = anomalies_forget,
    .example = anomalies_example,
    .input = anomalies_input,
    .resumed = anomalies_resumed,
    .played = anomalies_played,
    .scored = anomalies_scored,
    .given = anomalies_given,
    .report = anomalies_report,
    STATE_ROWS(rows),
    .shares = true,
    .valid = anomalies_valid,
    .filled = anomalies_filled,
};
