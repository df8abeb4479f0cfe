#include "fleet_kafka.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "fleet_kafka_client.h"

#define MS 1e3
#define POLLED_LATEST_MS 300000 /* a member may be silent to librdkafka itself for so long */

enum {
    CLAIMS = 0,      /* the partition of GROUP.claims, */
    ROUNDS = 0,      /* and of GROUP.rounds */
    SPANS_MAX = 64,  /* of a partition's states: after that all of them are written again */
    ROUNDS_KEPT = 8, /* that are closed */
    KEY_SIZE = 1 + FLEET_NAME_SIZE,
    NUMBER_SIZE = 24,
    LEAVE_S = 2,
    WHY_SIZE = 512,
};

/* Keys of GROUP.claims: a letter, and what it is of. */
#define OF_PARTITION "p" /* number: a struct holding */
#define OF_END "e"     /* claim: up to which offset it counts, until its daemon has settled that */
#define OF_DAEMON "d"  /* name: what it says of itself */
#define OF_DRAINED "x" /* name: it is to give up what it has */
#define OF_ARRIVAL "a" /* name: it has come to the round that is open, or will not */
#define OF_ROUND "r"   /* the round that was closed last, with who is in it */

/* A partition. Texts live with its record. */
struct holding {
    json_t *record; /* NULL: none yet */
    uint64_t claim, serial, learned, streams;
    int64_t offset; /* of the newest message that is learned; -1: none */
    const char *name, *id;
    bool is_free;           /* its owner has handed it over */
    bool assigned, leaving; /* to this daemon, by the group; which is to give it up */
};

/* States of one partition that are not committed yet. */
struct staged {
    size_t partition;
    uint64_t serial;
    size_t span; /* SIZE_MAX: nothing of it is written */
};

struct kafka {
    struct fleet_link link;
    struct fleet_client client;
    char run[FLEET_ID_SIZE];

    /* GROUP.claims, as far as it is read. */
    rd_kafka_topic_t *topic; /* NULL: it is not read */
    int64_t next;            /* offset of the message that comes next */
    json_t *records;         /* by key, all but partitions */
    struct holding *held;    /* (held_count,) */
    size_t held_count;
    uint64_t version, round;     /* round: the open one */
    double arrival;              /* clock_seconds of the first one to it; 0: none */
    json_t *closed[ROUNDS_KEPT]; /* (round % ROUNDS_KEPT) */

    /* The group. */
    rd_kafka_t *group; /* NULL: no member of it */
    bool subscribed;
    bool known;                               /* what is assigned */
    rd_kafka_topic_partition_list_t *revoked; /* NULL: nothing is to be given up */
    double tell_due;                          /* clock_seconds: what it says of itself */

    struct staged *staged;
    size_t staged_count;
};

static struct kafka *kafka_of(struct fleet_link *link) {
    return (struct kafka *)link;
}

/* ---- Records ---- */

static const char *key_of(char key[KEY_SIZE], const char *kind, const char *name) {
    snprintf(key, KEY_SIZE, "%s%s", kind, name);
    return key;
}

static const char *number_key(char key[KEY_SIZE], const char *kind, uint64_t number) {
    snprintf(key, KEY_SIZE, "%s%" PRIu64, kind, number);
    return key;
}

static uint64_t number_of(const json_t *record, const char *name) {
    return (uint64_t)json_integer_value(json_object_get(record, name));
}

static const char *text_of(const json_t *record, const char *name) {
    const char *text = json_string_value(json_object_get(record, name));
    return text ? text : "";
}

static const json_t *find(const struct kafka *kafka, const char *kind, const char *name) {
    char key[KEY_SIZE];
    return json_object_get(kafka->records, key_of(key, kind, name));
}

static uint64_t now_ms(void) {
    double now = clock_unix();
    return now > 0 ? (uint64_t)(now * MS) : 0;
}

/* Seconds that are left of what a daemon has said of itself; below 0: it may be gone. */
static double lease_left(const json_t *daemon) {
    return json_number_value(json_object_get(daemon, "lease")) -
           ((double)now_ms() - (double)number_of(daemon, "time")) / MS;
}

/* A partition's record counts after the one that it names. What is read first is the newest that
   compaction has left. */
static void apply_partition(struct kafka *kafka, size_t partition, json_t *record) {
    struct holding read = {0}, *held = &kafka->held[partition];
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
    kafka->version++;
}

static void begin_round(struct kafka *kafka, uint64_t round) {
    const char *key;
    json_t *record;
    void *next;
    kafka->round = round;
    kafka->arrival = 0;
    json_object_foreach_safe(kafka->records, next, key, record) {
        if (*key == *OF_ARRIVAL)
            json_object_del(kafka->records, key);
    }
}

/* The first that closes a round closes it. */
static void apply_round(struct kafka *kafka, json_t *record) {
    uint64_t round = number_of(record, "round");
    if (round < kafka->round || !json_is_object(json_object_get(record, "members")))
        return;
    json_decref(kafka->closed[round % ROUNDS_KEPT]);
    kafka->closed[round % ROUNDS_KEPT] = json_incref(record);
    begin_round(kafka, round + 1);
    kafka->version++;
}

/* Of a daemon in a round the first one counts, and that it has passed until it comes. */
static void apply_arrival(struct kafka *kafka, const char *key, json_t *record) {
    const json_t *before = json_object_get(kafka->records, key);
    bool passes = !json_object_get(record, "span");
    if (number_of(record, "round") != kafka->round || (before && json_object_get(before, "span")))
        return;
    if (!passes && kafka->arrival == 0) {
        kafka->arrival = clock_seconds();
        kafka->version++;
    }
    json_object_set(kafka->records, key, record);
}

static void apply_other(struct kafka *kafka, const char *key, json_t *record, int64_t time) {
    const bool is_new = !json_object_get(kafka->records, key) != !record;
    if (*key == *OF_DAEMON && record)
        json_object_set_new(record, "time", json_integer(time));
    if (record)
        json_object_set(kafka->records, key, record);
    else
        json_object_del(kafka->records, key);
    kafka->version += is_new && *key != *OF_END;
}

/* Anybody may have written it: what is none of these is left out. */
static void apply(struct kafka *kafka, const rd_kafka_message_t *m) {
    char key[KEY_SIZE] = "", *end;
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
    if (*key == *OF_PARTITION && record && !*end && partition < kafka->held_count)
        apply_partition(kafka, partition, record);
    else if (*key == *OF_ROUND && record)
        apply_round(kafka, record);
    else if (*key == *OF_ARRIVAL && record)
        apply_arrival(kafka, key, record);
    else if (strchr(OF_END OF_DAEMON OF_DRAINED, *key))
        apply_other(kafka, key, record, rd_kafka_message_timestamp(m, &type));
    json_decref(record);
}

