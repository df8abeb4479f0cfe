/* Kafka topics through a consumer group. A message is an example; its offset is committed once the
   daemon has it on disk. The offset is the example's number, and its producer is derived from topic
   and partition. So a message that Kafka delivers again, to any feeder of the group, is a
   duplicate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>

#include "cluster/brokers/kafka_link.h"
#include "common/clock.h"
#include "streams/feed.h"
#include "streams/sources/broker.h"
#include "streams/sources/payload.h"

#define COMMIT_SECONDS 1.0 /* between two commits */
#define PROBE_SECONDS 1.0  /* between two checks whether a server is available again */
#define CLOSE_SECONDS 2.0  /* time limit of the last commit */

enum { ID_SIZE = 320, NUMBER_SIZE = 16, PROBE_MS = 200 };

/* A partition with messages. */
struct part {
    char *topic;
    int32_t partition;
    uint64_t producer;
    int64_t next;  /* offset to commit: after the newest settled message */
    bool advanced; /* since the last commit */
};

struct kafka {
    struct source source; /* in `pending`, `what` is the part, `first` the offset */
    struct kafka_options options;
    const char *group, *from;
    bool by_key;

    rd_kafka_t *client;
    rd_kafka_topic_partition_list_t *topics;
    int event; /* readable if the client has an event */
    struct retry retry;
    double committed, probed; /* clock_seconds of the last commit and probe */
    struct part **parts;      /* (count,) */
    size_t count;
    struct payload *payload;
    struct message_number number;
    rd_kafka_message_t *message; /* the newest message, or NULL */
    char id[ID_SIZE];            /* its name */
    bool unknown_reported;       /* a missing topic was reported */
    struct error fatal;          /* text "": none */
    char why[KAFKA_WHY_SIZE];    /* the last reason why no server was reached */
};

static void set_defaults(struct source *source) {
    struct kafka *kafka = (struct kafka *)source;
    kafka->options.servers = KAFKA_SERVERS;
    kafka->group = "runnel";
    kafka->from = "earliest";
    kafka->event = -1;
}

static const struct option_row OPTIONS[] = {
    KAFKA_OPTIONS(struct kafka, options),
    {"group", 0, "NAME", "the consumer group (default runnel)", OPTION_TEXT(struct kafka, group)},
    {"from", 0, "WHERE", "where a group without commits begins: earliest (default) or latest",
     OPTION_TEXT(struct kafka, from)},
    {"by-key", 0, NULL, "use a message's key as its stream (default: the topic)",
     OPTION_FLAG(struct kafka, by_key)},
    FIELD_OPTION(struct kafka),
    PAYLOAD_OPTIONS(struct kafka),
    OPTIONS_END,
};

/* ---- Client ---- */

static int refuse(struct kafka *kafka, rd_kafka_resp_err_t code, const char *topic, const char *why,
                  struct error *error) {
    const struct kafka_aim aim = {"Read", topic, kafka->group};
    return kafka_report_refused(error, &kafka->options, code, &aim, why);
}

/* Called within rd_kafka_consumer_poll. */
static void on_error(rd_kafka_t *client, int code, const char *reason, void *context) {
    struct kafka *kafka = context;
    struct error away;
    (void)client;
    if (kafka_refuses((rd_kafka_resp_err_t)code)) {
        const char *topic = kafka->topics->cnt == 1 ? kafka->topics->elems[0].topic : NULL;
        refuse(kafka, (rd_kafka_resp_err_t)code, topic, reason, &kafka->fatal);
        return;
    }
    kafka_keep_why(kafka->why, (rd_kafka_resp_err_t)code, reason);
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || code == RD_KAFKA_RESP_ERR__RESOLVE) {
        kafka_report_away(&away, &kafka->options, kafka->why);
        retry_failed(&kafka->retry, away.text);
    } else if (code != RD_KAFKA_RESP_ERR__TRANSPORT) {
        feed_detail("%s: %s", kafka->options.servers, reason);
    }
}

static int open_kafka(struct source *source, char **operands, struct error *error) {
    struct kafka *kafka = (struct kafka *)source;
    const char *const settings[][2] = {
        {"enable.auto.commit", "false"},      {"enable.auto.offset.store", "false"},
        {"max.poll.interval.ms", "86400000"}, /* a daemon may be unavailable for a long time */
        {"session.timeout.ms", "10000"},      {"group.id", kafka->group},
        {"auto.offset.reset", kafka->from},
    };
    kafka->retry.server = kafka->options.servers;
    kafka->topics = rd_kafka_topic_partition_list_new(1);
    for (char **topic = operands; *topic; topic++)
        rd_kafka_topic_partition_list_add(kafka->topics, *topic, RD_KAFKA_PARTITION_UA);
    source->once = true;
    if (pending_open(&kafka->source.pending, error) < 0 ||
        payload_open(&kafka->payload, source, error) < 0)
        return -1;
    rd_kafka_conf_t *conf =
        kafka_settings(settings, sizeof settings / sizeof *settings, &kafka->options, error);
    if (!conf)
        return -1;
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_opaque(conf, kafka);
    return kafka_client(&kafka->client, RD_KAFKA_CONSUMER, conf, error);
}

