/* A Kafka topic, of which all partitions are assigned at the journal's offsets. Durable offsets are
   committed to the group, but the group has no members: without a fleet nothing is shared. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/kafka_link.h"
#include "common/clock.h"
#include "common/log.h"
#include "consume_ops.h"
#include "fleet_kafka.h"

#define LOOK_NS NS_PER_SECOND           /* between two commits or two queries of lags */
#define SHORT_NS (10 * NS_PER_SECOND)   /* time until a partition that ends too early is an error */
#define COUNT_NS (10 * NS_PER_SECOND)   /* between two queries of the number of partitions */
#define WRITTEN_NS (10 * NS_PER_SECOND) /* time limit for a dead letter */

/* Metadata of a committed offset: the number of the newest message before it, plus 1. */
#define NOTE "after %" PRIu64

enum {
    ASK_MS = 1000,     /* time limit for an answer of the cluster */
    COMMIT_MS = 2000,  /* time limit for a commit */
    POLL_MS = 100,     /* while the learning thread has no messages */
    POLL_SHORT_MS = 5, /* while it has some */
    WHY_POLLS = 60,
    NOTE_SIZE = 40,
    DIGEST_SIZE = CONFIG_DIGEST_SIZE + 64,
    DEAD_HEADERS = 5,
};

struct kafka {
    struct kafka_options options;
    char digest[DIGEST_SIZE];    /* of a fleet */
    rd_kafka_t *client, *writer; /* the writer sends dead letters */
    bool assigned;               /* the assignment is up to date */
    bool reads;                  /* and is not empty */
    uint64_t due, count_due;     /* time of the next query */
    bool written;                /* the dead letter is written, or failed with this code */
    rd_kafka_resp_err_t refused;
    struct error fatal; /* text "": none */
    bool missing_reported, down;
    char reported[KAFKA_WHY_SIZE]; /* the last read error that was logged */
    char why[KAFKA_WHY_SIZE];      /* why no server is reached; "": unknown */
};

/* ---- Opening ---- */

/* Called within rd_kafka_consumer_poll. */
static void on_error(rd_kafka_t *client, int code, const char *reason, void *context) {
    struct consume *consume = context;
    struct kafka *kafka = consume->broker;
    const struct kafka_aim aim = {"Read", consume->about.stream, consume->about.group};
    struct error away;
    (void)client;
    if (kafka_refuses((rd_kafka_resp_err_t)code)) {
        kafka_report_refused(&kafka->fatal, &kafka->options, (rd_kafka_resp_err_t)code, &aim,
                             reason);
        return;
    }
    kafka_keep_why(kafka->why, (rd_kafka_resp_err_t)code, reason);
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && code != RD_KAFKA_RESP_ERR__RESOLVE)
        return;
    kafka->down = true;
    kafka_report_away(&away, &kafka->options, kafka->why);
    if (*kafka->why) /* otherwise the next request reports it */
        consume_is_away(consume, away.text);
}

static int make_client(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    const char *const settings[][2] = {
        {"group.id", consume->about.group},      {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},   {"auto.offset.reset", "error"},
        {"enable.partition.eof", "true"},        {"max.poll.interval.ms", "86400000"},
        {"queued.max.messages.kbytes", "16384"},
    };
    rd_kafka_conf_t *conf =
        kafka_settings(settings, sizeof settings / sizeof *settings, &kafka->options, error);
    if (!conf)
        return -1;
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
    kafka_end(&kafka->client);
    kafka_end(&kafka->writer);
}

static const char *given(const char *text) {
    return *text ? text : NULL;
}

static void read_options(const struct config *config, struct kafka_options *options) {
    const struct share_config *settings = &config->consume.kafka.settings;
    *options = (struct kafka_options){.servers = config->consume.kafka.brokers,
                                      .user = given(config->consume.kafka.user),
                                      .password_file = given(config->consume.kafka.password_file),
                                      .section = "examples.kafka"};
    for (size_t n = 0; n < settings->count; n++)
        options->settings.values[options->settings.count++] = settings->prefixes[n];
}

