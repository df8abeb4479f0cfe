#include "top_watched.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json_member.h"
#include "common/text.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_state.h"

/* ---- Past ---- */

enum { STATES_LEAST = 4, STATES_BYTES = 16 << 20 };

static void drop_states(struct past *p, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        free(p->states[i].text);
    memmove(p->states + first, p->states + first + count,
            (p->state_count - first - count) * sizeof *p->states);
    p->state_count -= count;
}

static void past_close(struct past *p) {
    drop_states(p, 0, p->state_count);
    free(p->samples);
    p->samples = NULL;
    p->count = 0;
}

static struct sample merge_samples(const struct sample *a, const struct sample *b) {
    struct sample both = *b;
    both.weight = a->weight + b->weight;
    both.apart = a->apart || b->apart;
    for (size_t field = 0; field < FIELDS; field++)
        both.values[field] = field_fold(&fields_of_loss[field], a->values[field], a->weight,
                                        b->values[field], b->weight);
    return both;
}

/* Joins pairs of samples in the older half. */
static void thin_samples(struct past *p) {
    size_t half = p->count / 4 * 2;
    for (size_t i = 0; i < half; i += 2)
        p->samples[i / 2] = merge_samples(&p->samples[i], &p->samples[i + 1]);
    memmove(p->samples + half / 2, p->samples + half, (p->count - half) * sizeof *p->samples);
    p->count -= half / 2;
}

static size_t state_bytes(const struct past *p) {
    size_t bytes = 0;
    for (size_t i = 0; i < p->state_count; i++)
        bytes += p->states[i].size;
    return bytes;
}

/* Drops every other state of the older half. */
static void thin_states(struct past *p) {
    size_t half = p->state_count / 4 * 2;
    for (size_t i = 0; i < half; i += 2) {
        free(p->states[i].text);
        p->states[i / 2] = p->states[i + 1];
    }
    memmove(p->states + half / 2, p->states + half, (p->state_count - half) * sizeof *p->states);
    p->state_count -= half / 2;
}

size_t past_after(const struct past *p, double examples) {
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->samples[middle].examples <= examples)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A state follows the `loss` of the same examples, so one with equal examples may stay. */
static void forget_from(struct past *p, double examples) {
    while (p->count > 0 && p->samples[p->count - 1].examples >= examples)
        p->count--;
    while (p->state_count > 0 && p->states[p->state_count - 1].examples > examples)
        drop_states(p, p->state_count - 1, 1);
}

/* Adds a `loss` message; `apart` goes into the sample. Drops samples at or after its examples:
   learning was reset, or a restarted daemon relearns them. */
static void past_loss(struct past *p, const json_t *body, bool apart) {
    struct sample sample = {.weight = 1, .time = (double)time(NULL), .apart = apart};
    if (!member_number(body, "examples", &sample.examples))
        return;
    member_number(body, "time", &sample.time);
    sample.steps = field_number(&fields_of_each[EACH_steps], body);
    for (int field = 0; field < FIELDS; field++)
        sample.values[field] = field_number(&fields_of_loss[field], body);
    if (!p->samples)
        p->samples = malloc(PAST_SAMPLES * sizeof *p->samples);
    if (!p->samples)
        return;
    forget_from(p, sample.examples);
    if (p->count == PAST_SAMPLES)
        thin_samples(p);
    p->samples[p->count++] = sample;
}

/* Adds a `state` message as text from malloc, which the past then owns. */
static void past_state(struct past *p, double examples, char *text) {
    while (p->state_count > 0 && p->states[p->state_count - 1].examples >= examples)
        drop_states(p, p->state_count - 1, 1);
    size_t size = strlen(text);
    while (p->state_count == PAST_STATES ||
           (p->state_count >= STATES_LEAST && state_bytes(p) + size > STATES_BYTES))
        thin_states(p);
    p->states[p->state_count++] = (struct past_state){examples, text, size};
}

static const struct sample *past_at(const struct past *p, double examples) {
    size_t after = past_after(p, examples);
    return after > 0 ? &p->samples[after - 1] : NULL;
}

