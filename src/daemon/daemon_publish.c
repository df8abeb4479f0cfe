#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "build-config.h"
#include "common/fields.h"
#include "common/json_text.h"
#include "common/log.h"
#include "common/text.h"
#include "daemon_state.h"
#include "notify.h"
#include "report.h"

#define STATUS_INTERVAL (10 * NS_PER_SECOND)
#define ANNOUNCEMENT_INTERVAL NS_PER_SECOND

enum { EVENT_TEXT_SIZE = 1024 };

uint64_t daemon_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

const char *daemon_state_name(const struct daemon *daemon) {
    return daemon->stopping    ? "draining"
           : daemon->replaying ? "replaying"
           : daemon->paused    ? "paused"
                               : "learning";
}

void daemon_report_status(struct daemon *daemon, struct json_text *text) {
    const struct config *config = &daemon->current;
    char summary[REPORT_SUMMARY_SIZE];
    struct field_count refused_by[SECURITY_FAILURES];
    report_summary(&config->architecture, summary);
    struct status_fields status = {
        .name = config->name,
        .state = daemon_state_name(daemon),
        .device = learner_device(daemon->learner),
        .model = summary,
        .parameters = daemon->model.parameters,
        .digest = config->digest,
        .version = PACKAGE_VERSION,
        .uptime = (double)(daemon_clock() - daemon->started) / (double)NS_PER_SECOND,
        .every = config->statistics_every,
        .clip = config->learning.clip,
        .predictions = config->predictions,
        .state_directory = config->state_directory,
        .resumed = *daemon->resumed ? daemon->resumed : NULL,
        .sockets_examples = ingest_endpoint(daemon->ingest),
        .sockets_statistics = publish_endpoint(daemon->publish),
        .sockets_control = control_endpoint(daemon->control),
        .forgotten = learner_counters(daemon->learner).forgotten,
        .checkpoint_examples = daemon->checkpoint_on_disk,
        .checkpoint_time = daemon->checkpoint_written,
    };
    unsigned has = daemon->checkpoint_written > 0 ? FIELD_HAS(NEED_CHECKPOINT) : 0;
    if (daemon_report_journal(daemon, &status))
        has |= FIELD_HAS(NEED_JOURNAL);
    if (security_report(daemon->security, &status, refused_by))
        has |= FIELD_HAS(NEED_KEYS);
    fields_write(text, FIELDS_OF_STATUS, &status, has);
}

void daemon_publish_status(struct daemon *daemon) {
    daemon->status_due = daemon_clock() + STATUS_INTERVAL;
    struct json_text *message = publish_begin(daemon->publish, TOPIC_STATUS,
                                              daemon->metrics.examples, daemon->metrics.steps);
    if (!message)
        return;
    daemon_report_status(daemon, message);
    publish_send(daemon->publish, TOPIC_STATUS);
}

/* An event may tell of other examples and steps than those learned by now. */
static uint64_t take_told(json_t *details, const char *key, uint64_t now) {
    const json_t *told = json_object_get(details, key);
    uint64_t count = told ? (uint64_t)json_integer_value(told) : now;
    json_object_del(details, key);
    return count;
}

void daemon_event(struct daemon *daemon, const char *kind, json_t *details, const char *format,
                  ...) {
    uint64_t examples = take_told(details, "examples", daemon->metrics.examples);
    uint64_t steps = take_told(details, "steps", daemon->metrics.steps);
    struct json_text *message = publish_begin(daemon->publish, TOPIC_EVENT, examples, steps);
    if (message) {
        char text[EVENT_TEXT_SIZE];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        json_text_string(message, "kind", kind, strlen(kind));
        json_text_string(message, "text", text, strlen(text));
        json_text_members(message, details);
        publish_send(daemon->publish, TOPIC_EVENT);
    }
    json_decref(details);
}

void daemon_want_outputs(struct daemon *daemon) {
    bool published =
        daemon->current.predictions && publish_wanted(daemon->publish, TOPIC_PREDICTION);
    learner_want_outputs(daemon->learner,
                         published || acknowledge_wants_results(daemon->acknowledge));
}

