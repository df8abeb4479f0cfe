/* Which partitions the topic has, where they begin, and how far they are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/log.h"
#include "consume_kafka.h"

#define LOOK_NS NS_PER_SECOND         /* between two commits, and two looks at lags */
#define SHORT_NS (10 * NS_PER_SECOND) /* a partition ends too early: for longer */
#define COUNT_NS (10 * NS_PER_SECOND) /* between two questions how many partitions there are */

enum { COMMIT_MS = 2000 /* for an answer */, NOTE_SIZE = 40 };

/* What is committed with an offset: that of the newest message before it, and 1. */
#define NOTE "after %" PRIu64

/* ---- Partitions ---- */

static int add_partitions(struct consume *consume, int count, struct error *error) {
    char name[CONSUME_NAME_SIZE];
    /* A fleet ends, and says so. */
    bool more =
        consume->count > 0 && (size_t)count > consume->count && consume->config->fleet.lease == 0;
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

void consume_kafka_missing(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    if (!kafka->missing_said)
        log_warning("%s: there is no topic %s; waiting for it", kafka->options.servers,
                    consume->config->consume.kafka.topic);
    kafka->missing_said = true;
}

/* How many partitions the topic has. EX_TEMPFAIL: no answer. */
int consume_kafka_count(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    const struct rd_kafka_metadata *about;
    rd_kafka_topic_t *topic =
        rd_kafka_topic_new(kafka->client, consume->config->consume.kafka.topic, NULL);
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->client, 0, topic, &about, KAFKA_ASK_MS);
    rd_kafka_topic_destroy(topic);
    if (kafka_refuses(code))
        consume_kafka_error(kafka->client, code, rd_kafka_err2str(code), consume);
    if (code)
        return kafka_say_away(error, &kafka->options, kafka->why);
    *kafka->why = '\0';
    const struct rd_kafka_metadata_topic *found = about->topic_cnt ? &about->topics[0] : NULL;
    rd_kafka_resp_err_t wrong = found ? found->err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    int count = found ? found->partition_cnt : 0, status = 0;
    rd_kafka_metadata_destroy(about);
    kafka->count_due = clock_ns() + (count ? COUNT_NS : LOOK_NS);
    kafka->missing_said &= count == 0;
    if (kafka_refuses(wrong))
        consume_kafka_error(kafka->client, wrong, rd_kafka_err2str(wrong), consume);
    else if (count == 0)
        consume_kafka_missing(consume);
    else if ((size_t)count > consume->count)
        status = add_partitions(consume, count, error);
    return status;
}

/* ---- Where partitions begin ---- */

int64_t consume_kafka_next(const struct consume_partition *p) {
    return (int64_t)p->at.count; /* its offset and 1 */
}

/* What the group has committed of the topic, by partition; below 0: nothing. NULL: EX_TEMPFAIL. */
static rd_kafka_topic_partition_list_t *ask_committed(struct consume *consume,
                                                      struct error *error) {
    struct kafka *kafka = consume->broker;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)consume->count);
    for (size_t n = 0; n < consume->count; n++)
        rd_kafka_topic_partition_list_add(list, consume->config->consume.kafka.topic, (int32_t)n);
    rd_kafka_resp_err_t code = rd_kafka_committed(kafka->client, list, KAFKA_ASK_MS);
    if (!code)
        return list;
    rd_kafka_topic_partition_list_destroy(list);
    error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    return NULL;
}

/* After the loss of a leader this may be so for a moment; a topic that was made again would in the
   end have other messages at the offsets that are read next. */
static int ends_before(struct consume *consume, struct consume_partition *p, int64_t high,
                       struct error *error) {
    const struct kafka *kafka = consume->broker;
    uint64_t now = clock_ns();
    if (!p->short_since || p->short_reading != p->reading)
        p->short_since = now;
    p->short_reading = p->reading;
    return error_set(error, now - p->short_since > SHORT_NS ? EX_DATAERR : EX_UNAVAILABLE,
                     "%s: %s ends at offset %" PRId64 ", before %" PRId64 ", up to which the group "
                     "%s has learned it: it was made again, or has lost what it had; %s",
                     kafka->options.servers, p->stream, high, consume_kafka_next(p),
                     consume->config->consume.kafka.group,
                     consume->config->fleet.lease > 0
                         ? "begin with another examples.kafka.group, and give each daemon of the "
                           "fleet another state.directory"
                         : "name another topic, or give this daemon a directory and a group of its "
                           "own with state.directory and examples.kafka.group");
}

static int set_start(struct consume *consume, struct consume_partition *p, int64_t committed,
                     bool latest, struct error *error) {
    const struct kafka *kafka = consume->broker;
    int64_t low = 0, high = 0;
    rd_kafka_resp_err_t code =
        committed >= 0 ? RD_KAFKA_RESP_ERR_NO_ERROR
                       : kafka_ask_offsets(kafka->client, consume->config->consume.kafka.topic,
                                           p->number, &low, &high, KAFKA_ASK_MS);
    if (code)
        return error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code));
    p->at.count = (uint64_t)(committed >= 0 ? committed : latest ? high : low);
    p->at.sequence = p->at.count ? p->at.count - 1 : 0;
    return 0;
}

/* librdkafka itself would wait for the answer without a limit. */
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