/* The newest sample or state with at most this number of examples; NULL if it does not exist. */
static json_t *past_state_at(const struct past *p, double examples) {
    size_t i = p->state_count;
    while (i > 0 && p->states[i - 1].examples > examples)
        i--;
    return i > 0 ? json_loads(p->states[i - 1].text, 0, NULL) : NULL;
}

enum { MESSAGES_AT_ONCE = 2000, GAP_MARK = 'g' };

static void note_health(void *context, const char *text) {
    watched_note(context, STYLE_WARN, text);
}

int watched_open(struct watched *w, double silence) {
    static const bool topics[TOPICS] = {
        [TOPIC_STATUS] = true, [TOPIC_LOSS] = true, [TOPIC_STATE] = true, [TOPIC_EVENT] = true};
    w->look.cursor = NAN;
    w->gap_reported = w->last_scale = w->last_rejected = -INFINITY;
    w->speed = w->rejected = NAN;
    health_open(&w->health, w->endpoint, silence, note_health, w);
    struct runnel_peer peer = tool_peer(w->endpoint, &w->keys);
    return link_open(&w->link, &peer, topics);
}

static void replace(json_t **kept, json_t *by) {
    json_incref(by);
    json_decref(*kept);
    *kept = by;
}

void watched_close(struct watched *w) {
    link_close(&w->link);
    link_close(&w->predictions);
    past_close(&w->past);
    replace(&w->status, NULL);
    replace(&w->truth, NULL);
    replace(&w->columns, NULL);
    replace(&w->experts, NULL);
}

static struct happening *new_event(struct watched *w) {
    if (w->event_count == WATCHED_EVENTS)
        memmove(w->events, w->events + 1, --w->event_count * sizeof *w->events);
    if (w->look.events > 0 && w->look.events < (int)w->event_count)
        w->look.events++; /* keeps the visible events in place */
    return &w->events[w->event_count++];
}

void watched_note(struct watched *w, enum style style, const char *text) {
    struct happening *event = new_event(w);
    *event = (struct happening){.time = (double)time(NULL), .examples = NAN, .style = style};
    text_copy(event->text, sizeof event->text, text);
}

/* Sets the style of an event and its letter on the axis. */
static void dress_event(struct happening *event, const char *kind) {
    static const struct {
        const char *kind;
        char mark;
        enum style style;
    } kinds[] = {
        {"started", '^', STYLE_PLAIN},        {"resumed", 'r', STYLE_PLAIN},
        {"paused", 'p', STYLE_WARN},          {"set", 's', STYLE_STRONG},
        {"reset", 'R', STYLE_WARN},           {"checkpoint", 'c', STYLE_GOOD},
        {"rejected", 'x', STYLE_WARN},        {"skipped_update", '!', STYLE_BAD},
        {"stream_forgotten", 0, STYLE_PLAIN}, {"gap", GAP_MARK, STYLE_WARN},
        {"replayed", '^', STYLE_PLAIN},       {"disk", '!', STYLE_BAD},
        {"stopping", '$', STYLE_WARN},        {"input_scale", '!', STYLE_BAD},
        {"stale", '!', STYLE_WARN},
    };
    event->style = STYLE_PLAIN;
    event->mark = '*';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i].kind) == 0) {
            event->style = kinds[i].style;
            event->mark = kinds[i].mark;
        }
}

/* "checkpoint of 100 examples" does not need "checkpoint: " before it. */
static void add_event(struct watched *w, const json_t *body) {
    const char *kind = member_string(body, "kind"), *sentence = member_string(body, "text");
    const char *note = member_string(body, "note");
    char joined[2 * WATCHED_TEXT];
    kind = kind ? kind : "event";
    sentence = sentence ? sentence : "";
    bool twice = strncmp(sentence, kind, strlen(kind)) == 0;
    snprintf(joined, sizeof joined, "%s%s%s%s%s", twice ? "" : kind,
             *sentence && !twice ? ": " : "", sentence, note ? ": " : "", note ? note : "");
    struct happening *event = new_event(w);
    *event = (struct happening){.time = (double)time(NULL), .examples = NAN};
    member_number(body, "time", &event->time);
    member_number(body, "examples", &event->examples);
    dress_event(event, kind);
    if (strcmp(kind, "input_scale") == 0)
        w->last_scale = clock_seconds();
    else if (strcmp(kind, "rejected") == 0)
        w->last_rejected = clock_seconds();
    text_copy(event->text, sizeof event->text, joined);
}

