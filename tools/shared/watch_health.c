#include "watch_health.h"

#include <math.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/format.h"
#include "common/text.h"
#include "common/wire.h"

#define WAIT_QUIETLY 1.0 /* seconds to connect before the wait is reported */
#define REPORT_EVERY 1.0 /* minimum seconds between two reports of a kind */
#define FAR_AWAY 3600.0

enum { SENTENCE_SIZE = 512, RUN_SIZE = 64 };

static void report(struct health *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report(struct health *h, const char *format, ...) {
    char sentence[SENTENCE_SIZE];
    TEXT_FORMAT(sentence, sizeof sentence, format);
    h->note(h->context, sentence);
}

void health_open(struct health *h, const char *endpoint, double silence,
                 void (*note)(void *context, const char *text), void *context) {
    *h = (struct health){.endpoint = endpoint, .silence = silence, .note = note};
    h->context = context;
    h->last_message = clock_seconds();
    h->reported = h->restart_reported = -INFINITY;
}

double health_quiet(const struct health *h) {
    return clock_seconds() - h->last_message;
}

double health_status_age(const struct health *h) {
    return (h->presence == PRESENCE_SPEAKING ? clock_seconds() : h->last_message) - h->last_status;
}

void health_changed(struct health *h, enum runnel_kind change) {
    if (change == RUNNEL_CONNECTED) {
        h->connected = true;
        if (!h->has_message)
            h->last_message = clock_seconds();
    }
    if (change == RUNNEL_HINDERED || change == RUNNEL_REFUSED)
        h->wait_reported = true; /* link_refusal is reported instead */
    if (change != RUNNEL_DISCONNECTED)
        return;
    h->connected = false;
    if (h->presence == PRESENCE_GONE || !h->has_message)
        return;
    h->presence = PRESENCE_GONE;
    report(h, "connection to %s lost; waiting for it to return", h->endpoint);
}

static void note_presence(struct health *h) {
    char quiet[FORMAT_SIZE];
    double now = clock_seconds();
    if (h->presence == PRESENCE_SILENT || h->presence == PRESENCE_GONE)
        report(h, "%s is back after %s", h->endpoint,
               format_duration(quiet, now - h->last_message));
    h->presence = PRESENCE_SPEAKING;
    h->last_message = now;
    h->has_message = true;
}

/* Two daemons at one endpoint would cause a report with every message. */
static void report_restart(struct health *h, const struct runnel_news *news) {
    char before[RUN_SIZE], after[RUN_SIZE];
    double now = clock_seconds();
    if (now - h->restart_reported < REPORT_EVERY)
        return;
    h->restart_reported = now;
    report(h, "the daemon was restarted: run %s, previous run %s",
           text_copy(after, sizeof after, news->run),
           text_copy(before, sizeof before, news->run_before));
}

bool health_message(struct health *h, const struct message *message) {
    note_presence(h);
    if (message->problem) {
        h->not_understood++;
        h->problem = message->problem;
        health_tick(h, false);
        return false;
    }
    if (message->topic == TOPIC_STATUS)
        h->last_status = h->last_message;
    if (message->news.restarted)
        report_restart(h, &message->news);
    h->missed[message->topic] += message->news.missed;
    h->missed_total += message->news.missed;
    health_tick(h, false);
    return message->news.restarted;
}

static bool has_held_back(const struct health *h) {
    bool held = h->not_understood > 0;
    for (int topic = 0; topic < TOPICS; topic++)
        held = held || h->missed[topic] > 0;
    return held;
}

static void report_held_back(struct health *h) {
    for (int topic = 0; topic < TOPICS; topic++) {
        if (h->missed[topic] > 0)
            report(h, "missed %llu %s message%s", (unsigned long long)h->missed[topic],
                   topic_names[topic], h->missed[topic] == 1 ? "" : "s");
        h->missed[topic] = 0;
    }
    if (h->not_understood > 0)
        report(h, "ignored %llu invalid message%s: %s", (unsigned long long)h->not_understood,
               h->not_understood == 1 ? "" : "s", h->problem);
    h->not_understood = 0;
    h->reported = clock_seconds();
}

static bool may_fall_silent(const struct health *h) {
    return h->presence == PRESENCE_SPEAKING || (h->presence == PRESENCE_EXPECTED && h->connected);
}

void health_tick(struct health *h, bool last) {
    double now = clock_seconds();
    if (has_held_back(h) && (last || now - h->reported >= REPORT_EVERY))
        report_held_back(h);
    if (h->presence == PRESENCE_EXPECTED && !h->connected && !h->wait_reported &&
        now - h->last_message >= WAIT_QUIETLY && !last) {
        h->wait_reported = true;
        const char *why = wire_unreachable(h->endpoint);
        report(h, "waiting for a daemon at %s%s%s", h->endpoint, why ? ": " : "", why ? why : "");
    }
    if (may_fall_silent(h) && h->silence > 0 && now - h->last_message >= h->silence && !last) {
        char quiet[FORMAT_SIZE];
        h->presence = PRESENCE_SILENT;
        report(h, "%s is silent: no message for %s", h->endpoint,
               format_duration(quiet, now - h->last_message));
    }
}

double health_next(const struct health *h) {
    double now = clock_seconds(), next = FAR_AWAY;
    if (has_held_back(h))
        next = fmin(next, h->reported + REPORT_EVERY - now);
    if (h->presence == PRESENCE_EXPECTED && !h->connected && !h->wait_reported)
        next = fmin(next, h->last_message + WAIT_QUIETLY - now);
    if (h->silence > 0 && may_fall_silent(h))
        next = fmin(next, h->last_message + h->silence - now);
    return fmax(next, 0);
}

/* ---- Gap ---- */

#define REPORT_EVERY 1.0

bool gap_report(double *reported, const double unheard[2], char text[GAP_TEXT]) {
    char before[FORMAT_SIZE], after[FORMAT_SIZE];
    double now = clock_seconds();
    if (now - *reported < REPORT_EVERY)
        return false;
    *reported = now;
    snprintf(text, GAP_TEXT, "no message between examples %s and %s",
             format_grouped(before, unheard[0]), format_grouped(after, unheard[1]));
    return true;
}
