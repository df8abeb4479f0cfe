/* Clients of Kafka, and reads and writes of the fleet's topics. */
#include "fleet_kafka_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/text.h"

#define FOLLOW_MS "100"       /* time that a server waits for the next message */
#define READ_MS "10"          /* the same for states and parameters, which already exist */
#define ROUNDS_KEPT "3600000" /* ms: a round is shorter */
#define CLAIMS_TOPIC ".claims"
#define TAG "tag" /* header of a message */

enum {
    ASK_MS = 2000, /* time limit of an answer that is retried */
    ANSWER_MS = 5000,
    WHY_SIZE = 512,
    GROUP_MAX = 249 - (int)sizeof ".streams" + 1, /* a topic name has at most 249 bytes */
    CONFIGS_MAX = 5,
    CREATE_MS = 10000,
    REPLICAS_SAFE = 3,  /* replicas: one may fail, and two have each acknowledged message */
    PIECE = 256 * 1024, /* largest message, in bytes */
    SPAN_BITS = 20,     /* bits of the span in a report's opaque value */
    TRANSACTIONAL_SIZE = FLEET_GROUP_MAX + 1 + FLEET_NAME_SIZE,
};

/* ---- Errors ---- */

static bool is_unknown(rd_kafka_resp_err_t code) {
    return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

int kafka_fail(struct fleet_client *kafka, rd_kafka_resp_err_t code, struct error *error) {
    if (is_unknown(code)) /* it was deleted, and is created again at the next call */
        kafka->topics_known = false;
    if (kafka_refuses(code))
        return kafka_report_refused(error, kafka->options, code, &kafka->aim,
                                    rd_kafka_err2str(code));
    if (code == RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION ||
        code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE ||
        code == RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: a fleet needs Kafka 2.5 or later, with transactions: %s",
                         kafka->options->servers, rd_kafka_err2str(code));
    return code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__TIMED_OUT ||
                   code == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT ||
                   code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN
               ? kafka_report_away(error, kafka->options, kafka->why)
               : error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
}

/* Called within rd_kafka_poll. */
static void on_error(rd_kafka_t *client, int code, const char *reason, void *context) {
    struct fleet_client *kafka = context;
    (void)client;
    if (kafka_refuses((rd_kafka_resp_err_t)code))
        kafka_report_refused(&kafka->fatal, kafka->options, (rd_kafka_resp_err_t)code, &kafka->aim,
                             reason);
    else
        kafka_keep_why(kafka->why, (rd_kafka_resp_err_t)code, reason);
}

int kafka_listen(struct fleet_client *kafka, struct error *error) {
    rd_kafka_t *const clients[] = {kafka->follower, kafka->reader, kafka->writer};
    for (size_t n = 0; n < sizeof clients / sizeof *clients; n++)
        if (clients[n])
            rd_kafka_poll(clients[n], 0);
    if (!*kafka->fatal.text)
        return 0;
    *error = kafka->fatal;
    kafka->fatal = (struct error){0};
    return -1;
}

/* Sets the error of a code, unless the clients have a fatal one. */
static int outcome(struct fleet_client *kafka, rd_kafka_resp_err_t code, struct error *error) {
    if (!code)
        return 0;
    return kafka_listen(kafka, error) ? -1 : kafka_fail(kafka, code, error);
}

/* ---- Clients ---- */

/* Called within rd_kafka_poll: finds the transaction and the span of a message. */
static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *m, void *context) {
    struct fleet_client *kafka = context;
    const uint64_t of = (uint64_t)(uintptr_t)m->_private;
    const size_t n = of & ((1u << SPAN_BITS) - 1);
    (void)client;
    if (of >> SPAN_BITS != kafka->number)
        return;
    kafka->waits--;
    if (m->err || m->offset < 0) { /* failed, or written earlier at an unknown offset */
        kafka->code = m->err ? m->err : RD_KAFKA_RESP_ERR__FAIL;
        return;
    }
    if (n == 0) /* not in a span */
        return;
    struct kafka_span *span = &kafka->spans[n - 1];
    if (span->first < 0 || m->offset < span->first)
        span->first = m->offset;
    if (m->offset > span->last)
        span->last = m->offset;
}

