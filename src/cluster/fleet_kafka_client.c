/* Clients of Kafka, the fleet's topics, and bytes there: cut into messages, which a tag keeps apart
   from what others write to the same partition. */
#include "fleet_kafka_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/log.h"
#include "fleet_machine.h"

/* librdkafka 2.0 loses a queue of the client, once, when a server knows no DeleteRecords: the check
   for leaks leaves out what a reader is made of. */
#ifdef __SANITIZE_ADDRESS__
#    include <sanitizer/lsan_interface.h>
static void look_for_leaks(bool look) {
    look ? __lsan_enable() : __lsan_disable();
}
#else
static void look_for_leaks(bool look) {
    (void)look;
}
#endif

#define FOLLOW_MS "500"           /* a server waits so long for the next message, */
#define READ_MS "10"              /* of states and parameters, which are there */
#define PARAMETERS_KEPT "3600000" /* ms: a round is shorter */

enum {
    ASK_MS = 2000, /* for one answer, where that is tried again */
    WHY_SIZE = 512,
    CONFIGS_MAX = 4,
    CREATE_MS = 10000,
    REPLICAS_SAFE = 3, /* of so many one may be lost, and two have what is acknowledged */
    MESSAGE_BYTES = 256 * 1024,
    TAG_SIZE = 2 * sizeof(uint64_t) + 1,
};

/* ---- What goes wrong ---- */

bool kafka_is_unknown(rd_kafka_resp_err_t code) {
    return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

int kafka_fail(struct fleet_client *kafka, rd_kafka_resp_err_t code, struct error *error) {
    if (kafka_is_unknown(code)) /* it was deleted, and is made again the next time */
        kafka->topics_known = false;
    if (kafka_refuses(code))
        return kafka_say_refused(error, kafka->options, code, &kafka->aim, rd_kafka_err2str(code));
    return code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__TIMED_OUT ||
                   code == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT ||
                   code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN
               ? kafka_say_away(error, kafka->options, kafka->why)
               : error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
}

/* From within rd_kafka_poll. */
static void on_error(rd_kafka_t *client, int code, const char *reason, void *context) {
    struct fleet_client *kafka = context;
    (void)client;
    if (kafka_refuses((rd_kafka_resp_err_t)code))
        kafka_say_refused(&kafka->fatal, kafka->options, (rd_kafka_resp_err_t)code, &kafka->aim,
                          reason);
    else
        kafka_keep_why(kafka->why, (rd_kafka_resp_err_t)code, reason);
}

/* What nobody waits for: only deleting is that. */
static void hear_answers(struct fleet_client *kafka) {
    rd_kafka_event_t *event;
    while (kafka->answers && (event = rd_kafka_queue_poll(kafka->answers, 0))) {
        const rd_kafka_DeleteRecords_result_t *result = rd_kafka_event_DeleteRecords_result(event);
        rd_kafka_resp_err_t code = rd_kafka_event_error(event);
        const rd_kafka_topic_partition_list_t *list =
            result && !code ? rd_kafka_DeleteRecords_result_offsets(result) : NULL;
        for (int n = 0; list && n < list->cnt && !code; n++)
            code = list->elems[n].err;
        if (kafka_passes(code)) /* what is deleted next includes it */
            code = RD_KAFKA_RESP_ERR_NO_ERROR;
        if (code && !kafka->deleting_fails)
            log_warning("%s: what nobody needs any more of %s, %s and %s cannot be deleted there, "
                        "and stays: %s",
                        kafka->options->servers, kafka->log, kafka->states, kafka->parameters,
                        rd_kafka_err2str(code));
        kafka->deleting_fails |= code != 0;
        rd_kafka_event_destroy(event);
    }
}

int kafka_listen(struct fleet_client *kafka, struct error *error) {
    rd_kafka_t *const clients[] = {kafka->follower, kafka->reader, kafka->writer};
    for (size_t n = 0; n < sizeof clients / sizeof *clients; n++)
        if (clients[n])
            rd_kafka_poll(clients[n], 0);
    hear_answers(kafka);
    if (!*kafka->fatal.text)
        return 0;
    *error = kafka->fatal;
    kafka->fatal = (struct error){0};
    return -1;
}

/* ---- Clients ---- */

/* From within rd_kafka_poll. */
static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *m, void *context) {
    struct fleet_client *kafka = context;
    struct kafka_batch *batch = &kafka->batch;
    (void)client;
    if ((uint64_t)(uintptr_t)m->_private != batch->number)
        return;
    batch->waits--;
    if (m->err || m->offset < 0) { /* or it had been written before, it is not known where */
        batch->code = m->err ? m->err : RD_KAFKA_RESP_ERR__FAIL;
        return;
    }
    if (batch->first < 0 || m->offset < batch->first)
        batch->first = m->offset;
    if (m->offset > batch->last)
        batch->last = m->offset;
}

