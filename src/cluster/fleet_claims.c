#include "fleet_claims.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"

#define MS 1e3

#define ROUND_MAX (UINT64_C(1) << 53)

enum { CLAIMS = 0 }; /* number of the topic's only partition */

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

double claims_lease_left(const json_t *daemon) {
    return json_number_value(json_object_get(daemon, "lease")) -
           ((double)now_ms() - (double)claims_number(daemon, "time")) / MS;
}

/* A partition's record counts if it follows the one that it names. The first record read is the
   newest that compaction has left. */
static void apply_partition(struct claims *claims, size_t partition, json_t *record) {
    struct holding read = {0}, *held = &claims->held[partition];
    json_int_t claim, seen, base, serial, learned, streams, offset;
    int is_free;
    if (json_unpack(record, "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s}", "claim", &claim,
                    "seen", &seen, "base", &base, "serial", &serial, "learned", &learned, "streams",
                    &streams, "offset", &offset, "free", &is_free, "daemon", &read.name, "id",
                    &read.id) ||
        claim <= 0 || learned < 0 || streams < 0 || offset < -1)
        return;
    const size_t spans = json_array_size(json_object_get(record, "spans"));
    if (held->record && ((uint64_t)seen != held->claim || (uint64_t)base != held->serial)) {
        held->overlaid |= spans > 0;
        return;
    }
    const bool whole = json_is_true(json_object_get(record, "whole"));
    json_decref(held->record);
    *held = (struct holding){
        .record = json_incref(record),
        .claim = (uint64_t)claim,
        .serial = (uint64_t)serial,
        .learned = (uint64_t)learned,
        .streams = (uint64_t)streams,
        .offset = offset,
        .name = read.name,
        .id = read.id,
        .is_free = is_free,
        .overlaid = (held->overlaid || json_is_true(json_object_get(record, "overlaid"))) && !whole,
        .assigned = held->assigned,
        .leaving = held->leaving};
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

/* The first record that closes a round counts; it includes all arrivals before it. */
static void apply_round(struct claims *claims, json_t *record) {
    json_t *members = json_object_get(record, "members"), *arrival;
    uint64_t round = claims_number(record, "round");
    const char *key;
    if (round < claims->round || round > ROUND_MAX || !json_is_object(members))
        return;
    json_object_foreach(claims->records, key, arrival) {
        if (*key == *OF_ARRIVAL && json_object_get(arrival, "span"))
            json_object_set(members, key + 1, arrival);
    }
    json_decref(claims->closed[round % CLAIMS_ROUNDS_KEPT]);
    claims->closed[round % CLAIMS_ROUNDS_KEPT] = json_incref(record);
    begin_round(claims, round + 1);
    claims->version++;
}

/* The first arrival of a daemon in a round counts, and a pass counts until it arrives. */
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
        json_object_set_new(record, "time", json_integer(time > 0 ? time : (int64_t)now_ms()));
    if (record)
        json_object_set(claims->records, key, record);
    else
        json_object_del(claims->records, key);
    claims->version += is_new && *key != *OF_END;
}

/* Any program may write to the topic: ignores other keys and shapes. */
static void apply(struct claims *claims, const rd_kafka_message_t *m) {
    char key[CLAIMS_KEY_SIZE] = "", same[CLAIMS_KEY_SIZE];
    rd_kafka_timestamp_type_t type;
    if (m->key_len == 0 || m->key_len >= sizeof key || memchr(m->key, '\0', m->key_len))
        return;
    memcpy(key, m->key, m->key_len);
    json_t *record = m->payload ? json_loadb(m->payload, m->len, 0, NULL) : NULL;
    if (m->payload && !json_is_object(record)) {
        json_decref(record);
        return;
    }
    const unsigned long long partition = strtoull(key + 1, NULL, 10);
    if (*key == *OF_PARTITION && record && partition < claims->held_count &&
        strcmp(key, claims_number_key(same, OF_PARTITION, partition)) == 0)
        apply_partition(claims, partition, record);
    else if (strcmp(key, OF_ROUND) == 0 && record)
        apply_round(claims, record);
    else if (*key == *OF_ARRIVAL && record)
        apply_arrival(claims, key, record);
    else if (strchr(OF_END OF_DAEMON OF_DRAINED, *key))
        apply_other(claims, key, record, rd_kafka_message_timestamp(m, &type));
    json_decref(record);
}

