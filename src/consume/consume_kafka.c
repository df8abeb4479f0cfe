/* A topic of Kafka: all of its partitions are assigned at the offsets that the journal has. The
   group is told what is durable; it has no members, for nothing is to be shared out. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/kafka_link.h"
#include "common/clock.h"
#include "common/log.h"
#include "consume_broker.h"
#include "consume_internal.h"

#define LOOK_NS NS_PER_SECOND           /* between two commits, and two looks at lags */
#define COUNT_NS (10 * NS_PER_SECOND)   /* between two questions how many partitions there are */
#define WRITTEN_NS (10 * NS_PER_SECOND) /* for a dead letter */

enum {
    POLL_MS = 100,     /* where nothing waits for the learning thread, */
    POLL_SHORT_MS = 5, /* and where something does */
    ASK_MS = 1000,     /* for an answer of the cluster */
    CLOSE_MS = 2000,   /* for the last commit */
    WHY_SIZE = 512,
};

struct kafka {
    struct kafka_options options;
    const char *pairs[CONFIG_SHARES_MAX];
    rd_kafka_t *client, *writer; /* writer: of dead letters */
    bool assigned;               /* as it is wanted now, */
    bool reads;                  /* which is something */
    uint64_t due, count_due;     /* of the next look */
    int written;                 /* the dead letter: 0 = not yet, 1, -1 = it failed: */
    char why[WHY_SIZE];
    struct error fatal; /* text "": none */
    bool missing_said, down;
};

/* ---- Opening ---- */

static int configure(const struct consume *consume, rd_kafka_conf_t *conf, struct error *error) {
    const struct kafka *kafka = consume->broker;
    static const char *const SETTINGS[][2] = {
        {"enable.auto.commit", "false"},      {"enable.auto.offset.store", "false"},
        {"auto.offset.reset", "error"},       {"enable.partition.eof", "false"},
        {"max.poll.interval.ms", "86400000"}, {"queued.max.messages.kbytes", "16384"},
    };
    int status = kafka_set(conf, "group.id", consume->config->consume.kafka.group, error);
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS && status == 0; i++)
        status = kafka_set(conf, SETTINGS[i][0], SETTINGS[i][1], error);
    return status < 0 ? -1 : kafka_configure(conf, &kafka->options, error);
}

/* From within rd_kafka_consumer_poll. */
static void on_error(rd_kafka_t *client, int code, const char *reason, void *context) {
    struct consume *consume = context;
    struct kafka *kafka = consume->broker;
    (void)client;
    if (kafka_refuses((rd_kafka_resp_err_t)code)) {
        kafka_say_refused(&kafka->fatal, &kafka->options, reason);
    } else if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || code == RD_KAFKA_RESP_ERR__RESOLVE) {
        kafka->down = true;
        consume_is_away(consume, "no server answers");
    }
}

static int make_client(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (configure(consume, conf, error) < 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    rd_kafka_conf_set_error_cb(conf, on_error);
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
    if (kafka->client)
        rd_kafka_destroy_flags(kafka->client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    if (kafka->writer)
        rd_kafka_destroy(kafka->writer);
    kafka->client = kafka->writer = NULL;
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

static void print(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]) {
    snprintf(text, CONSUME_PLACE_SIZE, "%" PRIu64, place->sequence);
}

/* ---- Partitions ---- */

static int add_partitions(struct consume *consume, int count, struct error *error) {
    char name[CONSUME_NAME_SIZE];
    bool more = consume->count > 0 && (size_t)count > consume->count;
    if (more)
        log_warning("%s: the topic has %d partitions now, and had %zu: the new ones are read from "
                    "their beginning",
                    consume->endpoint, count, consume->count);
    pthread_mutex_lock(&consume->mutex);
    int status = 0;
    for (int n = (int)consume->count; n < count && status == 0; n++) {
        snprintf(name, sizeof name, "%s[%d]", consume->config->consume.kafka.topic, n);
        struct consume_partition *p = consume_add(consume, "kafka", name);
        if (!p)
            status = error_set(error, EX_UNAVAILABLE,
                               "%s: the topic has %d partitions, and at most %d can be read",
                               consume->endpoint, count, CONSUME_PARTITIONS_MAX);
        else
            p->number = n;
    }
    pthread_mutex_unlock(&consume->mutex);
    consume_announce(consume);
    return status;
}

static void say_missing(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    if (!kafka->missing_said)
        log_warning("%s: there is no topic %s; waiting for it", kafka->options.servers,
                    consume->config->consume.kafka.topic);
    kafka->missing_said = true;
}

/* How many partitions the topic has. EX_TEMPFAIL: no answer. */
static int ask_count(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    const struct rd_kafka_metadata *about;
    rd_kafka_topic_t *topic =
        rd_kafka_topic_new(kafka->client, consume->config->consume.kafka.topic, NULL);
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->client, 0, topic, &about, ASK_MS);
    rd_kafka_topic_destroy(topic);
    if (kafka_refuses(code))
        on_error(kafka->client, code, rd_kafka_err2str(code), consume);
    if (code)
        return error_set(error, EX_TEMPFAIL, "no server answers");
    const struct rd_kafka_metadata_topic *found = about->topic_cnt ? &about->topics[0] : NULL;
    rd_kafka_resp_err_t wrong = found ? found->err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    int count = found ? found->partition_cnt : 0, status = 0;
    rd_kafka_metadata_destroy(about);
    kafka->count_due = clock_ns() + (count ? COUNT_NS : LOOK_NS);
    if (kafka_refuses(wrong))
        on_error(kafka->client, wrong, rd_kafka_err2str(wrong), consume);
    else if (count == 0)
        say_missing(consume);
    else if ((size_t)count > consume->count)
        status = add_partitions(consume, count, error);
    return status;
}

/* ---- Where partitions begin ---- */

static int64_t next_of(const struct consume_partition *p) {
    return (int64_t)p->at.count; /* its offset and 1 */
}

/* What is not known comes from the group, or is as `from` says. */
static int find_start(struct consume *consume, struct consume_partition *p, struct error *error) {
    struct kafka *kafka = consume->broker;
    const char *topic = consume->config->consume.kafka.topic;
    bool latest = consume->config->consume.kafka.latest;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, p->number);
    int64_t low = 0, high = 0;
    rd_kafka_resp_err_t code = rd_kafka_committed(kafka->client, list, ASK_MS);
    int64_t found = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    if (!code && found < 0)
        code =
            rd_kafka_query_watermark_offsets(kafka->client, topic, p->number, &low, &high, ASK_MS);
    if (code)
        return error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    p->at.count = (uint64_t)(found >= 0 ? found : latest ? high : low);
    p->at.sequence = p->at.count ? p->at.count - 1 : 0;
    return 0;
}