static int make_client(struct fleet_client *kafka, rd_kafka_type_t type,
                       const char *const (*settings)[2], size_t count, rd_kafka_t **client,
                       struct error *error) {
    rd_kafka_conf_t *conf = kafka_settings(settings, count, kafka->options, error);
    if (conf) {
        if (type == RD_KAFKA_PRODUCER)
            rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_conf_set_error_cb(conf, on_error);
        rd_kafka_conf_set_opaque(conf, kafka);
        if (kafka_client(client, type, conf, error) == 0)
            return 0;
    }
    error->status = EX_CONFIG;
    return -1;
}

static int make_consumer(struct fleet_client *kafka, const char *wait, rd_kafka_t **client,
                         struct error *error) {
    const char *const settings[][2] = {
        {"group.id", kafka->self->group},      {"enable.auto.commit", "false"},
        {"auto.offset.reset", "error"},        {"enable.partition.eof", "false"},
        {"allow.auto.create.topics", "false"}, {"reconnect.backoff.max.ms", "1000"},
        {"fetch.wait.max.ms", wait},
    };
    look_for_leaks(false);
    int result = make_client(kafka, RD_KAFKA_CONSUMER, settings, sizeof settings / sizeof *settings,
                             client, error);
    look_for_leaks(true);
    return result;
}

/* A server answers a client's questions in their order, and the one for the log's next messages
   when there are some, or that time has passed: others have a client of their own. */
static int make_readers(struct fleet_client *kafka, struct error *error) {
    if ((!kafka->follower && make_consumer(kafka, FOLLOW_MS, &kafka->follower, error)) ||
        (!kafka->reader && make_consumer(kafka, READ_MS, &kafka->reader, error)))
        return -1;
    if (!kafka->answers)
        kafka->answers = rd_kafka_queue_new(kafka->reader);
    return 0;
}

/* Ask at once who has the topics, once: the first message to each would wait for a second. */
static void warm_up(struct fleet_client *kafka) {
    const char *const topics[] = {kafka->log, kafka->states, kafka->parameters};
    bool asks = kafka->self->name && !kafka->warmed_up;
    kafka->warmed_up = true;
    for (size_t n = 0; n < KAFKA_TOPICS; n++) {
        const struct rd_kafka_metadata *about;
        kafka->topics[n] = rd_kafka_topic_new(kafka->writer, topics[n], NULL);
        asks = asks && kafka->topics[n] &&
               !rd_kafka_metadata(kafka->writer, 0, kafka->topics[n], &about, ASK_MS);
        if (asks)
            rd_kafka_metadata_destroy(about);
    }
}

static int make_writer(struct fleet_client *kafka, struct error *error) {
    static const char *const SETTINGS[][2] = {
        {"acks", "all"},
        {"enable.idempotence", "true"},
        {"linger.ms", "0"},
        {"allow.auto.create.topics", "false"},
        {"message.timeout.ms", "5000"},
        {"reconnect.backoff.max.ms", "1000"},
    };
    if (make_client(kafka, RD_KAFKA_PRODUCER, SETTINGS, sizeof SETTINGS / sizeof *SETTINGS,
                    &kafka->writer, error))
        return -1;
    warm_up(kafka);
    return 0;
}

