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
#include "common/fields.h"
#include "common/hash.h"
#include "common/json_member.h"
#include "common/options.h"
#include "common/text.h"
#include "common/wire.h"
#include "relay_config.h"
#include "relay_options.h"
#include "relay_queue.h"
#include "relay_sink.h"
#include "tools/shared/ending.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_names.h"

#define LINGER_SECONDS 5.0
#define TICK_SECONDS 1.0

enum {
    MESSAGES_AT_ONCE = 1000, /* between two looks at signals and the clock */
    TOPIC_SIZE = 1024,
    DAEMON_SIZE = 65,
    ID_SIZE = 128,
};

struct relay {
    struct options options;
    struct sink *sink;
    struct queue *queue;
    struct link *link;
    struct health health;
    char name[DAEMON_SIZE]; /* of the daemon */
    char *target_names;     /* JSON: a list; NULL: they have none */
    bool refused, no_predictions_said, hindrance_said;
    uint64_t taken; /* messages given to the queue */
};

/* ---- messages ---- */

static void note(void *context, const char *text) {
    (void)context;
    complain(EX_OK, "%s", text);
}

/* Put `word` at the end of the topic; what ends one, or a level of it, or is a wildcard there, is
   replaced, and so is what does not print. */
static size_t put_word(const struct sink_type *type, char *topic, size_t used, const char *text) {
    char copy[WIRE_KEY_MAX + 1];
    for (const char *word = text_copy(copy, sizeof copy, text); *word && used + 1 < TOPIC_SIZE;
         word++) {
        bool bad = type->kept ? !strchr(type->kept, *word) : strchr(type->replaced, *word) != NULL;
        topic[used++] = bad ? '_' : *word;
    }
    return used;
}

/* A topic that is too long for the broker ends with a hash of all of it. */
static void fit_topic(const struct sink_type *type, char *topic) {
    enum { HASH_SIZE = 17 }; /* "-0123456789abcdef" */
    size_t size = strlen(topic);
    if (type->topic_max == 0)
        return;
    if (size > type->topic_max)
        snprintf(topic + type->topic_max - HASH_SIZE, HASH_SIZE + 1, "-%016llx",
                 (unsigned long long)hash_bytes(HASH_BEGIN, topic, size));
    if (strcmp(topic, ".") == 0 || strcmp(topic, "..") == 0)
        memset(topic, '_', size);
}

/* The message's topic: that of the options, with the names in it. */
static void make_topic(const struct relay *r, const struct message *message,
                       char topic[TOPIC_SIZE]) {
    static const char *const MARKS[] = {"{stream}", "{daemon}", "{topic}"};
    const char *stream = member_string(message->body, "stream");
    const char *const words[] = {stream && *stream ? stream : "_", r->name,
                                 topic_names[message->topic]};
    size_t used = 0;
    for (const char *c = r->options.topic; *c && used + 1 < TOPIC_SIZE;) {
        int mark = 0;
        while (mark < 3 && strncmp(c, MARKS[mark], strlen(MARKS[mark])) != 0)
            mark++;
        if (mark < 3) {
            used = put_word(r->options.type, topic, used, words[mark]);
            c += strlen(MARKS[mark]);
        } else {
            topic[used++] = *c++;
        }
    }
    topic[used] = '\0';
    fit_topic(r->options.type, topic);
}

/* As `status` has them, with commas between, but as a list. */
static void take_names(struct relay *r, const char *names) {
    json_t *list = json_array();
    size_t length;
    const char *name;
    for (size_t n = 0; (name = names_find(names, n, &length)); n++)
        json_array_append_new(list, json_stringn(name, length));
    free(r->target_names);
    r->target_names = json_array_size(list) ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
}