int kafka_make(struct fleet_client *kafka, rd_kafka_type_t type, rd_kafka_conf_t *conf,
               rd_kafka_t **client, struct error *error) {
    if (conf) {
        rd_kafka_conf_set_error_cb(conf, on_error);
        rd_kafka_conf_set_opaque(conf, kafka);
        if (kafka_client(client, type, conf, error) == 0)
            return 0;
    }
    error->status = EX_CONFIG;
    return -1;
}

/* Readers read only committed messages; for a span, only those known to be committed. The end of a
   topic includes open transactions. */
static int make_consumer(struct fleet_client *kafka, const char *wait, const char *isolation,
                         rd_kafka_t **client, struct error *error) {
    const char *const settings[][2] = {
        {"group.id", kafka->self->group},      {"enable.auto.commit", "false"},
        {"auto.offset.reset", "error"},        {"enable.partition.eof", "true"},
        {"allow.auto.create.topics", "false"}, {"reconnect.backoff.max.ms", "1000"},
        {"fetch.wait.max.ms", wait},           {"isolation.level", isolation},
    };
    return kafka_make(
        kafka, RD_KAFKA_CONSUMER,
        kafka_settings(settings, sizeof settings / sizeof *settings, kafka->options, error), client,
        error);
}

/* A server answers the requests of a client in order, and a fetch waits until messages arrive. So
   other requests have a client of their own. */
static int make_readers(struct fleet_client *kafka, struct error *error) {
    return (!kafka->follower &&
            make_consumer(kafka, FOLLOW_MS, "read_committed", &kafka->follower, error)) ||
                   (!kafka->reader &&
                    make_consumer(kafka, READ_MS, "read_uncommitted", &kafka->reader, error))
               ? -1
               : 0;
}

/* This ends a transaction of the writer's earlier process. */
static int make_writer(struct fleet_client *kafka, struct error *error) {
    char id[TRANSACTIONAL_SIZE];
    const char *const settings[][2] = {
        {"acks", "all"},
        {"enable.idempotence", "true"},
        {"linger.ms", "0"},
        {"allow.auto.create.topics", "false"},
        {"message.timeout.ms", "10000"},
        {"queue.buffering.max.kbytes", "8192"},
        {"reconnect.backoff.max.ms", "1000"},
        {"transactional.id", id},
    };
    const bool transacts = kafka->self->name != NULL;
    snprintf(id, sizeof id, "%s/%s", kafka->self->group, transacts ? kafka->self->name : "");
    rd_kafka_conf_t *conf = kafka_settings(
        settings, sizeof settings / sizeof *settings - !transacts, kafka->options, error);
    if (conf)
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    return kafka_make(kafka, RD_KAFKA_PRODUCER, conf, &kafka->writer, error);
}