/* ---- Reading ---- */

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
        struct holding *held = &claims->held[p];
        json_decref(held->record);
        *held =
            (struct holding){.offset = -1, .assigned = held->assigned, .leaving = held->leaving};
    }
}

static int read_again(struct claims *claims, struct error *error) {
    claims_forget(claims);
    return error_set(error, EX_TEMPFAIL, "the topic %s has to be read again",
                     claims->client.claims);
}

/* Applies the next message within the time limit. Returns 1, or 0 after the time limit or the
   end of the committed messages. */
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
        claims->client.topics_known = false; /* it was deleted or created again */
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
    kafka_abort(&claims->client);
    return claims_join(claims, span, error);
}

int claims_join(struct claims *claims, size_t *span, struct error *error) {
    if (kafka_begin(&claims->client, error))
        return -1;
    *span = claims->span = kafka_span_new(&claims->client, 0);
    if (*span != SIZE_MAX)
        return 0;
    kafka_abort(&claims->client);
    return error_no_memory(error);
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

/* Reads the records that the first span, that of GROUP.claims, has written. */
static int follow_written(struct claims *claims, struct error *error) {
    const int64_t last = claims->client.spans[claims->span].last;
    if (last < claims->next) /* the topic was created again */
        return read_again(claims, error);
    return follow_until(claims, last + 1, error);
}

int claims_commit(struct claims *claims, const rd_kafka_consumer_group_metadata_t *group,
                  const rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    if (kafka_commit(&claims->client, group, offsets, &claims->fenced, error))
        return claims->fenced && error->status != EX_NOPERM
                   ? error_set(error, EX_TEMPFAIL, "the group has rebalanced during the commit")
                   : -1;
    return follow_written(claims, error);
}

int claims_write(struct claims *claims, const char *key, json_t *record, struct error *error) {
    return claims_append(claims, key, record, error) ? -1 : follow_written(claims, error);
}

int claims_append(struct claims *claims, const char *key, json_t *record, struct error *error) {
    size_t span;
    if (claims_begin(claims, &span, error) == 0 &&
        claims_put(claims, span, key, json_incref(record), error) == 0 &&
        kafka_commit(&claims->client, NULL, NULL, NULL, error) == 0) {
        json_decref(record);
        return 0;
    }
    json_decref(record);
    kafka_abort(&claims->client);
    return -1;
}

/* ---- Settings that all daemons share ---- */

json_t *claims_kind_of(const struct fleet_self *self) {
    return json_pack("{s:s, s:s, s:I, s:I}", "stream", self->stream, "digest", self->digest,
                     "partitions", (json_int_t)self->partitions, "every", (json_int_t)self->every);
}

/* Checks the settings of another daemon. Returns -1 if this daemon cannot join. */
static int check_kind(const struct claims *claims, const json_t *record, struct error *error) {
    const struct fleet_self *self = claims->client.self;
    const json_t *kind = json_object_get(record, "kind");
    const char *at = claims->client.options->servers;
    if (!kind)
        return 0;
    if (strcmp(claims_text(kind, "stream"), self->stream) != 0)
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns the topic %s, not %s: use one group per fleet "
                         "(examples.kafka.group)",
                         self->group, at, claims_text(kind, "stream"), self->stream);
    if (claims_number(kind, "partitions") != self->partitions)
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s has %" PRIu64
                         " partitions, but the topic %s has %zu, so streams would change "
                         "partitions; use another examples.kafka.group",
                         self->group, at, claims_number(kind, "partitions"), self->stream,
                         self->partitions);
    if (strcmp(claims_text(kind, "digest"), self->digest) != 0)
        return error_set(
            error, EX_CONFIG,
            "the fleet %s at %s has another configuration (digest %s, this daemon's %s): give all "
            "daemons of a fleet the same configuration, or use another examples.kafka.group%s",
            self->group, at, claims_text(kind, "digest"), self->digest,
            fleet_hint(self, claims_text(kind, "digest")));
    if (claims_number(kind, "every") != self->every)
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s averages every %" PRIu64
                         " examples, and this daemon every %" PRIu64
                         " (0: never): give all daemons of a fleet the same fleet.average.every, "
                         "or use another examples.kafka.group",
                         self->group, at, claims_number(kind, "every"), self->every);
    return 0;
}