/* What was before the oldest message is lost, what is after the newest one is of another topic. */
static int check_place(struct consume *consume, struct consume_partition *p, struct error *error) {
    const struct kafka *kafka = consume->broker;
    const char *topic = consume->config->consume.kafka.topic;
    int64_t low, high, next = next_of(p);
    rd_kafka_resp_err_t code =
        rd_kafka_query_watermark_offsets(kafka->client, topic, p->number, &low, &high, ASK_MS);
    if (code)
        return error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    if (next > high)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: %s[%" PRId32 "] ends at offset %" PRId64 ", before %" PRId64
                         ", up to which it is learned: it was made again, or has lost what it had; "
                         "name another topic, or give this daemon a directory and a group of its "
                         "own with state.directory and examples.kafka.group",
                         kafka->options.servers, topic, p->number, high, next);
    if (next >= low)
        return 0;
    log_warning("%s: %" PRId64 " messages of %s[%" PRId32 "] were gone before they were read: "
                "their retention had passed; keep more, or let the daemon be faster",
                consume->endpoint, low - next, topic, p->number);
    pthread_mutex_lock(&consume->mutex);
    p->lost += (uint64_t)(low - next);
    pthread_mutex_unlock(&consume->mutex);
    p->at.count = (uint64_t)low;
    return 0;
}

/* All that is to be read, from where it is. */
static int assign(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)consume->count + 1);
    bool changed = !kafka->assigned;
    int status = 0;
    for (size_t n = 0; n < consume->count && status == 0; n++) {
        struct consume_partition *p = consume->partitions[n];
        bool begins, known, before = p->counted;
        p->counted = consume_wanted(consume, p, &begins, &known);
        changed |= begins || before != (p->counted = p->reading && p->counted);
        if (!p->counted)
            continue;
        rd_kafka_topic_partition_t *to = rd_kafka_topic_partition_list_add(
            list, consume->config->consume.kafka.topic, p->number);
        if (begins) {
            status = known ? check_place(consume, p, error) : find_start(consume, p, error);
            p->begun = p->at.count;
        }
        if (status < 0)
            p->reading = 0; /* once more the next time */
        to->offset = next_of(p);
    }
    if (status == 0 && changed) {
        rd_kafka_resp_err_t code = rd_kafka_assign(kafka->client, list);
        status = code ? error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code)) : 0;
        kafka->assigned = status == 0;
        kafka->reads = list->cnt > 0;
    } else if (status < 0) {
        kafka->assigned = false;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

/* ---- What is durable ---- */

static rd_kafka_topic_partition_list_t *take_offsets(struct consume *consume) {
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)consume->count + 1);
    pthread_mutex_lock(&consume->mutex);
    for (size_t n = 0; n < consume->count && consume->commits; n++) {
        struct consume_partition *p = consume->partitions[n];
        if (!p->read || p->durable.count == 0 || p->durable.count == p->committed.count)
            continue;
        p->committed = p->durable;
        rd_kafka_topic_partition_list_add(list, consume->config->consume.kafka.topic, p->number)
            ->offset = (int64_t)p->durable.count;
    }
    pthread_mutex_unlock(&consume->mutex);
    return list;
}

