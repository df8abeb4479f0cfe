/* Dead letters: messages of the topic NAME.dead. */
#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

#include "common/clock.h"
#include "consume_kafka.h"

#define WRITTEN_NS (10 * NS_PER_SECOND) /* for one of them */

enum { POLL_MS = 100, HEADERS = 5 };

/* From within rd_kafka_poll of the writer. */
static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *m, void *context) {
    struct consume *consume = context;
    struct kafka *kafka = consume->broker;
    (void)client;
    kafka->written = true;
    kafka->refused = m->err;
}

static int make_writer(struct consume *consume, struct error *error) {
    static const char *const SETTINGS[][2] = {
        {"acks", "all"},
        {"linger.ms", "0"},
        {"message.max.bytes", "1000000000"},           /* the server says what is too large, */
        {"topic.metadata.propagation.max.ms", "2000"}, /* and what is not there */
    };
    struct kafka *kafka = consume->broker;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int status = 0;
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS && status == 0; i++)
        status = kafka_set(conf, SETTINGS[i][0], SETTINGS[i][1], error);
    if (status < 0 || kafka_configure(conf, &kafka->options, error) < 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, consume);
    return kafka_client(&kafka->writer, RD_KAFKA_PRODUCER, conf, error);
}

/* With `whole` false its value is left out. */
static rd_kafka_headers_t *headers_of(const struct consume *consume,
                                      const struct consume_item *item, bool whole) {
    const struct consume_partition *p = consume->partitions[item->message.partition];
    char place[CONSUME_PLACE_SIZE], number[CONSUME_PLACE_SIZE];
    rd_kafka_headers_t *headers = rd_kafka_headers_new(HEADERS);
    consume_kafka_print(&item->message.place, place);
    snprintf(number, sizeof number, "%" PRId32, p->number);
    rd_kafka_header_add(headers, "dead.topic", -1, consume->config->consume.kafka.topic, -1);
    rd_kafka_header_add(headers, "dead.partition", -1, number, -1);
    rd_kafka_header_add(headers, "dead.offset", -1, place, -1);
    rd_kafka_header_add(headers, "dead.reason", -1, item->message.text, -1);
    snprintf(number, sizeof number, "%zu", item->raw_size);
    if (!whole)
        rd_kafka_header_add(headers, "dead.bytes", -1, number, -1);
    return headers;
}

/* Write it, and wait for the answer. */
static rd_kafka_resp_err_t write_letter(struct consume *consume, const struct consume_item *item,
                                        const char *topic, bool whole) {
    struct kafka *kafka = consume->broker;
    rd_kafka_headers_t *headers = headers_of(consume, item, whole);
    kafka->written = false;
    kafka->refused = RD_KAFKA_RESP_ERR__TIMED_OUT;
    rd_kafka_resp_err_t code = rd_kafka_producev(
        kafka->writer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(item->raw_key, item->raw_key_size),
        RD_KAFKA_V_VALUE((void *)(size_t)item->raw, whole ? item->raw_size : 0),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (code) {
        rd_kafka_headers_destroy(headers);
        return code;
    }
    uint64_t end = clock_ns() + WRITTEN_NS;
    while (!kafka->written && clock_ns() < end && !consume_is_closing(consume))
        rd_kafka_poll(kafka->writer, POLL_MS);
    code = kafka->refused;
    if (!kafka->written) { /* so that a late answer is none to the next */
        rd_kafka_purge(kafka->writer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_flush(kafka->writer, POLL_MS);
    }
    return code;
}

int consume_kafka_bury(struct consume *consume, const struct consume_item *item,
                       struct error *error) {
    struct kafka *kafka = consume->broker;
    char topic[CONFIG_ADDRESS_SIZE + sizeof ".dead"];
    if (!kafka->writer && make_writer(consume, error) < 0)
        return -1;
    snprintf(topic, sizeof topic, "%s.dead", consume->config->consume.kafka.topic);
    rd_kafka_resp_err_t code = write_letter(consume, item, topic, true);
    if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
        code = write_letter(consume, item, topic, false);
    if (!code)
        return 0;
    if (kafka_refuses(code))
        kafka_say_refused(error, &kafka->options, code, &(struct kafka_aim){"Write", topic, NULL},
                          rd_kafka_err2str(code));
    else if (code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
             code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        error_set(error, EX_TEMPFAIL, "there is no such topic: make it (kafka-topics --create)");
    else
        error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    return error_prefix(error, "a dead letter cannot be written to %s", topic);
}
