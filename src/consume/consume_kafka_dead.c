/* Dead letters: messages of the topic NAME.dead. */
#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

#include "common/clock.h"
#include "consume_kafka.h"

#define WRITTEN_NS (10 * NS_PER_SECOND) /* for one of them */

enum { POLL_MS = 100 };

/* From within rd_kafka_poll of the writer. */
static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *m, void *context) {
    struct consume *consume = context;
    struct kafka *kafka = consume->broker;
    (void)client;
    kafka->written = m->err ? -1 : 1;
    if (m->err)
        snprintf(kafka->why, sizeof kafka->why, "%s", rd_kafka_message_errstr(m));
}

static int make_writer(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (kafka_set(conf, "acks", "all", error) < 0 || kafka_set(conf, "linger.ms", "0", error) < 0 ||
        kafka_configure(conf, &kafka->options, error) < 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, consume);
    return kafka_client(&kafka->writer, RD_KAFKA_PRODUCER, conf, error);
}

static rd_kafka_headers_t *headers_of(const struct consume *consume,
                                      const struct consume_item *item) {
    const struct consume_partition *p = consume->partitions[item->message.partition];
    char place[CONSUME_PLACE_SIZE], number[CONSUME_PLACE_SIZE];
    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
    consume_kafka_print(&item->message.place, place);
    snprintf(number, sizeof number, "%" PRId32, p->number);
    rd_kafka_header_add(headers, "dead.topic", -1, consume->config->consume.kafka.topic, -1);
    rd_kafka_header_add(headers, "dead.partition", -1, number, -1);
    rd_kafka_header_add(headers, "dead.offset", -1, place, -1);
    rd_kafka_header_add(headers, "dead.reason", -1, item->message.text, -1);
    return headers;
}

int consume_kafka_bury(struct consume *consume, const struct consume_item *item,
                       struct error *error) {
    struct kafka *kafka = consume->broker;
    char topic[CONFIG_ADDRESS_SIZE + sizeof ".dead"];
    if (!kafka->writer && make_writer(consume, error) < 0)
        return -1;
    snprintf(topic, sizeof topic, "%s.dead", consume->config->consume.kafka.topic);
    rd_kafka_headers_t *headers = headers_of(consume, item);
    kafka->written = 0;
    snprintf(kafka->why, sizeof kafka->why, "no answer");
    rd_kafka_resp_err_t code = rd_kafka_producev(
        kafka->writer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(item->raw_key, item->raw_key_size),
        RD_KAFKA_V_VALUE((void *)(size_t)item->raw, item->raw_size), RD_KAFKA_V_HEADERS(headers),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (code)
        rd_kafka_headers_destroy(headers);
    uint64_t end = clock_ns() + WRITTEN_NS;
    while (!code && !kafka->written && clock_ns() < end && !consume_is_closing(consume))
        rd_kafka_poll(kafka->writer, POLL_MS);
    if (!code && kafka->written > 0)
        return 0;
    rd_kafka_purge(kafka->writer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    return error_set(error, EX_TEMPFAIL, "a dead letter cannot be written to %s: %s", topic,
                     code ? rd_kafka_err2str(code) : kafka->why);
}