/* After this, the open transaction has either been written or will never be read. */
static void drop_writer(struct fleet_client *kafka) {
    kafka->number++;
    kafka->writes = false;
    if (!kafka->writer)
        return;
    rd_kafka_purge(kafka->writer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    kafka_end(&kafka->writer);
}

void kafka_disconnect(struct fleet_client *kafka) {
    kafka_abort(kafka);
    drop_writer(kafka);
    kafka_end(&kafka->reader);
    kafka_end(&kafka->follower);
    free(kafka->spans);
    kafka->spans = NULL;
}

/* ---- Writing ---- */

/* Handles a failed transaction: it ends, and so does the writer if it cannot begin another. */
static int has_failed(struct fleet_client *kafka, rd_kafka_error_t *failed, struct error *error) {
    rd_kafka_resp_err_t code = rd_kafka_error_code(failed);
    rd_kafka_error_destroy(failed);
    kafka->writes = true;
    kafka_abort(kafka);
    return outcome(kafka, code, error);
}

void kafka_abort(struct fleet_client *kafka) {
    if (!kafka->writes)
        return;
    rd_kafka_error_t *failed =
        kafka->self->name ? rd_kafka_abort_transaction(kafka->writer, ASK_MS) : NULL;
    kafka->number++;
    kafka->writes = false;
    if (failed)
        drop_writer(kafka);
    rd_kafka_error_destroy(failed);
}

int kafka_begin(struct fleet_client *kafka, struct error *error) {
    if (kafka->writes)
        return 0;
    const bool is_new = !kafka->writer;
    if (is_new && make_writer(kafka, error))
        return -1;
    rd_kafka_error_t *failed = NULL;
    if (kafka->self->name && is_new)
        failed = rd_kafka_init_transactions(kafka->writer, ANSWER_MS);
    if (kafka->self->name && !failed)
        failed = rd_kafka_begin_transaction(kafka->writer);
    if (failed) {
        rd_kafka_resp_err_t code = rd_kafka_error_code(failed);
        rd_kafka_error_destroy(failed);
        drop_writer(kafka);
        return outcome(kafka, code, error);
    }
    kafka->number++;
    kafka->writes = true;
    kafka->waits = kafka->span_count = 0;
    kafka->code = RD_KAFKA_RESP_ERR_NO_ERROR;
    return 0;
}

size_t kafka_span_new(struct fleet_client *kafka, uint64_t tag) {
    struct kafka_span *larger =
        realloc(kafka->spans, (kafka->span_count + 1) * sizeof *kafka->spans);
    if (!larger)
        return SIZE_MAX;
    kafka->spans = larger;
    larger[kafka->span_count] = (struct kafka_span){-1, -1, tag ? tag : ++kafka->tag};
    return kafka->span_count++;
}

int kafka_write(struct fleet_client *kafka, const char *topic, int32_t partition, const void *key,
                size_t key_size, const void *bytes, size_t size, size_t span, struct error *error) {
    const double end = clock_seconds() + KAFKA_ANSWER;
    const uint64_t of = kafka->number << SPAN_BITS | (span == SIZE_MAX ? 0 : span + 1);
    const void *tag = span == SIZE_MAX ? NULL : &kafka->spans[span].tag;
    rd_kafka_resp_err_t code;
    kafka->aim = (struct kafka_aim){"Write", topic, kafka->self->group};
    while ((code = rd_kafka_producev(
                kafka->writer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
                RD_KAFKA_V_KEY(key, key_size), RD_KAFKA_V_VALUE((void *)(uintptr_t)bytes, size),
                RD_KAFKA_V_HEADER(TAG, tag, tag ? sizeof kafka->tag : 0),
                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE((void *)(uintptr_t)of),
                RD_KAFKA_V_END)) == RD_KAFKA_RESP_ERR__QUEUE_FULL &&
           clock_seconds() < end)
        rd_kafka_poll(kafka->writer, KAFKA_POLL_MS);
    if (!code) {
        kafka->waits++;
        return 0;
    }
    kafka_abort(kafka);
    return kafka_fail(kafka, code, error);
}

int kafka_wait(struct fleet_client *kafka, struct error *error) {
    double end = clock_seconds() + KAFKA_ANSWER;
    while (kafka->waits && !kafka->code && clock_seconds() < end && !*kafka->fatal.text) {
        const size_t waits = kafka->waits;
        rd_kafka_poll(kafka->writer, KAFKA_POLL_MS);
        if (kafka->waits < waits)
            end = clock_seconds() + KAFKA_ANSWER;
    }
    if (!kafka->waits && !kafka->code)
        return 0;
    rd_kafka_resp_err_t code = kafka->code ? kafka->code : RD_KAFKA_RESP_ERR__TIMED_OUT;
    kafka_abort(kafka);
    return outcome(kafka, code, error);
}

/* Whether the group coordinator rejects this member or its generation. */
static bool is_fenced(rd_kafka_resp_err_t code) {
    return code == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION ||
           code == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
           code == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID;
}

/* All messages are written before the group is asked. So a new owner of the partition finds them,
   or the group rejects this commit. */
int kafka_commit(struct fleet_client *kafka, const rd_kafka_consumer_group_metadata_t *group,
                 const rd_kafka_topic_partition_list_t *offsets, bool *fenced,
                 struct error *error) {
    rd_kafka_error_t *failed = NULL;
    if (fenced)
        *fenced = false;
    if (kafka_wait(kafka, error))
        return -1;
    if (kafka->self->name && group && offsets->cnt)
        failed = rd_kafka_send_offsets_to_transaction(kafka->writer, offsets, group, ANSWER_MS);
    if (fenced && failed)
        *fenced = is_fenced(rd_kafka_error_code(failed));
    if (kafka->self->name && !failed)
        failed = rd_kafka_commit_transaction(kafka->writer, ANSWER_MS);
    if (failed)
        return has_failed(kafka, failed, error);
    kafka->writes = false;
    return 0;
}

/* ---- Offsets ---- */

int kafka_offsets(struct fleet_client *kafka, const char *topic, int32_t partition, int64_t *low,
                  int64_t *high, struct error *error) {
    kafka->aim = (struct kafka_aim){"Read", topic, kafka->self->group};
    rd_kafka_resp_err_t code =
        kafka_ask_offsets(kafka->reader, topic, partition, low, high, ASK_MS);
    return outcome(kafka, code, error);
}

int kafka_committed(struct fleet_client *kafka, const char *topic, int64_t *offsets, int count,
                    struct error *error) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(count + 1);
    rd_kafka_topic_partition_list_add_range(list, topic, 0, count - 1);
    kafka->aim = (struct kafka_aim){"Read", topic, kafka->self->group};
    rd_kafka_resp_err_t code = rd_kafka_committed(kafka->reader, list, ASK_MS);
    for (int n = 0; n < list->cnt && !code; n++) {
        offsets[list->elems[n].partition] = list->elems[n].offset;
        code = list->elems[n].err;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return outcome(kafka, code, error);
}

/* ---- Topics: checked and created ---- */

int kafka_name_topics(struct fleet_client *kafka, struct error *error) {
    const char *group = kafka->self->group;
    static const char LETTERS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t size = strlen(group);
    if (size == 0 || size > GROUP_MAX || strspn(group, LETTERS) != size)
        return error_set(error, EX_CONFIG,
                         "the fleet %s needs topics %s.claims, %s.streams and %s.rounds, but these "
                         "names are invalid: the group (examples.kafka.group) may have at most %d "
                         "letters, digits, '.', '_' and '-'",
                         group, group, group, group, GROUP_MAX);
    snprintf(kafka->claims, sizeof kafka->claims, "%s" CLAIMS_TOPIC, group);
    snprintf(kafka->streams, sizeof kafka->streams, "%s.streams", group);
    snprintf(kafka->rounds, sizeof kafka->rounds, "%s.rounds", group);
    return 0;
}

struct topic {
    const char *name;
    int partitions, replicas; /* replicas -1: the cluster's default */
    const char *configs[CONFIGS_MAX][2];
};

/* Finds a topic's number of partitions and replicas; 0: the topic does not exist. */
static int ask_topic(struct fleet_client *kafka, const char *name, int *count, int *replicas,
                     struct error *error) {
    const struct rd_kafka_metadata *about;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(kafka->reader, name, NULL);
    kafka->aim = (struct kafka_aim){"Read", name, kafka->self->group};
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->reader, 0, topic, &about, ASK_MS);
    rd_kafka_topic_destroy(topic);
    if (code)
        return outcome(kafka, code, error);
    *count = about->topic_cnt ? about->topics[0].partition_cnt : 0;
    *replicas = *count ? about->topics[0].partitions[0].replica_cnt : 0;
    code = about->topic_cnt ? about->topics[0].err : 0;
    rd_kafka_metadata_destroy(about);
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
        *count = 0;
    else if (code)
        return kafka_fail(kafka, code, error);
    return 0;
}

