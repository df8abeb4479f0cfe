/* Clients of Kafka, and writing. */
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/log.h"
#include "fleet_kafka_internal.h"

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

#define FOLLOW_MS "500" /* a server waits so long for the next message, */
#define READ_MS "10"    /* of states and parameters, which are there */

/* ---- What goes wrong ---- */

bool kafka_is_unknown(rd_kafka_resp_err_t code) {
    return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

int kafka_fail(struct kafka *kafka, rd_kafka_resp_err_t code, struct error *error) {
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
    struct kafka *kafka = context;
    (void)client;
    if (kafka_refuses((rd_kafka_resp_err_t)code))
        kafka_say_refused(&kafka->fatal, kafka->options, (rd_kafka_resp_err_t)code, &kafka->aim,
                          reason);
    else
        kafka_keep_why(kafka->why, (rd_kafka_resp_err_t)code, reason);
}

/* What nobody waits for: only deleting is that. */
static void hear_answers(struct kafka *kafka) {
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

int kafka_listen(struct kafka *kafka, struct error *error) {
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
    struct kafka *kafka = context;
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

static int make_client(struct kafka *kafka, rd_kafka_type_t type, const char *const (*settings)[2],
                       size_t count, rd_kafka_t **client, struct error *error) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int status = 0;
    for (size_t n = 0; n < count && status == 0; n++)
        status = kafka_set(conf, settings[n][0], settings[n][1], error);
    if (status == 0 && (status = kafka_configure(conf, kafka->options, error)) == 0) {
        if (type == RD_KAFKA_PRODUCER)
            rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_conf_set_error_cb(conf, on_error);
        rd_kafka_conf_set_opaque(conf, kafka);
        if (kafka_client(client, type, conf, error) == 0)
            return 0;
    } else {
        rd_kafka_conf_destroy(conf);
    }
    error->status = EX_CONFIG;
    return -1;
}

static int make_consumer(struct kafka *kafka, const char *wait, rd_kafka_t **client,
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
static int make_readers(struct kafka *kafka, struct error *error) {
    if ((!kafka->follower && make_consumer(kafka, FOLLOW_MS, &kafka->follower, error)) ||
        (!kafka->reader && make_consumer(kafka, READ_MS, &kafka->reader, error)))
        return -1;
    if (!kafka->answers)
        kafka->answers = rd_kafka_queue_new(kafka->reader);
    return 0;
}

/* Ask at once who has the topics, once: the first message to each would wait for a second. */
static void warm_up(struct kafka *kafka) {
    const char *const topics[] = {kafka->log, kafka->states, kafka->parameters};
    bool asks = kafka->self->name && !kafka->warmed_up;
    kafka->warmed_up = true;
    for (size_t n = 0; n < KAFKA_TOPICS; n++) {
        const struct rd_kafka_metadata *about;
        kafka->topics[n] = rd_kafka_topic_new(kafka->writer, topics[n], NULL);
        asks = asks && kafka->topics[n] &&
               !rd_kafka_metadata(kafka->writer, 0, kafka->topics[n], &about, KAFKA_ASK_MS);
        if (asks)
            rd_kafka_metadata_destroy(about);
    }
}

static int make_writer(struct kafka *kafka, struct error *error) {
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
static void drop_writer(struct kafka *kafka) {
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

void kafka_disconnect(struct kafka *kafka) {
    kafka_forget_log(kafka);
    drop_writer(kafka);
    if (kafka->answers)
        rd_kafka_queue_destroy(kafka->answers);
    kafka->answers = NULL;
    kafka_end(&kafka->reader);
    kafka_end(&kafka->follower);
}

/* ---- Connecting ---- */

int kafka_connect(struct kafka *kafka, bool make, struct error *error) {
    int count = 1;
    if (make_readers(kafka, error))
        return -1;
    if (kafka_listen(kafka, error))
        return -1;
    if (kafka->topics_known)
        return 0;
    if (make ? kafka_have_topics(kafka, error) : kafka_count(kafka, kafka->log, &count, error))
        return -1;
    kafka->topics_known = count > 0;
    return count == 0;
}

/* ---- Writing ---- */

int kafka_begin(struct kafka *kafka, struct error *error) {
    if (!kafka->writer && make_writer(kafka, error))
        return -1;
    kafka->batch = (struct kafka_batch){.number = kafka->batch.number + 1, .first = -1, .last = -1};
    return 0;
}

int kafka_write(struct kafka *kafka, const char *topic, int32_t partition, const char *key,
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

int kafka_finish(struct kafka *kafka, struct error *error) {
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

int kafka_offsets(struct kafka *kafka, const char *topic, int32_t partition, int64_t *low,
                  int64_t *high, struct error *error) {
    kafka->aim = (struct kafka_aim){"Read", topic, kafka->self->group};
    rd_kafka_resp_err_t code =
        kafka_ask_offsets(kafka->reader, topic, partition, low, high, KAFKA_ASK_MS);
    if (!code)
        return 0;
    return kafka_listen(kafka, error) ? -1 : kafka_fail(kafka, code, error);
}

void kafka_delete_before(struct kafka *kafka, const char *topic, int32_t partition,
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
