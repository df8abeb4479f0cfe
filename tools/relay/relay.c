/* runnel-relay: what a daemon says of its examples, written to a message broker. See
   runnel-relay(1). */
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/json_member.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/wire.h"
#include "relay_queue.h"
#include "relay_sink.h"
#include "tools/shared/ending.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"

#define LINGER_SECONDS 5.0
#define TICK_SECONDS 1.0

enum {
    MESSAGES_AT_ONCE = 1000, /* between two looks at signals and the clock */
    BUFFER_MAX = 100000000,
    TOPIC_SIZE = 1024,
    NAME_SIZE = 65,
};

struct options {
    const char *endpoint;
    struct key_options keys;
    const char *mqtt, *redis; /* addresses: one of them is given */
    const char *user, *password_file, *authorities, *topic;
    bool published[TOPICS];
    uint64_t buffer, keep, count;
    double silence;
};

struct relay {
    struct options options;
    const struct sink_type *type;
    struct sink_options target;
    struct sink *sink;
    struct queue *queue;
    struct link *link;
    struct health health;
    const char *topic;
    char name[NAME_SIZE]; /* of the daemon */
    bool refused, no_predictions_said, hindrance_said;
    uint64_t taken; /* messages given to the queue */
};

/* ---- options ---- */

static int take_topic_kind(void *values, const struct option_row *row, const char *text,
                           struct error *error) {
    struct options *o = values;
    enum topic topic = topic_find(text, strlen(text));
    if (topic == TOPICS)
        return error_set(error, EX_USAGE,
                         "--%s: found '%s', expected prediction, event, loss, state or status",
                         row->name, text);
    o->published[topic] = true;
    return 0;
}

static const struct option_row rows[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's statistics socket (default " WIRE_STATISTICS ")",
     OPTION_TEXT(struct options, endpoint)},
    KEY_OPTIONS(struct options, keys),
    {"mqtt", 0, "URL", "write to topics of MQTT: mqtt://HOST[:PORT], mqtts://.., unix:///PATH",
     OPTION_TEXT(struct options, mqtt)},
    {"redis", 0, "URL", "write to streams of Redis: redis://HOST[:PORT][/DATABASE], unix:///PATH",
     OPTION_TEXT(struct options, redis)},
    {"user", 0, "NAME", "log in to the broker as NAME", OPTION_TEXT(struct options, user)},
    {"password-file", 0, "FILE", "log in with the first line of FILE",
     OPTION_FILE(struct options, password_file)},
    {"cafile", 0, "FILE", "mqtts: who may have signed the broker's certificate",
     OPTION_FILE(struct options, authorities)},
    {"topic", 't', "NAME",
     "where messages go; {stream}, {daemon} and {topic} are replaced (default: mqtt "
     "runnel/{daemon}/{topic}, redis runnel:{topic})",
     OPTION_TEXT(struct options, topic)},
    {"publish", 'p', "TOPIC",
     "which messages: prediction (default), event, loss, state, status; may be repeated",
     OPTION_TAKE(take_topic_kind), .complete = COMPLETE_WORDS,
     .words = "prediction event loss state status"},
    {"keep", 'k', "N", "redis: about so many entries a stream keeps, 0 = all (default 100000)",
     OPTION_COUNT(struct options, keep, 0, UINT32_MAX)},
    {"buffer", 0, "N", "messages that wait while the broker is away (default 100000)",
     OPTION_COUNT(struct options, buffer, 1, BUFFER_MAX)},
    {"count", 'n', "N", "end when N messages have been written",
     OPTION_COUNT(struct options, count, 1, UINT64_MAX)},
    {"silence", 's', "SECONDS", "say so when no message comes for so long; 0 = never (default 15)",
     OPTION_SECONDS(struct options, silence)},
    OPTIONS_LAST,
};

/* The kind of broker of an option, if this build knows it. */
static const struct sink_type *find_sink(const char *name) {
    const struct sink_type *const *type = sink_types;
    while (*type && strcmp((*type)->name, name) != 0)
        type++;
    return *type;
}