void daemon_subscriptions(struct daemon *daemon) {
    bool status = publish_subscriptions(daemon->publish);
    daemon_want_outputs(daemon);
    if (!daemon->started_told && publish_wanted(daemon->publish, TOPIC_EVENT)) {
        daemon->started_told = true;
        daemon_event(daemon, "started", NULL, "%s started on %s%s%s", daemon->config->name,
                     learner_device(daemon->learner),
                     *daemon->resumed ? ", resumed from " : " with fresh parameters",
                     daemon->resumed);
        if (*daemon->resumed_warning)
            daemon_event(daemon, "resumed", NULL, "%s", daemon->resumed_warning);
    }
    if (status)
        daemon_publish_status(daemon);
}

void daemon_begin_metrics(struct daemon *daemon) {
    struct learner_counters counters = learner_counters(daemon->learner);
    metrics_begin(&daemon->metrics, daemon->model.architecture.output.loss, &counters,
                  learner_streams(daemon->learner), daemon_clock());
    daemon->taken = counters.examples;
    daemon_plan_loss(daemon);
}

size_t daemon_queued(const struct daemon *daemon) {
    return (size_t)(daemon->taken - daemon->metrics.examples);
}

void daemon_plan_loss(struct daemon *daemon) {
    uint64_t every = daemon->current.statistics_every;
    daemon->loss_due = (daemon->metrics.examples / every + 1) * every;
}

static void publish_loss(struct daemon *daemon, const struct learned *learned) {
    struct json_text *message =
        publish_begin(daemon->publish, TOPIC_LOSS, learned->examples, learned->steps);
    struct loss_fields report;
    metrics_close_interval(&daemon->metrics, daemon->now, message ? &report : NULL);
    if (message) {
        report_loss(message, &report, &daemon->model, daemon->learner, daemon_queued(daemon),
                    daemon->ingest);
        publish_send(daemon->publish, TOPIC_LOSS);
    }
}

static void publish_state(struct daemon *daemon, const struct learned *learned) {
    struct json_text *message =
        publish_begin(daemon->publish, TOPIC_STATE, learned->examples, learned->steps);
    if (!message)
        return;
    report_state(message, &daemon->model, learned->measured);
    publish_send(daemon->publish, TOPIC_STATE);
}

static void publish_prediction(struct daemon *daemon, const struct learned *learned) {
    struct json_text *message =
        publish_begin(daemon->publish, TOPIC_PREDICTION, learned->examples, learned->steps);
    if (!message)
        return;
    report_prediction(message, &daemon->model, learned);
    publish_send(daemon->publish, TOPIC_PREDICTION);
}

void daemon_note(struct daemon_notice *notice, uint64_t count, const char *key, size_t key_size) {
    notice->count += count;
    notice->key_size = key_size;
    memcpy(notice->key, key, key_size);
}

static void on_learned(void *context, const struct learned *learned) {
    struct daemon *daemon = context;
    if (daemon->now_is_stale) {
        daemon->now = daemon_clock();
        daemon->now_is_stale = false;
    }
    metrics_add(&daemon->metrics, learned, daemon->now);
    if (learned->skipped)
        daemon_note(&daemon->skipped, learned->skipped, learned->key, learned->key_size);
    if (daemon->acknowledge)
        acknowledge_learned(daemon->acknowledge, learned);
    if (learned->outputs && daemon->current.predictions)
        publish_prediction(daemon, learned);
    if (learned->examples < daemon->loss_due)
        return;
    publish_loss(daemon, learned);
    if (learned->measured)
        publish_state(daemon, learned);
    daemon->loss_due += daemon->current.statistics_every;
}

static void on_forgotten(void *context, const char *key, size_t key_size) {
    struct daemon *daemon = context;
    daemon_note(&daemon->forgotten, 1, key, key_size);
}

/* Measured are exactly the examples after which `loss` is due. */
static bool on_measure(void *context, uint64_t example) {
    const struct daemon *daemon = context;
    return publish_wanted(daemon->publish, TOPIC_STATE) &&
           example % daemon->current.statistics_every == 0;
}

