#include "build-config.h"

#include "alert_watcher.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/fields.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"
#include "tools/shared/watch_anomaly.h"

#define HALF 0.5          /* of a limit: below it the condition is over */
#define DISK_OVER 1.1     /* of the limit: above it the condition is over */
#define QUEUED_WEIGHT 0.1 /* of the newest number in the moving average */
#define QUEUED_HELD 10.0  /* seconds over the limit until it counts */
#define EVERY_MOST 20.0   /* examples in a message: with more a drift is found late, or not */

enum { REASONS_SIZE = 160 };

static void forget(struct watcher *w) {
    drift_open(&w->drift, &w->limits->drift);
    memset(&w->layers, 0, sizeof w->layers);
    w->examples = w->learned = w->skipped = w->rejected = w->missing = w->queued = NAN;
    w->queued_since = INFINITY;
    w->loss_known = w->gradient_known = w->ending = false;
}

void watcher_open(struct watcher *w, const char *endpoint, const struct limits *limits) {
    w->limits = limits;
    text_copy(w->endpoint, sizeof w->endpoint, endpoint);
    strcpy(w->name, "");
    strcpy(w->run, "");
    w->every_said = false;
    forget(w);
}

/* With the end of a run all of its conditions are over. */
static void end_all(struct watcher *w, double now, const char *why) {
    for (int kind = 0; kind < ALERT_KINDS; kind++)
        if (kind != ALERT_SILENCE && kind != ALERT_DISK)
            book_over(&w->book, (enum alert_kind)kind, now, "%s", why);
}

/* Another run is a restart; fewer examples in the same run are a reset. Not in an event: one of a
   checkpoint has the examples that are in it, fewer than have been learned meanwhile. */
static void take_run(struct watcher *w, const struct message *message, double now) {
    const char *text = member_string(message->body, "run");
    char run[ALERT_RUN_SIZE];
    double examples = w->examples;
    if (!text)
        return;
    text_copy(run, sizeof run, text);
    bool another = *w->run && strcmp(run, w->run) != 0;
    member_number(message->body, "examples", &examples);
    if (message->topic == TOPIC_EVENT && !another)
        examples = fmax(examples, w->examples);
    if (another || examples < w->examples) {
        bool ended = w->ending;
        end_all(w, now, another ? "the daemon was started again" : "learning was reset");
        forget(w);
        w->book.data_time = NAN;
        w->examples = examples;
        if (another)
            book_happened(&w->book, ALERT_RESTART, now, 0, NAN, "the daemon was started again%s",
                          ended ? "" : "; it had not been asked to end");
    }
    strcpy(w->run, run);
    w->examples = examples;
}

static void take_change(struct watcher *w, enum alert_kind kind, const char *test,
                        struct change change, double now) {
    char before[FORMAT_SIZE], after[FORMAT_SIZE];
    format_number(before, change.before);
    format_number(after, change.after);
    if (change.kind == CHANGE_ROSE)
        book_begin(&w->book, kind, now, change.after, change.before,
                   "the loss has risen from %s to %s (%s)", before, after, test);
    else if (change.kind == CHANGE_BACK)
        book_over(&w->book, kind, now, "the loss is back at %s; it was %s before the rise", after,
                  before);
    else if (change.kind == CHANGE_STAYED)
        book_over(&w->book, kind, now, "the loss has stayed at %s; it was %s before the rise",
                  after, before);
}

static void take_loss(struct watcher *w, const json_t *body, double now) {
    double mean;
    if (!member_number(body, "mean", &mean))
        return;
    struct change page_hinkley, adwin;
    drift_add(&w->drift, mean, &page_hinkley, &adwin);
    take_change(w, ALERT_PAGE_HINKLEY, "Page-Hinkley", page_hinkley, now);
    take_change(w, ALERT_ADWIN, "ADWIN", adwin, now);
    struct rising rising = drift_rising(&w->drift);
    char from[FORMAT_SIZE], to[FORMAT_SIZE];
    if (rising.rises)
        book_begin(&w->book, ALERT_RISING, now, rising.to, rising.from,
                   "the loss continues to rise: from %s to %s over %d messages",
                   format_number(from, rising.from), format_number(to, rising.to),
                   TREND_VALUES * DRIFT_BLOCK);
    else if (rising.known && rising.ended)
        book_over(&w->book, ALERT_RISING, now, "the loss no longer rises: it is %s",
                  format_number(to, rising.to));
}

/* The daemon says how it does over the last tenth of its examples, once that says something. */
static void take_skill(struct watcher *w, const json_t *body, double now) {
    double skill = loss_number(body, FIELD_skill_recent);
    char number[FORMAT_SIZE];
    if (isnan(skill))
        return;
    format_skill(number, skill);
    if (skill < 0)
        book_begin(&w->book, ALERT_WORSE_THAN_BASELINE, now, skill, 0,
                   "the simplest forecast is better than what was learned: skill %s over the last "
                   "tenth of the examples",
                   number);
    else
        book_over(&w->book, ALERT_WORSE_THAN_BASELINE, now,
                  "what was learned is no longer worse than the simplest forecast: skill %s",
                  number);
}