/* What it had under way is known to have been written, or never to be looked at. */
static void drop_writer(struct fleet_client *kafka) {
    if (!kafka->writer)
        return;
    kafka->batch.number++;
    for (size_t n = 0; n < KAFKA_TOPICS; n++)
        if (kafka->topics[n])
            rd_kafka_topic_destroy(kafka->topics[n]);
    memset(kafka->topics, 0, sizeof kafka->topics);
    rd_kafka_purge(kafka->writer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    kafka_end(&kafka->writer);
}

void kafka_disconnect(struct fleet_client *kafka) {
    drop_writer(kafka);
    if (kafka->answers)
        rd_kafka_queue_destroy(kafka->answers);
    kafka->answers = NULL;
    kafka_end(&kafka->reader);
    kafka_end(&kafka->follower);
}

/* ---- Writing ---- */

int kafka_begin(struct fleet_client *kafka, struct error *error) {
    if (!kafka->writer && make_writer(kafka, error))
        return -1;
    kafka->batch = (struct kafka_batch){.number = kafka->batch.number + 1, .first = -1, .last = -1};
    return 0;
}

int kafka_write(struct fleet_client *kafka, const char *topic, int32_t partition, const char *key,
                const void *bytes, size_t size, struct error *error) {
    double end = clock_seconds() + KAFKA_ANSWER;
    rd_kafka_resp_err_t code;
    kafka->aim = (struct kafka_aim){"Write", topic, kafka->self->group};
    while ((code = rd_kafka_producev(kafka->writer, RD_KAFKA_V_TOPIC(topic),
                                     RD_KAFKA_V_PARTITION(partition),
                                     RD_KAFKA_V_KEY(key, key ? strlen(key) : 0),
                                     RD_KAFKA_V_VALUE((void *)(uintptr_t)bytes, size),
                                     RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                     RD_KAFKA_V_OPAQUE((void *)(uintptr_t)kafka->batch.number),
                                     RD_KAFKA_V_END)) == RD_KAFKA_RESP_ERR__QUEUE_FULL &&
           clock_seconds() < end)
        rd_kafka_poll(kafka->writer, KAFKA_POLL_MS);
    if (!code) {
        kafka->batch.waits++;
        return 0;
    }
    drop_writer(kafka);
    return kafka_fail(kafka, code, error);
}

int kafka_finish(struct fleet_client *kafka, struct error *error) {
    double end = clock_seconds() + KAFKA_ANSWER;
    while (kafka->batch.waits && !kafka->batch.code && clock_seconds() < end && !*kafka->fatal.text)
        rd_kafka_poll(kafka->writer, KAFKA_POLL_MS);
    if (!kafka->batch.waits && !kafka->batch.code)
        return 0;
    rd_kafka_resp_err_t code = kafka->batch.code ? kafka->batch.code : RD_KAFKA_RESP_ERR__TIMED_OUT;
    drop_writer(kafka);
    return kafka_listen(kafka, error) ? -1 : kafka_fail(kafka, code, error);
}

/* ---- Offsets ---- */

int kafka_offsets(struct fleet_client *kafka, const char *topic, int32_t partition, int64_t *low,
                  int64_t *high, struct error *error) {
    kafka->aim = (struct kafka_aim){"Read", topic, kafka->self->group};
    rd_kafka_resp_err_t code =
        kafka_ask_offsets(kafka->reader, topic, partition, low, high, ASK_MS);
    if (!code)
        return 0;
    return kafka_listen(kafka, error) ? -1 : kafka_fail(kafka, code, error);
}

void kafka_delete_before(struct fleet_client *kafka, const char *topic, int32_t partition,
                         int64_t offset) {
    if (kafka->deleting_fails || !kafka->reader || offset <= 0)
        return;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition)->offset = offset;
    rd_kafka_DeleteRecords_t *records = rd_kafka_DeleteRecords_new(list);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_DeleteRecords(kafka->reader, &records, 1, NULL, kafka->answers);
    rd_kafka_DeleteRecords_destroy(records);
}

/* ---- Topics: that they are there, as they should be, or are made ---- */

struct topic {
    const char *name;
    int partitions, replicas; /* replicas -1: as the cluster makes its topics */
    const char *configs[CONFIGS_MAX][2];
};