/* OPTIONS_GO_ON, or an exit status. */
static int check_options(struct relay *r) {
    struct options *o = &r->options;
    struct error error;
    const char *name = o->mqtt ? "mqtt" : "redis", *text = o->mqtt ? o->mqtt : o->redis;
    if (!o->mqtt == !o->redis)
        return complain_usage("one broker is needed: --mqtt URL or --redis URL");
    r->type = find_sink(name);
    if (!r->type)
        return complain(EX_UNAVAILABLE, "--%s: this runnel-relay was built without its library",
                        name);
    r->topic = o->topic ? o->topic : r->type->topic;
    r->target.authorities = o->authorities;
    r->target.keep = o->keep;
    if (url_parse(&r->target.url, name, text, r->type->schemes, r->type->form, &error) < 0 ||
        url_login(&r->target.url, o->user, o->password_file, &error) < 0)
        return error.status == EX_USAGE ? complain_usage("%s", error.text) : complain_error(&error);
    bool any = false;
    for (int topic = 0; topic < TOPICS; topic++)
        any |= o->published[topic];
    o->published[TOPIC_PREDICTION] |= !any;
    return key_options_ready(&o->keys) ? OPTIONS_GO_ON : EX_USAGE;
}

/* ---- messages ---- */

static void note(void *context, const char *text) {
    (void)context;
    complain(EX_OK, "%s", text);
}

/* Put `word` at the end of the topic; what ends one, or a level of it, or is a wildcard there, is
   replaced. */
static size_t put_word(char *topic, size_t used, const char *word) {
    for (; *word && used + 1 < TOPIC_SIZE; word++)
        topic[used++] = strchr("+#/ \t\r\n", *word) ? '_' : *word;
    return used;
}

/* The message's topic: that of the options, with the names in it. */
static void make_topic(const struct relay *r, const struct message *message,
                       char topic[TOPIC_SIZE]) {
    static const char *const MARKS[] = {"{stream}", "{daemon}", "{topic}"};
    const char *stream = member_string(message->body, "stream");
    const char *const words[] = {stream && *stream ? stream : "_", r->name,
                                 topic_names[message->topic]};
    size_t used = 0;
    for (const char *c = r->topic; *c && used + 1 < TOPIC_SIZE;) {
        int mark = 0;
        while (mark < 3 && strncmp(c, MARKS[mark], strlen(MARKS[mark])) != 0)
            mark++;
        if (mark < 3) {
            used = put_word(topic, used, words[mark]);
            c += strlen(MARKS[mark]);
        } else {
            topic[used++] = *c++;
        }
    }
    topic[used] = '\0';
}

static void take_status(struct relay *r, const json_t *body) {
    const char *name = member_string(body, "name");
    const json_t *predictions = json_object_get(body, "predictions");
    if (name)
        snprintf(r->name, sizeof r->name, "%s", name);
    bool none = json_is_false(predictions) && r->options.published[TOPIC_PREDICTION];
    if (none && !r->no_predictions_said)
        complain(EX_OK,
                 "%s publishes no predictions; set statistics.predictions: true in its "
                 "configuration",
                 r->name);
    r->no_predictions_said = none;
}

static void take_message(struct relay *r, struct message *message) {
    char topic[TOPIC_SIZE];
    if (message->problem)
        return;
    if (message->topic == TOPIC_STATUS)
        take_status(r, message->body);
    if (!r->options.published[message->topic])
        return;
    make_topic(r, message, topic);
    struct sink_message out = {.topic = strdup(topic), .text = message->text};
    if (!out.topic)
        return;
    out.size = strlen(out.text);
    message->text = NULL; /* the queue's now */
    queue_add(r->queue, &out);
    r->taken++;
}

static void take_change(struct relay *r, enum runnel_kind change) {
    bool hindered = change == RUNNEL_HINDERED && !r->hindrance_said;
    r->refused |= change == RUNNEL_REFUSED;
    r->hindrance_said |= hindered;
    if (hindered || change == RUNNEL_REFUSED)
        complain(EX_OK, "%s", link_refusal(r->link));
    health_changed(&r->health, change);
}