static void measure(struct consume *consume, struct consume_partition *p) {
    const struct kafka *kafka = consume->broker;
    int64_t low, high;
    if (rd_kafka_get_watermark_offsets(kafka->client, consume->config->consume.kafka.topic,
                                       p->number, &low, &high) ||
        high < 0)
        return;
    pthread_mutex_lock(&consume->mutex);
    int64_t from = (int64_t)(p->durable.count ? p->durable.count : p->begun);
    if (p->read)
        p->lag = high > from ? high - from : 0;
    pthread_mutex_unlock(&consume->mutex);
}

/* A commit that fails is made up for by the next one. */
static int look(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    (void)error;
    if (!kafka->client || clock_ns() < kafka->due)
        return 0;
    kafka->due = clock_ns() + LOOK_NS;
    rd_kafka_topic_partition_list_t *list = take_offsets(consume);
    if (list->cnt > 0)
        rd_kafka_commit(kafka->client, list, 1);
    rd_kafka_topic_partition_list_destroy(list);
    for (size_t n = 0; n < consume->count; n++)
        measure(consume, consume->partitions[n]);
    return 0;
}

static void commit_last(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    rd_kafka_topic_partition_list_t *list = take_offsets(consume);
    rd_kafka_queue_t *answers = rd_kafka_queue_new(kafka->client);
    if (list->cnt > 0 && !rd_kafka_commit_queue(kafka->client, list, answers, NULL, NULL))
        rd_kafka_event_destroy(rd_kafka_queue_poll(answers, CLOSE_MS));
    rd_kafka_queue_destroy(answers);
    rd_kafka_topic_partition_list_destroy(list);
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
    if (!p || m->offset < next_of(p)) /* of an assignment before this one */
        return 0;
    bool keyed = consume->config->consume.kafka.by_key && m->key_len > 0;
    const char *topic = consume->config->consume.kafka.topic;
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
        .raw_key = m->key,
        .raw = m->payload ? m->payload : "",
        .raw_key_size = m->key_len,
        .raw_size = m->len,
    };
    return consume_put(consume, &read, error) < 0 ? -1 : 0;
}

/* The offset is not there any more. */
static int reset(struct consume *consume, int32_t number, struct error *error) {
    struct kafka *kafka = consume->broker;
    struct consume_partition *p = of(consume, number);
    kafka->assigned = false;
    return p ? check_place(consume, p, error) : 0;
}

/* A message that is an error. */
static int judge(struct consume *consume, const rd_kafka_message_t *m, struct error *error) {
    if (kafka_refuses(m->err))
        on_error(NULL, m->err, rd_kafka_message_errstr(m), consume);
    else if (m->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
             m->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
             m->err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        say_missing(consume);
    else if (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
             m->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        return reset(consume, m->partition, error);
    return 0;
}

/* ---- Dead letters ---- */

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
    print(&item->message.place, place);
    snprintf(number, sizeof number, "%" PRId32, p->number);
    rd_kafka_header_add(headers, "dead.topic", -1, consume->config->consume.kafka.topic, -1);
    rd_kafka_header_add(headers, "dead.partition", -1, number, -1);
    rd_kafka_header_add(headers, "dead.offset", -1, place, -1);
    rd_kafka_header_add(headers, "dead.reason", -1, item->message.text, -1);
    return headers;
}

static int bury(struct consume *consume, const struct consume_item *item, struct error *error) {
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

/* ---- The thread ---- */

/* Whether the cluster is back, where it was away. */
static void probe(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    if (kafka->down && kafka_answers(kafka->client, ASK_MS / 5))
        kafka->down = false;
    bool reads = kafka->assigned && kafka->reads;
    if (!kafka->down && (!consume->connected || consume->since || (reads && !consume->answered)))
        consume_answers(consume, reads);
}

static int turn(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    if (!kafka->client && make_client(consume, error) < 0)
        return -1;
    if (clock_ns() >= kafka->count_due && ask_count(consume, error) < 0) {
        rd_kafka_poll(kafka->client, 0);
        if (!*kafka->fatal.text)
            return -1;
    }
    if (!*kafka->fatal.text && (assign(consume, error) < 0 || consume_bury(consume, error) < 0 ||
                                look(consume, error) < 0))
        return -1;
    rd_kafka_message_t *m =
        rd_kafka_consumer_poll(kafka->client, consume_is_empty(consume) ? POLL_MS : POLL_SHORT_MS);
    int status = !m ? 0 : m->err ? judge(consume, m, error) : take(consume, m, error);
    if (m && !m->err)
        kafka->down = false;
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
        commit_last(consume);
    disconnect(consume);
}

const struct consume_kind consume_kafka = {
    .open = open_kafka,
    .close = close_kafka,
    .print = print,
    .turn = turn,
    .disconnect = leave,
    .bury = bury,
    .meanwhile = look,
};
