#include "build-config.h"

#include "watch_link.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/monitor.h"
#include "common/error.h"
#include "tool.h"

enum {
    FRAMES_MAX = 3,         /* topic, JSON, and one more to know that there are too many */
    MESSAGE_MAX = 64 << 20, /* bytes: a prediction may have thousands of steps */
    BODY_MAX = 1 << 20,     /* of all else, which has numbers of layers at most */
    HEARTBEAT_MS = 5000,    /* a host that vanished is noticed within two of them */
    RECONNECT_MS = 200,
    RECONNECT_MAX_MS = 2000,
    RECONNECT_LOCAL_MS = 50,
    PATIENT_MS = 3000,
    QUEUE_MESSAGES = 10000,
};

const char *const topic_names[TOPICS] = {"status", "loss", "state", "prediction", "event"};

struct link {
    void *context, *socket;
    struct monitor *monitor;
    const struct key_client *keys;
    char *endpoint;
    bool patient; /* the intervals are those of who is hindered */
};

enum topic topic_find(const char *name, size_t size) {
    int topic = 0;
    while (topic < TOPICS &&
           (strlen(topic_names[topic]) != size || memcmp(topic_names[topic], name, size) != 0))
        topic++;
    return (enum topic)topic;
}

static int set_option(struct link *l, int option, int value) {
    return zmq_setsockopt(l->socket, option, &value, sizeof value);
}