static void take_finite(struct watcher *w, const json_t *body, double now) {
    double loss, gradient, skipped;
    bool has_loss = member_number(body, "loss", &loss);
    bool has_gradient = member_number(body, "gradient_norm", &gradient);
    if (member_number(body, "skipped", &skipped)) {
        if (skipped > w->skipped)
            book_happened(&w->book, ALERT_NON_FINITE, now, w->limits->calm, skipped - w->skipped,
                          "%.0f update%s skipped: loss or gradient was not finite",
                          skipped - w->skipped, skipped - w->skipped == 1 ? " was" : "s were");
        w->skipped = skipped;
    }
    if ((w->loss_known && !has_loss) || (w->gradient_known && !has_gradient))
        book_happened(&w->book, ALERT_NON_FINITE, now, w->limits->calm, NAN, "the %s is not finite",
                      has_loss ? "gradient" : "loss");
    w->loss_known |= has_loss;
    w->gradient_known |= has_gradient;
}

static const char *reasons(const json_t *body, char text[REASONS_SIZE]) {
    json_t *by = json_object_get(body, "rejected_by"), *count;
    const char *reason;
    char clean[FORMAT_SIZE];
    size_t used = 0;
    *text = '\0';
    json_object_foreach(by, reason, count) {
        int length = snprintf(text + used, REASONS_SIZE - used, "%s%s %.0f", used ? ", " : ": ",
                              text_copy(clean, sizeof clean, reason), json_number_value(count));
        used += (size_t)length;
        if (used >= REASONS_SIZE)
            break;
    }
    return text;
}

static void take_rejected(struct watcher *w, const json_t *body, double now) {
    double rejected;
    char by[REASONS_SIZE];
    if (!member_number(body, "rejected", &rejected))
        return;
    if (rejected > w->rejected)
        book_happened(&w->book, ALERT_REJECTED, now, w->limits->calm, rejected - w->rejected,
                      "%.0f message%s rejected; in this run %.0f%s", rejected - w->rejected,
                      rejected - w->rejected == 1 ? " was" : "s were", rejected, reasons(body, by));
    w->rejected = rejected;
}

static void take_queue(struct watcher *w, const json_t *body, double now) {
    double queued;
    if (!member_number(body, "queued", &queued))
        return;
    w->queued = isnan(w->queued) ? queued : w->queued + QUEUED_WEIGHT * (queued - w->queued);
    double limit = w->limits->queue;
    if (w->queued < limit)
        w->queued_since = INFINITY;
    else if (isinf(w->queued_since))
        w->queued_since = now;
    if (now - w->queued_since >= QUEUED_HELD)
        book_begin(&w->book, ALERT_QUEUE, now, w->queued, limit,
                   "%.0f examples wait to be learned: they come faster than the daemon learns",
                   w->queued);
    else if (w->queued < HALF * limit)
        book_over(&w->book, ALERT_QUEUE, now, "the daemon keeps up again: %.0f examples wait",
                  w->queued);
}

static void take_journal(struct watcher *w, const json_t *journal, double now) {
    double waiting, bytes, missing;
    char text[FORMAT_SIZE];
    if (member_number(journal, "waiting", &waiting)) {
        if (waiting > w->limits->waiting)
            book_begin(&w->book, ALERT_JOURNAL, now, waiting, w->limits->waiting,
                       "the journal's disk is slow: the oldest example waits for it since %s",
                       format_duration(text, waiting));
        else if (waiting < HALF * w->limits->waiting)
            book_over(&w->book, ALERT_JOURNAL, now, "the journal is on disk again");
    }
    if (member_number(journal, "free_bytes", &bytes)) {
        format_bytes(text, bytes);
        if (bytes < w->limits->disk)
            book_begin(&w->book, ALERT_DISK, now, bytes, w->limits->disk,
                       "%s are free for the journal", text);
        else if (bytes > DISK_OVER * w->limits->disk)
            book_over(&w->book, ALERT_DISK, now, "%s are free for the journal", text);
    }
    if (member_number(journal, "missing", &missing)) {
        if (missing > w->missing)
            book_happened(&w->book, ALERT_GAP, now, w->limits->calm, missing - w->missing,
                          "%.0f numbered examples never came; in this run %.0f",
                          missing - w->missing, missing);
        w->missing = missing;
    }
}

static void take_status(struct watcher *w, const json_t *body, double now) {
    const char *name = member_string(body, "name"), *state = member_string(body, "state");
    const char *model = member_string(body, "model");
    if (name)
        text_copy(w->name, sizeof w->name, name);
    w->ending = state && strcmp(state, "draining") == 0;
    if (model && (strstr(model, "> gaussian ") || strstr(model, "> mixture ")))
        drift_is_density(&w->drift);
    take_journal(w, json_object_get(body, "journal"), now);
}