/* Creates the client at once, so that an invalid setting is a configuration error. */
static int open_kafka(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker = calloc(1, sizeof *kafka);
    if (!kafka)
        return error_no_memory(error);
    read_options(consume->config, &kafka->options);
    consume->about = (struct consume_about){
        .stream = consume->config->consume.kafka.topic,
        .group = consume->config->consume.kafka.group,
        .where = kafka->options.servers,
        .keeps = "replicas",
        .counts = "the topic",
        .regain = "restore the partition",
        .belongs = "by examples.kafka.partitioner, which the writer must use for the stream's name",
    };
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

static size_t choose(const struct config *config, const char *key, size_t key_size, size_t count) {
    int32_t found = 0, partitions = (int32_t)count;
    switch (config->consume.kafka.partitioner) {
    case KAFKA_MURMUR2:
        found = rd_kafka_msg_partitioner_murmur2(NULL, key, key_size, partitions, NULL, NULL);
        break;
    case KAFKA_CRC32:
        found = rd_kafka_msg_partitioner_consistent(NULL, key, key_size, partitions, NULL, NULL);
        break;
    case KAFKA_FNV1A:
        found = rd_kafka_msg_partitioner_fnv1a(NULL, key, key_size, partitions, NULL, NULL);
        break;
    }
    return found < 0 ? 0 : (size_t)found;
}

/* The digest includes the keys that name streams and assign them to partitions. */
static int link_kafka(struct consume *consume, struct fleet_self *self, struct fleet_link **link,
                      struct error *error) {
    static const char *const PARTITIONERS[] = {"murmur2", "crc32", "fnv1a"};
    const struct config *config = consume->config;
    struct kafka *kafka = consume->broker;
    snprintf(kafka->digest, sizeof kafka->digest, "%s, %s%s", config->compatible,
             PARTITIONERS[config->consume.kafka.partitioner],
             config->consume.kafka.by_key ? ", by_key" : "");
    self->earlier = config->earlier.compatible;
    self->hint = config_hint(config, self->earlier);
    self->digest = kafka->digest;
    return fleet_kafka_open(link, &kafka->options, self, error);
}

static void print_place(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]) {
    snprintf(text, CONSUME_PLACE_SIZE, "%" PRIu64, place->sequence);
}

/* ---- Partitions ---- */

static int add_partitions(struct consume *consume, int count, struct error *error) {
    /* A fleet reports this itself, and ends. */
    bool more =
        consume->count > 0 && (size_t)count > consume->count && consume->config->fleet.lease == 0;
    if (more)
        log_warning("%s: the topic has %d partitions now, and had %zu: reading the new ones from "
                    "their beginning",
                    consume->endpoint, count, consume->count);
    pthread_mutex_lock(&consume->mutex);
    int status = 0;
    for (int n = (int)consume->count; n < count && status == 0; n++)
        if (!consume_add(consume, n))
            status = error_set(error, EX_UNAVAILABLE,
                               "%s: the topic has %d partitions; at most %d are supported",
                               consume->endpoint, count, CONSUME_PARTITIONS_MAX);
    pthread_mutex_unlock(&consume->mutex);
    consume_announce(consume);
    return status;
}

static void report_missing(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    if (!kafka->missing_reported)
        log_warning("%s: topic %s not found; waiting for it", kafka->options.servers,
                    consume->about.stream);
    kafka->missing_reported = true;
}