/* ---- Following ---- */

static void forget_all(struct kafka *kafka) {
    if (kafka->topic) {
        rd_kafka_consume_stop(kafka->topic, CLAIMS);
        rd_kafka_topic_destroy(kafka->topic);
    }
    kafka->topic = NULL;
    json_decref(kafka->records);
    kafka->records = NULL;
    for (size_t n = 0; n < ROUNDS_KEPT; n++) {
        json_decref(kafka->closed[n]);
        kafka->closed[n] = NULL;
    }
    for (size_t p = 0; p < kafka->held_count; p++) {
        json_decref(kafka->held[p].record);
        kafka->held[p].record = NULL;
        kafka->held[p].claim = 0;
        kafka->held[p].offset = -1;
    }
}

static int read_again(struct kafka *kafka, struct error *error) {
    forget_all(kafka);
    return error_set(error, EX_TEMPFAIL, "its topic %s has to be read again", kafka->client.claims);
}

/* Within so many milliseconds: 1; 0: none has come, or only the end of those that are committed. */
static int apply_next(struct kafka *kafka, int timeout, struct error *error) {
    rd_kafka_message_t *m = rd_kafka_consume(kafka->topic, CLAIMS, timeout);
    if (!m)
        return 0;
    rd_kafka_resp_err_t code = m->err;
    bool is_end = code == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    if ((!code || is_end) && m->offset >= kafka->next) {
        if (!code)
            apply(kafka, m);
        kafka->next = m->offset + !code;
    }
    rd_kafka_message_destroy(m);
    if (!code || is_end)
        return !code;
    if (code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        code == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE ||
        code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
        code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
        kafka->client.topics_known = false; /* it was deleted, or made again */
        return read_again(kafka, error);
    }
    if (!kafka_refuses(code))
        return 0;
    kafka->client.aim = (struct kafka_aim){"Read", kafka->client.claims, kafka->client.self->group};
    return kafka_fail(&kafka->client, code, error);
}

static int follow_until(struct kafka *kafka, int64_t end, struct error *error) {
    double deadline = clock_seconds() + KAFKA_ANSWER;
    while (kafka->next < end) {
        int64_t before = kafka->next;
        if (kafka_listen(&kafka->client, error) || apply_next(kafka, KAFKA_POLL_MS, error) < 0)
            return -1;
        if (kafka->next > before)
            deadline = clock_seconds() + KAFKA_ANSWER;
        else if (clock_seconds() > deadline)
            return kafka_fail(&kafka->client, RD_KAFKA_RESP_ERR__TIMED_OUT, error);
    }
    return 0;
}

/* All that has been written, also what another daemon is about to commit: it has, or has not, then.
 */
static int follow_all(struct kafka *kafka, struct error *error) {
    int64_t low, high;
    return kafka_offsets(&kafka->client, kafka->client.claims, CLAIMS, &low, &high, error) ||
                   follow_until(kafka, high, error)
               ? -1
               : 0;
}

static int start(struct kafka *kafka, struct error *error) {
    int64_t low, high;
    if (kafka_offsets(&kafka->client, kafka->client.claims, CLAIMS, &low, &high, error))
        return -1;
    forget_all(kafka);
    kafka->records = json_object();
    kafka->version++;
    begin_round(kafka, 1);
    kafka->next = low;
    kafka->topic = rd_kafka_topic_new(kafka->client.follower, kafka->client.claims, NULL);
    if (!kafka->topic || rd_kafka_consume_start(kafka->topic, CLAIMS, low)) {
        rd_kafka_resp_err_t code = rd_kafka_last_error();
        if (kafka->topic)
            rd_kafka_topic_destroy(kafka->topic);
        kafka->topic = NULL;
        return kafka_fail(&kafka->client, code, error);
    }
    if (follow_until(kafka, high, error) == 0)
        return 0;
    forget_all(kafka);
    return -1;
}

static int make_room(struct kafka *kafka, size_t count, struct error *error) {
    if (kafka->held_count == count)
        return 0;
    struct holding *held = calloc(count + 1, sizeof *held);
    if (!held)
        return error_no_memory(error);
    forget_all(kafka);
    free(kafka->held);
    kafka->held = held;
    kafka->held_count = count;
    return 0;
}

/* 1: there is no fleet. */
static int follow(struct kafka *kafka, struct error *error) {
    const bool is_daemon = kafka->client.self->name != NULL;
    int found = kafka_connect(&kafka->client, is_daemon, error);
    if (found)
        return found;
    if (make_room(kafka, is_daemon ? kafka->client.self->partitions : FLEET_PARTITIONS_MAX, error))
        return -1;
    if (!kafka->topic && start(kafka, error))
        return -1;
    while ((found = apply_next(kafka, 0, error)) > 0)
        continue;
    return found;
}

/* ---- Writing ---- */

/* A transaction, and its span of records in GROUP.claims. */
static int begin(struct kafka *kafka, size_t *span, struct error *error) {
    if (kafka_begin(&kafka->client, error))
        return -1;
    *span = kafka_span_new(&kafka->client, 0);
    return *span == SIZE_MAX ? error_no_memory(error) : 0;
}

/* `record` is taken; NULL: none any more. */
static int put(struct kafka *kafka, size_t span, const char *key, json_t *record, bool is_none,
               struct error *error) {
    char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
    json_decref(record);
    if (!text && !is_none) {
        kafka_abort(&kafka->client);
        return error_no_memory(error);
    }
    int result = kafka_write(&kafka->client, kafka->client.claims, CLAIMS, key, strlen(key), text,
                             text ? strlen(text) : 0, span, error);
    free(text);
    return result;
}

/* Commit, and read it back. `offsets`: with the group's, as of `group`. */
static int commit_all(struct kafka *kafka, size_t span,
                      const rd_kafka_consumer_group_metadata_t *group,
                      const rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    bool fenced;
    if (kafka_commit(&kafka->client, group, offsets, &fenced, error))
        return fenced ? error_set(error, EX_TEMPFAIL, "its group has changed meanwhile") : -1;
    if (kafka->client.spans[span].last < kafka->next) /* the topic was made again */
        return read_again(kafka, error);
    return follow_until(kafka, kafka->client.spans[span].last + 1, error);
}

/* One record, as soon as what came before is known. */
static int write_one(struct kafka *kafka, const char *key, json_t *record, bool is_none,
                     struct error *error) {
    size_t span;
    if (begin(kafka, &span, error)) {
        json_decref(record);
        return -1;
    }
    return put(kafka, span, key, record, is_none, error) ||
                   commit_all(kafka, span, NULL, NULL, error)
               ? -1
               : 0;
}

/* ---- The group ---- */

