#include "observe.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "alarms.h"
#include "announce.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/example.h"
#include "common/fields.h"
#include "common/log.h"
#include "metrics.h"
#include "notify.h"
#include "parts.h"
#include "parts/part.h"
#include "parts/range.h"
#include "parts/symbols.h"
#include "parts/targets.h"
#include "report.h"
#include "run.h"
#include "skill.h"

/* A bin contains values below its end that no earlier bin contains; the last one contains the
   rest. */
struct bin {
    double end;
    const char *name;
};

static const struct bin AGES[] = {
    {1, "0"},      {2, "1"},      {4, "2-3"},      {8, "4-7"},         {16, "8-15"},
    {32, "16-31"}, {64, "32-63"}, {128, "64-127"}, {1024, "128-1023"}, {INFINITY, "1024-"},
};

static const struct bin DELAYS[] = {
    {0, "negative"}, {1, "1s"},     {10, "10s"},    {60, "1min"},         {600, "10min"},
    {3600, "1h"},    {86400, "1d"}, {604800, "7d"}, {INFINITY, "longer"},
};

enum {
    AGE_BINS = sizeof AGES / sizeof *AGES,
    DELAY_BINS = sizeof DELAYS / sizeof *DELAYS,
};

struct figures {
    struct metrics metrics;
    struct skill *skill;
    uint64_t played;      /* see observe_played */
    uint64_t last_due;    /* time when the newest `loss` was due, or learning began; 0 = not yet */
    uint64_t asked;       /* time when a measurement was last due by time */
    bool is_stale;        /* a new plan is played: the next observed example reads the clock */
    bool start_announced; /* the event `started` has had a subscriber */
    bool full_announced;
    /* Counts at the start, for that event. */
    uint64_t started_examples, started_steps;
    uint64_t out_of_scale, alarms;
    /* Labels of this run without those of a replay; then their counts by age, delay and reason. */
    uint64_t labels;
    struct field_count ages[AGE_BINS], delays[DELAY_BINS], refused[LABEL_REFUSALS];
};

int observe_open(struct daemon *daemon, struct error *error) {
    const struct model *model = &daemon->model;
    const struct output *output = &model->architecture.output;
    const struct skill_options options = {
        .loss = output->loss,
        .columns = output_metrics(output) & METRIC_RMSE ? model->heads[0].target_size : 0,
        .experts = learner_host(daemon->learner)->forecasts,
        .architecture = &model->architecture};
    struct figures *figures = daemon->figures = calloc(1, sizeof *figures);
    if (!figures)
        return error_no_memory(error);
    for (int n = 0; n < AGE_BINS; n++)
        figures->ages[n].name = AGES[n].name;
    for (int n = 0; n < DELAY_BINS; n++)
        figures->delays[n].name = DELAYS[n].name;
    for (int n = 0; n < LABEL_REFUSALS; n++)
        figures->refused[n].name = targets_label_refusal((enum label_refusal)n);
    return skill_open(&figures->skill, &options, error);
}

void observe_close(struct daemon *daemon) {
    if (daemon->figures)
        skill_close(&daemon->figures->skill);
    free(daemon->figures);
    daemon->figures = NULL;
}

void observe_begin(struct daemon *daemon) {
    struct figures *figures = daemon->figures;
    struct learner_counters counters = learner_counters(daemon->learner);
    if (figures->played == 0) {
        figures->started_examples = counters.examples;
        figures->started_steps = counters.steps;
    }
    figures->played = clock_ns();
    figures->is_stale = true;
    figures->last_due = figures->asked = 0;
    metrics_begin(&figures->metrics, &counters, learner_streams(daemon->learner), figures->played);
    skill_begin(figures->skill, daemon->learner);
}

uint64_t observe_played(const struct daemon *daemon) {
    return daemon->figures->played;
}

size_t observe_queued(const struct daemon *daemon) {
    return (size_t)(learner_taken(daemon->learner) - daemon->figures->metrics.examples);
}

