#include "publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/json_text.h"
#include "config/config.h"
#include "endpoint.h"

enum {
    RUN_SIZE = 17,
    SUBSCRIPTION_MAX =
        1024, /* bytes of a frame from a subscriber: a prefix of a topic, or a handshake */
};

static const char *const topic_names[TOPICS] = {
    [TOPIC_STATUS] = "status",         [TOPIC_LOSS] = "loss",   [TOPIC_STATE] = "state",
    [TOPIC_PREDICTION] = "prediction", [TOPIC_EVENT] = "event",
};

struct publish {
    void *socket;
    char endpoint[CONFIG_ENDPOINT_SIZE];
    char run[RUN_SIZE];
    uint64_t sequences[TOPICS];
    uint32_t prefixes[TOPICS]; /* bit n: the topic's first n bytes are subscribed to */
    struct json_text text;     /* the message that is being written */
    bool replaying;
};

static void draw_run(char run[RUN_SIZE]) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (uint64_t)(clock_unix() * (double)NS_PER_SECOND);
    snprintf(run, RUN_SIZE, "%016llx", (unsigned long long)number);
}

int publish_open(struct publish **publish, void *zmq_context, struct security *security,
                 const struct socket_config *config, struct error *error) {
    static const struct endpoint_option options[] = {
        {ZMQ_SNDHWM, PUBLISH_QUEUE},
        {ZMQ_XPUB_VERBOSE, 1}, /* every new subscriber is seen, not only a topic's first */
        {ZMQ_MAXMSGSIZE, SUBSCRIPTION_MAX},
    };
    struct publish *p = calloc(1, sizeof *p);
    *publish = p;
    if (!p)
        return error_set(error, EX_OSERR, "out of memory for the statistics socket");
    draw_run(p->run);
    const char *key = config->connect ? "statistics.connect" : "statistics.bind";
    if (endpoint_open(&p->socket, zmq_context, security, ZMQ_XPUB, config, key, options,
                      sizeof options / sizeof *options, error)) {
        publish_close(publish);
        return -1;
    }
    endpoint_name(p->socket, config, p->endpoint);
    return 0;
}

int publish_renew(struct publish *publish, struct security *security,
                  const struct socket_config *config, struct error *error) {
    const char *key = config->connect ? "statistics.connect" : "statistics.bind";
    return endpoint_renew(publish->socket, security, config, key, publish->endpoint, error);
}

void publish_close(struct publish **publish) {
    if (!*publish)
        return;
    endpoint_close(&(*publish)->socket);
    json_text_free(&(*publish)->text);
    free(*publish);
    *publish = NULL;
}

void *publish_socket(const struct publish *publish) {
    return publish->socket;
}

const char *publish_endpoint(const struct publish *publish) {
    return publish->endpoint;
}

/* One frame of a subscriber: 1 PREFIX subscribes, 0 PREFIX ends it once the last one has left;
   anything else says nothing. True: `status` was subscribed to. */
static bool subscription(struct publish *publish, const unsigned char *frame, size_t size) {
    bool status = false;
    if (size == 0 || frame[0] > 1)
        return false;
    for (int t = 0; t < TOPICS; t++) {
        size_t length = size - 1;
        if (length > strlen(topic_names[t]) || memcmp(topic_names[t], frame + 1, length))
            continue;
        uint32_t bit = 1u << length;
        if (frame[0])
            publish->prefixes[t] |= bit;
        else
            publish->prefixes[t] &= ~bit;
        status |= frame[0] && t == TOPIC_STATUS;
    }
    return status;
}

bool publish_subscriptions(struct publish *publish) {
    bool status = false;
    unsigned char frame[SUBSCRIPTION_MAX];
    for (;;) {
        int size = zmq_recv(publish->socket, frame, sizeof frame, ZMQ_DONTWAIT);
        if (size < 0)
            return status;
        if ((size_t)size <= sizeof frame)
            status |= subscription(publish, frame, (size_t)size);
    }
}

bool publish_wanted(const struct publish *publish, enum topic topic) {
    return publish->prefixes[topic] != 0;
}

const char *publish_run(const struct publish *publish) {
    return publish->run;
}

struct json_text *publish_begin(struct publish *publish, enum topic topic, uint64_t examples,
                                uint64_t steps) {
    if (!publish_wanted(publish, topic))
        return NULL;
    const struct each_fields fields = {
        .run = publish->run,
        .sequence = publish->sequences[topic] + 1,
        .examples = examples,
        .steps = steps,
        .time = clock_unix(),
        .replaying = true,
    };
    struct json_text *text = &publish->text;
    json_text_begin(text);
    fields_write(text, FIELDS_OF_EACH, &fields, publish->replaying ? FIELD_HAS(NEED_REPLAY) : 0);
    return text;
}

void publish_mark_replaying(struct publish *publish, bool replaying) {
    publish->replaying = replaying;
}

void publish_send(struct publish *publish, enum topic topic) {
    const struct json_text *text = &publish->text;
    if (!json_text_end(&publish->text))
        return;
    publish->sequences[topic]++;
    const char *name = topic_names[topic];
    if (zmq_send(publish->socket, name, strlen(name), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_send(publish->socket, text->bytes, text->size, ZMQ_DONTWAIT);
}