int claims_check(const struct claims *claims, struct error *error) {
    const char *key;
    json_t *record;
    json_object_foreach(claims->records, key, record) {
        if (*key == *OF_DAEMON && claims_lease_left(record) > 0 &&
            strcmp(key + 1, claims->client.self->name) != 0 && check_kind(claims, record, error))
            return -1;
    }
    for (size_t p = 0; p < claims->held_count; p++)
        if (check_kind(claims, claims->held[p].record, error))
            return -1;
    return 0;
}

/* Other programs may have written a record without the settings. */
const json_t *claims_any_kind(const struct claims *claims) {
    const char *key;
    json_t *record, *kind;
    for (size_t p = 0; p < claims->held_count; p++)
        if ((kind = json_object_get(claims->held[p].record, "kind")))
            return kind;
    json_object_foreach(claims->records, key, record) {
        if (*key == *OF_DAEMON && json_is_object(json_object_get(record, "kind")))
            return json_object_get(record, "kind");
    }
    return NULL;
}

int claims_restore(struct claims *claims, size_t partition, uint64_t claim, uint64_t serial,
                   struct error *error) {
    const struct holding *held = &claims->held[partition];
    char key[CLAIMS_KEY_SIZE];
    json_t *last = NULL;
    int result = 0;
    while (result == 0 && held->record != last) { /* another record may have arrived */
        json_decref(last);
        last = json_incref(held->record);
        json_t *again = json_copy(last);
        json_object_set_new(again, "seen", json_integer((json_int_t)claim));
        json_object_set_new(again, "base", json_integer((json_int_t)serial));
        claim = held->claim;
        serial = held->serial;
        result =
            claims_write(claims, claims_number_key(key, OF_PARTITION, partition), again, error);
    }
    json_decref(last);
    return result;
}

/* ---- Averages ---- */

json_t *claims_span_json(const struct kafka_span *span) {
    return json_pack("[I, I, I]", (json_int_t)span->first, (json_int_t)span->last,
                     (json_int_t)span->tag);
}

bool claims_span(const json_t *list, struct kafka_span *span) {
    json_int_t first, last, tag;
    if (json_unpack((json_t *)list, "[I, I, I]", &first, &last, &tag))
        return false;
    *span = (struct kafka_span){first, last, (uint64_t)tag};
    return true;
}

/* Returns the round in which this daemon has the serial; 0: none. */
static uint64_t round_with(const struct claims *claims, uint64_t serial) {
    const char *name = claims->client.self->name;
    const json_t *arrival = claims_find(claims, OF_ARRIVAL, name);
    if (arrival && claims_number(arrival, "serial") == serial)
        return claims->round;
    for (size_t n = 0; n < CLAIMS_ROUNDS_KEPT; n++) {
        const json_t *member = json_object_get(json_object_get(claims->closed[n], "members"), name);
        if (member && claims_number(member, "serial") == serial)
            return claims_number(claims->closed[n], "round");
    }
    return 0;
}

static int put_arrival(struct claims *claims, uint64_t serial, const void *parameters, size_t size,
                       struct error *error) {
    struct fleet_client *client = &claims->client;
    char key[CLAIMS_KEY_SIZE];
    size_t span, bytes;
    if (claims_begin(claims, &span, error))
        return -1;
    if ((bytes = kafka_span_new(client, 0)) == SIZE_MAX)
        return error_no_memory(error);
    if (kafka_write_bytes(client, parameters, size, bytes, error) || kafka_wait(client, error))
        return -1;
    json_t *arrival =
        json_pack("{s:I, s:I, s:o}", "round", (json_int_t)claims->round, "serial",
                  (json_int_t)serial, "span", claims_span_json(&client->spans[bytes]));
    return claims_put(claims, span, claims_key(key, OF_ARRIVAL, client->self->name), arrival,
                      error) ||
                   claims_commit(claims, NULL, NULL, error)
               ? -1
               : 0;
}