/* Subscribes to the topics; a daemon is connected. */
static int subscribe(struct kafka *kafka, struct error *error) {
    static const uint64_t one = 1;
    kafka->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (kafka->event < 0)
        return error_set(error, EX_OSERR, "cannot create an eventfd for Kafka");
    rd_kafka_poll_set_consumer(kafka->client);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(kafka->client);
    rd_kafka_queue_io_event_enable(queue, kafka->event, &one, sizeof one);
    rd_kafka_queue_destroy(queue);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(kafka->client, kafka->topics);
    return code ? error_set(error, EX_UNAVAILABLE, "%s: cannot subscribe: %s",
                            kafka->options.servers, rd_kafka_err2str(code))
                : 0;
}

/* ---- Offsets ---- */

static struct part *find_part(struct kafka *kafka, const char *topic, int32_t partition) {
    for (size_t i = kafka->count; i > 0; i--)
        if (kafka->parts[i - 1]->partition == partition &&
            strcmp(kafka->parts[i - 1]->topic, topic) == 0)
            return kafka->parts[i - 1];
    struct part **grown = realloc(kafka->parts, (kafka->count + 1) * sizeof(struct part *));
    if (!grown)
        return NULL;
    kafka->parts = grown;
    struct part *part = calloc(1, sizeof *part);
    if (!part || !(part->topic = strdup(topic))) {
        free(part);
        return NULL;
    }
    char number[NUMBER_SIZE];
    snprintf(number, sizeof number, "%ld", (long)partition);
    part->partition = partition;
    part->producer = broker_producer("kafka", topic, number, NULL);
    return kafka->parts[kafka->count++] = part;
}

/* Returns the settled offsets to commit, or NULL. */
static rd_kafka_topic_partition_list_t *list_offsets(struct kafka *kafka) {
    struct pending_id id;
    size_t advanced = 0;
    while (pending_take(kafka->source.pending, &id)) {
        struct part *part = id.what;
        part->next = (int64_t)id.first + 1;
        part->advanced = true;
    }
    for (size_t i = 0; i < kafka->count; i++)
        advanced += kafka->parts[i]->advanced;
    if (advanced == 0)
        return NULL;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)advanced);
    for (size_t i = 0; i < kafka->count; i++) {
        struct part *part = kafka->parts[i];
        if (part->advanced)
            rd_kafka_topic_partition_list_add(list, part->topic, part->partition)->offset =
                part->next;
        part->advanced = false;
    }
    return list;
}

/* A failed commit is replaced by the next one, or leads to duplicates. */
static void commit(struct kafka *kafka) {
    double now = clock_seconds();
    if (now < kafka->committed + COMMIT_SECONDS)
        return;
    rd_kafka_topic_partition_list_t *list = list_offsets(kafka);
    if (!list)
        return;
    rd_kafka_commit(kafka->client, list, 1);
    rd_kafka_topic_partition_list_destroy(list);
    kafka->committed = now;
}

/* Does the last commit. Returns false if it may not have arrived. */
static bool commit_all(struct kafka *kafka) {
    rd_kafka_topic_partition_list_t *list = list_offsets(kafka);
    if (!list)
        return true;
    rd_kafka_queue_t *answers = rd_kafka_queue_new(kafka->client);
    bool good = false;
    if (!rd_kafka_commit_queue(kafka->client, list, answers, NULL, NULL)) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(answers, (int)(CLOSE_SECONDS * 1e3));
        good = event && !rd_kafka_event_error(event);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(answers);
    rd_kafka_topic_partition_list_destroy(list);
    return good;
}

/* ---- Messages ---- */