/* Counts the topic's partitions. Fails with EX_TEMPFAIL if no server answers. */
static int count_partitions(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    const struct rd_kafka_metadata *about;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(kafka->client, consume->about.stream, NULL);
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->client, 0, topic, &about, ASK_MS);
    rd_kafka_topic_destroy(topic);
    if (kafka_refuses(code))
        on_error(kafka->client, code, rd_kafka_err2str(code), consume);
    if (code)
        return kafka_report_away(error, &kafka->options, kafka->why);
    *kafka->why = '\0';
    const struct rd_kafka_metadata_topic *found = about->topic_cnt ? &about->topics[0] : NULL;
    rd_kafka_resp_err_t wrong = found ? found->err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    int count = found ? found->partition_cnt : 0, status = 0;
    rd_kafka_metadata_destroy(about);
    kafka->count_due = clock_ns() + (count ? COUNT_NS : LOOK_NS);
    kafka->missing_reported &= count == 0;
    if (kafka_refuses(wrong))
        on_error(kafka->client, wrong, rd_kafka_err2str(wrong), consume);
    else if (count == 0)
        report_missing(consume);
    else if ((size_t)count > consume->count)
        status = add_partitions(consume, count, error);
    return status;
}

/* ---- Starts of partitions ---- */

static int64_t next_offset(const struct consume_partition *p) {
    return (int64_t)p->at.count; /* the offset plus 1 */
}

/* Returns the group's committed offsets of the topic by partition; below 0: none. NULL:
   EX_TEMPFAIL. */
static rd_kafka_topic_partition_list_t *ask_committed(struct consume *consume,
                                                      struct error *error) {
    struct kafka *kafka = consume->broker;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)consume->count);
    for (size_t n = 0; n < consume->count; n++)
        rd_kafka_topic_partition_list_add(list, consume->about.stream, (int32_t)n);
    rd_kafka_resp_err_t code = rd_kafka_committed(kafka->client, list, ASK_MS);
    if (!code)
        return list;
    rd_kafka_topic_partition_list_destroy(list);
    error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    return NULL;
}

/* This may last for a moment after a leader was lost. If it stays, the topic was created again, and
   new messages would get offsets that are already learned. */
static int ends_before(struct consume *consume, struct consume_partition *p, int64_t high,
                       struct error *error) {
    const struct kafka *kafka = consume->broker;
    uint64_t now = clock_ns();
    if (!p->short_since || p->short_reading != p->reading)
        p->short_since = now;
    p->short_reading = p->reading;
    return error_set(
        error, now - p->short_since > SHORT_NS ? EX_DATAERR : EX_UNAVAILABLE,
        "%s: %s ends at offset %" PRId64 ", but the group %s has learned it up to %" PRId64
        ": the topic was created again, or it has lost messages; %s",
        kafka->options.servers, p->stream, high, consume->about.group, next_offset(p),
        consume->config->fleet.lease > 0 ? "use another examples.kafka.group, and give each daemon "
                                           "of the fleet another state.directory"
                                         : "name another topic, or set another state.directory and "
                                           "examples.kafka.group for this daemon");
}

static int set_start(struct consume *consume, struct consume_partition *p, int64_t committed,
                     bool latest, struct error *error) {
    const struct kafka *kafka = consume->broker;
    int64_t low = 0, high = 0;
    rd_kafka_resp_err_t code = committed >= 0
                                   ? RD_KAFKA_RESP_ERR_NO_ERROR
                                   : kafka_ask_offsets(kafka->client, consume->about.stream,
                                                       p->number, &low, &high, ASK_MS);
    if (code)
        return error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    p->at.count = (uint64_t)(committed >= 0 ? committed : latest ? high : low);
    p->at.sequence = p->at.count ? p->at.count - 1 : 0;
    return 0;
}

/* Waits with a time limit, unlike rd_kafka_commit. */
static rd_kafka_resp_err_t commit(struct kafka *kafka, rd_kafka_topic_partition_list_t *list) {
    rd_kafka_queue_t *answers = rd_kafka_queue_new(kafka->client);
    rd_kafka_resp_err_t code = rd_kafka_commit_queue(kafka->client, list, answers, NULL, NULL);
    if (!code) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(answers, COMMIT_MS);
        code = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(answers);
    return code;
}