int kafka_count(struct fleet_client *kafka, const char *name, int *count, struct error *error) {
    int replicas;
    return ask_topic(kafka, name, count, &replicas, error);
}

static int ask_topics(struct fleet_client *kafka, const struct rd_kafka_metadata **about,
                      struct error *error) {
    kafka->aim = (struct kafka_aim){"Describe", "*", kafka->self->group};
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->reader, 1, NULL, about, ASK_MS);
    return outcome(kafka, code, error);
}

int kafka_groups(struct fleet_client *kafka, struct fleet_groups *groups, struct error *error) {
    const struct rd_kafka_metadata *about;
    if (ask_topics(kafka, &about, error))
        return -1;
    for (int n = 0; n < about->topic_cnt; n++)
        fleet_groups_add(groups, about->topics[n].topic, strlen(about->topics[n].topic), "",
                         CLAIMS_TOPIC);
    rd_kafka_metadata_destroy(about);
    return 0;
}

int kafka_has_topic(struct fleet_client *kafka, const char *topic, bool *is_there,
                    struct error *error) {
    const struct rd_kafka_metadata *about;
    if (ask_topics(kafka, &about, error))
        return -1;
    *is_there = false;
    for (int n = 0; n < about->topic_cnt; n++)
        *is_there |= strcmp(about->topics[n].topic, topic) == 0;
    rd_kafka_metadata_destroy(about);
    return 0;
}