/* How many partitions a topic has, and copies of the first; 0: it is not there. */
static int ask_topic(struct fleet_client *kafka, const char *name, int *count, int *replicas,
                     struct error *error) {
    const struct rd_kafka_metadata *about;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(kafka->reader, name, NULL);
    kafka->aim = (struct kafka_aim){"Read", name, kafka->self->group};
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->reader, 0, topic, &about, ASK_MS);
    rd_kafka_topic_destroy(topic);
    if (code)
        return kafka_listen(kafka, error) ? -1 : kafka_fail(kafka, code, error);
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

static int count_partitions(struct fleet_client *kafka, const char *name, int *count,
                            struct error *error) {
    int replicas;
    return ask_topic(kafka, name, count, &replicas, error);
}

int kafka_groups(struct fleet_client *kafka, struct fleet_groups *groups, struct error *error) {
    const struct rd_kafka_metadata *about;
    kafka->aim = (struct kafka_aim){"Describe", "*", kafka->self->group};
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->reader, 1, NULL, &about, ASK_MS);
    if (code)
        return kafka_listen(kafka, error) ? -1 : kafka_fail(kafka, code, error);
    for (int n = 0; n < about->topic_cnt; n++)
        fleet_groups_add(groups, about->topics[n].topic, strlen(about->topics[n].topic), "",
                         ".fleet");
    rd_kafka_metadata_destroy(about);
    return 0;
}

static int cannot_make(const struct fleet_client *kafka, const struct topic *topic, const char *why,
                       struct error *error) {
    char configs[WHY_SIZE] = "";
    size_t at = 0;
    if (topic->replicas > 0)
        at = (size_t)snprintf(configs, sizeof configs, " --replication-factor %d", topic->replicas);
    for (size_t n = 0; n < CONFIGS_MAX && topic->configs[n][0]; n++)
        at += (size_t)snprintf(configs + at, sizeof configs - at, " --config %s=%s",
                               topic->configs[n][0], topic->configs[n][1]);
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the topic %s of the fleet is not there, and cannot be made: %s; make it "
                     "with: kafka-topics.sh --bootstrap-server %s --create --topic %s "
                     "--partitions %d%s",
                     kafka->options->servers, topic->name, why, kafka->options->servers,
                     topic->name, topic->partitions, configs);
}

static int judge_creation(struct fleet_client *kafka, const struct topic *topic,
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
    int result = judge_creation(kafka, topic, event, error);
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy(fresh);
    return result;
}

/* As safe as the topic that the fleet learns, or as the cluster makes its topics: one copy is what
   nobody has chosen, and with a min.insync.replicas of the cluster's nothing could be written. */
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