static bool is_own(const struct kafka *kafka, const struct holding *held) {
    return held->record && !held->is_free && kafka->client.self->id &&
           strcmp(held->id, kafka->client.self->id) == 0;
}

static void note_assigned(struct kafka *kafka, const rd_kafka_topic_partition_list_t *list,
                          bool assigned, bool leaving) {
    for (int n = 0; n < list->cnt; n++)
        if ((size_t)list->elems[n].partition < kafka->held_count) {
            kafka->held[list->elems[n].partition].assigned = assigned;
            kafka->held[list->elems[n].partition].leaving = leaving;
        }
    kafka->version++;
}

static void take_back(struct kafka *kafka, rd_kafka_topic_partition_list_t *list) {
    rd_kafka_error_destroy(rd_kafka_incremental_unassign(kafka->group, list));
    note_assigned(kafka, list, false, false);
}

/* From within rd_kafka_consumer_poll. Messages are read elsewhere (consume_kafka.c): here all is
   paused. What is revoked is given up once it is handed over; what is lost, another may have by
   now. */
static void on_rebalance(rd_kafka_t *group, rd_kafka_resp_err_t code,
                         rd_kafka_topic_partition_list_t *list, void *context) {
    struct kafka *kafka = (struct kafka *)((char *)context - offsetof(struct kafka, client));
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        for (int n = 0; n < list->cnt; n++)
            list->elems[n].offset = RD_KAFKA_OFFSET_END;
        rd_kafka_error_destroy(rd_kafka_incremental_assign(group, list));
        rd_kafka_pause_partitions(group, list);
        note_assigned(kafka, list, true, false);
        kafka->known = true;
    } else if (code == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS && !rd_kafka_assignment_lost(group) &&
               !kafka->revoked) {
        kafka->revoked = rd_kafka_topic_partition_list_copy(list);
        note_assigned(kafka, list, true, true);
    } else {
        kafka->known = false;
        take_back(kafka, list);
    }
}

/* Once nothing of it is this daemon's. */
static void give_up(struct kafka *kafka) {
    rd_kafka_topic_partition_list_t *list = kafka->revoked;
    for (int n = 0; list && n < list->cnt; n++)
        if ((size_t)list->elems[n].partition < kafka->held_count &&
            is_own(kafka, &kafka->held[list->elems[n].partition]))
            return;
    if (!list)
        return;
    kafka->revoked = NULL;
    take_back(kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
}

static void end_group(struct kafka *kafka) {
    kafka_end(&kafka->group);
    if (kafka->revoked)
        rd_kafka_topic_partition_list_destroy(kafka->revoked);
    kafka->revoked = NULL;
    kafka->subscribed = kafka->known = false;
    for (size_t p = 0; p < kafka->held_count; p++)
        kafka->held[p].assigned = kafka->held[p].leaving = false;
}

static int lease_is_short(const struct kafka *kafka, struct error *error) {
    return error_set(error, EX_CONFIG,
                     "fleet.lease: %s takes no member whose lease is %g s: set it to at least the "
                     "cluster's group.min.session.timeout.ms (6 s unless somebody has changed it) "
                     "and at most its group.max.session.timeout.ms",
                     kafka->client.options->servers, kafka->client.self->lease);
}

/* 1: another process has this daemon's place in the group. */
static int poll_group(struct kafka *kafka, struct error *error) {
    char why[WHY_SIZE];
    rd_kafka_message_t *m;
    while (kafka->group && (m = rd_kafka_consumer_poll(kafka->group, 0))) {
        rd_kafka_resp_err_t code = m->err;
        rd_kafka_message_destroy(m);
        kafka->client.aim =
            (struct kafka_aim){"Read", kafka->client.self->stream, kafka->client.self->group};
        if (code == RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT)
            return lease_is_short(kafka, error);
        if (kafka_refuses(code))
            return kafka_fail(&kafka->client, code, error);
    }
    if (!kafka->group || !rd_kafka_fatal_error(kafka->group, why, sizeof why))
        return 0;
    end_group(kafka);
    return 1;
}

static int make_group(struct kafka *kafka, struct error *error) {
    const struct fleet_self *self = kafka->client.self;
    char session[NUMBER_SIZE], beat[NUMBER_SIZE], polled[NUMBER_SIZE];
    const double lease = self->lease * MS;
    const char *const settings[][2] = {
        {"group.id", self->group},
        {"group.instance.id", self->name},
        {"partition.assignment.strategy", "cooperative-sticky"},
        {"session.timeout.ms", session},
        {"heartbeat.interval.ms", beat},
        {"max.poll.interval.ms", polled},
        {"enable.auto.commit", "false"},
        {"auto.offset.reset", "latest"},
        {"allow.auto.create.topics", "false"},
        {"reconnect.backoff.max.ms", "1000"},
    };
    snprintf(session, sizeof session, "%.0f", lease);
    snprintf(beat, sizeof beat, "%.0f", fleet_renewal(self->lease) * MS);
    snprintf(polled, sizeof polled, "%.0f", lease > POLLED_LATEST_MS ? lease : POLLED_LATEST_MS);
    rd_kafka_conf_t *conf =
        kafka_settings(settings, sizeof settings / sizeof *settings, kafka->client.options, error);
    if (conf)
        rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    if (kafka_make(&kafka->client, RD_KAFKA_CONSUMER, conf, &kafka->group, error))
        return -1;
    rd_kafka_poll_set_consumer(kafka->group);
    return 0;
}

/* Who is drained leaves the group, and comes again when it no longer is. */
static int subscribe(struct kafka *kafka, struct error *error) {
    bool wanted = !find(kafka, OF_DRAINED, kafka->client.self->name);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (!kafka->group && make_group(kafka, error))
        return -1;
    if (wanted == kafka->subscribed)
        return 0;
    if (wanted) {
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(list, kafka->client.self->stream, RD_KAFKA_PARTITION_UA);
        code = rd_kafka_subscribe(kafka->group, list);
        rd_kafka_topic_partition_list_destroy(list);
    } else {
        kafka->known = true;
        code = rd_kafka_unsubscribe(kafka->group);
    }
    if (code)
        return kafka_fail(&kafka->client, code, error);
    kafka->subscribed = wanted;
    return 0;
}

/* ---- Members ---- */

static json_t *kind_of(const struct fleet_self *self) {
    return json_pack("{s:s, s:s, s:I, s:I}", "stream", self->stream, "digest", self->digest,
                     "partitions", (json_int_t)self->partitions, "every", (json_int_t)self->every);
}

/* Whether a daemon of that kind is one of this fleet: -1. */
static int judge_kind(const struct kafka *kafka, const json_t *record, struct error *error) {
    const struct fleet_self *self = kafka->client.self;
    const json_t *kind = json_object_get(record, "kind");
    const char *at = kafka->client.options->servers;
    if (!kind)
        return 0;
    if (strcmp(text_of(kind, "stream"), self->stream) != 0)
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns the topic %s, and not %s: two fleets need two "
                         "groups (examples.kafka.group)",
                         self->group, at, text_of(kind, "stream"), self->stream);
    if (number_of(kind, "partitions") != self->partitions)
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s has %" PRIu64 " partitions, and the topic %s has %zu: "
                         "the partition of each stream has changed; use another "
                         "examples.kafka.group",
                         self->group, at, number_of(kind, "partitions"), self->stream,
                         self->partitions);
    if (strcmp(text_of(kind, "digest"), self->digest) != 0)
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns with another configuration (its digest is %s, "
                         "and this daemon's %s): give all daemons of a fleet the same one, or use "
                         "another examples.kafka.group",
                         self->group, at, text_of(kind, "digest"), self->digest);
    if (number_of(kind, "every") != self->every)
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s averages every %" PRIu64 " examples, and this daemon "
                         "%" PRIu64 " (0: never): give all daemons of a fleet the same "
                         "fleet.average.every, or use another examples.kafka.group",
                         self->group, at, number_of(kind, "every"), self->every);
    return 0;
}