/* A daemon of this machine. */
static bool is_local(const char *endpoint) {
    static const char *const begins[] = {"ipc://", "tcp://127.",
                                         "tcp://localhost:", "tcp://[::1]:"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(endpoint, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* A daemon that is back goes on at once with what waits for it, and what it publishes before it is
   connected to again is lost. On this machine trying costs next to nothing; elsewhere the intervals
   grow. */
static int set_reconnection(struct link *l) {
    bool local = is_local(l->endpoint);
    return set_option(l, ZMQ_RECONNECT_IVL, local ? RECONNECT_LOCAL_MS : RECONNECT_MS) ||
           set_option(l, ZMQ_RECONNECT_IVL_MAX, local ? 0 : RECONNECT_MAX_MS);
}

/* libzmq adds up to as much again by chance. */
static int set_patience(struct link *l) {
    return set_option(l, ZMQ_RECONNECT_IVL, PATIENT_MS) || set_option(l, ZMQ_RECONNECT_IVL_MAX, 0);
}

/* Whoever aborts handshakes does so for a reason that stays, such as a wrong key, and would only
   fill its log with hasty clients. A socket takes its intervals when it connects. */
static void connect_again(struct link *l, bool patient) {
    if (l->patient == patient)
        return;
    l->patient = patient;
    if (patient ? set_patience(l) : set_reconnection(l))
        return;
    if (zmq_disconnect(l->socket, l->endpoint) == 0)
        zmq_connect(l->socket, l->endpoint);
}

/* IPv6 only where the endpoint asks for it: a name such as localhost must not lead to ::1 when the
   daemon listens at 127.0.0.1. */
static int set_options(struct link *l, const bool topics[TOPICS]) {
    int64_t largest = MESSAGE_MAX;
    if (set_option(l, ZMQ_LINGER, 0) || set_option(l, ZMQ_RCVHWM, QUEUE_MESSAGES) ||
        set_reconnection(l) || set_option(l, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) ||
        set_option(l, ZMQ_IPV6, strchr(l->endpoint, '[') != NULL) ||
        keys_apply(l->keys, l->socket) ||
        zmq_setsockopt(l->socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest))
        return -1;
    for (int topic = 0; topic < TOPICS; topic++)
        if (topics[topic] && zmq_setsockopt(l->socket, ZMQ_SUBSCRIBE, topic_names[topic],
                                            strlen(topic_names[topic])))
            return -1;
    return 0;
}

int link_open(struct link **link, const char *endpoint, const struct key_client *keys,
              const bool topics[TOPICS]) {
    int status = EX_UNAVAILABLE;
    struct link *l = calloc(1, sizeof *l);
    if (!l || !(l->endpoint = strdup(endpoint))) {
        free(l);
        return tool_fail(EX_UNAVAILABLE, "memory is short");
    }
    l->keys = keys;
    l->context = zmq_ctx_new();
    l->socket = l->context ? zmq_socket(l->context, ZMQ_SUB) : NULL;
    struct error error;
    if (monitor_open(&l->monitor, l->endpoint, ZMQ_SUB, false, keys, &error)) {
        tool_fail(status, "%s", error.text);
        goto fail;
    }
    if (!l->socket || set_options(l, topics) || monitor_attach(l->monitor, l->context, l->socket)) {
        tool_fail(status, "cannot open a socket: %s", zmq_strerror(zmq_errno()));
        goto fail;
    }
    if (zmq_connect(l->socket, endpoint)) {
        status = tool_usage("cannot connect to '%s': %s (an endpoint looks like "
                            "tcp://127.0.0.1:5571 or ipc:///run/runnel/statistics)",
                            endpoint, zmq_strerror(zmq_errno()));
        goto fail;
    }
    *link = l;
    return EX_OK;
fail:
    link_close(&l);
    return status;
}

void link_close(struct link **link) {
    struct link *l = *link;
    if (!l)
        return;
    monitor_close(&l->monitor);
    if (l->socket)
        zmq_close(l->socket);
    if (l->context)
        zmq_ctx_term(l->context);
    free(l->endpoint);
    free(l);
    *link = NULL;
}

void link_items(const struct link *l, zmq_pollitem_t items[LINK_ITEMS]) {
    monitor_items(l->monitor, items);
    items[MONITOR_ITEMS] = (zmq_pollitem_t){.socket = l->socket, .events = ZMQ_POLLIN};
}

void link_wait(struct link *l, int wake, double seconds, bool *woken) {
    zmq_pollitem_t items[LINK_ITEMS + 1] = {[LINK_ITEMS] = {.fd = wake, .events = ZMQ_POLLIN}};
    link_items(l, items);
    /* Rounded up: a deadline that is waited for has passed when the wait is over. */
    long milliseconds = (long)(seconds * 1e3) + 1;
    zmq_poll(items, sizeof items / sizeof *items, milliseconds);
    *woken = items[LINK_ITEMS].revents != 0;
}

const char *link_refusal(const struct link *l) {
    return monitor_reason(l->monitor);
}

enum link_change link_changed(struct link *l) {
    struct monitor_event event;
    while (monitor_next(l->monitor, &event))
        switch (event.kind) {
        case MONITOR_OPENED:
            return LINK_CONNECTED;
        case MONITOR_CLOSED:
            if (!monitor_reason(l->monitor))
                connect_again(l, false);
            return LINK_DISCONNECTED;
        case MONITOR_HINDERED:
            connect_again(l, true);
            return LINK_HINDERED;
        case MONITOR_REFUSED:
            return LINK_REFUSED;
        case MONITOR_READY:
        case MONITOR_MISSED:
            break;
        }
    return LINK_SAME;
}

/* Take the frames of one message; returns how many came (those beyond FRAMES_MAX are dropped), 0
   when none waits. */
static int receive_frames(struct link *l, zmq_msg_t frames[FRAMES_MAX]) {
    int count = 0;
    for (bool more = true; more; count++) {
        zmq_msg_t *frame = &frames[count < FRAMES_MAX ? count : FRAMES_MAX - 1];
        if (zmq_msg_recv(frame, l->socket, ZMQ_DONTWAIT) < 0)
            break;
        more = zmq_msg_more(frame);
    }
    return count < FRAMES_MAX ? count : FRAMES_MAX;
}

/* JSON has no newline inside a string, so every one of them is white space between two tokens. */
static char *on_one_line(const char *text, size_t size) {
    char *line = malloc(size + 1);
    if (!line)
        return NULL;
    while (size > 0 && text[size - 1] != '}')
        size--;
    while (size > 0 && *text != '{')
        text++, size--;
    memcpy(line, text, size);
    line[size] = '\0';
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    return line;
}

static void parse(struct message *message, zmq_msg_t frames[FRAMES_MAX], int count) {
    if (count != 2) {
        message->problem = "it has not two frames, topic and JSON";
        return;
    }
    message->topic = topic_find(zmq_msg_data(&frames[0]), zmq_msg_size(&frames[0]));
    if (message->topic == TOPICS)
        return;
    const char *text = zmq_msg_data(&frames[1]);
    size_t size = zmq_msg_size(&frames[1]);
    if (size > BODY_MAX && message->topic != TOPIC_PREDICTION) {
        message->problem = "it is larger than 1 MiB";
        return;
    }
    message->body = json_loadb(text, size, 0, NULL);
    if (json_is_object(message->body))
        message->text = on_one_line(text, size);
    else
        message->problem =
            message->body ? "its JSON is not an object" : "its second frame is not JSON";
}

bool link_receive(struct link *l, struct message *message) {
    zmq_msg_t frames[FRAMES_MAX];
    for (int i = 0; i < FRAMES_MAX; i++)
        zmq_msg_init(&frames[i]);
    int count;
    do {
        *message = (struct message){.topic = TOPICS};
        count = receive_frames(l, frames);
        if (count > 0)
            parse(message, frames, count);
    } while (count > 0 && !message->problem && !message->body);
    for (int i = 0; i < FRAMES_MAX; i++)
        zmq_msg_close(&frames[i]);
    if (message->body && !message->problem && !message->text)
        message->problem = "memory is short";
    return count > 0;
}

void message_clear(struct message *message) {
    json_decref(message->body);
    free(message->text);
    *message = (struct message){.topic = TOPICS};
}