/* Whether the offsets between the newest learned message and `low`, by the metadata of the group,
   had no messages. Then nothing was lost there. */
static bool was_passed(struct consume *consume, const struct consume_partition *p, int64_t low) {
    char note[NOTE_SIZE];
    if (p->passed >= (uint64_t)low)
        return true;
    struct error ignored;
    rd_kafka_topic_partition_list_t *list = ask_committed(consume, &ignored);
    if (!list)
        return false;
    const rd_kafka_topic_partition_t *of = &list->elems[p->number];
    int size = snprintf(note, sizeof note, NOTE, p->at.count);
    bool passed = of->offset >= low && of->metadata && of->metadata_size == (size_t)size &&
                  memcmp(of->metadata, note, (size_t)size) == 0;
    rd_kafka_topic_partition_list_destroy(list);
    return passed;
}

static void note_lost(struct consume *consume, struct consume_partition *p, int64_t low) {
    int64_t next = next_offset(p), count = low - next;
    log_warning("%s: %s: offsets %" PRId64 " to %" PRId64
                " were deleted before they were read, up to %" PRId64
                " message%s, by retention or manually; raise the topic's retention.ms and "
                "retention.bytes, or make the daemon faster",
                consume->endpoint, p->stream, next, low - 1, count, count == 1 ? "" : "s");
    pthread_mutex_lock(&consume->mutex);
    p->lost += (uint64_t)count;
    pthread_mutex_unlock(&consume->mutex);
}

/* Messages before the oldest one are lost; places after the newest one belong to an earlier
   topic. */
static int check_there(struct consume *consume, struct consume_partition *p, struct error *error) {
    struct kafka *kafka = consume->broker;
    const char *topic = consume->about.stream;
    int64_t low, high, next = next_offset(p);
    rd_kafka_resp_err_t code =
        kafka_ask_offsets(kafka->client, topic, p->number, &low, &high, ASK_MS);
    if (code)
        return error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    if (next > high)
        return ends_before(consume, p, high, error);
    p->short_since = 0;
    if (next >= low)
        return 0;
    if (!was_passed(consume, p, low))
        note_lost(consume, p, low);
    p->at.count = (uint64_t)low;
    return 0;
}

/* Partitions that are not in the journal begin at the group's offset, or as `from` requests.
   `latest` applies only to a new group. It is committed at once, so that partitions that appear
   later, or are still empty, lose nothing. */
static int find_starts(struct consume *consume, rd_kafka_topic_partition_list_t *unknown,
                       struct error *error) {
    struct kafka *kafka = consume->broker;
    rd_kafka_topic_partition_list_t *list = ask_committed(consume, error);
    if (!list)
        return -1;
    bool latest = consume->config->consume.kafka.latest && consume_is_new(consume);
    for (int n = 0; n < list->cnt; n++)
        latest &= list->elems[n].offset < 0;
    int status = 0;
    for (int n = 0; n < unknown->cnt && status == 0; n++) {
        rd_kafka_topic_partition_t *of = &unknown->elems[n];
        struct consume_partition *p = consume->partitions[of->partition];
        status = set_start(consume, p, list->elems[of->partition].offset, latest, error);
        if (status == 0 && list->elems[of->partition].offset >= 0)
            status = check_there(consume, p, error);
        of->offset = (int64_t)p->at.count;
    }
    rd_kafka_resp_err_t code =
        status == 0 && latest ? commit(kafka, unknown) : RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_topic_partition_list_destroy(list);
    return code ? error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code)) : status;
}

/* Adds all partitions to read to `list`, and those without a place also to `unknown`. Returns 1 if
   anything has changed, 0, or -1. */
