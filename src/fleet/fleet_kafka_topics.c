/* The three topics of a fleet: that they are there, as they should be, or are made. */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "fleet_kafka_internal.h"

#define PARAMETERS_KEPT "3600000" /* ms: a round is shorter */

enum {
    WHY_SIZE = 512,
    CONFIGS_MAX = 4,
    CREATE_MS = 10000,
    REPLICAS_SAFE = 3, /* of so many one may be lost, and two have what is acknowledged */
};

struct topic {
    const char *name;
    int partitions, replicas; /* replicas -1: as the cluster makes its topics */
    const char *configs[CONFIGS_MAX][2];
};

/* How many partitions a topic has, and copies of the first; 0: it is not there. */
static int ask_topic(struct kafka *kafka, const char *name, int *count, int *replicas,
                     struct error *error) {
    const struct rd_kafka_metadata *about;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(kafka->reader, name, NULL);
    kafka->aim = (struct kafka_aim){"Read", name, kafka->self->group};
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->reader, 0, topic, &about, KAFKA_ASK_MS);
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

int kafka_count(struct kafka *kafka, const char *name, int *count, struct error *error) {
    int replicas;
    return ask_topic(kafka, name, count, &replicas, error);
}

int kafka_groups(struct fleet_link *link, struct fleet_groups *groups, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    const struct rd_kafka_metadata *about;
    kafka->aim = (struct kafka_aim){"Describe", "*", kafka->self->group};
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->reader, 1, NULL, &about, KAFKA_ASK_MS);
    if (code)
        return kafka_listen(kafka, error) ? -1 : kafka_fail(kafka, code, error);
    for (int n = 0; n < about->topic_cnt; n++)
        fleet_groups_add(groups, about->topics[n].topic, strlen(about->topics[n].topic), "",
                         ".fleet");
    rd_kafka_metadata_destroy(about);
    return 0;
}

static int cannot_make(const struct kafka *kafka, const struct topic *topic, const char *why,
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

static int judge_creation(struct kafka *kafka, const struct topic *topic, rd_kafka_event_t *event,
                          struct error *error) {
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

static int create(struct kafka *kafka, const struct topic *topic, struct error *error) {
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
static int make_as_safe(struct kafka *kafka, struct topic *topic, struct error *error) {
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
static int have_topic(struct kafka *kafka, struct topic *topic, struct error *error) {
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
    return error_set(error, EX_CONFIG,
                     "%s: the topic %s has %d partition%s, and this fleet needs %d: two fleets "
                     "need two groups; or delete it while no daemon of the fleet runs, and all it "
                     "knows with it",
                     kafka->options->servers, topic->name, count, count == 1 ? "" : "s",
                     topic->partitions);
}

int kafka_have_topics(struct kafka *kafka, struct error *error) {
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