void observe_recent(const struct daemon *daemon, struct loss_fields *loss) {
    metrics_recent(&daemon->figures->metrics, clock_ns(), loss);
    skill_recent(daemon->figures->skill, daemon->learner, loss);
    loss->anomaly_alarms = daemon->figures->alarms;
    loss->streams = learner_streams(daemon->learner); /* a stream may have been forgotten since */
}

double observe_speed(const struct daemon *daemon) {
    return metrics_speed(&daemon->figures->metrics, clock_ns());
}

void observe_report(const struct daemon *daemon, struct status_fields *status) {
    struct figures *figures = daemon->figures;
    status->examples_per_second = observe_speed(daemon);
    status->input_scale = figures->out_of_scale;
    status->labels_taken = figures->labels;
    status->labels_age = (struct field_tally){figures->ages, AGE_BINS};
    status->labels_delay = (struct field_tally){figures->delays, DELAY_BINS};
    status->labels_refused = (struct field_tally){figures->refused, LABEL_REFUSALS};
}

/* ---- The observer ---- */

/* Announces once in a run that the experts on symbols have lost more counts than they keep. */
static void announce_full(struct daemon *daemon) {
    struct symbols_usage usage;
    if (daemon->figures->full_announced || !symbols_usage(learner_host(daemon->learner), &usage) ||
        !usage.full)
        return;
    daemon->figures->full_announced = true;
    announce_logged(daemon, log_warning, "table_full",
                    json_pack("{s:I, s:I}", "memory", (json_int_t)usage.memory, "replaced",
                              (json_int_t)usage.replaced),
                    "the experts' table is too small: %" PRIu64 " of its counts were replaced; set "
                    "a larger memory than %zu",
                    usage.replaced, usage.memory);
}

/* Publishes a `loss` at `now` for everything learned. */
static void publish_loss(struct daemon *daemon, uint64_t now) {
    announce_full(daemon); /* not within the message: one is written at a time */
    struct metrics *metrics = &daemon->figures->metrics;
    struct json_text *message =
        publish_begin(daemon->publish, TOPIC_LOSS, metrics->examples, metrics->steps);
    struct loss_fields loss;
    daemon->figures->last_due = now;
    metrics_close_interval(metrics, now, message ? &loss : NULL);
    skill_close_interval(daemon->figures->skill, daemon->learner, message ? &loss : NULL);
    if (!message)
        return;
    loss.anomaly_alarms = daemon->figures->alarms;
    report_loss(message, &loss, &daemon->model, daemon->learner, observe_queued(daemon),
                daemon->ingest);
    publish_send(daemon->publish, TOPIC_LOSS);
}

static void publish_state(struct daemon *daemon, const struct learned *learned) {
    struct json_text *message =
        publish_begin(daemon->publish, TOPIC_STATE, learned->examples, learned->steps);
    if (!message)
        return;
    report_state(message, daemon->learner, learned->measured);
    publish_send(daemon->publish, TOPIC_STATE);
}

static void publish_prediction(struct daemon *daemon, const struct learned *learned) {
    struct json_text *message =
        publish_begin(daemon->publish, TOPIC_PREDICTION, learned->examples, learned->steps);
    if (!message)
        return;
    report_prediction(message, &daemon->model, daemon->learner,
                      daemon->config->predictions == PREDICTIONS_ALL,
                      daemon->config->statistics_top, learned);
    publish_send(daemon->publish, TOPIC_PREDICTION);
}

static void publish_vector(struct daemon *daemon, const struct learned *learned) {
    struct json_text *message =
        publish_begin(daemon->publish, TOPIC_VECTOR, learned->examples, learned->steps);
    if (!message)
        return;
    report_vector(message, learned);
    publish_send(daemon->publish, TOPIC_VECTOR);
}

static bool loss_is_due(const struct daemon *daemon, uint64_t example) {
    return example % daemon->config->statistics_every == 0;
}