static int choose_read(struct consume *consume, rd_kafka_topic_partition_list_t *list,
                       rd_kafka_topic_partition_list_t *unknown, struct error *error) {
    const char *topic = consume->about.stream;
    bool changed = false;
    int status = 0;
    for (size_t n = 0; n < consume->count && status == 0; n++) {
        struct consume_partition *p = consume->partitions[n];
        bool begins, known, read = consume_wanted(consume, p, &begins, &known);
        changed |= begins || read != p->assigned;
        p->assigned = read;
        if (!read)
            continue;
        rd_kafka_topic_partition_list_add(list, topic, p->number);
        if (begins) {
            p->put = p->at.count;
            p->passed = 0;
        }
        if (begins && known)
            status = check_there(consume, p, error);
        else if (begins)
            rd_kafka_topic_partition_list_add(unknown, topic, p->number);
        if (begins)
            p->begins = true;
    }
    if (status == 0 && unknown->cnt > 0)
        status = find_starts(consume, unknown, error);
    return status < 0 ? -1 : changed;
}

/* Notes the partitions that have begun, or retries them next time. */
static void settle(struct consume *consume, bool good) {
    for (size_t n = 0; n < consume->count; n++) {
        struct consume_partition *p = consume->partitions[n];
        if (p->begins && good)
            p->begun = p->at.count;
        else if (p->begins)
            p->reading = 0;
        p->begins = false;
    }
}

static int assign(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    const int room = (int)consume->count + 1;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(room);
    rd_kafka_topic_partition_list_t *unknown = rd_kafka_topic_partition_list_new(room);
    int status = choose_read(consume, list, unknown, error);
    settle(consume, status >= 0);
    for (int n = 0; n < list->cnt; n++)
        list->elems[n].offset = next_offset(consume->partitions[list->elems[n].partition]);
    if (status > 0 || (status == 0 && !kafka->assigned)) {
        rd_kafka_resp_err_t code = rd_kafka_assign(kafka->client, list);
        status = code ? error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code)) : 0;
        kafka->assigned = status == 0;
        kafka->reads = list->cnt > 0;
    } else if (status < 0) {
        kafka->assigned = false;
    }
    rd_kafka_topic_partition_list_destroy(unknown);
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

/* ---- Durable places ---- */

/* Returns the offset before which everything is learned. Locked. */
static uint64_t reached(const struct consume_partition *p) {
    uint64_t durable = p->durable.count > p->begun ? p->durable.count : p->begun;
    if (p->durable.count < p->put)
        return durable;
    return p->passed > p->at.count ? p->passed : p->at.count;
}

/* The metadata names the newest message before the offset, for check_there. */
static void add_offset(const struct consume *consume, rd_kafka_topic_partition_list_t *list,
                       const struct consume_partition *p) {
    char note[NOTE_SIZE];
    rd_kafka_topic_partition_t *of =
        rd_kafka_topic_partition_list_add(list, consume->about.stream, p->number);
    of->offset = (int64_t)p->committed.count;
    snprintf(note, sizeof note, NOTE, p->durable.count);
    of->metadata = p->durable.count ? strdup(note) : NULL; /* freed by librdkafka */
    of->metadata_size = of->metadata ? strlen(note) : 0;
}

/* Returns the offsets to commit. A fleet commits its offsets with its states. */
static rd_kafka_topic_partition_list_t *list_offsets(struct consume *consume) {
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)consume->count + 1);
    pthread_mutex_lock(&consume->mutex);
    for (size_t n = 0; n < consume->count; n++) {
        struct consume_partition *p = consume->partitions[n];
        if (consume->config->fleet.lease > 0 || !p->read || p->reading != p->generation ||
            reached(p) == p->committed.count)
            continue;
        p->committed.count = reached(p);
        add_offset(consume, list, p);
    }
    pthread_mutex_unlock(&consume->mutex);
    return list;
}