static bool is_done(const struct relay *r) {
    return r->options.count && r->taken >= r->options.count;
}

static void take_messages(struct relay *r) {
    struct message message;
    enum runnel_kind kind;
    for (int i = 0; i < MESSAGES_AT_ONCE && !is_done(r) &&
                    (kind = link_next(r->link, &message)) != RUNNEL_NOTHING;
         i++) {
        if (kind != RUNNEL_MESSAGE) {
            take_change(r, kind);
            continue;
        }
        health_message(&r->health, &message);
        take_message(r, &message);
        message_clear(&message);
    }
}

/* ---- the loop ---- */

static int run(struct relay *r) {
    bool broken = false;
    while (!ending_asked() && !is_done(r) && !r->refused && !broken) {
        struct pollfd items[] = {{.fd = link_descriptor(r->link), .events = POLLIN},
                                 {.fd = ending_descriptor(), .events = POLLIN},
                                 {.fd = queue_descriptor(r->queue), .events = POLLIN}};
        poll(items, 3, clock_milliseconds(fmin(TICK_SECONDS, health_next(&r->health))));
        broken = items[2].revents;
        take_messages(r);
        health_tick(&r->health, false);
    }
    health_tick(&r->health, true);
    return r->refused ? complain(EX_UNAVAILABLE, "the daemon does not admit this program") : EX_OK;
}

/* Everything that was taken is written, or what is not is said. With --count there is time for it.
 */
static int finish(struct relay *r, int status) {
    struct queue_counts counts;
    struct error error;
    int refused = queue_close(&r->queue, is_done(r) ? INFINITY : LINGER_SECONDS, &counts, &error);
    complain(EX_OK,
             "wrote %llu messages; %llu did not come from the daemon, %llu were dropped, "
             "%llu are left",
             (unsigned long long)counts.written, (unsigned long long)r->health.missed_total,
             (unsigned long long)counts.dropped, (unsigned long long)counts.left);
    if (refused < 0)
        return complain_error(&error);
    return status == EX_OK && (counts.left || counts.dropped) ? EX_TEMPFAIL : status;
}

static int relay(struct relay *r) {
    const struct options *o = &r->options;
    struct error error;
    bool topics[TOPICS];
    struct runnel_peer peer = tool_peer(o->endpoint, &o->keys);
    int status = ending_catch_signals();
    if (status != EX_OK)
        return status;
    memcpy(topics, o->published, sizeof topics);
    topics[TOPIC_STATUS] = true;
    health_open(&r->health, o->endpoint, o->silence, note, r);
    if (r->type->open(&r->sink, &r->target, &error) < 0 ||
        queue_open(&r->queue, r->type, r->sink, r->target.url.name, o->buffer, &error) < 0)
        status = complain_error(&error);
    if (status == EX_OK)
        status = link_open(&r->link, &peer, topics);
    if (status == EX_OK)
        status = finish(r, run(r));
    link_close(&r->link);
    struct queue_counts counts;
    queue_close(&r->queue, 0, &counts, NULL);
    r->type->close(&r->sink);
    return status;
}

int main(int argc, char **argv) {
    struct relay r = {.options = {.endpoint = WIRE_STATISTICS,
                                  .silence = HEALTH_SILENCE,
                                  .buffer = 100000,
                                  .keep = 100000},
                      .name = "runnel"};
    const struct command_line line = {
        .name = "runnel-relay",
        .operands = "",
        .summary = "Write what a running daemon says of its examples to a message broker.",
        .ending =
            "Ends on Ctrl-C. Exit status: 0 ended as asked, 64 usage, 69 no daemon admits it, "
            "or the broker refuses, 75 messages were dropped or are left, 77 wrong "
            "credentials.",
        .groups = {{NULL, rows, &r.options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    int status = options_parse(&line, argc, argv, &operands);
    if (status == OPTIONS_GO_ON)
        status = check_options(&r);
    return status == OPTIONS_GO_ON ? relay(&r) : status;
}