/* Returns whether a `loss` is due by time. This decides only what is published, never what is
   computed. */
static bool is_late(const struct daemon *daemon, uint64_t since, uint64_t now) {
    double seconds = daemon->config->statistics_seconds;
    return since && seconds > 0 && (double)(now - since) >= seconds * NS_PER_SECOND;
}

static void on_learned(void *context, const struct learned *learned) {
    struct daemon *daemon = context;
    struct figures *figures = daemon->figures;
    if (figures->is_stale) {
        figures->played = clock_ns();
        figures->is_stale = false;
    }
    metrics_add(&figures->metrics, learned, figures->played);
    skill_add(figures->skill, learned);
    if (learned->skipped)
        announce_count(daemon, ANNOUNCE_SKIPPED, learned->skipped, learned->key, learned->key_size,
                       learned->time);
    if (daemon->acknowledge)
        acknowledge_learned(daemon->acknowledge, learned);
    if (learned_has_outputs(learned) && daemon->config->predictions)
        publish_prediction(daemon, learned);
    if (learned->hidden && learned->output_steps)
        publish_vector(daemon, learned);
    figures->last_due = figures->last_due ? figures->last_due : figures->played;
    if (loss_is_due(daemon, learned->examples) ||
        is_late(daemon, figures->last_due, figures->played))
        publish_loss(daemon, figures->played);
    if (learned->measured)
        publish_state(daemon, learned);
}

static void on_forgotten(void *context, const char *key, size_t key_size) {
    announce_count(context, ANNOUNCE_FORGOTTEN, 1, key, key_size, 0);
}

static void on_out_of_scale(void *context, const struct example *example,
                            const struct out_of_scale *found) {
    struct daemon *daemon = context;
    if (run_is_replaying(daemon)) /* announced when it arrived */
        return;
    daemon->figures->out_of_scale += found->count;
    announce_out_of_scale(daemon, found, example);
}

static void on_alarmed(void *context, const struct learner_alarm *alarm) {
    struct daemon *daemon = context;
    if (run_is_replaying(daemon)) /* announced when it was raised */
        return;
    daemon->figures->alarms++;
    alarms_announce(daemon, alarm);
}

static bool on_incident(void *context, const struct learner_incident *incident) {
    struct daemon *daemon = context;
    if (run_is_replaying(daemon))
        return false;
    alarms_announce_incident(daemon, incident);
    return true;
}

/* A remedy: weights return to their start within this many updates. */
static const double PULL_UPDATES[] = {30000, 3000};

static void on_stale(void *context, const struct learner_stale *stale) {
    struct daemon *daemon = context;
    if (run_is_replaying(daemon)) /* announced when it was learned */
        return;
    char remedy[96] = "use an optimizer that has pull";
    double pulls[] = {1 / (stale->rate * PULL_UPDATES[0]), 1 / (stale->rate * PULL_UPDATES[1])};
    json_t *pull = stale->rate > 0 ? json_pack("[f, f]", pulls[0], pulls[1]) : NULL;
    if (pull)
        snprintf(remedy, sizeof remedy, "set learning.optimizer.pull to a number from %.2g to %.2g",
                 pulls[0], pulls[1]);
    json_t *details = json_pack("{s:s, s:I, s:f, s:f, s:f, s:o?}", "member", stale->member, "layer",
                                (json_int_t)stale->layer, "growth", stale->growth, "plasticity",
                                stale->plasticity, "best", stale->best, "pull", pull);
    announce_logged(
        daemon, log_warning, "stale", details,
        "%s%slayer %u learns less: its weights have grown %.3g times, and plasticity is "
        "%.3g, best %.3g; %s",
        stale->member, *stale->member ? ": " : "", stale->layer, stale->growth, stale->plasticity,
        stale->best, remedy);
}