static void measure(struct consume *consume, struct consume_partition *p) {
    const struct kafka *kafka = consume->broker;
    int64_t low, high;
    if (rd_kafka_get_watermark_offsets(kafka->client, consume->about.stream, p->number, &low,
                                       &high) ||
        high < 0)
        return;
    pthread_mutex_lock(&consume->mutex);
    if (p->read && p->reading == p->generation)
        p->lag = high > (int64_t)reached(p) ? high - (int64_t)reached(p) : 0;
    pthread_mutex_unlock(&consume->mutex);
}

/* The next commit replaces one that has failed. */
static int look(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    (void)error;
    if (!kafka->client || clock_ns() < kafka->due)
        return 0;
    kafka->due = clock_ns() + LOOK_NS;
    rd_kafka_topic_partition_list_t *list = list_offsets(consume);
    if (list->cnt > 0)
        rd_kafka_commit(kafka->client, list, 1);
    rd_kafka_topic_partition_list_destroy(list);
    for (size_t n = 0; n < consume->count; n++)
        measure(consume, consume->partitions[n]);
    return 0;
}

static void commit_last(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    rd_kafka_topic_partition_list_t *list = list_offsets(consume);
    if (list->cnt > 0)
        commit(kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
}

/* ---- Dead letters: messages of the topic NAME.dead ---- */

/* Called within rd_kafka_poll of the writer. */
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
        {"message.max.bytes", "1000000000"},           /* the server's limit applies */
        {"topic.metadata.propagation.max.ms", "2000"}, /* time until a missing topic is reported */
    };
    struct kafka *kafka = consume->broker;
    rd_kafka_conf_t *conf =
        kafka_settings(SETTINGS, sizeof SETTINGS / sizeof *SETTINGS, &kafka->options, error);
    if (!conf)
        return -1;
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, consume);
    return kafka_client(&kafka->writer, RD_KAFKA_PRODUCER, conf, error);
}

/* The headers of a dead letter. With `whole` false, they mark that the value is left out. */
static rd_kafka_headers_t *headers_of(const struct consume *consume,
                                      const struct consume_item *item, bool whole) {
    const struct consume_partition *p = consume->partitions[item->message.partition];
    char place[CONSUME_PLACE_SIZE], number[CONSUME_PLACE_SIZE];
    rd_kafka_headers_t *headers = rd_kafka_headers_new(DEAD_HEADERS);
    print_place(&item->message.place, place);
    snprintf(number, sizeof number, "%" PRId32, p->number);
    rd_kafka_header_add(headers, "dead.topic", -1, consume->about.stream, -1);
    rd_kafka_header_add(headers, "dead.partition", -1, number, -1);
    rd_kafka_header_add(headers, "dead.offset", -1, place, -1);
    rd_kafka_header_add(headers, "dead.reason", -1, item->message.text, -1);
    snprintf(number, sizeof number, "%zu", item->raw_size);
    if (!whole)
        rd_kafka_header_add(headers, "dead.bytes", -1, number, -1);
    return headers;
}

/* Writes the dead letter and waits for the answer. */
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
    if (!kafka->written) { /* a late answer must not count for the next letter */
        rd_kafka_purge(kafka->writer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_flush(kafka->writer, POLL_MS);
    }
    return code;
}