static int judge_all(const struct kafka *kafka, struct error *error) {
    const char *key;
    json_t *record;
    json_object_foreach(kafka->records, key, record) {
        if (*key == *OF_DAEMON && lease_left(record) > 0 &&
            strcmp(key + 1, kafka->client.self->name) != 0 && judge_kind(kafka, record, error))
            return -1;
    }
    for (size_t p = 0; p < kafka->held_count; p++)
        if (judge_kind(kafka, kafka->held[p].record, error))
            return -1;
    return 0;
}

static int tell(struct kafka *kafka, const char *info, struct error *error) {
    const struct fleet_self *self = kafka->client.self;
    char key[KEY_SIZE];
    kafka->tell_due = clock_seconds() + self->lease / FLEET_RENEWALS_A_LEASE;
    return write_one(kafka, key_of(key, OF_DAEMON, self->name),
                     json_pack("{s:s, s:s, s:f, s:s, s:o}", "id", self->id, "run", kafka->run,
                               "lease", self->lease, "info", info, "kind", kind_of(self)),
                     false, error);
}

/* Of two that begin a fleet at the same moment the later one finds the other. */
static int join(struct fleet_link *link, const char *info, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    const struct fleet_self *self = kafka->client.self;
    if (follow(kafka, error) || follow_all(kafka, error))
        return -1;
    const json_t *other = find(kafka, OF_DAEMON, self->name);
    if (other && strcmp(text_of(other, "id"), self->id) != 0 && lease_left(other) > 0) {
        kafka->link.namesake = (struct fleet_namesake){
            .end = number_of(other, "time") +
                   (uint64_t)(json_number_value(json_object_get(other, "lease")) * MS),
            .left = lease_left(other)};
        return fleet_name_is_taken(self, error);
    }
    return judge_all(kafka, error) || tell(kafka, info, error) || judge_all(kafka, error) ||
                   subscribe(kafka, error)
               ? -1
               : 0;
}

static int renew(struct fleet_link *link, const char *info, uint64_t *version,
                 struct error *error) {
    struct kafka *kafka = kafka_of(link);
    int displaced = follow(kafka, error) ? -1 : poll_group(kafka, error);
    if (displaced < 0)
        return -1;
    const json_t *own = find(kafka, OF_DAEMON, kafka->client.self->name);
    *version =
        own && (displaced || strcmp(text_of(own, "run"), kafka->run) != 0) ? FLEET_DISPLACED : 0;
    if (!own || *version)
        return 0;
    give_up(kafka);
    if (subscribe(kafka, error) || (clock_seconds() >= kafka->tell_due && tell(kafka, info, error)))
        return -1;
    *version = kafka->version;
    return 0;
}

/* The others need not wait for the end of the session. */
static int leave(struct fleet_link *link, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    const double end = clock_seconds() + LEAVE_S;
    char key[KEY_SIZE];
    if (kafka->group)
        rd_kafka_unsubscribe(kafka->group);
    while (kafka->group && clock_seconds() < end) {
        char *member = rd_kafka_memberid(kafka->group);
        bool is_over = !member || !*member;
        rd_kafka_mem_free(kafka->group, member);
        if (is_over || poll_group(kafka, error))
            break;
        give_up(kafka);
        nanosleep(&(struct timespec){.tv_nsec = KAFKA_POLL_MS * 1000000L}, NULL);
    }
    return follow(kafka, error) ||
                   write_one(kafka, key_of(key, OF_DAEMON, kafka->client.self->name), NULL, true,
                             error)
               ? -1
               : 0;
}

/* ---- Looking ---- */

static int add_daemon(const struct kafka *kafka, struct fleet_view *view, const char *name,
                      const json_t *record) {
    struct fleet_daemon *daemon = &view->daemons[view->daemon_count++];
    double left = record ? lease_left(record) : 0;
    const char *info = text_of(record, "info");
    *daemon = (struct fleet_daemon){.name = strdup(name),
                                    .living = left > 0,
                                    .draining = find(kafka, OF_DRAINED, name) != NULL,
                                    .lease = left > 0 ? left : 0,
                                    .info = strdup(*info ? info : "{}")};
    return daemon->name && daemon->info ? 0 : -1;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct fleet_daemon *)a)->name, ((const struct fleet_daemon *)b)->name);
}

/* Those who are there, or had something when they went; this daemon once the group has said what it
   is to have. */
static int add_daemons(const struct kafka *kafka, struct fleet_view *view) {
    const char *key, *self = kafka->client.self->name;
    json_t *record, *owners = json_object();
    int result = owners ? 0 : -1;
    for (size_t p = 0; p < kafka->held_count; p++)
        if (kafka->held[p].record && !kafka->held[p].is_free)
            json_object_set_new(owners, kafka->held[p].name, json_null());
    json_object_foreach(kafka->records, key, record) {
        if (*key == *OF_DAEMON && lease_left(record) > 0)
            json_object_set(owners, key + 1, record);
    }
    view->daemons = calloc(json_object_size(owners) + 1, sizeof *view->daemons);
    json_object_foreach(owners, key, record) {
        if (view->daemons && result == 0 && (!self || strcmp(key, self) != 0 || kafka->known))
            result = add_daemon(kafka, view, key, find(kafka, OF_DAEMON, key));
    }
    json_decref(owners);
    if (!view->daemons || result)
        return -1;
    qsort(view->daemons, view->daemon_count, sizeof *view->daemons, by_name);
    return 0;
}