/* Adds an event at the end of a gap; returns whether there is a gap. */
static bool add_gap(struct watched *w, const double unheard[2]) {
    char text[GAP_TEXT];
    if (isnan(unheard[1]))
        return false;
    if (!gap_report(&w->gap_reported, unheard, text))
        return true;
    watched_note(w, STYLE_WARN, text);
    w->events[w->event_count - 1].examples = unheard[1];
    w->events[w->event_count - 1].mark = GAP_MARK;
    return true;
}

static void add_loss(struct watched *w, const json_t *body, const double unheard[2]) {
    double mean, examples, newest = watched_newest(w), now = clock_seconds();
    if (!member_number(body, "examples", &examples))
        return;
    if (examples < newest)
        w->means.count = 0;
    if (member_number(body, "mean", &mean))
        trend_add(&w->means, mean);
    if (w->last_loss > 0)
        w->loss_gap += (now - w->last_loss - w->loss_gap) / WATCHED_GAPS;
    w->last_loss = now;
    replace(&w->columns, json_object_get(body, fields_of_loss[FIELD_columns].key));
    replace(&w->experts, json_object_get(body, fields_of_loss[FIELD_experts].key));
    past_loss(&w->past, body, add_gap(w, unheard));
}

static void add_state(struct watched *w, struct message *message) {
    double examples;
    if (!member_number(message->body, "examples", &examples))
        return;
    past_state(&w->past, examples, message->text);
    message->text = NULL;
    w->has_state = true;
}

static void restart(struct watched *w) {
    replace(&w->status, NULL);
    w->has_state = false;
    w->gap_reported = w->last_scale = w->last_rejected = -INFINITY;
    w->speed = w->rejected = NAN;
    w->last_loss = w->loss_gap = 0;
    replace(&w->truth, NULL);
    replace(&w->columns, NULL);
    replace(&w->experts, NULL);
    w->means.count = 0;
}

/* Subscribes to predictions if the daemon publishes them. They have a separate link, so that lost
   predictions do not count as missed messages. */
static void handle_status(struct watched *w, json_t *body) {
    static const bool topics[TOPICS] = {[TOPIC_PREDICTION] = true};
    struct runnel_peer peer = tool_peer(w->endpoint, &w->keys);
    replace(&w->status, body);
    bool published = json_is_true(json_object_get(body, "predictions"));
    if (published && !w->predictions)
        link_open(&w->predictions, &peer, topics);
    if (!published)
        link_close(&w->predictions);
}

/* Keeps the newest waiting prediction. */
static bool receive_predictions(struct watched *w) {
    struct message message;
    enum runnel_kind kind;
    bool any = false;
    for (int i = 0; w->predictions && i < MESSAGES_AT_ONCE &&
                    (kind = link_next(w->predictions, &message)) != RUNNEL_NOTHING;
         i++) {
        if (kind == RUNNEL_MESSAGE && !message.problem && json_object_get(message.body, "scored")) {
            replace(&w->truth, message.body);
            any = true;
        }
        message_clear(&message);
    }
    return any;
}

static void handle_message(struct watched *w, struct message *message) {
    if (health_message(&w->health, message))
        restart(w);
    w->hindered = false;
    if (message->problem)
        return;
    const char *run = member_string(message->body, "run");
    if (run)
        text_copy(w->run, sizeof w->run, run);
    w->replaying = json_is_true(json_object_get(message->body, "replaying"));
    member_number(message->body, "examples_per_second", &w->speed);
    member_number(message->body, "rejected", &w->rejected);
    switch (message->topic) {
    case TOPIC_STATUS:
        handle_status(w, message->body);
        break;
    case TOPIC_LOSS:
        add_loss(w, message->body, message->news.unheard);
        break;
    case TOPIC_STATE:
        add_state(w, message);
        break;
    case TOPIC_EVENT:
        add_event(w, message->body);
        break;
    case TOPIC_PREDICTION:
    case TOPIC_VECTOR:
    case TOPICS:
        break;
    }
}