/* Takes a message. Returns 1, 0 if it is not an example, or -1. */
static int take(struct kafka *kafka, struct step *step, struct error *error) {
    const rd_kafka_message_t *m = kafka->message;
    const char *topic = rd_kafka_topic_name(m->rkt);
    struct part *part = find_part(kafka, topic, m->partition);
    if (!part)
        return error_no_memory(error);
    retry_back(&kafka->retry);
    rd_kafka_timestamp_type_t type;
    int64_t time = rd_kafka_message_timestamp(m, &type);
    bool keyed = kafka->by_key && m->key_len > 0;
    struct message message = {.id = kafka->id,
                              .key = keyed ? m->key : topic,
                              .key_size = keyed ? m->key_len : strlen(topic),
                              .bytes = m->payload ? m->payload : "",
                              .size = m->len,
                              .time = time > 0 ? (double)time / 1e3 : 0,
                              .number = &kafka->number};
    snprintf(kafka->id, sizeof kafka->id, "offset %lld of %s[%ld]", (long long)m->offset, topic,
             (long)m->partition);
    kafka->number = (struct message_number){part->producer, 0, (uint64_t)m->offset};
    int taken = payload_step(kafka->payload, &message, step, error);
    const struct pending_id id = {part, (uint64_t)m->offset, 0};
    return taken < 0 || pending_add(kafka->source.pending, &id, taken, error) < 0 ? -1 : taken;
}

/* Handles a message that reports an error. */
static int check_message(struct kafka *kafka, const rd_kafka_message_t *m, struct error *error) {
    if (kafka_refuses(m->err))
        return refuse(kafka, m->err, m->rkt ? rd_kafka_topic_name(m->rkt) : NULL,
                      rd_kafka_message_errstr(m), error);
    bool unknown = m->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
                   m->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
    if (unknown && !kafka->unknown_reported)
        feed_print("%s: %s; waiting for it", kafka->options.servers, rd_kafka_message_errstr(m));
    kafka->unknown_reported |= unknown;
    if (!unknown && m->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
        feed_detail("%s: %s", kafka->options.servers, rd_kafka_message_errstr(m));
    return 0;
}

/* Waits for messages, and handles the daemon's answers meanwhile. */
static int rest(struct kafka *kafka, struct error *error) {
    uint64_t count;
    int status = feed_await(kafka->event, false, COMMIT_SECONDS, error);
    if (status > 0 && read(kafka->event, &count, sizeof count) < 0)
        status = 0; /* another thread has read it */
    if (status < 0)
        return -1;
    if (kafka->retry.since > 0 && clock_seconds() > kafka->probed + PROBE_SECONDS) {
        if (kafka_answers(kafka->client, PROBE_MS))
            retry_back(&kafka->retry);
        kafka->probed = clock_seconds();
    }
    return 0;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct kafka *kafka = (struct kafka *)source;
    if (kafka->event < 0 && subscribe(kafka, error) < 0)
        return -1;
    for (;;) {
        commit(kafka);
        if (kafka->message)
            rd_kafka_message_destroy(kafka->message);
        kafka->message = rd_kafka_consumer_poll(kafka->client, 0);
        if (*kafka->fatal.text) {
            *error = kafka->fatal;
            return -1;
        }
        int status = !kafka->message       ? rest(kafka, error)
                     : kafka->message->err ? check_message(kafka, kafka->message, error)
                                           : take(kafka, step, error);
        if (status)
            return status;
    }
}

/* Commits, leaves the group and closes within a few seconds, even if no server answers. */
static void close_client(struct kafka *kafka) {
    size_t settled_count = kafka->source.pending ? pending_settled(kafka->source.pending) : 0;
    if (kafka->message)
        rd_kafka_message_destroy(kafka->message);
    if (kafka->event >= 0 && kafka->source.pending && !commit_all(kafka))
        feed_print(
            "%s: the last commit was not confirmed; Kafka may deliver %zu messages again that "
            "the daemon has, which it treats as duplicates",
            kafka->options.servers, settled_count);
    kafka_end(&kafka->client);
}

static void close_kafka(struct source *source) {
    struct kafka *kafka = (struct kafka *)source;
    if (kafka->client)
        close_client(kafka);
    if (kafka->topics)
        rd_kafka_topic_partition_list_destroy(kafka->topics);
    if (kafka->event >= 0)
        close(kafka->event);
    for (size_t i = 0; i < kafka->count; i++) {
        free(kafka->parts[i]->topic);
        free(kafka->parts[i]);
    }
    pending_close(&kafka->source.pending);
    payload_close(&kafka->payload);
    free(kafka->parts);
}

const struct source_type source_kafka = {
    .command = {"kafka", "TOPIC...", "Kafka topics through a consumer group", .rows = OPTIONS},
    .notes = PAYLOAD_NOTES "The stream of a message is its topic, or its key with --by-key.",
    .endless = true,
    .ready = true,
    .maps = true,
    .size = sizeof(struct kafka),
    .set_defaults = set_defaults,
    .open = open_kafka,
    .next = next,
    .settled = broker_settled,
    .close = close_kafka,
};