/* What the group has given this daemon is nobody else's any more. */
static int owner_of(const struct kafka *kafka, const struct fleet_view *view, int self,
                    const struct holding *held) {
    if (!held->record || held->is_free)
        return -1;
    if (!kafka->client.self->name)
        return fleet_view_find(view, held->name);
    if (is_own(kafka, held))
        return held->assigned ? self : -1;
    return held->assigned ? -1 : fleet_view_find(view, held->name);
}

static int add_partitions(const struct kafka *kafka, struct fleet_view *view, size_t count) {
    const char *name = kafka->client.self->name;
    int self = name ? fleet_view_find(view, name) : -1;
    view->partitions = calloc(count + 1, sizeof *view->partitions);
    if (!view->partitions)
        return -1;
    view->partition_count = count;
    for (size_t p = 0; p < count; p++) {
        const struct holding *held = &kafka->held[p];
        view->partitions[p] =
            (struct fleet_partition){.owner = owner_of(kafka, view, self, held),
                                     .to = held->assigned && !held->leaving ? self : -1,
                                     .claim = held->claim,
                                     .committed = held->record && held->offset >= 0,
                                     .offset = {.sequence = (uint64_t)held->offset},
                                     .learned = held->learned,
                                     .states = held->streams};
        if (!view->partitions[p].committed)
            view->partitions[p].offset.sequence = 0;
    }
    return 0;
}

/* As any of its daemons has said it. */
static const json_t *any_kind(const struct kafka *kafka) {
    const char *key;
    json_t *record;
    for (size_t p = 0; p < kafka->held_count; p++)
        if (kafka->held[p].record)
            return json_object_get(kafka->held[p].record, "kind");
    json_object_foreach(kafka->records, key, record) {
        if (*key == *OF_DAEMON)
            return json_object_get(record, "kind");
    }
    return NULL;
}

static int look(struct fleet_link *link, struct fleet_view *view, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    fleet_view_free(view);
    int found = follow(kafka, error);
    if (found)
        return found > 0 ? 0 : -1;
    if (!kafka->client.self->name && follow_all(kafka, error))
        return -1;
    const json_t *kind = any_kind(kafka);
    size_t count = number_of(kind, "partitions"), arrived = 0;
    const char *key;
    json_t *record;
    json_object_foreach(kafka->records, key, record) {
        arrived += *key == *OF_ARRIVAL && json_object_get(record, "span");
    }
    *view =
        (struct fleet_view){.version = kafka->version, .round = kafka->round, .arrived = arrived};
    bool good =
        add_daemons(kafka, view) == 0 &&
        add_partitions(kafka, view, count < kafka->held_count ? count : kafka->held_count) == 0 &&
        (!kind || ((view->stream = strdup(text_of(kind, "stream"))) &&
                   (view->digest = strdup(text_of(kind, "digest")))));
    if (good)
        return 0;
    fleet_view_free(view);
    return error_no_memory(error);
}

/* ---- Claims ---- */

/* A number that no other claim has. */
static int draw_claim(uint64_t *claim, struct error *error) {
    if (getrandom(claim, sizeof *claim, 0) != sizeof *claim)
        return error_set(error, EX_OSERR, "there are no random numbers: %s", strerror(errno));
    *claim = (*claim >> 1) | 1;
    return 0;
}

/* The record that follows what is held. */
static json_t *next_record(const struct kafka *kafka, const struct holding *held, uint64_t claim) {
    const struct fleet_self *self = kafka->client.self;
    const json_t *spans = json_object_get(held->record, "spans");
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:o, s:o}", "claim", (json_int_t)claim,
        "seen", (json_int_t)held->claim, "base", (json_int_t)held->serial, "serial", (json_int_t)0,
        "learned", (json_int_t)held->learned, "streams", (json_int_t)held->streams, "offset",
        held->record ? (json_int_t)held->offset : -1, "free", 0, "daemon", self->name, "id",
        self->id, "spans", spans ? json_deep_copy(spans) : json_array(), "kind", kind_of(self));
}

static int put_partition(struct kafka *kafka, size_t span, size_t partition, json_t *record,
                         struct error *error) {
    char key[KEY_SIZE];
    return put(kafka, span, number_key(key, OF_PARTITION, partition), record, false, error);
}

static int put_end(struct kafka *kafka, size_t span, uint64_t claim, int64_t offset,
                   struct error *error) {
    char key[KEY_SIZE];
    return put(kafka, span, number_key(key, OF_END, claim),
               json_pack("{s:I}", "offset", (json_int_t)offset), false, error);
}

static void add_offset(const struct kafka *kafka, rd_kafka_topic_partition_list_t *list,
                       size_t partition, uint64_t learned) {
    rd_kafka_topic_partition_list_add(list, kafka->client.self->stream, (int32_t)partition)
        ->offset = (int64_t)learned;
}

static int put_take(struct kafka *kafka, size_t span, struct fleet_claim *claim,
                    rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    const struct holding *held = &kafka->held[claim->partition];
    const uint64_t seen = claim->claim;
    if (draw_claim(&claim->claim, error) ||
        (seen && !held->is_free && put_end(kafka, span, seen, held->offset, error)) ||
        put_partition(kafka, span, claim->partition, next_record(kafka, held, claim->claim), error))
        return -1;
    add_offset(kafka, offsets, claim->partition, held->learned);
    return 0;
}

static void fill_in(const struct holding *held, struct fleet_claim *claim) {
    claim->committed = held->offset >= 0;
    claim->offset =
        (struct fleet_offset){.sequence = claim->committed ? (uint64_t)held->offset : 0};
    claim->learned = held->learned;
    claim->states = held->streams;
}

static bool is_to_take(const struct kafka *kafka, const struct fleet_claim *claim) {
    const struct holding *held = &kafka->held[claim->partition];
    return held->assigned && !held->leaving && held->claim == claim->claim && !is_own(kafka, held);
}

static int take(struct fleet_link *link, struct fleet_claim *claims, size_t count, size_t *taken,
                struct error *error) {
    struct kafka *kafka = kafka_of(link);
    size_t span;
    int result = 0;
    *taken = 0;
    if (follow(kafka, error) || follow_all(kafka, error))
        return -1;
    rd_kafka_consumer_group_metadata_t *group =
        kafka->group ? rd_kafka_consumer_group_metadata(kafka->group) : NULL;
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new((int)count + 1);
    if (begin(kafka, &span, error))
        result = -1;
    for (size_t n = 0; n < count && result == 0; n++)
        if (claims[n].partition != SIZE_MAX && is_to_take(kafka, &claims[n]))
            result = put_take(kafka, span, &claims[n], offsets, error);
        else
            claims[n].partition = SIZE_MAX;
    if (result == 0 && offsets->cnt)
        result = commit_all(kafka, span, group, offsets, error);
    else
        kafka_abort(&kafka->client);
    for (size_t n = 0; n < count && result == 0; n++) {
        if (claims[n].partition == SIZE_MAX)
            continue;
        if (kafka->held[claims[n].partition].claim == claims[n].claim) {
            fill_in(&kafka->held[claims[n].partition], &claims[n]);
            ++*taken;
        } else {
            claims[n].partition = SIZE_MAX;
        }
    }
    rd_kafka_topic_partition_list_destroy(offsets);
    if (group)
        rd_kafka_consumer_group_metadata_destroy(group);
    return result;
}

