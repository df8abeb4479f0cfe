/* Kafka topics: confirmed by all in-sync replicas. The key of a message is its stream, so that one
   partition has all messages of a stream in order. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cluster/brokers/kafka_link.h"
#include "common/clock.h"
#include "common/error.h"
#include "relay_sink.h"

#define ANSWER_SECONDS 10.0
enum { TICK_MS = 100, PROBE_MS = 1000 };

struct sink {
    struct kafka_options login;
    rd_kafka_conf_t *settings; /* settings of a new client */
    rd_kafka_t *client;        /* one per connection: it never resends by itself */
    bool down;                 /* the client reports that no server answers */
    size_t settled;            /* messages of the batch that are confirmed or too large */
    struct error failed;       /* text "": none */
    char why[KAFKA_WHY_SIZE];  /* the last reason why no server was reached */
};

/* This and the following callbacks are called within rd_kafka_poll. */
static void on_error(rd_kafka_t *client, int code, const char *reason, void *context) {
    struct sink *sink = context;
    (void)client;
    if (kafka_refuses((rd_kafka_resp_err_t)code))
        kafka_report_refused(&sink->failed, &sink->login, (rd_kafka_resp_err_t)code,
                             &(struct kafka_aim){"Write", NULL, NULL}, reason);
    else
        kafka_keep_why(sink->why, (rd_kafka_resp_err_t)code, reason);
    sink->down |= code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || code == RD_KAFKA_RESP_ERR__RESOLVE;
}

/* Sets the error for a message that was not written. */
static void set_failure(const struct sink *sink, const char *topic, rd_kafka_resp_err_t code,
                        struct error *error) {
    const char *why = rd_kafka_err2str(code);
    if (kafka_refuses(code))
        kafka_report_refused(error, &sink->login, code, &(struct kafka_aim){"Write", topic, NULL},
                             why);
    else if (code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION)
        error_set(error, EX_USAGE, "--topic: cannot write to '%s'", topic);
    else
        error_set(error, EX_TEMPFAIL, "%s: %s", topic, why);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *context) {
    struct sink *sink = context;
    struct sink_message *written = message->_private;
    (void)client;
    written->too_large = message->err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    if (!message->err || written->too_large)
        sink->settled++;
    else if (!*sink->failed.text)
        set_failure(sink, rd_kafka_topic_name(message->rkt), message->err, &sink->failed);
}

static int open_kafka(struct sink **result, const struct sink_options *options,
                      struct error *error) {
    const char *const settings[][2] = {
        {"acks", "all"},
        {"enable.idempotence", "true"}, /* resending keeps the order */
        {"linger.ms", "5"},
        {"message.timeout.ms", "10000"},
        {"ssl.ca.location", options->authorities},
    };
    struct sink *sink = *result = calloc(1, sizeof *sink);
    if (!sink)
        return error_no_memory(error);
    sink->login = (struct kafka_options){.servers = options->address,
                                         .user = options->user,
                                         .password_file = options->password_file,
                                         .settings = options->settings};
    sink->settings = kafka_settings(
        settings, sizeof settings / sizeof *settings - !options->authorities, &sink->login, error);
    if (!sink->settings)
        return -1;
    rd_kafka_conf_set_error_cb(sink->settings, on_error);
    rd_kafka_conf_set_dr_msg_cb(sink->settings, on_delivery);
    rd_kafka_conf_set_opaque(sink->settings, sink);
    return 0;
}

static void disconnect_kafka(struct sink *sink) {
    if (!sink->client)
        return;
    rd_kafka_purge(sink->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(sink->client);
    sink->client = NULL;
}

/* Handles the client's events. Returns -1 if the client is unusable. */
static int turn(struct sink *sink, int milliseconds, struct error *error) {
    rd_kafka_poll(sink->client, milliseconds);
    if (*sink->failed.text)
        *error = sink->failed;
    else if (sink->down && !kafka_answers(sink->client, PROBE_MS))
        kafka_report_away(error, &sink->login, sink->why);
    else {
        sink->down = false;
        return 0;
    }
    return -1;
}

static int connect_kafka(struct sink *sink, struct error *error) {
    double until = clock_seconds() + ANSWER_SECONDS;
    sink->failed = (struct error){0};
    sink->down = false;
    *sink->why = '\0';
    if (kafka_client(&sink->client, RD_KAFKA_PRODUCER, rd_kafka_conf_dup(sink->settings), error) <
        0)
        return -1;
    while (!kafka_answers(sink->client, TICK_MS)) {
        if (turn(sink, 0, error) < 0)
            return -1;
        if (clock_seconds() > until)
            return error_set(error, EX_TEMPFAIL, "no answer for %.0f s", ANSWER_SECONDS);
    }
    return 0;
}

static int publish(struct sink *sink, struct sink_message *message, struct error *error) {
    const char *key = message->key;
    rd_kafka_resp_err_t code = rd_kafka_producev(
        sink->client, RD_KAFKA_V_TOPIC(message->topic), RD_KAFKA_V_KEY(key, key ? strlen(key) : 0),
        RD_KAFKA_V_VALUE(message->text, message->size), RD_KAFKA_V_OPAQUE(message), RD_KAFKA_V_END);
    message->too_large = code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    if (message->too_large) {
        sink->settled++;
        return 0;
    }
    if (code)
        set_failure(sink, message->topic, code, error);
    return code ? -1 : 0;
}

static int write_together(struct sink *sink, struct sink_message *messages, size_t count,
                          struct error *error) {
    sink->settled = 0;
    for (size_t n = 0; n < count; n++)
        if (publish(sink, &messages[n], error) < 0)
            return -1;
    while (sink->settled < count) /* until message.timeout.ms */
        if (turn(sink, TICK_MS, error) < 0)
            return -1;
    return 0;
}

/* A server rejects a batch as a whole, even if each message is small enough. */
static int write_kafka(struct sink *sink, struct sink_message *messages, size_t count,
                       struct error *error) {
    if (write_together(sink, messages, count, error) < 0)
        return -1;
    for (size_t n = 0; n < count; n++)
        if (messages[n].too_large && write_together(sink, &messages[n], 1, error) < 0)
            return -1;
    return 0;
}

static int tend_kafka(struct sink *sink, struct error *error) {
    return turn(sink, 0, error);
}

static void close_kafka(struct sink *sink) {
    if (sink->settings)
        rd_kafka_conf_destroy(sink->settings);
}

const struct sink_type sink_kafka = {
    .name = "kafka",
    .topic = "runnel.{topic}",
    .kept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-",
    .topic_max = 249,
    .size_limit = "message.max.bytes, and --setting message.max.bytes",
    .open = open_kafka,
    .connect = connect_kafka,
    .write = write_kafka,
    .tend = tend_kafka,
    .disconnect = disconnect_kafka,
    .close = close_kafka,
};
