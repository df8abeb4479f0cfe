#include "build-config.h"

#include "top_control.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/monitor.h"
#include "tools/shared/tool.h"

#define ANSWER_WITHIN 10.0     /* seconds, to say who it is */
#define CHECKPOINT_WITHIN 60.0 /* seconds: a disk can be slow */

enum stage { STAGE_ASK, STAGE_CHECK, STAGE_ACT, STAGE_REPLY };

struct control {
    void *context, *socket;
    struct monitor *monitor;
    const struct key_client *keys;
    json_t *request;
    char *endpoint, *run;
    enum stage stage;
    double deadline; /* tool_now() */
    bool refused;    /* for good */
};

static void say(char text[CONTROL_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(char text[CONTROL_TEXT], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, CONTROL_TEXT, format, arguments);
    va_end(arguments);
}

/* IPv6 and IMMEDIATE: as runnel-ctl has it. */
static int set_up(struct control *c) {
    const int zero = 0, one = 1, ipv6 = strchr(c->endpoint, '[') != NULL;
    return !c->socket || !c->monitor || zmq_setsockopt(c->socket, ZMQ_LINGER, &zero, sizeof zero) ||
           zmq_setsockopt(c->socket, ZMQ_IMMEDIATE, &one, sizeof one) ||
           zmq_setsockopt(c->socket, ZMQ_IPV6, &ipv6, sizeof ipv6) ||
           keys_apply(c->keys, c->socket) || monitor_attach(c->monitor, c->context, c->socket) ||
           zmq_connect(c->socket, c->endpoint);
}

struct control *control_open(const char *endpoint, const struct key_client *keys, const char *run,
                             json_t *request, char text[CONTROL_TEXT]) {
    struct control *c = calloc(1, sizeof *c);
    if (!c) {
        say(text, "memory is short");
        json_decref(request);
        return NULL;
    }
    c->keys = keys;
    c->request = request;
    c->endpoint = strdup(endpoint);
    c->run = strdup(run);
    c->deadline = tool_now() + ANSWER_WITHIN;
    c->context = zmq_ctx_new();
    c->socket = c->context ? zmq_socket(c->context, ZMQ_REQ) : NULL;
    if (c->endpoint)
        monitor_open(&c->monitor, c->endpoint, ZMQ_REQ, false, keys, NULL);
    if (c->endpoint && c->run && !set_up(c))
        return c;
    say(text, "cannot connect to '%s': %s", endpoint, zmq_strerror(zmq_errno()));
    control_close(&c);
    return NULL;
}

void control_close(struct control **control) {
    struct control *c = *control;
    if (!c)
        return;
    monitor_close(&c->monitor);
    if (c->socket)
        zmq_close(c->socket);
    if (c->context)
        zmq_ctx_term(c->context);
    json_decref(c->request);
    free(c->endpoint);
    free(c->run);
    free(c);
    *control = NULL;
}

static bool is_sending(const struct control *c) {
    return c->stage == STAGE_ASK || c->stage == STAGE_ACT;
}

void control_items(const struct control *c, zmq_pollitem_t items[CONTROL_ITEMS]) {
    short events = is_sending(c) ? ZMQ_POLLOUT : ZMQ_POLLIN;
    monitor_items(c->monitor, items);
    items[MONITOR_ITEMS] = (zmq_pollitem_t){.socket = c->socket, .events = events};
}

double control_left(const struct control *c) {
    return c->deadline - tool_now();
}

static void hear(struct control *c) {
    struct monitor_event event;
    while (monitor_next(c->monitor, &event))
        c->refused |= event.kind == MONITOR_REFUSED;
}

/* False as long as there is no connection. */
static bool send_request(struct control *c) {
    char *text = c->stage == STAGE_ASK ? strdup("{\"command\":\"status\"}")
                                       : json_dumps(c->request, JSON_COMPACT);
    bool sent = text && zmq_send(c->socket, text, strlen(text), ZMQ_DONTWAIT) >= 0;
    free(text);
    return sent;
}

/* The first frame of a reply, as JSON that may be anything; false when none has come. */
static bool receive(struct control *c, json_t **body) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    bool come = zmq_msg_recv(&frame, c->socket, ZMQ_DONTWAIT) >= 0;
    *body = come ? json_loadb(zmq_msg_data(&frame), zmq_msg_size(&frame), 0, NULL) : NULL;
    while (come && zmq_msg_more(&frame) && zmq_msg_recv(&frame, c->socket, ZMQ_DONTWAIT) >= 0)
        ;
    zmq_msg_close(&frame);
    return come;
}

/* Whether the reply says that it went well; else why not. */
static bool went_well(const struct control *c, const json_t *body, char text[CONTROL_TEXT]) {
    const json_t *ok = json_object_get(body, "ok");
    const char *error = tool_string(body, "error");
    if (!json_is_boolean(ok))
        say(text, "what answers at %s is no runneld's control socket", c->endpoint);
    else if (json_is_false(ok))
        say(text, "%s", error ? error : "the daemon refused and did not say why");
    return json_is_true(ok);
}

static enum control_end check_run(struct control *c, const json_t *body, char text[CONTROL_TEXT]) {
    const char *run = tool_string(body, "run");
    if (!went_well(c, body, text))
        return CONTROL_FAILED;
    if (!run || strcmp(run, c->run) != 0) {
        say(text,
            "the daemon at %s is not the one watched here: nothing was done; --control names "
            "the right one",
            c->endpoint);
        return CONTROL_FAILED;
    }
    c->stage = STAGE_ACT;
    c->deadline = tool_now() + CHECKPOINT_WITHIN;
    return CONTROL_GOES_ON;
}

static enum control_end describe(struct control *c, const json_t *body, char text[CONTROL_TEXT]) {
    const char *path = tool_string(body, "path"), *state = tool_string(body, "state");
    const char *key = tool_string(body, "key");
    double value;
    char number[TOOL_NUMBER_SIZE];
    if (!went_well(c, body, text))
        return CONTROL_FAILED;
    if (path)
        say(text, "done: checkpoint %s", path);
    else if (key && tool_number(body, "value", &value))
        say(text, "done: %s is now %s", key, tool_format_setting(number, value));
    else
        say(text, "done: it is %s now", state ? state : "as asked");
    return CONTROL_DONE;
}

static enum control_end give_up(const struct control *c, char text[CONTROL_TEXT]) {
    if (monitor_reason(c->monitor))
        say(text, "%s: %s", c->endpoint, monitor_reason(c->monitor));
    else if (c->stage == STAGE_REPLY)
        say(text, "%s has taken the command but not answered yet: it may still do it", c->endpoint);
    else
        say(text, "no daemon answers at %s: nothing was done", c->endpoint);
    return CONTROL_FAILED;
}

enum control_end control_step(struct control *c, char text[CONTROL_TEXT]) {
    enum control_end end = CONTROL_GOES_ON;
    bool moved = true;
    json_t *body;
    hear(c);
    while (moved && end == CONTROL_GOES_ON) {
        if (is_sending(c)) {
            moved = send_request(c);
            c->stage += moved;
            continue;
        }
        moved = receive(c, &body);
        if (moved)
            end = c->stage == STAGE_CHECK ? check_run(c, body, text) : describe(c, body, text);
        json_decref(body);
    }
    if (end == CONTROL_GOES_ON && (c->refused || control_left(c) <= 0))
        end = give_up(c, text);
    return end;
}
