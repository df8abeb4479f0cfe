#include "top_verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/format.h"
#include "common/text.h"

enum { QUEUE_SAMPLES = 10 };

#define RECENT 60.0         /* seconds: older problems do not count */
#define IDLE_LEAST 15.0     /* seconds without a loss until the daemon is idle */
#define IDLE_GAPS 4.0       /* multiple of the usual time between losses */
#define SATURATED_MUCH 0.25 /* shares of a layer's units */
#define SATURATED_BAD 0.5
#define QUEUE_GROWTH 1.5
#define DISK_SLOW 5.0       /* maximum seconds that a journal entry waits */
#define DISK_LEAST 256e6    /* minimum free bytes */
#define BROKER_AWAY 5.0     /* seconds */
#define BROKER_LEAST 1000.0 /* messages: a shorter queue is not a delay */
#define BROKER_BEHIND 60.0  /* seconds of learning: a longer queue is a delay */

static struct verdict make_verdict(enum style style, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static struct verdict make_verdict(enum style style, const char *format, ...) {
    struct verdict verdict = {.style = style};
    TEXT_FORMAT(verdict.text, sizeof verdict.text, format);
    return verdict;
}

static bool is_idle(const struct watched *w) {
    double quiet = clock_seconds() - w->last_loss;
    return quiet > IDLE_LEAST && quiet > IDLE_GAPS * w->loss_gap;
}

static struct verdict verdict_direction(const struct watched *w, bool utf8) {
    switch (trend_direction(&w->means)) {
    case TREND_FALLING:
        return make_verdict(STYLE_GOOD, "%sfalling", utf8 ? "↘ " : "");
    case TREND_RISING:
        return make_verdict(STYLE_WARN, "%srising", utf8 ? "↗ " : "");
    case TREND_FLAT:
        return make_verdict(STYLE_PLAIN, "%ssteady", utf8 ? "→ " : "");
    case TREND_UNKNOWN:
        break;
    }
    return make_verdict(STYLE_DIM, "not enough data");
}

enum style verdict_skill(const struct watched *w) {
    const struct sample *sample = watched_sample(w);
    return sample && sample->values[FIELD_skill_recent] < 0 ? STYLE_BAD : STYLE_STRONG;
}

struct verdict verdict_learning(const struct watched *w, bool utf8) {
    char quiet[FORMAT_SIZE];
    if (w->health.presence != PRESENCE_SPEAKING)
        return make_verdict(STYLE_DIM, "no messages");
    if (strcmp(watched_state(w), "paused") == 0)
        return make_verdict(STYLE_WARN, "paused");
    if (w->replaying)
        return make_verdict(STYLE_WARN, "replaying");
    if (w->last_loss == 0)
        return make_verdict(STYLE_DIM, "no loss yet");
    if (verdict_skill(w) == STYLE_BAD)
        return make_verdict(STYLE_BAD, "below baseline");
    if (is_idle(w))
        return make_verdict(STYLE_WARN, "idle %s",
                            format_duration(quiet, clock_seconds() - w->last_loss));
    return verdict_direction(w, utf8);
}

enum style verdict_share(double share) {
    return share >= SATURATED_BAD ? STYLE_BAD : share >= SATURATED_MUCH ? STYLE_WARN : STYLE_PLAIN;
}

double verdict_recent(const struct watched *w, enum loss_field field) {
    const struct past *p = &w->past;
    size_t i = past_after(p, watched_cursor(w));
    if (i == 0 || isnan(watched_cursor(w)))
        return 0;
    const struct sample *now = &p->samples[--i];
    while (i > 0 && p->samples[i].time > now->time - RECENT)
        i--;
    double more = now->values[field] - p->samples[i].values[field];
    return more > 0 ? more : 0;
}

/* Whether all units have the same value. */
static bool is_dead(const json_t *layer) {
    return layer_number(layer, LAYER_size) > 1 &&
           layer_number(layer, LAYER_hidden_minimum) == layer_number(layer, LAYER_hidden_maximum);
}

/* The layer with the largest share of saturated units, or a dead one. */
static struct verdict verdict_layers(const json_t *layers) {
    double worst = 0;
    size_t which = 0;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        double share = layer_number(layer, LAYER_hidden_saturated);
        if (is_dead(layer))
            return make_verdict(STYLE_BAD, "layer %zu dead", i);
        if (share > worst) {
            worst = share;
            which = i;
        }
    }
    if (worst >= SATURATED_MUCH)
        return make_verdict(verdict_share(worst), "layer %zu %.0f%% saturated", which, 100 * worst);
    return make_verdict(STYLE_GOOD, "yes");
}