static void count(struct field_count *counts, const struct bin *bins, double value) {
    size_t n = 0;
    while (!(value < bins[n].end) && isfinite(bins[n].end))
        n++;
    counts[n].count++;
}

static void on_labelled(void *context, const struct example *label, size_t age, double time) {
    const struct daemon *daemon = context;
    struct figures *figures = daemon->figures;
    if (run_is_replaying(daemon)) /* counted when it arrived */
        return;
    figures->labels++;
    count(figures->ages, AGES, (double)age);
    if (label->time > 0 && time > 0)
        count(figures->delays, DELAYS, label->time - time);
}

static void on_refused(void *context, const struct example *label, enum label_refusal reason,
                       const char *why) {
    struct daemon *daemon = context;
    if (run_is_replaying(daemon)) /* announced when it arrived */
        return;
    daemon->figures->refused[reason].count++;
    ingest_refuse_label(daemon->ingest, label, why);
}

static bool on_measure(void *context, uint64_t example) {
    const struct daemon *daemon = context;
    struct figures *figures = daemon->figures;
    if (!learner_members(daemon->learner) || !publish_wanted(daemon->publish, TOPIC_STATE))
        return false;
    if (loss_is_due(daemon, example))
        return true;
    uint64_t now = clock_ns();
    bool late = is_late(daemon, figures->last_due, now) &&
                (!figures->asked || is_late(daemon, figures->asked, now));
    figures->asked = late ? now : figures->asked; /* once in a plan */
    return late;
}

static void on_played(void *context) {
    struct daemon *daemon = context;
    daemon->figures->is_stale = true;
    notify_alive();
}

struct learner_observer observe_learner(struct daemon *daemon) {
    return (struct learner_observer){
        .context = daemon,
        .alarmed = on_alarmed,
        .incident = on_incident,
        .stale = on_stale,
        .learned = on_learned,
        .forgotten = on_forgotten,
        .out_of_scale = on_out_of_scale,
        .labelled = on_labelled,
        .refused = on_refused,
        .measure = on_measure,
        .played = on_played,
    };
}

void observe_turn(struct daemon *daemon) {
    uint64_t now = clock_ns();
    if (metrics_are_open(&daemon->figures->metrics) &&
        is_late(daemon, daemon->figures->last_due, now))
        publish_loss(daemon, now);
}

/* ---- Subscribers ---- */

void observe_want_outputs(struct daemon *daemon) {
    bool published =
        daemon->config->predictions && publish_wanted(daemon->publish, TOPIC_PREDICTION);
    learner_want_outputs(daemon->learner,
                         published || acknowledge_wants_results(daemon->acknowledge));
    learner_want_vectors(daemon->learner,
                         daemon->config->vectors && publish_wanted(daemon->publish, TOPIC_VECTOR));
}

/* Returns the values at the start: a subscriber can connect much later. */
static json_t *of_the_start(const struct daemon *daemon) {
    return json_pack("{s:f, s:I, s:I}", "time", clock_unix() - run_uptime(daemon), "examples",
                     (json_int_t)daemon->figures->started_examples, "steps",
                     (json_int_t)daemon->figures->started_steps);
}

static void announce_start(struct daemon *daemon) {
    const char *path = daemon->resumed.path;
    daemon->figures->start_announced = true;
    announce_event(daemon, "started", of_the_start(daemon), "%s started on %s%s%s",
                   daemon->config->name, learner_device(daemon->learner),
                   *path ? ", resumed from " : " with fresh parameters", path);
    if (*daemon->resumed.warning)
        announce_event(daemon, "resumed", of_the_start(daemon), "%s", daemon->resumed.warning);
}

void observe_subscriptions(struct daemon *daemon) {
    bool status = publish_subscriptions(daemon->publish);
    observe_want_outputs(daemon);
    if (!daemon->figures->start_announced && publish_wanted(daemon->publish, TOPIC_EVENT))
        announce_start(daemon);
    if (status)
        announce_status(daemon);
}