static int bury(struct consume *consume, const struct consume_item *item, struct error *error) {
    struct kafka *kafka = consume->broker;
    char topic[CONFIG_ADDRESS_SIZE + sizeof ".dead"];
    if (!kafka->writer && make_writer(consume, error) < 0)
        return -1;
    snprintf(topic, sizeof topic, "%s.dead", consume->about.stream);
    rd_kafka_resp_err_t code = write_letter(consume, item, topic, true);
    if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
        code = write_letter(consume, item, topic, false);
    if (!code)
        return 0;
    if (kafka_refuses(code))
        kafka_report_refused(error, &kafka->options, code,
                             &(struct kafka_aim){"Write", topic, NULL}, rd_kafka_err2str(code));
    else if (code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
             code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        error_set(error, EX_TEMPFAIL, "topic not found; create it (kafka-topics --create)");
    else
        error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    return error_prefix(error, "cannot write a dead letter to %s", topic);
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
    if (!p || m->offset < next_offset(p)) /* it belongs to an earlier assignment */
        return 0;
    bool keyed = consume->config->consume.kafka.by_key && m->key_len > 0;
    /* In a fleet, each stream belongs to one partition. */
    const char *topic = consume->config->fleet.lease > 0 ? p->stream : consume->about.stream;
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
        .why = m->payload ? NULL : "a tombstone: the message has no value",
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

/* All messages before this offset are read: the gap contains transaction markers, aborted messages,
   or compacted offsets. */
static void note_end(const struct consume *consume, const rd_kafka_message_t *m) {
    struct consume_partition *p = of(consume, m->partition);
    if (p && p->reading && m->offset > 0)
        p->passed = (uint64_t)m->offset;
}

/* Handles an offset that is no longer there. */
static int reset(struct consume *consume, int32_t number, struct error *error) {
    struct kafka *kafka = consume->broker;
    struct consume_partition *p = of(consume, number);
    kafka->assigned = false;
    return p && p->reading ? check_there(consume, p, error) : 0;
}

/* librdkafka retries silently, even where it can never read the message: an unsupported codec, or a
   bad checksum. */
static void report_unread(struct consume *consume, const rd_kafka_message_t *m) {
    struct kafka *kafka = consume->broker;
    char text[KAFKA_WHY_SIZE];
    snprintf(text, sizeof text, "cannot read %s[%" PRId32 "]: %s", consume->about.stream,
             m->partition, rd_kafka_message_errstr(m));
    if (strcmp(kafka->reported, text) != 0)
        log_warning("%s: %s; trying again", kafka->options.servers, text);
    snprintf(kafka->reported, sizeof kafka->reported, "%s", text);
}

/* Handles a message that reports an error. */
static int check_message(struct consume *consume, const rd_kafka_message_t *m,
                         struct error *error) {
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        note_end(consume, m);
    else if (kafka_refuses(m->err))
        on_error(NULL, m->err, rd_kafka_message_errstr(m), consume);
    else if (m->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
             m->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
             m->err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        report_missing(consume);
    else if (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
             m->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        return reset(consume, m->partition, error);
    else
        report_unread(consume, m);
    return 0;
}

/* ---- Thread ---- */

/* Checks whether the cluster is available again. */
static void probe(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    if (kafka->down && kafka_answers(kafka->client, ASK_MS / 5))
        kafka->down = false;
    bool reads = kafka->assigned && kafka->reads;
    if (!kafka->down && (!consume->connected || consume->since || (reads && !consume->answered)))
        consume_answers(consume, reads);
}

/* librdkafka's thread may report the reason a moment later. Messages that arrive meanwhile are read
   again by the next client. */
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
    if (clock_ns() >= kafka->count_due && count_partitions(consume, error) < 0) {
        await_why(kafka);
        if (!*kafka->fatal.text)
            return *kafka->why ? kafka_report_away(error, &kafka->options, kafka->why) : -1;
    }
    if (!*kafka->fatal.text && (assign(consume, error) < 0 || consume_bury(consume, error) < 0 ||
                                look(consume, error) < 0))
        return -1;
    rd_kafka_message_t *m =
        rd_kafka_consumer_poll(kafka->client, consume_is_empty(consume) ? POLL_MS : POLL_SHORT_MS);
    int status = !m ? 0 : m->err ? check_message(consume, m, error) : take(consume, m, error);
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
        commit_last(consume);
    disconnect(consume);
}

const struct consume_ops consume_kafka = {
    .kind = "kafka",
    .before = "[",
    .after = "]",
    .open = open_kafka,
    .close = close_kafka,
    .print = print_place,
    .choose = choose,
    .link = link_kafka,
    .turn = turn,
    .disconnect = leave,
    .bury = bury,
    .meanwhile = look,
};