struct verdict verdict_health(const struct watched *w, const json_t *layers) {
    char number[FORMAT_SIZE];
    double more, bytes = status_number(w->status, STATUS_journal_free_bytes);
    if (w->health.presence != PRESENCE_SPEAKING)
        return make_verdict(STYLE_DIM, "unknown");
    if (bytes < DISK_LEAST)
        return make_verdict(STYLE_BAD, "disk: %s free", format_bytes(number, bytes));
    if ((more = verdict_recent(w, FIELD_skipped)) > 0)
        return make_verdict(STYLE_BAD, "skips: %s", format_count(number, more, 6));
    if (clock_seconds() - w->last_scale < RECENT)
        return make_verdict(STYLE_BAD, "inputs out of scale");
    if ((more = verdict_recent(w, FIELD_rejected)) > 0)
        return make_verdict(STYLE_WARN, "rejects: %s", format_count(number, more, 6));
    if (clock_seconds() - w->last_rejected < RECENT)
        return make_verdict(STYLE_WARN, "examples rejected");
    if (!layers && w->past.count == 0 && status_number(w->status, STATUS_input_scale) > 0)
        return make_verdict(STYLE_BAD, "inputs out of scale");
    if (!layers && w->past.count == 0)
        return make_verdict(STYLE_DIM, "unknown yet");
    return verdict_layers(layers);
}

/* Too slow if each of the last samples has a queue; worse if the queue grows. */
struct verdict verdict_pace(const struct watched *w) {
    const struct past *p = &w->past;
    char number[FORMAT_SIZE];
    double waiting = status_number(w->status, STATUS_journal_waiting), least = INFINITY;
    if (w->health.presence != PRESENCE_SPEAKING)
        return make_verdict(STYLE_DIM, "unknown");
    if (waiting > DISK_SLOW)
        return make_verdict(STYLE_WARN, "slow disk: %s", format_duration(number, waiting));
    if (status_number(w->status, STATUS_consumer_away) > BROKER_AWAY)
        return make_verdict(STYLE_BAD, "broker away");
    double messages = status_number(w->status, STATUS_consumer_lag);
    if (messages > BROKER_LEAST && messages > BROKER_BEHIND * w->speed)
        return make_verdict(STYLE_WARN, "behind: %s wait", format_count(number, messages, 6));
    size_t end = isnan(watched_cursor(w)) ? 0 : past_after(p, watched_cursor(w));
    if (end == 0)
        return make_verdict(STYLE_DIM, "unknown yet");
    for (size_t i = end; i-- > 0 && end - i <= QUEUE_SAMPLES;)
        least = fmin(least, p->samples[i].values[FIELD_queued]);
    double queue = p->samples[end - 1].values[FIELD_queued];
    if (end < QUEUE_SAMPLES || !(least > 0))
        return make_verdict(STYLE_GOOD, "yes");
    bool grows = queue > QUEUE_GROWTH * p->samples[end - QUEUE_SAMPLES].values[FIELD_queued];
    return make_verdict(grows ? STYLE_BAD : STYLE_WARN, "%s: %s wait", grows ? "no" : "barely",
                        format_count(number, queue, 6));
}
