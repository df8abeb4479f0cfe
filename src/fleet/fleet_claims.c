#include "fleet_claims.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"

#define MS 1e3

enum { CLAIMS = 0 }; /* the topic's partition */

/* ---- Records ---- */

const char *claims_key(char key[CLAIMS_KEY_SIZE], const char *kind, const char *name) {
    snprintf(key, CLAIMS_KEY_SIZE, "%s%s", kind, name);
    return key;
}

const char *claims_number_key(char key[CLAIMS_KEY_SIZE], const char *kind, uint64_t number) {
    snprintf(key, CLAIMS_KEY_SIZE, "%s%" PRIu64, kind, number);
    return key;
}

uint64_t claims_number(const json_t *record, const char *name) {
    return (uint64_t)json_integer_value(json_object_get(record, name));
}

const char *claims_text(const json_t *record, const char *name) {
    const char *text = json_string_value(json_object_get(record, name));
    return text ? text : "";
}

const json_t *claims_find(const struct claims *claims, const char *kind, const char *name) {
    char key[CLAIMS_KEY_SIZE];
    return json_object_get(claims->records, claims_key(key, kind, name));
}

static uint64_t now_ms(void) {
    double now = clock_unix();
    return now > 0 ? (uint64_t)(now * MS) : 0;
}

/* Seconds that are left of what a daemon has said of itself; below 0: it may be gone. */
double claims_lease_left(const json_t *daemon) {
    return json_number_value(json_object_get(daemon, "lease")) -
           ((double)now_ms() - (double)claims_number(daemon, "time")) / MS;
}

/* A partition's record counts after the one that it names. What is read first is the newest that
   compaction has left. */
static void apply_partition(struct claims *claims, size_t partition, json_t *record) {
    struct holding read = {0}, *held = &claims->held[partition];
    json_int_t claim, seen, base, serial, learned, streams, offset;
    int is_free;
    if (json_unpack(record, "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s}", "claim", &claim,
                    "seen", &seen, "base", &base, "serial", &serial, "learned", &learned, "streams",
                    &streams, "offset", &offset, "free", &is_free, "daemon", &read.name, "id",
                    &read.id) ||
        (held->record &&
         ((uint64_t)seen != held->claim || (uint64_t)base != held->serial || claim <= 0)))
        return;
    json_decref(held->record);
    *held = (struct holding){json_incref(record), (uint64_t)claim,   (uint64_t)serial,
                             (uint64_t)learned,   (uint64_t)streams, offset,
                             read.name,           read.id,           is_free,
                             held->assigned,      held->leaving};
    claims->version++;
}

static void begin_round(struct claims *claims, uint64_t round) {
    const char *key;
    json_t *record;
    void *next;
    claims->round = round;
    claims->arrival = 0;
    json_object_foreach_safe(claims->records, next, key, record) {
        if (*key == *OF_ARRIVAL)
            json_object_del(claims->records, key);
    }
}

/* The first that closes a round closes it. */
static void apply_round(struct claims *claims, json_t *record) {
    uint64_t round = claims_number(record, "round");
    if (round < claims->round || round >= INT64_MAX ||
        !json_is_object(json_object_get(record, "members")))
        return;
    json_decref(claims->closed[round % CLAIMS_ROUNDS_KEPT]);
    claims->closed[round % CLAIMS_ROUNDS_KEPT] = json_incref(record);
    begin_round(claims, round + 1);
    claims->version++;
}

/* Of a daemon in a round the first one counts, and that it has passed until it comes. */
static void apply_arrival(struct claims *claims, const char *key, json_t *record) {
    const json_t *before = json_object_get(claims->records, key);
    bool passes = !json_object_get(record, "span");
    if (claims_number(record, "round") != claims->round ||
        (before && json_object_get(before, "span")))
        return;
    if (!passes && claims->arrival == 0) {
        claims->arrival = clock_seconds();
        claims->version++;
    }
    json_object_set(claims->records, key, record);
}