static int ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                 struct error *error) {
    struct kafka *kafka = kafka_of(link);
    char key[KEY_SIZE];
    if (follow(kafka, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        const struct holding *held = &kafka->held[claims[n].partition];
        const json_t *end =
            json_object_get(kafka->records, number_key(key, OF_END, claims[n].claim));
        int64_t offset = end ? (int64_t)number_of(end, "offset") : held->record ? held->offset : -1;
        claims[n].is_over = end || (held->claim == claims[n].claim && held->is_free);
        claims[n].is_lost = !end && held->claim != claims[n].claim;
        claims[n].is_known = offset >= 0;
        claims[n].offset = (struct fleet_offset){.sequence = offset >= 0 ? (uint64_t)offset : 0};
    }
    return 0;
}

static int settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                  struct error *error) {
    struct kafka *kafka = kafka_of(link);
    char key[KEY_SIZE];
    size_t span;
    if (follow(kafka, error) || begin(kafka, &span, error))
        return -1;
    for (size_t n = 0; n < count; n++)
        if (put(kafka, span, number_key(key, OF_END, claims[n]), NULL, true, error))
            return -1;
    return commit_all(kafka, span, NULL, NULL, error);
}

/* ---- Commits ---- */

enum verdict { WRITE, DONE, REFUSED, INCOMPLETE };

static enum verdict judge(const struct kafka *kafka, const struct fleet_commit *commit) {
    const struct holding *held = &kafka->held[commit->partition];
    if (held->record && held->claim == commit->claim && held->serial == commit->serial)
        return DONE; /* the answer was lost */
    if (!held->assigned || !is_own(kafka, held) || held->claim != commit->claim)
        return REFUSED;
    return !commit->whole && commit->rows &&
                   json_array_size(json_object_get(held->record, "spans")) >= SPANS_MAX
               ? INCOMPLETE
               : WRITE;
}

static struct staged *find_staged(struct kafka *kafka, const struct fleet_commit *commit) {
    for (size_t n = 0; n < kafka->staged_count; n++)
        if (kafka->staged[n].partition == commit->partition &&
            kafka->staged[n].serial == commit->serial)
            return &kafka->staged[n];
    return NULL;
}

static int add_staged(struct kafka *kafka, const struct fleet_commit *commit,
                      struct staged **staged, struct error *error) {
    struct staged *larger =
        realloc(kafka->staged, (kafka->staged_count + 1) * sizeof *kafka->staged);
    if (!larger)
        return error_no_memory(error);
    kafka->staged = larger;
    *staged = &larger[kafka->staged_count++];
    **staged = (struct staged){commit->partition, commit->serial, SIZE_MAX};
    if (judge(kafka, commit) != WRITE)
        return 0;
    (*staged)->span = kafka_span_new(&kafka->client, 0);
    return (*staged)->span == SIZE_MAX ? error_no_memory(error) : 0;
}

/* A state is a message, or several: key u32 piece and the stream's, value of the first one u32 its
   size and what follows. Without a value the stream is forgotten. */
static int write_row(struct kafka *kafka, const struct staged *staged, const struct fleet_row *row,
                     struct error *error) {
    uint32_t piece = 0, total = (uint32_t)row->state_size;
    unsigned char key[sizeof piece + FLEET_KEY_MAX], *value = malloc(KAFKA_PIECE + sizeof total);
    size_t at = 0;
    int result = value ? 0 : error_no_memory(error);
    if (row->key_size > FLEET_KEY_MAX)
        result = error_set(error, EX_UNAVAILABLE, "a stream's key is too long for Kafka");
    while (result == 0 && (at < row->state_size || piece == 0)) {
        size_t head = piece || !total ? 0 : sizeof total, size = row->state_size - at;
        size = size < KAFKA_PIECE ? size : KAFKA_PIECE;
        memcpy(key, &piece, sizeof piece);
        memcpy(key + sizeof piece, row->key, row->key_size);
        memcpy(value, &total, head);
        if (size)
            memcpy(value + head, (const char *)row->state + at, size);
        result = kafka_write(&kafka->client, kafka->client.streams, (int32_t)staged->partition, key,
                             sizeof piece + row->key_size, total ? value : NULL, head + size,
                             staged->span, error);
        at += size;
        piece++;
    }
    free(value);
    return result;
}

/* After a failure all is staged again: what came of this try is in no span that counts. */
static int stage(struct fleet_link *link, const struct fleet_commit *commit,
                 const struct fleet_row *rows, size_t count, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct staged *staged = find_staged(kafka, commit);
    int result = count ? follow(kafka, error) || kafka_begin(&kafka->client, error) : 0;
    if (result == 0 && !staged && count)
        result = add_staged(kafka, commit, &staged, error);
    for (size_t n = 0; n < count && result == 0 && staged->span != SIZE_MAX; n++)
        result = write_row(kafka, staged, &rows[n], error);
    if (result == 0)
        return 0;
    kafka->staged_count = 0;
    kafka_abort(&kafka->client);
    return -1;
}

static json_t *with_span(json_t *record, bool whole, const struct kafka_span *span) {
    json_t *spans = json_object_get(record, "spans");
    if (whole)
        json_array_clear(spans);
    if (span)
        json_array_append_new(spans, json_pack("[I, I, I]", (json_int_t)span->first,
                                               (json_int_t)span->last, (json_int_t)span->tag));
    return record;
}

static int put_commit(struct kafka *kafka, size_t span, const struct fleet_commit *commit,
                      bool release, rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    const struct holding *held = &kafka->held[commit->partition];
    const struct staged *staged = commit->rows ? find_staged(kafka, commit) : NULL;
    const int64_t offset = commit->learned ? (int64_t)commit->offset.sequence : -1;
    if (commit->rows && (!staged || staged->span == SIZE_MAX))
        return error_set(error, EX_TEMPFAIL, "states that it was given are gone");
    json_t *record = next_record(kafka, held, commit->claim);
    if (!record)
        return error_no_memory(error);
    json_object_set_new(record, "serial", json_integer((json_int_t)commit->serial));
    json_object_set_new(record, "learned", json_integer((json_int_t)commit->learned));
    json_object_set_new(record, "streams", json_integer((json_int_t)commit->streams));
    json_object_set_new(record, "offset", json_integer(offset));
    json_object_set_new(record, "free", json_boolean(release));
    with_span(record, commit->whole, staged ? &kafka->client.spans[staged->span] : NULL);
    if (put_partition(kafka, span, commit->partition, record, error) ||
        (release && put_end(kafka, span, commit->claim, offset, error)))
        return -1;
    add_offset(kafka, offsets, commit->partition, commit->learned);
    return 0;
}