static int cannot_make(const struct fleet_client *kafka, const struct topic *topic, const char *why,
                       struct error *error) {
    char configs[WHY_SIZE] = "";
    if (topic->replicas > 0)
        text_append(configs, sizeof configs, " --replication-factor %d", topic->replicas);
    for (size_t n = 0; n < CONFIGS_MAX && topic->configs[n][0]; n++)
        text_append(configs, sizeof configs, " --config %s=%s", topic->configs[n][0],
                    topic->configs[n][1]);
    return error_set(
        error, EX_UNAVAILABLE,
        "%s: topic %s of the fleet not found, and cannot be created: %s; create it with: "
        "kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions %d%s",
        kafka->options->servers, topic->name, why, kafka->options->servers, topic->name,
        topic->partitions, configs);
}

static int check_creation(struct fleet_client *kafka, const struct topic *topic,
                          rd_kafka_event_t *event, struct error *error) {
    size_t count = 0;
    const rd_kafka_CreateTopics_result_t *result =
        event ? rd_kafka_event_CreateTopics_result(event) : NULL;
    const rd_kafka_topic_result_t **topics =
        result ? rd_kafka_CreateTopics_result_topics(result, &count) : NULL;
    rd_kafka_resp_err_t code = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    const char *why = code ? rd_kafka_err2str(code) : "";
    if (!code && count) {
        code = rd_kafka_topic_result_error(topics[0]);
        why = rd_kafka_topic_result_error_string(topics[0]);
    }
    if (!code || code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        return 0;
    if (kafka_passes(code))
        return kafka_fail(kafka, code, error);
    return cannot_make(kafka, topic, why ? why : rd_kafka_err2str(code), error);
}

static int create(struct fleet_client *kafka, const struct topic *topic, struct error *error) {
    char why[WHY_SIZE];
    rd_kafka_NewTopic_t *fresh =
        rd_kafka_NewTopic_new(topic->name, topic->partitions, topic->replicas, why, sizeof why);
    if (!fresh)
        return cannot_make(kafka, topic, why, error);
    for (size_t n = 0; n < CONFIGS_MAX && topic->configs[n][0]; n++)
        rd_kafka_NewTopic_set_config(fresh, topic->configs[n][0], topic->configs[n][1]);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(kafka->reader, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka->reader);
    rd_kafka_AdminOptions_set_request_timeout(options, CREATE_MS / 2, why, sizeof why);
    rd_kafka_AdminOptions_set_operation_timeout(options, CREATE_MS / 2, why, sizeof why);
    rd_kafka_CreateTopics(kafka->reader, &fresh, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, CREATE_MS);
    int result = check_creation(kafka, topic, event, error);
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy(fresh);
    return result;
}

/* Chooses the replicas of the learned topic or the cluster's default, whichever is more. One
   replica is often an unchosen default, and with a cluster-wide min.insync.replicas no write would
   succeed. */
static int make_as_safe(struct fleet_client *kafka, struct topic *topic, struct error *error) {
    int count, replicas;
    size_t n = 0;
    if (ask_topic(kafka, kafka->self->stream, &count, &replicas, error))
        return -1;
    topic->replicas = replicas > 1 ? replicas : -1;
    while (topic->configs[n][0])
        n++;
    if (replicas >= REPLICAS_SAFE) {
        topic->configs[n][0] = "min.insync.replicas";
        topic->configs[n][1] = "2";
    }
    return create(kafka, topic, error);
}

/* Another daemon may create it at the same moment. */
static int have_topic(struct fleet_client *kafka, struct topic *topic, struct error *error) {
    double end = clock_seconds() + KAFKA_ANSWER;
    int count;
    if (kafka_count(kafka, topic->name, &count, error))
        return -1;
    if (count == 0 && make_as_safe(kafka, topic, error))
        return -1;
    while (count == 0 && clock_seconds() < end)
        if (rd_kafka_poll(kafka->reader, KAFKA_POLL_MS) < 0 ||
            kafka_count(kafka, topic->name, &count, error))
            return -1;
    if (count == 0)
        return kafka_fail(kafka, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    if (count == topic->partitions)
        return 0;
    return error_set(
        error, EX_CONFIG,
        "%s: topic %s has %d partition%s, but this fleet needs %d: use one group per fleet, or "
        "stop all daemons of the fleet and delete the topic with its contents",
        kafka->options->servers, topic->name, count, count == 1 ? "" : "s", topic->partitions);
}

static int have_topics(struct fleet_client *kafka, struct error *error) {
    struct topic topics[] = {
        {kafka->claims,
         1,
         -1,
         {{"cleanup.policy", "compact"},
          {"segment.ms", "600000"},
          {"min.cleanable.dirty.ratio", "0.1"},
          {"message.timestamp.type", "LogAppendTime"}}},
        {kafka->streams, (int)kafka->self->partitions, -1, {{"cleanup.policy", "compact"}}},
        {kafka->rounds, 1, -1, {{"cleanup.policy", "delete"}, {"retention.ms", ROUNDS_KEPT}}},
    };
    for (size_t n = 0; n < sizeof topics / sizeof *topics; n++)
        if (have_topic(kafka, &topics[n], error))
            return -1;
    return 0;
}

/* ---- Connecting ---- */

int kafka_connect(struct fleet_client *kafka, bool make, struct error *error) {
    int count = 1;
    if (make_readers(kafka, error))
        return -1;
    if (kafka_listen(kafka, error))
        return -1;
    if (kafka->topics_known)
        return 0;
    if (make ? have_topics(kafka, error) : kafka_count(kafka, kafka->claims, &count, error))
        return -1;
    kafka->topics_known = count > 0;
    return count == 0;
}

/* ---- Reading ---- */

static int are_gone(const struct fleet_client *kafka, const char *topic, int32_t partition,
                    struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: topic %s, partition %" PRId32
                     " has lost messages of the fleet %s: they were deleted, or the topic was "
                     "created again; use another examples.kafka.group",
                     kafka->options->servers, topic, partition, kafka->self->group);
}

typedef int take_message(void *context, const rd_kafka_message_t *message, struct error *error);

static bool is_of(const rd_kafka_message_t *m, const struct kafka_span *spans, size_t count) {
    rd_kafka_headers_t *headers;
    const void *tag;
    size_t size;
    if (rd_kafka_message_headers(m, &headers) ||
        rd_kafka_header_get_last(headers, TAG, &tag, &size) || size != sizeof spans->tag)
        return false;
    for (size_t n = 0; n < count; n++)
        if (memcmp(tag, &spans[n].tag, size) == 0)
            return m->offset >= spans[n].first && m->offset <= spans[n].last;
    return false;
}

/* Messages outside the spans are from daemons that were killed or had lost the partition. */
static int collect(struct fleet_client *kafka, rd_kafka_topic_t *topic, int32_t partition,
                   const struct kafka_span *spans, size_t count, take_message *take, void *context,
                   struct error *error) {
    const int64_t last = spans[count - 1].last;
    double deadline = clock_seconds() + KAFKA_ANSWER;
    int result = 0;
    for (int64_t next = spans[0].first; next <= last && result == 0;) {
        rd_kafka_message_t *m = rd_kafka_consume(topic, partition, KAFKA_POLL_MS);
        if (m && m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            next = m->offset;
        } else if (m && !m->err && m->offset >= next) {
            next = m->offset + 1;
            deadline = clock_seconds() + KAFKA_ANSWER;
            if (is_of(m, spans, count))
                result = take(context, m, error);
        } else if (m && kafka_refuses(m->err)) {
            result = kafka_fail(kafka, m->err, error);
        }
        if (m)
            rd_kafka_message_destroy(m);
        if (result == 0)
            result = kafka_listen(kafka, error);
        if (result == 0 && next <= last && clock_seconds() > deadline)
            result = kafka_fail(kafka, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    }
    return result;
}

/* (count,) spans in the order of their offsets. */
static int read_spans(struct fleet_client *kafka, const char *name, int32_t partition,
                      const struct kafka_span *spans, size_t count, take_message *take,
                      void *context, struct error *error) {
    int64_t low, high;
    if (count == 0)
        return 0;
    if (kafka_offsets(kafka, name, partition, &low, &high, error))
        return -1;
    if (low > spans[0].first || high <= spans[count - 1].last)
        return are_gone(kafka, name, partition, error);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(kafka->reader, name, NULL);
    if (!topic || rd_kafka_consume_start(topic, partition, spans[0].first)) {
        rd_kafka_resp_err_t code = rd_kafka_last_error();
        if (topic)
            rd_kafka_topic_destroy(topic);
        return kafka_fail(kafka, code, error);
    }
    int result = collect(kafka, topic, partition, spans, count, take, context, error);
    rd_kafka_consume_stop(topic, partition);
    rd_kafka_topic_destroy(topic);
    return result;
}

/* ---- States of streams, and bytes ---- */

/* A state is one message or several: the key is u32 piece and the stream's key; the first value
   begins with u32 size. A message without a value deletes the stream. */
int kafka_write_row(struct fleet_client *kafka, int32_t partition, size_t span,
                    const struct fleet_row *row, struct error *error) {
    uint32_t piece = 0, total = (uint32_t)row->state_size;
    const size_t most = row->state_size < PIECE ? row->state_size : PIECE;
    unsigned char key[sizeof piece + FLEET_KEY_MAX], *value = malloc(most + sizeof total);
    size_t at = 0;
    int result = value ? 0 : error_no_memory(error);
    if (row->key_size > FLEET_KEY_MAX)
        result = error_set(error, EX_UNAVAILABLE, "stream key is too long for Kafka");
    while (result == 0 && (at < row->state_size || piece == 0)) {
        size_t head = piece || !total ? 0 : sizeof total, size = row->state_size - at;
        size = size < PIECE ? size : PIECE;
        memcpy(key, &piece, sizeof piece);
        memcpy(key + sizeof piece, row->key, row->key_size);
        memcpy(value, &total, head);
        if (size)
            memcpy(value + head, (const char *)row->state + at, size);
        result = kafka_write(kafka, kafka->streams, partition, key, sizeof piece + row->key_size,
                             total ? value : NULL, head + size, span, error);
        at += size;
        piece++;
    }
    free(value);
    return result;
}

/* A state while it is read: its key and the bytes so far. */
struct row {
    unsigned char *bytes; /* (key_size + filled,) */
    size_t key_size, size, filled, number;
};

struct rows {
    struct row *list;
    size_t count, room;
};

static int new_row(struct rows *rows, const unsigned char *key, size_t key_size, size_t size,
                   struct error *error) {
    if (!array_reserve(&rows->list, &rows->room, rows->count + 1, sizeof *rows->list))
        return error_no_memory(error);
    struct row *row = &rows->list[rows->count];
    *row = (struct row){malloc(key_size + 1), key_size, size, 0, rows->count};
    if (!row->bytes)
        return error_no_memory(error);
    memcpy(row->bytes, key, key_size);
    rows->count++;
    return 0;
}

static int add_bytes(struct row *row, const void *bytes, size_t size, struct error *error) {
    unsigned char *larger = realloc(row->bytes, row->key_size + row->filled + size + 1);
    if (!larger)
        return error_no_memory(error);
    row->bytes = larger;
    memcpy(larger + row->key_size + row->filled, bytes, size);
    row->filled += size;
    return 0;
}

/* Pieces are in order. A state that was overwritten is left out. */
static int read_row(void *context, const rd_kafka_message_t *m, struct error *error) {
    struct rows *rows = context;
    const unsigned char *key = m->key, *bytes = m->payload;
    uint32_t piece, total = 0;
    if (m->key_len < sizeof piece)
        return 0;
    memcpy(&piece, key, sizeof piece);
    key += sizeof piece;
    const size_t key_size = m->key_len - sizeof piece;
    struct row *last = rows->count ? &rows->list[rows->count - 1] : NULL;
    if (piece > 0)
        return bytes && last && last->key_size == key_size &&
                       memcmp(last->bytes, key, key_size) == 0 &&
                       last->filled == (size_t)piece * PIECE && last->size - last->filled >= m->len
                   ? add_bytes(last, bytes, m->len, error)
                   : 0;
    if (bytes && m->len < sizeof total)
        return 0;
    if (bytes)
        memcpy(&total, bytes, sizeof total);
    if (new_row(rows, key, key_size, total, error))
        return -1;
    return bytes && m->len - sizeof total <= total
               ? add_bytes(&rows->list[rows->count - 1], bytes + sizeof total,
                           m->len - sizeof total, error)
               : 0;
}

/* Sorts by key; for the same key, the newest first. */
static int by_key(const void *a, const void *b) {
    const struct row *one = a, *other = b;
    size_t size = one->key_size < other->key_size ? one->key_size : other->key_size;
    int order = memcmp(one->bytes, other->bytes, size);
    if (order == 0 && one->key_size != other->key_size)
        order = one->key_size < other->key_size ? -1 : 1;
    return order ? order : one->number > other->number ? -1 : one->number < other->number;
}

static bool same_key(const struct row *one, const struct row *other) {
    return one->key_size == other->key_size && memcmp(one->bytes, other->bytes, one->key_size) == 0;
}

static int visit_rows(struct rows *rows, uint64_t *visited, fleet_visit *visit, void *context,
                      struct error *error) {
    int result = 0;
    if (rows->count)
        qsort(rows->list, rows->count, sizeof *rows->list, by_key);
    for (size_t n = 0; n < rows->count && result == 0; n++) {
        const struct row *row = &rows->list[n];
        if ((n && same_key(row, row - 1)) || row->size == 0 || row->filled != row->size)
            continue;
        const struct fleet_row found = {row->bytes, row->bytes + row->key_size, row->key_size,
                                        row->size};
        ++*visited;
        result = visit(context, &found, error);
    }
    return result;
}

int kafka_read_rows(struct fleet_client *kafka, int32_t partition, const struct kafka_span *spans,
                    size_t count, uint64_t streams, fleet_visit *visit, void *context,
                    struct error *error) {
    struct rows rows = {0};
    uint64_t visited = 0;
    int result = read_spans(kafka, kafka->streams, partition, spans, count, read_row, &rows, error);
    if (result == 0)
        result = visit_rows(&rows, &visited, visit, context, error);
    if (result == 0 && visited != streams)
        result = are_gone(kafka, kafka->streams, partition, error);
    for (size_t n = 0; n < rows.count; n++)
        free(rows.list[n].bytes);
    free(rows.list);
    return result;
}

int kafka_write_bytes(struct fleet_client *kafka, const void *bytes, size_t size, size_t span,
                      struct error *error) {
    for (size_t at = 0; at < size; at += PIECE)
        if (kafka_write(kafka, kafka->rounds, 0, NULL, 0, (const char *)bytes + at,
                        size - at < PIECE ? size - at : PIECE, span, error))
            return -1;
    return 0;
}

static int read_bytes(void *context, const rd_kafka_message_t *m, struct error *error) {
    return add_bytes(context, m->payload, m->len, error);
}

int kafka_read_bytes(struct fleet_client *kafka, const struct kafka_span *span, void **bytes,
                     size_t *size, struct error *error) {
    struct row all = {0};
    int result = read_spans(kafka, kafka->rounds, 0, span, 1, read_bytes, &all, error);
    *bytes = result ? NULL : all.bytes;
    *size = all.filled;
    if (result)
        free(all.bytes);
    return result;
}