/* If the round closes before this daemon arrives, the arrival counts for the next one. */
int claims_arrive(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error) {
    struct claims *claims = (struct claims *)link;
    if (claims_follow(claims, error))
        return -1;
    for (int tries = 0; (*round = round_with(claims, serial)) == 0 && tries < 2; tries++)
        if (put_arrival(claims, serial, parameters, size, error)) {
            kafka_abort(&claims->client);
            return -1;
        }
    return *round ? 0 : error_set(error, EX_TEMPFAIL, "rounds close without this daemon");
}

int claims_pass(struct fleet_link *link, uint64_t round, struct error *error) {
    struct claims *claims = (struct claims *)link;
    char key[CLAIMS_KEY_SIZE];
    if (claims->client.writes) /* states are being staged; the round closes without this daemon */
        return 0;
    if (claims_follow(claims, error))
        return -1;
    return claims_write(claims, claims_key(key, OF_ARRIVAL, claims->client.self->name),
                        json_pack("{s:I}", "round", (json_int_t)round), error);
}

/* Whether all owners of partitions have arrived or passed, or the first has waited for a lease. */
static bool is_due(const struct claims *claims) {
    if (claims->arrival == 0)
        return false;
    if (clock_seconds() > claims->arrival + claims->client.self->lease)
        return true;
    for (size_t p = 0; p < claims->held_count; p++)
        if (claims->held[p].record && !claims->held[p].is_free &&
            !claims_find(claims, OF_ARRIVAL, claims->held[p].name))
            return false;
    return true;
}

static int close_round(struct claims *claims, struct error *error) {
    json_t *members = json_object(), *record;
    const char *key;
    json_object_foreach(claims->records, key, record) {
        if (*key == *OF_ARRIVAL && json_object_get(record, "span"))
            json_object_set(members, key + 1, record);
    }
    return claims_write(
        claims, OF_ROUND,
        json_pack("{s:I, s:o}", "round", (json_int_t)claims->round, "members", members), error);
}

static const json_t *members_of(const struct claims *claims, uint64_t round) {
    const json_t *closed = claims->closed[round % CLAIMS_ROUNDS_KEPT];
    return claims_number(closed, "round") == round ? json_object_get(closed, "members") : NULL;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the sorted names, each followed by '\n'. */
static char *names_of(const json_t *members) {
    const char **names = calloc(json_object_size(members) + 1, sizeof *names), *key;
    size_t count = 0, size = 1;
    json_t *member;
    json_object_foreach((json_t *)members, key, member) {
        if (names)
            names[count++] = key;
        size += strlen(key) + 1;
    }
    char *text = names ? calloc(size, 1) : NULL;
    if (text)
        qsort(names, count, sizeof *names, compare_names);
    for (size_t n = 0; text && n < count; n++)
        strcat(strcat(text, names[n]), "\n");
    free(names);
    return text;
}

int claims_round(struct fleet_link *link, uint64_t round, char **names, struct error *error) {
    struct claims *claims = (struct claims *)link;
    *names = NULL;
    if (claims_follow(claims, error) ||
        (round == claims->round && is_due(claims) && close_round(claims, error)))
        return -1;
    const json_t *members = members_of(claims, round);
    if (members && !(*names = names_of(members)))
        return error_no_memory(error);
    return 0;
}

int claims_parameters(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                      size_t *size, struct error *error) {
    struct claims *claims = (struct claims *)link;
    struct kafka_span span;
    *bytes = NULL;
    if (claims_follow(claims, error))
        return -1;
    const json_t *member = json_object_get(members_of(claims, round), name);
    if (claims_span(json_object_get(member, "span"), &span))
        return kafka_read_bytes(&claims->client, &span, bytes, size, error);
    return error_set(error, EX_UNAVAILABLE, "%s: parameters of %s in round %" PRIu64 " not found",
                     claims->client.options->servers, name, round);
}