/* A last member of the message: the names of the columns that its lists have by place. */
static void add_names(const struct relay *r, struct message *message) {
    static const char form[] = ",\"target_names\":%s}";
    bool has_lists = message->topic == TOPIC_PREDICTION || message->topic == TOPIC_LOSS;
    char *end = strrchr(message->text, '}');
    if (!has_lists || !r->target_names || !end || end == strchr(message->text, '{') + 1)
        return;
    size_t used = (size_t)(end - message->text);
    size_t size = strlen(r->target_names) + sizeof form;
    char *text = realloc(message->text, used + size);
    if (!text)
        return;
    message->text = text;
    snprintf(text + used, size, form, r->target_names);
}

static void take_status(struct relay *r, const json_t *body) {
    const char *name = member_string(body, "name");
    const json_t *predictions = json_object_get(body, "predictions");
    take_names(r, member_string(body, fields_of_status[STATUS_target_names].key));
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

/* What no other message has; false: the daemon has not said which it is, in what prints. */
static bool make_id(const struct message *message, char id[ID_SIZE]) {
    const char *run = member_string(message->body, "run");
    double sequence = 0;
    member_number(message->body, "sequence", &sequence);
    int size =
        snprintf(id, ID_SIZE, "%s/%s/%.0f", run ? run : "", topic_names[message->topic], sequence);
    bool good = run && *run && size < ID_SIZE;
    for (const char *byte = id; *byte && good; byte++)
        good = *byte > ' ' && *byte < '\x7f';
    return good;
}

static void take_message(struct relay *r, struct message *message) {
    char topic[TOPIC_SIZE], id[ID_SIZE];
    if (message->problem)
        return;
    if (message->topic == TOPIC_STATUS)
        take_status(r, message->body);
    if (!r->options.published[message->topic])
        return;
    make_topic(r, message, topic);
    bool named = make_id(message, id);
    add_names(r, message);
    const char *stream = member_string(message->body, "stream");
    queue_add(r->queue, topic, stream, named ? id : NULL, message->text);
    message->text = NULL; /* the queue's now */
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
             "%llu are left, %llu were too large",
             (unsigned long long)counts.written, (unsigned long long)r->health.missed_total,
             (unsigned long long)counts.dropped, (unsigned long long)counts.left,
             (unsigned long long)counts.too_large);
    if (refused < 0)
        return complain_error(&error);
    bool lost = counts.left || counts.dropped || counts.too_large;
    return status == EX_OK && lost ? EX_TEMPFAIL : status;
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
    if (o->type->open(&r->sink, &o->target, &error) < 0 ||
        queue_open(&r->queue, o->type, r->sink, o->target.name, o->buffer, &error) < 0)
        status = complain_error(&error);
    if (status == EX_OK)
        status = link_open(&r->link, &peer, topics);
    if (status == EX_OK)
        status = finish(r, run(r));
    link_close(&r->link);
    struct queue_counts counts;
    queue_close(&r->queue, 0, &counts, NULL);
    o->type->close(&r->sink);
    return status;
}

int main(int argc, char **argv) {
    struct relay r = {.name = "runnel"};
    const struct command_line line = {
        .name = "runnel-relay",
        .operands = "",
        .summary = "Write what a running daemon says of its examples to a message broker.",
        .ending =
            "Ends on Ctrl-C. Exit status: 0 ended as asked, 64 usage, 69 no daemon admits it, "
            "or the broker refuses, 75 messages were dropped or are left, 77 wrong "
            "credentials.",
        .groups = {{NULL, relay_options, &r.options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    struct relay_config *config = NULL;
    struct error error;
    relay_options_default(&r.options);
    int status = options_parse(&line, argc, argv, &operands);
    const char *file = r.options.config;
    if (status == OPTIONS_GO_ON && file) { /* then the command line once more, which comes first */
        relay_options_default(&r.options);
        if (relay_config_open(&config, file, &r.options, &error) < 0)
            status = complain_error(&error);
        else
            status = options_parse(&line, argc, argv, &operands);
    }
    if (status == OPTIONS_GO_ON)
        status = relay_options_check(&r.options);
    if (status == OPTIONS_GO_ON)
        status = relay(&r);
    relay_config_close(&config);
    free(r.target_names);
    return status;
}
