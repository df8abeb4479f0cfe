/* MQTT topics with QoS 1: confirmed by PUBACK. */
#include <mosquitto.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cluster/brokers/mqtt_link.h"
#include "common/clock.h"
#include "common/error.h"
#include "relay_sink.h"

enum { QOS = 1, TICK_MS = 250 };
#define ANSWER_SECONDS 10.0

struct sink {
    struct sink_options options;
    struct mosquitto *client; /* one per connection: it never resends by itself */
    size_t answered;          /* 1: CONNECT is answered, with `code` */
    int code;
    size_t confirmed; /* messages of the batch that are confirmed */
};

static void on_connect(struct mosquitto *client, void *context, int code) {
    struct sink *sink = context;
    (void)client;
    sink->answered = 1;
    sink->code = code;
}

/* QoS 1: the broker has it. */
static void on_publish(struct mosquitto *client, void *context, int id) {
    struct sink *sink = context;
    (void)client, (void)id;
    sink->confirmed++;
}

static int open_mqtt(struct sink **result, const struct sink_options *options,
                     struct error *error) {
    struct sink *sink = *result = calloc(1, sizeof *sink);
    if (!sink)
        return error_no_memory(error);
    sink->options = *options;
    return 0;
}

static void disconnect_mqtt(struct sink *sink) {
    if (!sink->client)
        return;
    if (mosquitto_disconnect(sink->client) == MOSQ_ERR_SUCCESS)
        mosquitto_loop_write(sink->client, 1);
    mosquitto_destroy(sink->client);
    sink->client = NULL;
}

/* Sends and receives packets, and waits for a moment. */
static int turn(struct sink *sink, int milliseconds, struct error *error) {
    short room = mosquitto_want_write(sink->client) ? POLLOUT : 0;
    struct pollfd item = {.fd = mosquitto_socket(sink->client), .events = (short)(POLLIN | room)};
    poll(&item, 1, milliseconds);
    int code = MOSQ_ERR_SUCCESS;
    if (item.revents & (POLLIN | POLLHUP | POLLERR))
        code = mosquitto_loop_read(sink->client, 1);
    if (code == MOSQ_ERR_SUCCESS && !sink->code)
        code = mosquitto_loop_write(sink->client, 1);
    if (code == MOSQ_ERR_SUCCESS && !sink->code)
        code = mosquitto_loop_misc(sink->client);
    return sink->code ? mqtt_check_connack(&sink->options.url, sink->code, error)
                      : mqtt_check(code, error);
}

/* Waits until `*what` is at least `goal`, or until an error. */
static int await_count(struct sink *sink, const size_t *what, size_t goal, struct error *error) {
    double until = clock_seconds() + ANSWER_SECONDS;
    for (size_t before = *what; *what < goal; before = *what) {
        if (turn(sink, TICK_MS, error) < 0)
            return -1;
        if (*what > before)
            until = clock_seconds() + ANSWER_SECONDS;
        if (clock_seconds() > until)
            return error_set(error, EX_TEMPFAIL, "no answer for %.0f s", ANSWER_SECONDS);
    }
    return 0;
}

static int connect_mqtt(struct sink *sink, struct error *error) {
    sink->answered = 0;
    sink->code = 0;
    if (mqtt_open(&sink->client, &sink->options.url, NULL, true, sink->options.authorities, sink,
                  error) < 0)
        return -1;
    mosquitto_connect_callback_set(sink->client, on_connect);
    mosquitto_publish_callback_set(sink->client, on_publish);
    mosquitto_max_inflight_messages_set(sink->client, 0);
    if (mqtt_connect(sink->client, &sink->options.url, error) < 0)
        return -1;
    return await_count(sink, &sink->answered, 1, error);
}

static int send(struct sink *sink, const struct sink_message *message, const char *topic) {
    return mosquitto_publish(sink->client, NULL, topic, (int)message->size, message->text, QOS,
                             false);
}

/* A stream's name may contain characters that are invalid in MQTT, such as U+FFFF. */
static int send_plain(struct sink *sink, const struct sink_message *message) {
    char *topic = strdup(message->topic);
    if (!topic)
        return MOSQ_ERR_NOMEM;
    for (char *c = topic; *c; c++)
        if (*c & 0x80)
            *c = '_';
    int code = send(sink, message, topic);
    free(topic);
    return code;
}

static int publish(struct sink *sink, const struct sink_message *message, struct error *error) {
    int code = send(sink, message, message->topic);
    if (code == MOSQ_ERR_MALFORMED_UTF8)
        code = send_plain(sink, message);
    if (code == MOSQ_ERR_INVAL || code == MOSQ_ERR_MALFORMED_UTF8)
        return error_set(error, EX_USAGE, "--topic: cannot write to '%s'", message->topic);
    return mqtt_check(code, error);
}

static int write_mqtt(struct sink *sink, struct sink_message *messages, size_t count,
                      struct error *error) {
    sink->confirmed = 0;
    for (size_t n = 0; n < count; n++)
        if (publish(sink, &messages[n], error) < 0)
            return -1;
    return await_count(sink, &sink->confirmed, count, error);
}

static int tend_mqtt(struct sink *sink, struct error *error) {
    return turn(sink, 0, error);
}

static void close_mqtt(struct sink *sink) {
    (void)sink;
    mosquitto_lib_cleanup();
}

const struct sink_type sink_mqtt = {
    .name = "mqtt",
    .schemes = MQTT_URL_SCHEMES,
    .form = MQTT_URL_FORM,
    .topic = "runnel/{daemon}/{topic}",
    .replaced = "+#/ \t\r\n",
    .open = open_mqtt,
    .connect = connect_mqtt,
    .write = write_mqtt,
    .tend = tend_mqtt,
    .disconnect = disconnect_mqtt,
    .close = close_mqtt,
};