/* Partitions that the journal does not know begin where the group stands, or as `from` says.
   `latest` is for a group that is new, and is committed at once: a partition that comes later, or
   is empty until the daemon ends, loses nothing by it. */
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
            status = consume_kafka_check(consume, p, error);
        of->offset = (int64_t)p->at.count;
    }
    rd_kafka_resp_err_t code =
        status == 0 && latest ? commit(kafka, unknown) : RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_topic_partition_list_destroy(list);
    return code ? error_set(error, EX_TEMPFAIL, "%s", rd_kafka_err2str(code)) : status;
}

/* Whether the group knows that what the topic had there between the newest message that is learned
   and `low` was no message: then nothing is lost where that is gone. */
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
    int64_t next = consume_kafka_next(p), count = low - next;
    log_warning("%s: what %s had from offset %" PRId64 " to %" PRId64 " was gone before it was "
                "read, up to %" PRId64 " message%s: its retention had passed, or somebody has "
                "deleted it; keep more (the topic's retention.ms and retention.bytes), or let the "
                "daemon be faster",
                consume->endpoint, p->stream, next, low - 1, count, count == 1 ? "" : "s");
    pthread_mutex_lock(&consume->mutex);
    p->lost += (uint64_t)count;
    pthread_mutex_unlock(&consume->mutex);
}

/* What was before the oldest message is lost, what is after the newest one is of another topic. */
int consume_kafka_check(struct consume *consume, struct consume_partition *p, struct error *error) {
    struct kafka *kafka = consume->broker;
    const char *topic = consume->config->consume.kafka.topic;
    int64_t low, high, next = consume_kafka_next(p);
    rd_kafka_resp_err_t code =
        kafka_ask_offsets(kafka->client, topic, p->number, &low, &high, KAFKA_ASK_MS);
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

/* All that is to be read is added to `list`, and to `unknown` what has no place yet. 1: something
   has changed; 0; -1. */
static int choose(struct consume *consume, rd_kafka_topic_partition_list_t *list,
                  rd_kafka_topic_partition_list_t *unknown, struct error *error) {
    const char *topic = consume->config->consume.kafka.topic;
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
            status = consume_kafka_check(consume, p, error);
        else if (begins)
            rd_kafka_topic_partition_list_add(unknown, topic, p->number);
        if (begins)
            p->begins = true;
    }
    if (status == 0 && unknown->cnt > 0)
        status = find_starts(consume, unknown, error);
    return status < 0 ? -1 : changed;
}

/* What has begun: `begun` is where; or once more the next time. */
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

int consume_kafka_assign(struct consume *consume, struct error *error) {
    struct kafka *kafka = consume->broker;
    const int room = (int)consume->count + 1;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(room);
    rd_kafka_topic_partition_list_t *unknown = rd_kafka_topic_partition_list_new(room);
    int status = choose(consume, list, unknown, error);
    settle(consume, status >= 0);
    for (int n = 0; n < list->cnt; n++)
        list->elems[n].offset = consume_kafka_next(consume->partitions[list->elems[n].partition]);
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

/* ---- What is durable ---- */

/* Under the mutex: the offset before which nothing is to be learned any more. */
static uint64_t reached(const struct consume_partition *p) {
    uint64_t durable = p->durable.count > p->begun ? p->durable.count : p->begun;
    if (p->durable.count < p->put)
        return durable;
    return p->passed > p->at.count ? p->passed : p->at.count;
}

/* With the offset goes what it was reached from: consume_kafka_check needs it. */
static void add_offset(const struct consume *consume, rd_kafka_topic_partition_list_t *list,
                       const struct consume_partition *p) {
    char note[NOTE_SIZE];
    rd_kafka_topic_partition_t *of =
        rd_kafka_topic_partition_list_add(list, consume->config->consume.kafka.topic, p->number);
    of->offset = (int64_t)p->committed.count;
    snprintf(note, sizeof note, NOTE, p->durable.count);
    of->metadata = p->durable.count ? strdup(note) : NULL; /* librdkafka frees it */
    of->metadata_size = of->metadata ? strlen(note) : 0;
}

static rd_kafka_topic_partition_list_t *take_offsets(struct consume *consume) {
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)consume->count + 1);
    pthread_mutex_lock(&consume->mutex);
    for (size_t n = 0; n < consume->count && consume->commits; n++) {
        struct consume_partition *p = consume->partitions[n];
        if (!p->read || p->reading != p->generation || reached(p) == p->committed.count)
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
    if (rd_kafka_get_watermark_offsets(kafka->client, consume->config->consume.kafka.topic,
                                       p->number, &low, &high) ||
        high < 0)
        return;
    pthread_mutex_lock(&consume->mutex);
    if (p->read && p->reading == p->generation)
        p->lag = high > (int64_t)reached(p) ? high - (int64_t)reached(p) : 0;
    pthread_mutex_unlock(&consume->mutex);
}

/* A commit that fails is made up for by the next one. */
int consume_kafka_look(struct consume *consume, struct error *error) {
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

void consume_kafka_commit_last(struct consume *consume) {
    struct kafka *kafka = consume->broker;
    rd_kafka_topic_partition_list_t *list = take_offsets(consume);
    if (list->cnt > 0)
        commit(kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
}
