#include "publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/json_text.h"
#include "config/config.h"
#include "endpoint.h"
#include "publish_queue.h"
#include "publish_thread.h"

enum {
    RUN_SIZE = 17,
    SUBSCRIPTION_MAX =
        1024, /* bytes of a frame from a subscriber: a prefix of a topic, or a handshake */
};

struct publish {
    void *socket; /* the thread's */
    struct publish_queue *queue;
    struct publish_thread *thread;
    char endpoint[CONFIG_ENDPOINT_SIZE];
    char run[RUN_SIZE];
    uint64_t sequences[TOPICS], dropped;
    struct json_text text; /* the message that is being written */
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
        {ZMQ_TCP_MAXRT, ENDPOINT_UNREAD_MS},
        {ZMQ_RCVBUF, ENDPOINT_SMALL_BUFFER},
        {ZMQ_RCVHWM, 0},        /* security.h bounds what subscribers send */
        {ZMQ_XPUB_VERBOSER, 1}, /* every subscription is seen, not only a topic's first and last */
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
    if (!(p->queue = publish_queue_open(PUBLISH_BYTES)))
        error_set(error, EX_OSERR, "out of memory for the statistics socket");
    if (p->queue && publish_thread_start(&p->thread, p->socket, p->queue, security, error) == 0)
        return 0;
    publish_close(publish);
    return -1;
}

int publish_renew(struct publish *publish, struct security *security,
                  const struct socket_config *config, struct error *error) {
    const char *key = config->connect ? "statistics.connect" : "statistics.bind";
    struct error again;
    publish_thread_stop(&publish->thread);
    int result = endpoint_renew(publish->socket, security, config, key, publish->endpoint, error);
    /* Also when nobody is reached any more: there is still something to publish. */
    if (publish_thread_start(&publish->thread, publish->socket, publish->queue, security,
                             result ? &again : error))
        result = -1;
    return result;
}

void publish_close(struct publish **publish) {
    if (!*publish)
        return;
    publish_thread_stop(&(*publish)->thread);
    publish_queue_close(&(*publish)->queue);
    endpoint_close(&(*publish)->socket);
    json_text_free(&(*publish)->text);
    free(*publish);
    *publish = NULL;
}

int publish_descriptor(const struct publish *publish) {
    return publish_thread_descriptor(publish->thread);
}

const char *publish_endpoint(const struct publish *publish) {
    return publish->endpoint;
}

bool publish_subscriptions(struct publish *publish) {
    return publish_thread_news(publish->thread);
}

bool publish_wanted(const struct publish *publish, enum topic topic) {
    return publish->thread && publish_thread_wanted(publish->thread, topic);
}

const char *publish_run(const struct publish *publish) {
    return publish->run;
}

struct json_text *publish_begin(struct publish *publish, enum topic topic, uint64_t examples,
                                uint64_t steps) {
    return publish_begin_at(publish, topic, examples, steps, clock_unix());
}

struct json_text *publish_begin_at(struct publish *publish, enum topic topic, uint64_t examples,
                                   uint64_t steps, double time) {
    if (!publish_wanted(publish, topic))
        return NULL;
    const struct each_fields fields = {
        .run = publish->run,
        .sequence = publish->sequences[topic] + 1,
        .examples = examples,
        .steps = steps,
        .time = time,
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

uint64_t publish_dropped(const struct publish *publish) {
    return publish->dropped;
}

void publish_send(struct publish *publish, enum topic topic) {
    const struct json_text *text = &publish->text;
    if (!json_text_end(&publish->text))
        return;
    publish->sequences[topic]++;
    if (!publish_queue_put(publish->queue, topic, text->bytes, text->size))
        publish->dropped++;
    publish_thread_wake(publish->thread);
}
