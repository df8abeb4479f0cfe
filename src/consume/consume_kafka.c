/* A topic of Kafka: all of its partitions are assigned at the offsets that the journal has. The
   group is told what is durable; it has no members, for nothing is to be shared out. */
#include "consume_kafka.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/log.h"
#include "consume_broker.h"

enum {
    POLL_MS = 100,     /* where nothing waits for the learning thread, */
    POLL_SHORT_MS = 5, /* and where something does */
    WHY_POLLS = 60,
};

/* ---- Opening ---- */

static int configure(const struct consume *consume, rd_kafka_conf_t *conf, struct error *error) {
    const struct kafka *kafka = consume->broker;
    static const char *const SETTINGS[][2] = {
        {"enable.auto.commit", "false"},      {"enable.auto.offset.store", "false"},
        {"auto.offset.reset", "error"},       {"enable.partition.eof", "true"},
        {"max.poll.interval.ms", "86400000"}, {"queued.max.messages.kbytes", "16384"},
    };
    int status = kafka_set(conf, "group.id", consume->config->consume.kafka.group, error);
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS && status == 0; i++)
        status = kafka_set(conf, SETTINGS[i][0], SETTINGS[i][1], error);
    return status < 0 ? -1 : kafka_configure(conf, &kafka->options, error);
}

/* From within rd_kafka_consumer_poll. */
void consume_kafka_error(rd_kafka_t *client, int code, const char *reason, void *context) {
    struct consume *consume = context;
    struct kafka *kafka = consume->broker;
    const struct kafka_aim aim = {"Read", consume->config->consume.kafka.topic,
                                  consume->config->consume.kafka.group};
    struct error away;
    (void)client;
    if (kafka_refuses((rd_kafka_resp_err_t)code)) {
        kafka_say_refused(&kafka->fatal, &kafka->options, (rd_kafka_resp_err_t)code, &aim, reason);
        return;
    }
    kafka_keep_why(kafka->why, (rd_kafka_resp_err_t)code, reason);
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && code != RD_KAFKA_RESP_ERR__RESOLVE)
        return;
    kafka->down = true;
    kafka_say_away(&away, &kafka->options, kafka->why);
    if (*kafka->why) /* otherwise who asks next says it */
        consume_is_away(consume, away.text);
}

static int make_client(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (configure(consume, conf, error) < 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    rd_kafka_conf_set_error_cb(conf, consume_kafka_error);
    rd_kafka_conf_set_opaque(conf, consume);
    if (kafka_client(&kafka->client, RD_KAFKA_CONSUMER, conf, error) < 0)
        return -1;
    rd_kafka_poll_set_consumer(kafka->client);
    kafka->assigned = false;
    kafka->due = kafka->count_due = 0;
    return 0;
}

static void disconnect(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    kafka_end(&kafka->client);
    kafka_end(&kafka->writer);
}

/* The settings are tried at once: what is wrong with them is wrong with the configuration. */
static int open_kafka(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker = calloc(1, sizeof *kafka);
    if (!kafka)
        return error_no_memory(error);
    consume_kafka_options(consume->config, &kafka->options);
    snprintf(consume->endpoint, sizeof consume->endpoint, "%.*s %.*s", CONSUME_NAME_SIZE / 2 - 1,
             kafka->options.servers, CONSUME_NAME_SIZE / 2 - 1,
             consume->config->consume.kafka.topic);
    if (make_client(consume, error) == 0)
        return 0;
    error->status = EX_CONFIG;
    return -1;
}

static void close_kafka(struct consume *consume) {
    if (consume->broker)
        disconnect(consume);
    free(consume->broker);
}

void consume_kafka_print(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]) {
    snprintf(text, CONSUME_PLACE_SIZE, "%" PRIu64, place->sequence);
}

/* ---- Messages ---- */

static struct consume_partition *of(const struct consume *consume, int32_t number) {
    return number >= 0 && (size_t)number < consume->count ? consume->partitions[number] : NULL;
}

static int take(struct consume *consume, const rd_kafka_message_t *m, struct error *error) {
    struct consume_partition *p = of(consume, m->partition);
    char id[CONSUME_NAME_SIZE + CONSUME_PLACE_SIZE];
    rd_kafka_timestamp_type_t type;
    int64_t time = rd_kafka_message_timestamp(m, &type);
    if (!p || m->offset < consume_kafka_next(p)) /* of an assignment before this one */
        return 0;
    bool keyed = consume->config->consume.kafka.by_key && m->key_len > 0;
    /* In a fleet a stream is in one partition alone. */
    const char *topic =
        consume->config->fleet.lease > 0 ? p->stream : consume->config->consume.kafka.topic;
    snprintf(id, sizeof id, "offset %" PRId64 " of %s", m->offset, p->name);
    const struct consume_read read = {
        .partition = p,
        .place = {0, (uint64_t)m->offset, (uint64_t)m->offset + 1},
        .message = {.id = id,
                    .key = keyed ? m->key : topic,
                    .key_size = keyed ? m->key_len : strlen(topic),
                    .bytes = m->payload ? m->payload : "",
                    .size = m->len,
                    .time = time > 0 ? (double)time / 1e3 : 0},
        .why = m->payload ? NULL : "it has no value: a tombstone",
        .raw_key = m->key,
        .raw = m->payload ? m->payload : "",
        .raw_key_size = m->key_len,
        .raw_size = m->len,
    };
    int put = consume_put(consume, &read, error);
    if (put > 0)
        p->put = p->at.count;
    return put < 0 ? -1 : 0;
}