/* Another daemon may make it at the same moment. */
static int have_topic(struct fleet_client *kafka, struct topic *topic, struct error *error) {
    double end = clock_seconds() + KAFKA_ANSWER;
    int count;
    if (count_partitions(kafka, topic->name, &count, error))
        return -1;
    if (count == 0 && make_as_safe(kafka, topic, error))
        return -1;
    while (count == 0 && clock_seconds() < end)
        if (rd_kafka_poll(kafka->reader, KAFKA_POLL_MS) < 0 ||
            count_partitions(kafka, topic->name, &count, error))
            return -1;
    if (count == 0)
        return kafka_fail(kafka, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    if (count == topic->partitions)
        return 0;
    return error_set(error, EX_CONFIG,
                     "%s: the topic %s has %d partition%s, and this fleet needs %d: two fleets "
                     "need two groups; or delete it while no daemon of the fleet runs, and all it "
                     "knows with it",
                     kafka->options->servers, topic->name, count, count == 1 ? "" : "s",
                     topic->partitions);
}

static int have_topics(struct fleet_client *kafka, struct error *error) {
    struct topic topics[] = {
        {kafka->log,
         1,
         -1,
         {{"cleanup.policy", "delete"},
          {"retention.ms", "-1"},
          {"message.timestamp.type", "LogAppendTime"}}},
        {kafka->states,
         (int)kafka->self->partitions,
         -1,
         {{"cleanup.policy", "delete"}, {"retention.ms", "-1"}}},
        {kafka->parameters,
         1,
         -1,
         {{"cleanup.policy", "delete"}, {"retention.ms", PARAMETERS_KEPT}}},
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
    if (make ? have_topics(kafka, error) : count_partitions(kafka, kafka->log, &count, error))
        return -1;
    kafka->topics_known = count > 0;
    return count == 0;
}

/* ---- Spans ---- */

static void print_tag(uint64_t tag, char text[TAG_SIZE]) {
    snprintf(text, TAG_SIZE, "%016" PRIx64, tag);
}

/* No two are the same, in the topics of one fleet. */
static void begin_span(struct fleet_client *kafka, struct fleet_span *span) {
    if (!span->tag)
        *span = (struct fleet_span){.first = -1, .last = -1, .tag = ++kafka->tag};
}

static int end_span(struct fleet_client *kafka, struct fleet_span *span, struct error *error) {
    if (kafka_finish(kafka, error))
        return -1;
    if (span->first < 0)
        span->first = kafka->batch.first;
    if (kafka->batch.last > span->last)
        span->last = kafka->batch.last;
    return 0;
}

/* ---- Writing ---- */

int kafka_write_bytes(struct fleet_client *kafka, const void *bytes, size_t size,
                      struct fleet_span *span, struct error *error) {
    char tag[TAG_SIZE];
    begin_span(kafka, span);
    print_tag(span->tag, tag);
    if (kafka_begin(kafka, error))
        return -1;
    for (size_t at = 0; at < size; at += MESSAGE_BYTES)
        if (kafka_write(kafka, kafka->parameters, 0, tag, (const char *)bytes + at,
                        size - at < MESSAGE_BYTES ? size - at : MESSAGE_BYTES, error))
            return -1;
    return end_span(kafka, span, error);
}

/* A message that is filled, and written when it is full. */
struct filling {
    struct fleet_client *kafka;
    int32_t partition;
    char tag[TAG_SIZE];
    unsigned char *bytes;
    size_t size;
};

static int flush(struct filling *filling, struct error *error) {
    size_t size = filling->size;
    filling->size = 0;
    return size ? kafka_write(filling->kafka, filling->kafka->states, filling->partition,
                              filling->tag, filling->bytes, size, error)
                : 0;
}

static int fill(struct filling *filling, const void *bytes, size_t size, struct error *error) {
    while (size > 0) {
        size_t room = MESSAGE_BYTES - filling->size, now = size < room ? size : room;
        memcpy(filling->bytes + filling->size, bytes, now);
        filling->size += now;
        bytes = (const char *)bytes + now;
        size -= now;
        if (filling->size == MESSAGE_BYTES && flush(filling, error))
            return -1;
    }
    return 0;
}

int kafka_write_rows(struct fleet_client *kafka, int32_t partition, const struct fleet_row *rows,
                     size_t count, struct fleet_span *span, struct error *error) {
    struct filling filling = {
        .kafka = kafka, .partition = partition, .bytes = malloc(MESSAGE_BYTES)};
    int result = filling.bytes ? kafka_begin(kafka, error) : error_no_memory(error);
    begin_span(kafka, span);
    print_tag(span->tag, filling.tag);
    for (size_t n = 0; n < count && result == 0; n++) {
        const uint32_t head[FLEET_ROW_HEAD] = {(uint32_t)rows[n].key_size,
                                               (uint32_t)rows[n].state_size};
        result = fill(&filling, head, sizeof head, error) ||
                         fill(&filling, rows[n].key, rows[n].key_size, error) ||
                         fill(&filling, rows[n].state, rows[n].state_size, error)
                     ? -1
                     : 0;
    }
    result = result || flush(&filling, error) ? -1 : end_span(kafka, span, error);
    free(filling.bytes);
    return result;
}

/* ---- Reading ---- */

struct found {
    unsigned char *bytes;
    size_t size, room;
};

static int keep(struct found *found, const rd_kafka_message_t *m, struct error *error) {
    if (found->room - found->size < m->len) {
        size_t room = 2 * found->room + m->len;
        unsigned char *larger = realloc(found->bytes, room);
        if (!larger)
            return error_no_memory(error);
        found->bytes = larger;
        found->room = room;
    }
    if (m->len)
        memcpy(found->bytes + found->size, m->payload, m->len);
    found->size += m->len;
    return 0;
}

static int are_gone(const struct fleet_client *kafka, const char *topic, int32_t partition,
                    struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the topic %s has no more, in partition %" PRId32 ", all that the fleet "
                     "%s wrote there: it was deleted, as with another retention.ms than -1, or the "
                     "topic was made again; use another examples.kafka.group",
                     kafka->options->servers, topic, partition, kafka->self->group);
}

/* Messages of the span; others are of daemons that were killed, or lost the partition. */
static int collect(struct fleet_client *kafka, rd_kafka_topic_t *topic, int32_t partition,
                   const struct fleet_span *span, struct found *found, struct error *error) {
    double deadline = clock_seconds() + KAFKA_ANSWER;
    char tag[TAG_SIZE];
    int result = 0;
    print_tag(span->tag, tag);
    for (int64_t next = span->first; next <= span->last && result == 0;) {
        rd_kafka_message_t *m = rd_kafka_consume(topic, partition, KAFKA_POLL_MS);
        if (m && !m->err && m->offset >= next) {
            next = m->offset + 1;
            deadline = clock_seconds() + KAFKA_ANSWER;
            if (m->offset <= span->last && m->key_len == TAG_SIZE - 1 &&
                memcmp(m->key, tag, TAG_SIZE - 1) == 0)
                result = keep(found, m, error);
        } else if (m && kafka_refuses(m->err)) {
            result = kafka_fail(kafka, m->err, error);
        }
        if (m)
            rd_kafka_message_destroy(m);
        if (result == 0)
            result = kafka_listen(kafka, error);
        if (result == 0 && next <= span->last && clock_seconds() > deadline)
            result = kafka_fail(kafka, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    }
    return result;
}

int kafka_read(struct fleet_client *kafka, const char *name, int32_t partition,
               const struct fleet_span *span, unsigned char **bytes, size_t *size,
               struct error *error) {
    struct found found = {0};
    int64_t low, high;
    *bytes = NULL;
    *size = 0;
    if (kafka_offsets(kafka, name, partition, &low, &high, error))
        return -1;
    if (low > span->first || high <= span->last)
        return are_gone(kafka, name, partition, error);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(kafka->reader, name, NULL);
    if (!topic || rd_kafka_consume_start(topic, partition, span->first)) {
        rd_kafka_resp_err_t code = rd_kafka_last_error();
        if (topic)
            rd_kafka_topic_destroy(topic);
        return kafka_fail(kafka, code, error);
    }
    int result = collect(kafka, topic, partition, span, &found, error);
    rd_kafka_consume_stop(topic, partition);
    rd_kafka_topic_destroy(topic);
    if (result)
        free(found.bytes);
    else
        *bytes = found.bytes, *size = found.size;
    return result;
}

/* ---- Rows ---- */

int kafka_visit(struct fleet_client *kafka, size_t partition, const struct fleet_publication *list,
                size_t count, uint64_t streams, fleet_visit *visit, void *context,
                struct error *error) {
    struct fleet_rows rows = {.seen = NULL};
    unsigned char *bytes[FLEET_PUBLICATIONS_MAX + 1] = {0};
    bool whole = true;
    int result = 0;
    for (size_t n = count; n-- > 0 && result == 0 && whole;) { /* the newest first */
        struct fleet_span span;
        size_t size = 0;
        if (list[n].rows == 0)
            continue;
        whole = n <= FLEET_PUBLICATIONS_MAX && fleet_span_scan(list[n].where, &span);
        if (whole)
            result = kafka_read(kafka, kafka->states, (int32_t)partition, &span, &bytes[n], &size,
                                error);
        if (whole && result == 0)
            result = fleet_rows_visit(&rows, bytes[n], size, list[n].rows, visit, context, &whole,
                                      error);
    }
    if (result == 0 && (!whole || rows.visited != streams))
        result = are_gone(kafka, kafka->states, (int32_t)partition, error);
    for (size_t n = 0; n <= FLEET_PUBLICATIONS_MAX; n++)
        free(bytes[n]);
    fleet_rows_free(&rows);
    return result;
}