static void apply_other(struct claims *claims, const char *key, json_t *record, int64_t time) {
    const bool is_new = !json_object_get(claims->records, key) != !record;
    if (*key == *OF_DAEMON && record)
        json_object_set_new(record, "time", json_integer(time));
    if (record)
        json_object_set(claims->records, key, record);
    else
        json_object_del(claims->records, key);
    claims->version += is_new && *key != *OF_END;
}

/* Anybody may have written it: what is none of these is left out. */
static void apply(struct claims *claims, const rd_kafka_message_t *m) {
    char key[CLAIMS_KEY_SIZE] = "", *end;
    rd_kafka_timestamp_type_t type;
    if (m->key_len == 0 || m->key_len >= sizeof key || memchr(m->key, '\0', m->key_len))
        return;
    memcpy(key, m->key, m->key_len);
    json_t *record = m->payload ? json_loadb(m->payload, m->len, 0, NULL) : NULL;
    if (m->payload && !json_is_object(record)) {
        json_decref(record);
        return;
    }
    const unsigned long long partition = strtoull(key + 1, &end, 10);
    if (*key == *OF_PARTITION && record && !*end && partition < claims->held_count)
        apply_partition(claims, partition, record);
    else if (strcmp(key, OF_ROUND) == 0 && record)
        apply_round(claims, record);
    else if (*key == *OF_ARRIVAL && record)
        apply_arrival(claims, key, record);
    else if (strchr(OF_END OF_DAEMON OF_DRAINED, *key))
        apply_other(claims, key, record, rd_kafka_message_timestamp(m, &type));
    json_decref(record);
}

/* ---- Following ---- */

void claims_forget(struct claims *claims) {
    if (claims->topic) {
        rd_kafka_consume_stop(claims->topic, CLAIMS);
        rd_kafka_topic_destroy(claims->topic);
    }
    claims->topic = NULL;
    json_decref(claims->records);
    claims->records = NULL;
    for (size_t n = 0; n < CLAIMS_ROUNDS_KEPT; n++) {
        json_decref(claims->closed[n]);
        claims->closed[n] = NULL;
    }
    for (size_t p = 0; p < claims->held_count; p++) {
        json_decref(claims->held[p].record);
        claims->held[p].record = NULL;
        claims->held[p].claim = 0;
        claims->held[p].offset = -1;
    }
}

static int read_again(struct claims *claims, struct error *error) {
    claims_forget(claims);
    return error_set(error, EX_TEMPFAIL, "its topic %s has to be read again",
                     claims->client.claims);
}

/* Within so many milliseconds: 1; 0: none has come, or only the end of those that are committed. */
static int apply_next(struct claims *claims, int timeout, struct error *error) {
    rd_kafka_message_t *m = rd_kafka_consume(claims->topic, CLAIMS, timeout);
    if (!m)
        return 0;
    rd_kafka_resp_err_t code = m->err;
    bool is_end = code == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    if ((!code || is_end) && m->offset >= claims->next) {
        if (!code)
            apply(claims, m);
        claims->next = m->offset + !code;
    }
    rd_kafka_message_destroy(m);
    if (!code || is_end)
        return !code;
    if (code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        code == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE ||
        code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
        code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
        claims->client.topics_known = false; /* it was deleted, or made again */
        return read_again(claims, error);
    }
    if (!kafka_refuses(code))
        return 0;
    claims->client.aim =
        (struct kafka_aim){"Read", claims->client.claims, claims->client.self->group};
    return kafka_fail(&claims->client, code, error);
}