/* What was to be written when its states were staged, and is not any more: all is asked again. */
static int has_changed(struct kafka *kafka, const struct fleet_commit *commit) {
    const struct staged *staged = find_staged(kafka, commit);
    return staged && staged->span != SIZE_MAX && judge(kafka, commit) != WRITE;
}

static int commit_each(struct kafka *kafka, struct fleet_commit *commits, size_t count,
                       bool release, const rd_kafka_consumer_group_metadata_t *group,
                       rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    size_t span;
    if (begin(kafka, &span, error) || kafka_wait(&kafka->client, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        if (has_changed(kafka, &commits[n]))
            return error_set(error, EX_TEMPFAIL, "its group has changed meanwhile");
        const enum verdict verdict = judge(kafka, &commits[n]);
        commits[n].refused = verdict == REFUSED;
        commits[n].incomplete = verdict == INCOMPLETE;
        if (verdict == WRITE && put_commit(kafka, span, &commits[n], release, offsets, error))
            return -1;
    }
    if (offsets->cnt && commit_all(kafka, span, group, offsets, error))
        return -1;
    for (size_t n = 0; n < count; n++) /* another's record may have come first */
        commits[n].refused |= !commits[n].incomplete && judge(kafka, &commits[n]) != DONE;
    return 0;
}

static int commit(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                  struct error *error) {
    struct kafka *kafka = kafka_of(link);
    int result = follow(kafka, error);
    rd_kafka_consumer_group_metadata_t *group =
        kafka->group ? rd_kafka_consumer_group_metadata(kafka->group) : NULL;
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new((int)count + 1);
    if (result == 0)
        result = commit_each(kafka, commits, count, release, group, offsets, error);
    rd_kafka_topic_partition_list_destroy(offsets);
    if (group)
        rd_kafka_consumer_group_metadata_destroy(group);
    kafka_abort(&kafka->client);
    kafka->staged_count = 0;
    return result;
}

/* ---- States ---- */

/* A state as it is read: its key, and what has come of it. */
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
    if (rows->count == rows->room) {
        size_t room = 2 * rows->room + 64;
        struct row *larger = realloc(rows->list, room * sizeof *larger);
        if (!larger)
            return error_no_memory(error);
        rows->list = larger;
        rows->room = room;
    }
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

/* Pieces come in order; one of a state that was laid over is left out. */
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
                       last->filled == (size_t)piece * KAFKA_PIECE &&
                       last->size - last->filled >= m->len
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

/* By key, and of one key the newest first. */
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

static bool span_of(const json_t *list, size_t n, struct kafka_span *span) {
    json_int_t first, last, tag;
    if (json_unpack(json_array_get(list, n), "[I, I, I]", &first, &last, &tag))
        return false;
    *span = (struct kafka_span){first, last, (uint64_t)tag};
    return true;
}

static int states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                  struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct rows rows = {0};
    uint64_t visited = 0;
    if (follow(kafka, error))
        return -1;
    const struct holding *held = &kafka->held[partition];
    const json_t *spans = json_object_get(held->record, "spans");
    const uint64_t streams = held->streams;
    struct kafka_span span;
    int result = 0;
    for (size_t n = 0; n < json_array_size(spans) && result == 0; n++)
        if (span_of(spans, n, &span))
            result = kafka_read(&kafka->client, kafka->client.streams, (int32_t)partition, &span,
                                read_row, &rows, error);
    if (result == 0)
        result = visit_rows(&rows, &visited, visit, context, error);
    if (result == 0 && visited != streams)
        result = kafka_are_gone(&kafka->client, kafka->client.streams, (int32_t)partition, error);
    for (size_t n = 0; n < rows.count; n++)
        free(rows.list[n].bytes);
    free(rows.list);
    return result;
}

/* ---- Averages ---- */

/* The round in which this daemon has that serial; 0: none. */
static uint64_t round_with(const struct kafka *kafka, uint64_t serial) {
    const char *name = kafka->client.self->name;
    const json_t *arrival = find(kafka, OF_ARRIVAL, name);
    if (arrival && number_of(arrival, "serial") == serial)
        return kafka->round;
    for (size_t n = 0; n < ROUNDS_KEPT; n++) {
        const json_t *member = json_object_get(json_object_get(kafka->closed[n], "members"), name);
        if (member && number_of(member, "serial") == serial)
            return number_of(kafka->closed[n], "round");
    }
    return 0;
}

static int arrive(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    char key[KEY_SIZE];
    size_t span, bytes;
    if (follow(kafka, error))
        return -1;
    for (int tries = 0; tries < 2 && !(*round = round_with(kafka, serial)); tries++) {
        if (begin(kafka, &span, error) || (bytes = kafka_span_new(&kafka->client, 0)) == SIZE_MAX)
            return -1;
        for (size_t at = 0; at < size; at += KAFKA_PIECE)
            if (kafka_write(&kafka->client, kafka->client.rounds, ROUNDS, NULL, 0,
                            (const char *)parameters + at,
                            size - at < KAFKA_PIECE ? size - at : KAFKA_PIECE, bytes, error))
                return -1;
        if (kafka_wait(&kafka->client, error))
            return -1;
        const struct kafka_span *where = &kafka->client.spans[bytes];
        if (put(kafka, span, key_of(key, OF_ARRIVAL, kafka->client.self->name),
                json_pack("{s:I, s:I, s:[I, I, I]}", "round", (json_int_t)kafka->round, "serial",
                          (json_int_t)serial, "span", (json_int_t)where->first,
                          (json_int_t)where->last, (json_int_t)where->tag),
                false, error) ||
            commit_all(kafka, span, NULL, NULL, error))
            return -1;
    }
    return *round ? 0 : error_set(error, EX_TEMPFAIL, "rounds are closed before this daemon comes");
}

static int pass(struct fleet_link *link, uint64_t round, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    char key[KEY_SIZE];
    if (follow(kafka, error))
        return -1;
    return write_one(kafka, key_of(key, OF_ARRIVAL, kafka->client.self->name),
                     json_pack("{s:I}", "round", (json_int_t)round), false, error);
}

/* All who have a partition have come or passed, or the first has waited for a lease. */
static bool is_due(const struct kafka *kafka) {
    if (kafka->arrival == 0)
        return false;
    if (clock_seconds() > kafka->arrival + kafka->client.self->lease)
        return true;
    for (size_t p = 0; p < kafka->held_count; p++)
        if (kafka->held[p].record && !kafka->held[p].is_free &&
            !find(kafka, OF_ARRIVAL, kafka->held[p].name))
            return false;
    return true;
}