/* A feeder that has died leaves a daemon that says that it is learning. */
static void take_idle(struct watcher *w, double now) {
    char quiet[FORMAT_SIZE];
    double limit = w->limits->idle;
    if (isnan(w->learned) || w->examples > w->learned) {
        w->learned = w->examples;
        w->learned_at = now;
        book_over(&w->book, ALERT_IDLE, now, "examples come again");
    } else if (limit > 0 && now - w->learned_at >= limit) {
        book_begin(&w->book, ALERT_IDLE, now, now - w->learned_at, limit,
                   "no example was learned for %s", format_duration(quiet, now - w->learned_at));
    }
}

static double member_count(const json_t *body) {
    double count = NAN;
    member_number(body, "count", &count);
    return count;
}

/* In its own stream's data, whatever the others are at. */
static void take_anomaly(struct watcher *w, const struct anomaly *anomaly, const char *text,
                         double now) {
    double newest = w->book.data_time;
    struct alert event = {
        .kind = ALERT_ANOMALY, .value = anomaly->score, .limit = anomaly->threshold, .now = now};
    text_copy(event.text, sizeof event.text, text);
    text_copy(event.stream, sizeof event.stream, anomaly->stream);
    text_copy(event.note, sizeof event.note, anomaly->note);
    w->book.data_time = anomaly->data_time;
    book_event(&w->book, &event);
    if (!isnan(newest))
        w->book.data_time = newest;
}

static void take_kind(struct watcher *w, const json_t *body, double now) {
    const char *kind = member_string(body, "kind"), *text = member_string(body, "text");
    char clean[ALERT_TEXT_SIZE];
    struct anomaly anomaly;
    if (!kind)
        return;
    text_copy(clean, sizeof clean, text ? text : kind);
    if (strcmp(kind, "stopping") == 0)
        w->ending = true;
    else if (strcmp(kind, "rejected") == 0)
        book_happened(&w->book, ALERT_REJECTED, now, w->limits->calm, NAN, "%s", clean);
    else if (strcmp(kind, "skipped_update") == 0)
        book_happened(&w->book, ALERT_NON_FINITE, now, w->limits->calm, NAN, "%s", clean);
    else if (strcmp(kind, "gap") == 0)
        book_happened(&w->book, ALERT_GAP, now, w->limits->calm, NAN, "%s", clean);
    else if (strcmp(kind, "input_scale") == 0)
        book_happened(&w->book, ALERT_INPUT_SCALE, now, w->limits->calm, member_count(body), "%s",
                      clean);
    else if (anomaly_of(body, &anomaly))
        take_anomaly(w, &anomaly, clean, now);
    else if (strcmp(kind, "disk") == 0)
        book_begin(&w->book, ALERT_DISK, now, NAN, w->limits->disk, "%s", clean);
}

static void take_event(struct watcher *w, const json_t *body, double now) {
    w->book.stream = member_string(body, "stream");
    take_kind(w, body, now);
    w->book.stream = NULL;
}

void watcher_message(struct watcher *w, const struct message *message, double now) {
    const json_t *body = message->body;
    take_run(w, message, now);
    member_number(body, "data_time", &w->book.data_time);
    book_tick(&w->book, now); /* what is over by now does not go on with this message */
    book_over(&w->book, ALERT_SILENCE, now, "messages come again");
    take_idle(w, now);
    /* What is replayed after a crash has been judged before. */
    bool again = json_is_true(json_object_get(body, "replaying"));
    if (again && (message->topic == TOPIC_LOSS || message->topic == TOPIC_STATE))
        return;
    if (message->topic == TOPIC_LOSS) {
        take_finite(w, body, now);
        take_loss(w, body, now);
        take_skill(w, body, now);
        take_queue(w, body, now);
        take_rejected(w, body, now);
    } else if (message->topic == TOPIC_STATE) {
        layers_take(&w->layers, body, w->limits->saturated, &w->book, now);
    } else if (message->topic == TOPIC_STATUS) {
        take_status(w, body, now);
        take_rejected(w, body, now);
    } else if (message->topic == TOPIC_EVENT) {
        take_event(w, body, now);
    }
}

void watcher_quiet(struct watcher *w, double seconds, bool connected, double now) {
    char quiet[FORMAT_SIZE];
    if (w->limits->silence <= 0 || seconds < w->limits->silence)
        return;
    format_duration(quiet, seconds);
    if (w->ending)
        book_begin(&w->book, ALERT_SILENCE, now, seconds, w->limits->silence,
                   "nothing for %s: the daemon has ended, as it was asked to", quiet);
    else if (*w->run)
        book_begin(&w->book, ALERT_SILENCE, now, seconds, w->limits->silence,
                   "nothing for %s: the daemon %s", quiet,
                   connected ? "is silent" : "or the connection is lost");
    else
        book_begin(&w->book, ALERT_SILENCE, now, seconds, w->limits->silence,
                   "no message from a daemon there for %s", quiet);
}

double watcher_slow_statistics(struct watcher *w, const struct message *message) {
    double every;
    if (w->every_said || message->topic != TOPIC_STATUS ||
        !member_number(message->body, "every", &every) || every <= EVERY_MOST)
        return 0;
    w->every_said = true;
    return every;
}