static int follow_until(struct claims *claims, int64_t end, struct error *error) {
    double deadline = clock_seconds() + KAFKA_ANSWER;
    while (claims->next < end) {
        int64_t before = claims->next;
        if (kafka_listen(&claims->client, error) || apply_next(claims, KAFKA_POLL_MS, error) < 0)
            return -1;
        if (claims->next > before)
            deadline = clock_seconds() + KAFKA_ANSWER;
        else if (clock_seconds() > deadline)
            return kafka_fail(&claims->client, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    }
    return 0;
}

/* All that has been written, also what another daemon is about to commit: it has, or has not, then.
 */
int claims_follow_all(struct claims *claims, struct error *error) {
    int64_t low, high;
    return kafka_offsets(&claims->client, claims->client.claims, CLAIMS, &low, &high, error) ||
                   follow_until(claims, high, error)
               ? -1
               : 0;
}

static int start(struct claims *claims, struct error *error) {
    int64_t low, high;
    if (kafka_offsets(&claims->client, claims->client.claims, CLAIMS, &low, &high, error))
        return -1;
    claims_forget(claims);
    claims->records = json_object();
    claims->version++;
    begin_round(claims, 1);
    claims->next = low;
    claims->topic = rd_kafka_topic_new(claims->client.follower, claims->client.claims, NULL);
    if (!claims->topic || rd_kafka_consume_start(claims->topic, CLAIMS, low)) {
        rd_kafka_resp_err_t code = rd_kafka_last_error();
        if (claims->topic)
            rd_kafka_topic_destroy(claims->topic);
        claims->topic = NULL;
        return kafka_fail(&claims->client, code, error);
    }
    if (follow_until(claims, high, error) == 0)
        return 0;
    claims_forget(claims);
    return -1;
}

static int make_room(struct claims *claims, size_t count, struct error *error) {
    if (claims->held_count == count)
        return 0;
    struct holding *held = calloc(count + 1, sizeof *held);
    if (!held)
        return error_no_memory(error);
    claims_forget(claims);
    free(claims->held);
    claims->held = held;
    claims->held_count = count;
    return 0;
}

/* 1: there is no fleet. */
int claims_follow(struct claims *claims, struct error *error) {
    const bool is_daemon = claims->client.self->name != NULL;
    int found = kafka_connect(&claims->client, is_daemon, error);
    if (found)
        return found;
    if (make_room(claims, is_daemon ? claims->client.self->partitions : FLEET_PARTITIONS_MAX,
                  error))
        return -1;
    if (!claims->topic && start(claims, error))
        return -1;
    while ((found = apply_next(claims, 0, error)) > 0)
        continue;
    return found;
}

/* ---- Writing ---- */

int claims_begin(struct claims *claims, size_t *span, struct error *error) {
    if (kafka_begin(&claims->client, error))
        return -1;
    *span = kafka_span_new(&claims->client, 0);
    return *span == SIZE_MAX ? error_no_memory(error) : 0;
}

static int put_text(struct claims *claims, size_t span, const char *key, const char *text,
                    struct error *error) {
    return kafka_write(&claims->client, claims->client.claims, CLAIMS, key, strlen(key), text,
                       text ? strlen(text) : 0, span, error);
}

int claims_put(struct claims *claims, size_t span, const char *key, json_t *record,
               struct error *error) {
    char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
    json_decref(record);
    int result = text ? put_text(claims, span, key, text, error) : error_no_memory(error);
    free(text);
    return result;
}

int claims_erase(struct claims *claims, size_t span, const char *key, struct error *error) {
    return put_text(claims, span, key, NULL, error);
}

int claims_commit(struct claims *claims, size_t span,
                  const rd_kafka_consumer_group_metadata_t *group,
                  const rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    bool fenced;
    if (kafka_commit(&claims->client, group, offsets, &fenced, error))
        return fenced ? error_set(error, EX_TEMPFAIL, "its group has changed meanwhile") : -1;
    const int64_t last = claims->client.spans[span].last;
    if (last < claims->next) /* the topic was made again */
        return read_again(claims, error);
    return follow_until(claims, last + 1, error);
}

int claims_write(struct claims *claims, const char *key, json_t *record, struct error *error) {
    size_t span;
    if (claims_begin(claims, &span, error)) {
        json_decref(record);
        return -1;
    }
    if (claims_put(claims, span, key, record, error) == 0)
        return claims_commit(claims, span, NULL, NULL, error);
    kafka_abort(&claims->client);
    return -1;
}

int claims_remove(struct claims *claims, const char *key, struct error *error) {
    size_t span;
    return claims_begin(claims, &span, error) || claims_erase(claims, span, key, error)
               ? -1
               : claims_commit(claims, span, NULL, NULL, error);
}