static int close_round(struct kafka *kafka, struct error *error) {
    json_t *members = json_object(), *record;
    const char *key;
    json_object_foreach(kafka->records, key, record) {
        if (*key == *OF_ARRIVAL && json_object_get(record, "span"))
            json_object_set(members, key + 1, record);
    }
    return write_one(kafka, OF_ROUND,
                     json_pack("{s:I, s:o}", "round", (json_int_t)kafka->round, "members", members),
                     false, error);
}

static const json_t *members_of(const struct kafka *kafka, uint64_t round) {
    const json_t *closed = kafka->closed[round % ROUNDS_KEPT];
    return number_of(closed, "round") == round ? json_object_get(closed, "members") : NULL;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In order, with a '\n' after each. */
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

static int round_of(struct fleet_link *link, uint64_t round, char **names, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    *names = NULL;
    if (follow(kafka, error) ||
        (round == kafka->round && is_due(kafka) && close_round(kafka, error)))
        return -1;
    const json_t *members = members_of(kafka, round);
    if (members && !(*names = names_of(members)))
        return error_no_memory(error);
    return 0;
}

static int add_parameters(void *context, const rd_kafka_message_t *m, struct error *error) {
    return add_bytes(context, m->payload, m->payload ? m->len : 0, error);
}

static int parameters_of(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                         size_t *size, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct row all = {0};
    struct kafka_span span;
    *bytes = NULL;
    if (follow(kafka, error))
        return -1;
    const json_t *member = json_object_get(members_of(kafka, round), name);
    json_t *list = json_pack("[O]", json_object_get(member, "span"));
    bool found = list && span_of(list, 0, &span);
    json_decref(list);
    if (!found)
        return error_set(error, EX_UNAVAILABLE,
                         "%s no longer has the parameters of %s in round %" PRIu64,
                         kafka->client.options->servers, name, round);
    int result = kafka_read(&kafka->client, kafka->client.rounds, ROUNDS, &span, add_parameters,
                            &all, error);
    if (result)
        free(all.bytes);
    else
        *bytes = all.bytes, *size = all.filled;
    return result;
}

/* ---- People ---- */

static int ends(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error) {
    struct kafka *kafka = kafka_of(link);
    if (kafka_connect(&kafka->client, false, error) < 0)
        return -1;
    for (size_t n = 0; n < view->partition_count; n++) {
        int64_t low, high;
        if (kafka_offsets(&kafka->client, view->stream, (int32_t)n, &low, &high, error))
            return -1;
        ends[n] = high >= 0 ? (uint64_t)high : UINT64_MAX;
    }
    return 0;
}

static int groups(struct fleet_link *link, struct fleet_groups *groups, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    return kafka_connect(&kafka->client, false, error) < 0
               ? -1
               : kafka_groups(&kafka->client, groups, error);
}

/* A daemon makes the topics; a person who is early does not. */
static int see_all(struct kafka *kafka, struct error *error) {
    int found = follow(kafka, error);
    if (found > 0)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: there is no fleet %s: no daemon has joined it, and the topic %s is "
                         "not there",
                         kafka->client.options->servers, kafka->client.self->group,
                         kafka->client.claims);
    return found ? -1 : follow_all(kafka, error);
}

static int drain(struct fleet_link *link, const char *name, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    char key[KEY_SIZE];
    if (see_all(kafka, error))
        return -1;
    const json_t *daemon = find(kafka, OF_DAEMON, name);
    if (!daemon || lease_left(daemon) <= 0)
        return error_set(error, EX_USAGE, "there is no daemon %s in the fleet %s now", name,
                         kafka->client.self->group);
    return write_one(kafka, key_of(key, OF_DRAINED, name), json_object(), false, error);
}

static int rebalance(struct fleet_link *link, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    json_t *drained = json_object(), *record;
    const char *key;
    int result = drained ? see_all(kafka, error) : error_no_memory(error);
    json_object_foreach(kafka->records, key, record) {
        if (*key == *OF_DRAINED)
            json_object_set(drained, key, record);
    }
    json_object_foreach(drained, key, record) {
        if (result == 0)
            result = write_one(kafka, key, NULL, true, error);
    }
    json_decref(drained);
    return result;
}

/* ---- Opening and closing ---- */

static void close_kafka(struct fleet_link **link) {
    struct kafka *kafka = kafka_of(*link);
    if (kafka) {
        forget_all(kafka);
        end_group(kafka);
        kafka_disconnect(&kafka->client);
        free(kafka->held);
        free(kafka->staged);
    }
    free(kafka);
    *link = NULL;
}

static const struct fleet_link_ops kafka_ops = {
    .close = close_kafka,
    .join = join,
    .renew = renew,
    .leave = leave,
    .look = look,
    .take = take,
    .ended = ended,
    .settle = settle,
    .stage = stage,
    .commit = commit,
    .states = states,
    .arrive = arrive,
    .pass = pass,
    .round = round_of,
    .parameters = parameters_of,
    .ends = ends,
    .groups = groups,
    .drain = drain,
    .rebalance = rebalance,
};

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

static int name_topics(struct kafka *kafka, struct error *error) {
    const char *group = kafka->client.self->group;
    size_t size = strlen(group);
    if (size == 0 || size > FLEET_GROUP_MAX || strspn(group, LETTERS) != size)
        return error_set(error, EX_CONFIG,
                         "the fleet %s needs the topics %s.claims, %s.streams and %s.rounds, which "
                         "Kafka cannot have: give its group (examples.kafka.group) at most %d "
                         "letters, digits, '.', '_' and '-'",
                         group, group, group, group, FLEET_GROUP_MAX);
    snprintf(kafka->client.claims, sizeof kafka->client.claims, "%s.claims", group);
    snprintf(kafka->client.streams, sizeof kafka->client.streams, "%s.streams", group);
    snprintf(kafka->client.rounds, sizeof kafka->client.rounds, "%s.rounds", group);
    return 0;
}

int fleet_kafka_open(struct fleet_link **link, const struct kafka_options *options,
                     const struct fleet_self *self, struct error *error) {
    struct kafka *kafka = calloc(1, sizeof *kafka);
    *link = NULL;
    if (!kafka)
        return error_no_memory(error);
    kafka->link.ops = &kafka_ops;
    kafka->client.options = options;
    kafka->client.self = self;
    if (name_topics(kafka, error) || draw_claim(&kafka->client.tag, error) ||
        fleet_id_draw(kafka->run, error)) {
        free(kafka);
        return -1;
    }
    *link = &kafka->link;
    return 0;
}
