/* States and parameters: bytes cut into messages, which a tag keeps apart from what others write
   to the same partition. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "fleet_kafka_internal.h"

enum {
    MESSAGE_BYTES = 256 * 1024,
    TAG_SIZE = 2 * sizeof(uint64_t) + 1,
};

/* ---- Spans ---- */

static void print_tag(uint64_t tag, char text[TAG_SIZE]) {
    snprintf(text, TAG_SIZE, "%016" PRIx64, tag);
}

/* No two are the same, in the topics of one fleet. */
static void begin_span(struct kafka *kafka, struct fleet_span *span) {
    if (!span->tag)
        *span = (struct fleet_span){.first = -1, .last = -1, .tag = ++kafka->tag};
}

static int end_span(struct kafka *kafka, struct fleet_span *span, struct error *error) {
    if (kafka_finish(kafka, error))
        return -1;
    if (span->first < 0)
        span->first = kafka->batch.first;
    if (kafka->batch.last > span->last)
        span->last = kafka->batch.last;
    return 0;
}

/* ---- Writing ---- */

int kafka_write_bytes(struct kafka *kafka, const void *bytes, size_t size, struct fleet_span *span,
                      struct error *error) {
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
    struct kafka *kafka;
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

int kafka_write_rows(struct kafka *kafka, int32_t partition, const struct fleet_row *rows,
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

static int are_gone(const struct kafka *kafka, const char *topic, int32_t partition,
                    struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: the topic %s has no more, in partition %" PRId32 ", all that the fleet "
                     "%s wrote there: it was deleted, as with another retention.ms than -1, or the "
                     "topic was made again; use another examples.kafka.group",
                     kafka->options->servers, topic, partition, kafka->self->group);
}

/* Messages of the span; others are of daemons that were killed, or lost the partition. */
static int collect(struct kafka *kafka, rd_kafka_topic_t *topic, int32_t partition,
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

int kafka_read(struct kafka *kafka, const char *name, int32_t partition,
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

int kafka_visit(struct kafka *kafka, size_t partition, const struct fleet_publication *list,
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