/* Nothing more comes before that offset: what is there are marks of transactions, what was aborted,
   or nothing, where the topic is compacted. */
static void note_end(const struct consume *consume, const rd_kafka_message_t *m) {
    struct consume_partition *p = of(consume, m->partition);
    if (p && p->reading && m->offset > 0)
        p->passed = (uint64_t)m->offset;
}

/* The offset is not there any more. */
static int reset(struct consume *consume, int32_t number, struct error *error) {
    struct kafka *kafka = consume->broker;
    struct consume_partition *p = of(consume, number);
    kafka->assigned = false;
    return p && p->reading ? consume_kafka_check(consume, p, error) : 0;
}

/* librdkafka tries again by itself; what it cannot read at all (a codec that it was built without,
   a bad checksum) would else be silence. */
static void say_unread(struct consume *consume, const rd_kafka_message_t *m) {
    struct kafka *kafka = consume->broker;
    char text[KAFKA_WHY_SIZE];
    snprintf(text, sizeof text, "%s[%" PRId32 "] cannot be read: %s",
             consume->config->consume.kafka.topic, m->partition, rd_kafka_message_errstr(m));
    if (strcmp(kafka->said, text) != 0)
        log_warning("%s: %s; trying again", kafka->options.servers, text);
    snprintf(kafka->said, sizeof kafka->said, "%s", text);
}

/* A message that is an error. */
static int judge(struct consume *consume, const rd_kafka_message_t *m, struct error *error) {
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        note_end(consume, m);
    else if (kafka_refuses(m->err))
        consume_kafka_error(NULL, m->err, rd_kafka_message_errstr(m), consume);
    else if (m->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
             m->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
             m->err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        consume_kafka_missing(consume);
    else if (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
             m->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        return reset(consume, m->partition, error);
    else
        say_unread(consume, m);
    return 0;
}

/* ---- The thread ---- */

/* Whether the cluster is back, where it was away. */
static void probe(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    if (kafka->down && kafka_answers(kafka->client, KAFKA_ASK_MS / 5))
        kafka->down = false;
    bool reads = kafka->assigned && kafka->reads;
    if (!kafka->down && (!consume->connected || consume->since || (reads && !consume->answered)))
        consume_answers(consume, reads);
}

/* No answer: librdkafka's thread may tell in a moment why. What else comes is read again by the
   next client. */
static void await_why(struct kafka *kafka) {
    for (int n = 0; n < WHY_POLLS && !*kafka->why && !*kafka->fatal.text; n++) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(kafka->client, POLL_SHORT_MS);
        if (m)
            rd_kafka_message_destroy(m);
    }
}

static int turn(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    if (!kafka->client && make_client(consume, error) < 0)
        return -1;
    if (clock_ns() >= kafka->count_due && consume_kafka_count(consume, error) < 0) {
        await_why(kafka);
        if (!*kafka->fatal.text)
            return *kafka->why ? kafka_say_away(error, &kafka->options, kafka->why) : -1;
    }
    if (!*kafka->fatal.text &&
        (consume_kafka_assign(consume, error) < 0 || consume_bury(consume, error) < 0 ||
         consume_kafka_look(consume, error) < 0))
        return -1;
    rd_kafka_message_t *m =
        rd_kafka_consumer_poll(kafka->client, consume_is_empty(consume) ? POLL_MS : POLL_SHORT_MS);
    int status = !m ? 0 : m->err ? judge(consume, m, error) : take(consume, m, error);
    if (m && !m->err) {
        kafka->down = false;
        *kafka->why = '\0';
    }
    if (m)
        rd_kafka_message_destroy(m);
    if (*kafka->fatal.text) {
        *error = kafka->fatal;
        kafka->fatal = (struct error){0};
        return -1;
    }
    if (status == 0)
        probe(consume);
    return status;
}

static void leave(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    if (kafka->client && consume_is_closing(consume) && !kafka->down)
        consume_kafka_commit_last(consume);
    disconnect(consume);
}

const struct consume_kind consume_kafka = {
    .open = open_kafka,
    .close = close_kafka,
    .print = consume_kafka_print,
    .turn = turn,
    .disconnect = leave,
    .bury = consume_kafka_bury,
    .meanwhile = consume_kafka_look,
};