static void on_played(void *context) {
    struct daemon *daemon = context;
    if (daemon->replaying)
        daemon->now_is_stale = true; /* daemon_take_example says so otherwise */
    notify_alive();
}

struct learner_observer daemon_observer(struct daemon *daemon) {
    return (struct learner_observer){
        .context = daemon,
        .learned = on_learned,
        .forgotten = on_forgotten,
        .measure = on_measure,
        .played = on_played,
    };
}

/* At most one announcement of a kind in ANNOUNCEMENT_INTERVAL; none is lost, all are counted. */
static bool is_due(const struct daemon_notice *notice, uint64_t now, bool all) {
    return notice->count > 0 && (all || now >= notice->announced + ANNOUNCEMENT_INTERVAL);
}

uint64_t daemon_announcement_due(const struct daemon *daemon) {
    uint64_t due = ingest_announcement_due(daemon->ingest);
    uint64_t refused = security_announcement_due(daemon->security);
    due = refused < due ? refused : due;
    const struct daemon_notice *notices[] = {&daemon->skipped, &daemon->forgotten, &daemon->gaps};
    for (size_t i = 0; i < sizeof notices / sizeof *notices; i++) {
        uint64_t at = notices[i]->announced + ANNOUNCEMENT_INTERVAL;
        due = notices[i]->count > 0 && at < due ? at : due;
    }
    return due;
}

/* The event's details; the notice begins anew. */
static json_t *take_notice(struct daemon_notice *notice, uint64_t now) {
    json_t *details = json_pack("{s:I, s:o}", "count", (json_int_t)notice->count, "stream",
                                json_of_text(notice->key, notice->key_size));
    notice->count = 0;
    notice->announced = now;
    return details;
}

static void announce_skipped(struct daemon *daemon, uint64_t now) {
    char stream[TEXT_QUOTE_SIZE];
    uint64_t count = daemon->skipped.count;
    text_quote(stream, daemon->skipped.key, daemon->skipped.key_size);
    log_warning("%" PRIu64 " updates skipped, the last one of stream %s: loss or gradient was not "
                "finite; a lower learning.optimizer.rate or learning.clip helps",
                count, stream);
    daemon_event(daemon, "skipped_update", take_notice(&daemon->skipped, now),
                 "%" PRIu64
                 " updates were skipped, the last one of stream %s: loss or gradient was "
                 "not finite",
                 count, stream);
}

static void announce_forgotten(struct daemon *daemon, uint64_t now) {
    char stream[TEXT_QUOTE_SIZE];
    uint64_t count = daemon->forgotten.count;
    text_quote(stream, daemon->forgotten.key, daemon->forgotten.key_size);
    daemon_event(daemon, "stream_forgotten", take_notice(&daemon->forgotten, now),
                 "%" PRIu64 " streams made room for others, the last one %s: learning.max_streams "
                 "is %zu",
                 count, stream, daemon->config->learning.max_streams);
}

static void announce_gaps(struct daemon *daemon, uint64_t now) {
    char stream[TEXT_QUOTE_SIZE];
    uint64_t count = daemon->gaps.count;
    text_quote(stream, daemon->gaps.key, daemon->gaps.key_size);
    log_warning("%" PRIu64 " examples never came, the last ones of stream %s: its sequence numbers "
                "have a gap",
                count, stream);
    daemon_event(daemon, "gap", take_notice(&daemon->gaps, now),
                 "%" PRIu64 " examples never came, the last ones of stream %s", count, stream);
}

void daemon_announce(struct daemon *daemon, bool all) {
    uint64_t now = daemon_clock();
    char text[INGEST_ANNOUNCEMENT_SIZE];
    while (ingest_announce(daemon->ingest, all ? UINT64_MAX : now, text, sizeof text)) {
        log_warning("%s", text);
        daemon_event(daemon, "rejected", NULL, "%s", text);
    }
    daemon_announce_security(daemon, all);
    if (is_due(&daemon->skipped, now, all))
        announce_skipped(daemon, now);
    if (is_due(&daemon->forgotten, now, all))
        announce_forgotten(daemon, now);
    if (is_due(&daemon->gaps, now, all))
        announce_gaps(daemon, now);
}