static void handle_change(struct watched *w, enum runnel_kind change) {
    bool known = w->refused || w->hindered;
    health_changed(&w->health, change);
    bool news = change == RUNNEL_REFUSED ? !w->refused : change == RUNNEL_HINDERED && !known;
    w->refused |= change == RUNNEL_REFUSED;
    w->hindered |= change == RUNNEL_HINDERED;
    if (news)
        watched_note(w, STYLE_BAD, link_refusal(w->link));
}

bool watched_receive(struct watched *w) {
    struct message message;
    enum runnel_kind kind;
    bool any = false;
    size_t events = w->event_count;
    for (int i = 0; i < MESSAGES_AT_ONCE && (kind = link_next(w->link, &message)) != RUNNEL_NOTHING;
         i++) {
        if (kind == RUNNEL_MESSAGE)
            handle_message(w, &message);
        else
            handle_change(w, kind);
        message_clear(&message);
        any = true;
    }
    any |= receive_predictions(w);
    health_tick(&w->health, false);
    return any || w->event_count != events;
}

const char *watched_name(const struct watched *w) {
    const char *name = member_string(w->status, "name");
    return name ? name : w->endpoint;
}

const char *watched_state(const struct watched *w) {
    const char *state = member_string(w->status, "state");
    return state ? state : "";
}

bool watched_complete(const struct watched *w) {
    return w->status && w->past.count > 0 && w->has_state;
}

bool watched_settled(const struct watched *w) {
    const struct past *p = &w->past;
    return !w->has_state || p->state_count == 0 ||
           !(p->states[p->state_count - 1].examples < watched_newest(w));
}

/* The length of HOST in tcp://HOST:PORT; 0 for other endpoints. */
static int host_length(const char *endpoint) {
    static const char scheme[] = "tcp://";
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, scheme, strlen(scheme)) != 0 || colon < endpoint + strlen(scheme))
        return 0;
    return (int)(colon - endpoint - (long)strlen(scheme));
}

/* A socket bound to every address has the host of the statistics socket. */
static bool is_every_address(const char *host, int length) {
    static const char *const all[] = {"0.0.0.0", "*", "[::]"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((int)strlen(all[i]) == length && strncmp(host, all[i], (size_t)length) == 0)
            return true;
    return false;
}

bool watched_control(const struct watched *w, char text[WATCHED_ENDPOINT]) {
    const char *reported = member_string(json_object_get(w->status, "sockets"), "control");
    const char *endpoint = w->control ? w->control : reported;
    if (!endpoint) {
        snprintf(text, WATCHED_ENDPOINT, "control socket of %s unknown: pass it with --control",
                 watched_name(w));
        return false;
    }
    int length = host_length(endpoint), ours = host_length(w->endpoint);
    const char *host = strstr(endpoint, "//");
    if (!w->control && length > 0 && ours > 0 && is_every_address(host + 2, length))
        snprintf(text, WATCHED_ENDPOINT, "tcp://%.*s%s", ours, strstr(w->endpoint, "//") + 2,
                 host + 2 + length);
    else
        snprintf(text, WATCHED_ENDPOINT, "%s", endpoint);
    return true;
}

double watched_newest(const struct watched *w) {
    return w->past.count > 0 ? w->past.samples[w->past.count - 1].examples : NAN;
}

double watched_cursor(const struct watched *w) {
    return isnan(w->look.cursor) ? watched_newest(w) : w->look.cursor;
}

const struct sample *watched_sample(const struct watched *w) {
    double cursor = watched_cursor(w);
    return isnan(cursor) ? NULL : past_at(&w->past, cursor);
}

json_t *watched_layers(const struct watched *w) {
    double cursor = isnan(w->look.cursor) ? INFINITY : w->look.cursor;
    json_t *body = past_state_at(&w->past, cursor);
    json_t *layers = state_layers(body);
    json_decref(body);
    return layers;
}
