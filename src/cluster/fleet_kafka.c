#include "fleet_kafka.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "fleet_claims.h"

#define MS 1e3
#define OLD_TOPIC ".fleet"      /* topic of older versions, with a log of commands */
#define POLLED_LATEST_MS 300000 /* time limit between two polls of librdkafka */

enum {
    SPANS_MAX = 64, /* spans of a partition's states; beyond it, all states are written again */
    NUMBER_SIZE = 24,
    LEAVE_S = 2,
    WHY_SIZE = 512,
};

/* Uncommitted states of one partition. */
struct staged {
    size_t partition;
    uint64_t serial, transaction, rows;
    size_t span; /* SIZE_MAX: nothing is written */
};

struct kafka {
    struct claims claims;          /* must be first: the link begins with it */
    struct fleet_client *client;   /* the client of the claims */
    const struct fleet_self *self; /* the settings of the claims */
    char run[FLEET_ID_SIZE];

    /* The group. */
    rd_kafka_t *group; /* NULL: not a member */
    bool subscribed;
    bool known;                               /* the assignment is known */
    bool settled;                             /* the assignment has been stable since it joined */
    bool broken;                              /* it has to be joined again */
    bool draining;                            /* all partitions are handed over before leaving it */
    rd_kafka_resp_err_t reported;             /* the last error that was logged */
    rd_kafka_topic_partition_list_t *revoked; /* NULL: nothing has to be released */
    double info_due;                          /* clock_seconds: next report about this daemon */

    struct staged *staged;
    size_t staged_count;
};

/* ---- The group ---- */

static bool is_own(const struct kafka *kafka, const struct holding *held) {
    return held->record && !held->is_free && kafka->self->id &&
           strcmp(held->id, kafka->self->id) == 0;
}

static void note_assigned(struct kafka *kafka, const rd_kafka_topic_partition_list_t *list,
                          bool assigned, bool leaving) {
    for (int n = 0; n < list->cnt; n++)
        if ((size_t)list->elems[n].partition < kafka->claims.held_count) {
            kafka->claims.held[list->elems[n].partition].assigned = assigned;
            kafka->claims.held[list->elems[n].partition].leaving = leaving;
        }
    kafka->claims.version++;
}

/* librdkafka waits forever after a rejected list. */
static void note_refused(struct kafka *kafka, rd_kafka_error_t *refused) {
    kafka->broken |= refused != NULL;
    rd_kafka_error_destroy(refused);
}

static void drop_revoked(struct kafka *kafka, rd_kafka_topic_partition_list_t *list) {
    note_refused(kafka, rd_kafka_incremental_unassign(kafka->group, list));
    note_assigned(kafka, list, false, false);
}

/* Called within rd_kafka_consumer_poll. Messages are read elsewhere (consume_kafka.c), so all
   partitions are paused here. Revoked partitions are released after their hand-over; lost ones may
   already have another owner. */
static void on_rebalance(rd_kafka_t *group, rd_kafka_resp_err_t code,
                         rd_kafka_topic_partition_list_t *list, void *context) {
    struct kafka *kafka = (struct kafka *)((char *)context - offsetof(struct kafka, claims.client));
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        for (int n = 0; n < list->cnt; n++)
            list->elems[n].offset = RD_KAFKA_OFFSET_END;
        note_refused(kafka, rd_kafka_incremental_assign(group, list));
        rd_kafka_pause_partitions(group, list);
        note_assigned(kafka, list, true, false);
        kafka->known = kafka->settled = true;
    } else if (code == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS && !rd_kafka_assignment_lost(group) &&
               !kafka->revoked) {
        kafka->revoked = rd_kafka_topic_partition_list_copy(list);
        note_assigned(kafka, list, true, true);
    } else {
        kafka->known = false;
        kafka->broken |= kafka->revoked != NULL;
        drop_revoked(kafka, list);
    }
}

/* Releases revoked partitions once this daemon does not own them, or at once (`all`). */
static void release_revoked(struct kafka *kafka, bool all) {
    rd_kafka_topic_partition_list_t *list = kafka->revoked;
    for (int n = 0; list && n < list->cnt; n++)
        if (!all && (size_t)list->elems[n].partition < kafka->claims.held_count &&
            is_own(kafka, &kafka->claims.held[list->elems[n].partition]))
            return;
    if (!list)
        return;
    kafka->revoked = NULL;
    drop_revoked(kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
}

/* librdkafka 2.0 aborts if a consumer ends between its join and its first assignment. Such a
   consumer stays until the process ends or its session is over. */
static void end_member(struct kafka *kafka) {
    if (kafka->settled)
        kafka_end(&kafka->group);
    kafka->group = NULL;
    kafka->settled = false;
}

static void end_group(struct kafka *kafka) {
    if (kafka->revoked) {
        drop_revoked(kafka, kafka->revoked);
        rd_kafka_topic_partition_list_destroy(kafka->revoked);
    }
    end_member(kafka);
    kafka->revoked = NULL;
    kafka->subscribed = kafka->known = kafka->broken = false;
    kafka->claims.version++;
    for (size_t p = 0; p < kafka->claims.held_count; p++)
        kafka->claims.held[p].assigned = kafka->claims.held[p].leaving = false;
}

static int lease_is_short(const struct kafka *kafka, struct error *error) {
    return error_set(error, EX_CONFIG,
                     "fleet.lease: %s rejects a session of %g s; it must be at least the cluster's "
                     "group.min.session.timeout.ms (6 s by default) and at most its "
                     "group.max.session.timeout.ms",
                     kafka->client->options->servers, kafka->self->lease);
}

static bool is_member(const struct kafka *kafka) {
    char *id = rd_kafka_memberid(kafka->group);
    bool is = id && *id;
    rd_kafka_mem_free(kafka->group, id);
    return is;
}

/* Returns 1 if another process has this daemon's place in the group. librdkafka does not restart a
   membership that ends during a revocation. */
static int poll_group(struct kafka *kafka, struct error *error) {
    char why[WHY_SIZE];
    rd_kafka_message_t *m;
    while (kafka->group && (m = rd_kafka_consumer_poll(kafka->group, 0))) {
        rd_kafka_resp_err_t code = m->err;
        rd_kafka_message_destroy(m);
        kafka->client->aim = (struct kafka_aim){"Read", kafka->self->stream, kafka->self->group};
        if (code == RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT)
            return lease_is_short(kafka, error);
        if (kafka_refuses(code))
            return kafka_fail(kafka->client, code, error);
        if (code && code != kafka->reported && !kafka_passes(code))
            log_warning("group %s: %s", kafka->self->group, rd_kafka_err2str(code));
        kafka->reported = code;
    }
    rd_kafka_resp_err_t fatal =
        kafka->group ? rd_kafka_fatal_error(kafka->group, why, sizeof why) : 0;
    if (fatal || kafka->broken || (kafka->revoked && !is_member(kafka)))
        end_group(kafka);
    if (fatal && fatal != RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
        return error_set(error, EX_TEMPFAIL, "group error: %s", why);
    return fatal != 0;
}

static int make_group(struct kafka *kafka, struct error *error) {
    const struct fleet_self *self = kafka->self;
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
        kafka_settings(settings, sizeof settings / sizeof *settings, kafka->client->options, error);
    if (conf)
        rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    if (kafka_make(kafka->client, RD_KAFKA_CONSUMER, conf, &kafka->group, error))
        return -1;
    rd_kafka_poll_set_consumer(kafka->group);
    return 0;
}

static bool has_any(const struct kafka *kafka) {
    for (size_t p = 0; p < kafka->claims.held_count; p++)
        if (is_own(kafka, &kafka->claims.held[p]))
            return true;
    return false;
}

/* Whether this daemon takes partitions: a drained one does not, except that the last daemon keeps
   its own. */
static bool takes_part(const struct kafka *kafka) {
    const char *key;
    json_t *record;
    if (!claims_find(&kafka->claims, OF_DRAINED, kafka->self->name))
        return true;
    json_object_foreach(kafka->claims.records, key, record) {
        if (*key == *OF_DAEMON && claims_lease_left(record) > 0 &&
            !claims_find(&kafka->claims, OF_DRAINED, key + 1))
            return false;
    }
    return has_any(kafka);
}

/* librdkafka sends no heartbeats without a subscription, so a drained daemon hands over first. */
static int subscribe(struct kafka *kafka, struct error *error) {
    const bool takes = takes_part(kafka), drains = !takes && has_any(kafka);
    const bool wanted = takes || drains;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (!kafka->group && make_group(kafka, error))
        return -1;
    kafka->claims.version += drains != kafka->draining;
    kafka->draining = drains;
    if (!wanted && !kafka->known) { /* its assignment is empty: no rebalance will report it */
        kafka->known = true;
        kafka->claims.version++;
    }
    if (wanted == kafka->subscribed)
        return 0;
    if (wanted) {
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(list, kafka->self->stream, RD_KAFKA_PARTITION_UA);
        code = rd_kafka_subscribe(kafka->group, list);
        rd_kafka_topic_partition_list_destroy(list);
    } else {
        code = rd_kafka_unsubscribe(kafka->group);
    }
    if (code)
        return kafka_fail(kafka->client, code, error);
    kafka->subscribed = wanted;
    return 0;
}

/* ---- Members ---- */

static int send_info(struct kafka *kafka, const char *info, struct error *error) {
    const struct fleet_self *self = kafka->self;
    char key[CLAIMS_KEY_SIZE];
    kafka->info_due = clock_seconds() + self->lease / FLEET_RENEWALS_A_LEASE;
    return claims_append(&kafka->claims, claims_key(key, OF_DAEMON, self->name),
                         json_pack("{s:s, s:s, s:f, s:s, s:o}", "id", self->id, "run", kafka->run,
                                   "lease", self->lease, "info", info, "kind",
                                   claims_kind_of(self)),
                         error);
}

static const char *old_topic(const struct kafka *kafka, char name[KAFKA_TOPIC_SIZE]) {
    snprintf(name, KAFKA_TOPIC_SIZE, "%s" OLD_TOPIC, kafka->self->group);
    return name;
}

/* Whether an older version has a fleet of this group with a partition that was not moved. */
static int is_old(struct kafka *kafka, size_t partitions, bool *old, struct error *error) {
    char name[KAFKA_TOPIC_SIZE];
    *old = false;
    for (size_t p = 0; p < partitions; p++)
        if (!kafka->claims.held[p].record)
            return kafka_has_topic(kafka->client, old_topic(kafka, name), old, error);
    return 0;
}

static int refuse_old(struct kafka *kafka, struct error *error) {
    const char *group = kafka->self->group, *at = kafka->client->options->servers;
    bool old;
    if (is_old(kafka, kafka->self->partitions, &old, error))
        return -1;
    return old ? error_set(error, EX_CONFIG,
                           "an older runnel keeps the fleet %s at %s in the topic %s" OLD_TOPIC
                           ": stop its daemons (SIGTERM), then run runnel-fleet --kafka %s --group "
                           "%s move %s once; or use another examples.kafka.group",
                           group, at, group, at, group, kafka->self->stream)
               : 0;
}

/* If two daemons create a fleet at the same moment, the later one finds the other. */
static int join(struct fleet_link *link, const char *info, struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    const struct fleet_self *self = kafka->self;
    if (claims_follow(&kafka->claims, error) || claims_follow_all(&kafka->claims, error))
        return -1;
    const json_t *other = claims_find(&kafka->claims, OF_DAEMON, self->name);
    if (other && strcmp(claims_text(other, "id"), self->id) != 0 && claims_lease_left(other) > 0) {
        kafka->claims.link.namesake = (struct fleet_namesake){
            .end = claims_number(other, "time") +
                   (uint64_t)(json_number_value(json_object_get(other, "lease")) * MS),
            .left = claims_lease_left(other)};
        return fleet_name_is_taken(self, error);
    }
    return refuse_old(kafka, error) || claims_check(&kafka->claims, error) ||
                   send_info(kafka, info, error) || claims_follow_all(&kafka->claims, error) ||
                   claims_check(&kafka->claims, error) || subscribe(kafka, error)
               ? -1
               : 0;
}

static int renew(struct fleet_link *link, const char *info, uint64_t *version,
                 struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    int displaced = claims_follow(&kafka->claims, error) ? -1 : poll_group(kafka, error);
    if (displaced < 0)
        return -1;
    const json_t *own = claims_find(&kafka->claims, OF_DAEMON, kafka->self->name);
    *version = own && (displaced || strcmp(claims_text(own, "run"), kafka->run) != 0)
                   ? FLEET_DISPLACED
                   : 0;
    if (!own || *version)
        return 0;
    release_revoked(kafka, false);
    const bool is_due = !kafka->client->writes && clock_seconds() >= kafka->info_due;
    if (subscribe(kafka, error) || (is_due && send_info(kafka, info, error)))
        return -1;
    *version = kafka->claims.version;
    return 0;
}

/* The others need not wait for the end of the session. */
static int leave(struct fleet_link *link, struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    const double end = clock_seconds() + LEAVE_S;
    const char *name = kafka->self->name;
    char key[CLAIMS_KEY_SIZE];
    size_t span;
    if (kafka->group)
        rd_kafka_unsubscribe(kafka->group);
    while (kafka->group && clock_seconds() < end) {
        if (!is_member(kafka) || poll_group(kafka, error))
            break;
        release_revoked(kafka, true);
        nanosleep(&(struct timespec){.tv_nsec = KAFKA_POLL_MS * 1000000L}, NULL);
    }
    if (claims_follow(&kafka->claims, error))
        return -1;
    if (strcmp(claims_text(claims_find(&kafka->claims, OF_DAEMON, name), "run"), kafka->run) != 0)
        return 0; /* another process has the name now */
    if (claims_begin(&kafka->claims, &span, error) ||
        claims_erase(&kafka->claims, span, claims_key(key, OF_DAEMON, name), error) ||
        claims_erase(&kafka->claims, span, claims_key(key, OF_DRAINED, name), error)) {
        kafka_abort(kafka->client);
        return -1;
    }
    return claims_commit(&kafka->claims, NULL, NULL, error);
}

/* ---- Views ---- */

static bool is_to_have(const struct kafka *kafka, const struct holding *held) {
    return kafka->subscribed && held->assigned && !held->leaving && !kafka->draining;
}

static int add_daemon(const struct kafka *kafka, struct fleet_view *view, const char *name,
                      const json_t *record) {
    struct fleet_daemon *daemon = &view->daemons[view->daemon_count++];
    double left = record ? claims_lease_left(record) : 0;
    const char *info = claims_text(record, "info");
    *daemon =
        (struct fleet_daemon){.name = strdup(name),
                              .living = left > 0,
                              .draining = claims_find(&kafka->claims, OF_DRAINED, name) != NULL,
                              .lease = left > 0 ? left : 0,
                              .info = strdup(*info ? info : "{}")};
    return daemon->name && daemon->info ? 0 : -1;
}

/* Adds the daemons that are running or owned partitions when they ended; this daemon only once it
   knows its assignment. */
static int add_daemons(const struct kafka *kafka, struct fleet_view *view) {
    const char *key, *self = kafka->self->name;
    json_t *record, *owners = json_object();
    int result = owners ? 0 : -1;
    for (size_t p = 0; p < kafka->claims.held_count; p++)
        if (kafka->claims.held[p].record && !kafka->claims.held[p].is_free)
            json_object_set_new(owners, kafka->claims.held[p].name, json_null());
    json_object_foreach(kafka->claims.records, key, record) {
        if (*key == *OF_DAEMON &&
            (claims_lease_left(record) > 0 || (self && !strcmp(key + 1, self))))
            json_object_set(owners, key + 1, record);
    }
    view->daemons = calloc(json_object_size(owners) + 1, sizeof *view->daemons);
    json_object_foreach(owners, key, record) {
        if (view->daemons && result == 0 && (!self || strcmp(key, self) != 0 || kafka->known))
            result = add_daemon(kafka, view, key, claims_find(&kafka->claims, OF_DAEMON, key));
    }
    json_decref(owners);
    if (!view->daemons || result)
        return -1;
    fleet_view_sort(view);
    return 0;
}

/* A partition that the group has assigned to this daemon has no other owner. */
static int owner_of(const struct kafka *kafka, const struct fleet_view *view, int self,
                    const struct holding *held) {
    if (!held->record || held->is_free)
        return -1;
    if (!kafka->self->name)
        return fleet_view_find(view, held->name);
    if (is_own(kafka, held))
        return held->assigned ? self : -1;
    return held->assigned || strcmp(held->name, kafka->self->name) == 0
               ? -1
               : fleet_view_find(view, held->name);
}

static int add_partitions(const struct kafka *kafka, struct fleet_view *view, size_t count) {
    const char *name = kafka->self->name;
    int self = name ? fleet_view_find(view, name) : -1;
    view->partitions = calloc(count + 1, sizeof *view->partitions);
    if (!view->partitions)
        return -1;
    view->partition_count = count;
    for (size_t p = 0; p < count; p++) {
        const struct holding *held = &kafka->claims.held[p];
        view->partitions[p] =
            (struct fleet_partition){.owner = owner_of(kafka, view, self, held),
                                     .to = is_to_have(kafka, held) ? self : -1,
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

static int look(struct fleet_link *link, struct fleet_view *view, struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    fleet_view_free(view);
    int found = claims_follow(&kafka->claims, error);
    if (found)
        return found > 0 ? 0 : -1;
    if (!kafka->self->name && claims_follow_all(&kafka->claims, error))
        return -1;
    const json_t *kind = claims_any_kind(&kafka->claims);
    size_t count = kafka->self->name ? kafka->self->partitions : claims_number(kind, "partitions");
    size_t arrived = 0;
    const char *key;
    json_t *record;
    json_object_foreach(kafka->claims.records, key, record) {
        arrived += *key == *OF_ARRIVAL && json_object_get(record, "span");
    }
    *view = (struct fleet_view){
        .version = kafka->claims.version, .round = kafka->claims.round, .arrived = arrived};
    bool good =
        add_daemons(kafka, view) == 0 &&
        add_partitions(kafka, view,
                       count < kafka->claims.held_count ? count : kafka->claims.held_count) == 0 &&
        (!kind || ((view->stream = strdup(claims_text(kind, "stream"))) &&
                   (view->digest = strdup(claims_text(kind, "digest")))));
    if (good)
        return 0;
    fleet_view_free(view);
    return error_no_memory(error);
}

/* ---- Claims ---- */

/* While librdkafka waits for a rebalance, a member of an old generation does not rejoin. */
static void note_fenced(struct kafka *kafka) {
    kafka->broken |= kafka->claims.fenced && kafka->revoked;
    kafka->claims.fenced = false;
}

/* Draws a number that no other claim has. */
static int draw_claim(uint64_t *claim, struct error *error) {
    if (fleet_draw(claim, sizeof *claim, error))
        return -1;
    *claim = (*claim >> 1) | 1;
    return 0;
}

/* Makes the record that follows the current one. */
static json_t *next_record(const struct kafka *kafka, const struct holding *held, uint64_t claim) {
    const struct fleet_self *self = kafka->self;
    const json_t *spans = json_object_get(held->record, "spans");
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:o, s:o, s:b}", "claim",
                     (json_int_t)claim, "seen", (json_int_t)held->claim, "base",
                     (json_int_t)held->serial, "serial", (json_int_t)0, "learned",
                     (json_int_t)held->learned, "streams", (json_int_t)held->streams, "offset",
                     held->record ? (json_int_t)held->offset : -1, "free", 0, "daemon", self->name,
                     "id", self->id, "spans", spans ? json_deep_copy(spans) : json_array(), "kind",
                     claims_kind_of(self), "overlaid", held->overlaid);
}

static int put_partition(struct kafka *kafka, size_t span, size_t partition, json_t *record,
                         struct error *error) {
    char key[CLAIMS_KEY_SIZE];
    return claims_put(&kafka->claims, span, claims_number_key(key, OF_PARTITION, partition), record,
                      error);
}

static int put_end(struct kafka *kafka, size_t span, uint64_t claim, int64_t offset,
                   struct error *error) {
    char key[CLAIMS_KEY_SIZE];
    return claims_put(&kafka->claims, span, claims_number_key(key, OF_END, claim),
                      json_pack("{s:I}", "offset", (json_int_t)offset), error);
}

static void add_offset(const struct kafka *kafka, rd_kafka_topic_partition_list_t *list,
                       size_t partition, uint64_t learned) {
    rd_kafka_topic_partition_list_add(list, kafka->self->stream, (int32_t)partition)->offset =
        (int64_t)learned;
}

static int put_take(struct kafka *kafka, size_t span, struct fleet_claim *claim,
                    rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    const struct holding *held = &kafka->claims.held[claim->partition];
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
    const struct holding *held = &kafka->claims.held[claim->partition];
    return is_to_have(kafka, held) && held->claim == claim->claim && !is_own(kafka, held);
}

static int take(struct fleet_link *link, struct fleet_claim *claims, size_t count, size_t *taken,
                struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    size_t span;
    int result = 0;
    *taken = 0;
    if (claims_follow(&kafka->claims, error))
        return -1;
    if (!kafka->group || rd_kafka_assignment_lost(kafka->group))
        return error_set(error, EX_TEMPFAIL, "this daemon is not a member of the group");
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(kafka->group);
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new((int)count + 1);
    if (claims_begin(&kafka->claims, &span, error) || claims_follow_all(&kafka->claims, error))
        result = -1;
    for (size_t n = 0; n < count && result == 0; n++)
        if (claims[n].partition != SIZE_MAX && is_to_take(kafka, &claims[n]))
            result = put_take(kafka, span, &claims[n], offsets, error);
        else
            claims[n].partition = SIZE_MAX;
    if (result == 0 && offsets->cnt)
        result = claims_commit(&kafka->claims, group, offsets, error);
    else
        kafka_abort(kafka->client);
    for (size_t n = 0; n < count && result == 0; n++) {
        if (claims[n].partition == SIZE_MAX)
            continue;
        if (kafka->claims.held[claims[n].partition].claim == claims[n].claim) {
            fill_in(&kafka->claims.held[claims[n].partition], &claims[n]);
            ++*taken;
        } else {
            result = claims_restore(&kafka->claims, claims[n].partition, claims[n].claim, 0, error);
            claims[n].partition = SIZE_MAX;
        }
    }
    rd_kafka_topic_partition_list_destroy(offsets);
    rd_kafka_consumer_group_metadata_destroy(group);
    note_fenced(kafka);
    return result;
}

static int ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                 struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    char key[CLAIMS_KEY_SIZE];
    if (claims_follow(&kafka->claims, error) || claims_follow_all(&kafka->claims, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        const struct holding *held = &kafka->claims.held[claims[n].partition];
        const json_t *end =
            json_object_get(kafka->claims.records, claims_number_key(key, OF_END, claims[n].claim));
        int64_t offset = end            ? (int64_t)claims_number(end, "offset")
                         : held->record ? held->offset
                                        : -1;
        claims[n].is_over = end || (held->claim == claims[n].claim && held->is_free);
        claims[n].is_lost = !end && held->claim != claims[n].claim;
        claims[n].is_known = offset >= 0;
        claims[n].offset = (struct fleet_offset){.sequence = offset >= 0 ? (uint64_t)offset : 0};
    }
    return 0;
}

static int settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                  struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    char key[CLAIMS_KEY_SIZE];
    size_t span;
    if (claims_follow(&kafka->claims, error) || claims_begin(&kafka->claims, &span, error))
        return -1;
    int result = 0;
    for (size_t n = 0; n < count && result == 0; n++)
        result =
            claims_erase(&kafka->claims, span, claims_number_key(key, OF_END, claims[n]), error);
    if (result == 0)
        result = claims_commit(&kafka->claims, NULL, NULL, error);
    kafka_abort(kafka->client);
    return result;
}

/* ---- Commits ---- */

enum verdict { WRITE, DONE, REFUSED, INCOMPLETE };

static enum verdict check_commit(const struct kafka *kafka, const struct fleet_commit *commit) {
    const struct holding *held = &kafka->claims.held[commit->partition];
    if (held->record && held->claim == commit->claim && held->serial == commit->serial)
        return DONE; /* the answer was lost */
    if (!held->assigned || !is_own(kafka, held) || held->claim != commit->claim)
        return REFUSED;
    return !commit->whole && commit->rows &&
                   (held->overlaid ||
                    json_array_size(json_object_get(held->record, "spans")) >= SPANS_MAX)
               ? INCOMPLETE
               : WRITE;
}

static struct staged *find_staged(struct kafka *kafka, const struct fleet_commit *commit) {
    for (size_t n = 0; n < kafka->staged_count; n++)
        if (kafka->client->writes && kafka->staged[n].transaction == kafka->client->number &&
            kafka->staged[n].partition == commit->partition &&
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
    **staged =
        (struct staged){commit->partition, commit->serial, kafka->client->number, 0, SIZE_MAX};
    if (check_commit(kafka, commit) != WRITE)
        return 0;
    (*staged)->span = kafka_span_new(kafka->client, 0);
    return (*staged)->span == SIZE_MAX ? error_no_memory(error) : 0;
}

/* A failed attempt stages everything again: only the spans of the last one count. */
static int stage(struct fleet_link *link, const struct fleet_commit *commit,
                 const struct fleet_row *rows, size_t count, struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    if (count == 0)
        return 0;
    int result = claims_follow(&kafka->claims, error) || kafka_begin(kafka->client, error) ? -1 : 0;
    struct staged *staged = find_staged(kafka, commit);
    if (result == 0 && !staged)
        result = add_staged(kafka, commit, &staged, error);
    for (size_t n = 0; n < count && result == 0 && staged->span != SIZE_MAX; n++)
        result = kafka_write_row(kafka->client, (int32_t)commit->partition, staged->span, &rows[n],
                                 error);
    if (result == 0) {
        staged->rows += count;
        return 0;
    }
    kafka->staged_count = 0;
    kafka_abort(kafka->client);
    return -1;
}

static int put_commit(struct kafka *kafka, size_t span, const struct fleet_commit *commit,
                      bool release, rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    const struct holding *held = &kafka->claims.held[commit->partition];
    const struct staged *staged = commit->rows ? find_staged(kafka, commit) : NULL;
    const int64_t offset = commit->learned ? (int64_t)commit->offset.sequence : -1;
    if (commit->rows && (!staged || staged->span == SIZE_MAX || staged->rows < commit->rows))
        return error_set(error, EX_TEMPFAIL, "the transaction was interrupted");
    json_t *record = next_record(kafka, held, commit->claim);
    if (!record)
        return error_no_memory(error);
    json_object_set_new(record, "serial", json_integer((json_int_t)commit->serial));
    json_object_set_new(record, "learned", json_integer((json_int_t)commit->learned));
    json_object_set_new(record, "streams", json_integer((json_int_t)commit->streams));
    json_object_set_new(record, "offset", json_integer(offset));
    json_object_set_new(record, "free", json_boolean(release));
    json_object_set_new(record, "whole", json_boolean(commit->whole));
    json_t *spans = json_object_get(record, "spans");
    if (commit->whole)
        json_array_clear(spans);
    if (staged)
        json_array_append_new(spans, claims_span_json(&kafka->client->spans[staged->span]));
    if (put_partition(kafka, span, commit->partition, record, error) ||
        (release && put_end(kafka, span, commit->claim, offset, error)))
        return -1;
    add_offset(kafka, offsets, commit->partition, commit->learned);
    return 0;
}

/* If the group has changed since the states were staged, all jobs have to be repeated. */
static int has_changed(struct kafka *kafka, const struct fleet_commit *commit) {
    const struct staged *staged = find_staged(kafka, commit);
    return staged && staged->span != SIZE_MAX && check_commit(kafka, commit) != WRITE;
}

static int commit_each(struct kafka *kafka, struct fleet_commit *commits, size_t count,
                       bool release, const rd_kafka_consumer_group_metadata_t *group,
                       rd_kafka_topic_partition_list_t *offsets, struct error *error) {
    size_t span;
    if (claims_join(&kafka->claims, &span, error) || kafka_wait(kafka->client, error) ||
        claims_follow_all(&kafka->claims, error))
        return -1;
    if (!kafka->group || rd_kafka_assignment_lost(kafka->group))
        return error_set(error, EX_TEMPFAIL, "this daemon is not a member of the group");
    for (size_t n = 0; n < count; n++) {
        if (has_changed(kafka, &commits[n]))
            return error_set(error, EX_TEMPFAIL, "the group has rebalanced during the commit");
        const enum verdict verdict = check_commit(kafka, &commits[n]);
        commits[n].refused = verdict == REFUSED;
        commits[n].incomplete = verdict == INCOMPLETE;
        if (verdict == WRITE && put_commit(kafka, span, &commits[n], release, offsets, error))
            return -1;
    }
    if (offsets->cnt && claims_commit(&kafka->claims, group, offsets, error))
        return -1;
    for (size_t n = 0; n < count; n++) { /* another daemon's record may be first */
        if (!rd_kafka_topic_partition_list_find(offsets, kafka->self->stream,
                                                (int32_t)commits[n].partition) ||
            check_commit(kafka, &commits[n]) == DONE)
            continue;
        commits[n].refused = true;
        if (claims_restore(&kafka->claims, commits[n].partition, commits[n].claim,
                           commits[n].serial, error))
            return -1;
    }
    return 0;
}

static int commit(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                  struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    int result = claims_follow(&kafka->claims, error);
    rd_kafka_consumer_group_metadata_t *group =
        kafka->group ? rd_kafka_consumer_group_metadata(kafka->group) : NULL;
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new((int)count + 1);
    if (result == 0)
        result = commit_each(kafka, commits, count, release, group, offsets, error);
    rd_kafka_topic_partition_list_destroy(offsets);
    if (group)
        rd_kafka_consumer_group_metadata_destroy(group);
    kafka_abort(kafka->client);
    kafka->staged_count = 0;
    note_fenced(kafka);
    return result;
}

/* Visits the valid states of a partition: those of each commit since the last complete one. */
static int states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                  struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    struct kafka_span spans[SPANS_MAX];
    size_t count = 0;
    if (claims_follow(&kafka->claims, error))
        return -1;
    const struct holding *held = &kafka->claims.held[partition];
    const json_t *list = json_object_get(held->record, "spans");
    while (count < SPANS_MAX && claims_span(json_array_get(list, count), &spans[count]))
        count++;
    return kafka_read_rows(kafka->client, (int32_t)partition, spans, count, held->streams, visit,
                           context, error);
}

/* ---- Commands of runnel-fleet ---- */

static int ends(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    if (kafka_connect(kafka->client, false, error) < 0)
        return -1;
    for (size_t n = 0; n < view->partition_count; n++) {
        int64_t low, high;
        if (kafka_offsets(kafka->client, view->stream, (int32_t)n, &low, &high, error))
            return -1;
        ends[n] = high >= 0 ? (uint64_t)high : UINT64_MAX;
    }
    return 0;
}

static int groups(struct fleet_link *link, struct fleet_groups *groups, struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    return kafka_connect(kafka->client, false, error) < 0
               ? -1
               : kafka_groups(kafka->client, groups, error);
}

/* Only daemons create the topics, not runnel-fleet. */
static int see_all(struct kafka *kafka, struct error *error) {
    int found = claims_follow(&kafka->claims, error);
    if (found > 0)
        return error_set(
            error, EX_UNAVAILABLE,
            "fleet not found: %s at %s: no daemon has joined it, and the topic %s does not exist",
            kafka->self->group, kafka->client->options->servers, kafka->client->claims);
    return found ? -1 : claims_follow_all(&kafka->claims, error);
}

static int drain(struct fleet_link *link, const char *name, struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    char key[CLAIMS_KEY_SIZE];
    if (see_all(kafka, error))
        return -1;
    const json_t *daemon =
        strlen(name) < FLEET_NAME_SIZE ? claims_find(&kafka->claims, OF_DAEMON, name) : NULL;
    if (!daemon || claims_lease_left(daemon) <= 0)
        return error_set(error, EX_USAGE, "daemon not found: %s in the fleet %s", name,
                         kafka->self->group);
    return claims_append(&kafka->claims, claims_key(key, OF_DRAINED, name), json_object(), error);
}

static int rebalance(struct fleet_link *link, struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    const char *key;
    json_t *record;
    size_t span, drained = 0;
    if (see_all(kafka, error) || claims_begin(&kafka->claims, &span, error))
        return -1;
    int result = 0;
    json_object_foreach(kafka->claims.records, key, record) {
        if (*key == *OF_DRAINED && result == 0) {
            result = claims_erase(&kafka->claims, span, key, error);
            drained++;
        }
    }
    if (result == 0 && drained)
        result = claims_commit(&kafka->claims, NULL, NULL, error);
    kafka_abort(kafka->client);
    return result;
}

static json_t *moved_record(int64_t learned) {
    return json_pack("{s:I, s:i, s:i, s:i, s:I, s:i, s:I, s:b, s:s, s:s, s:[]}", "claim",
                     (json_int_t)1, "seen", 0, "base", 0, "serial", 1, "learned",
                     (json_int_t)learned, "streams", 0, "offset", (json_int_t)learned - 1, "free",
                     1, "daemon", "", "id", "", "spans");
}

/* A command of a later version ends each daemon of the older version that starts again. */
static int end_old(struct kafka *kafka, struct error *error) {
    static const char COMMAND[] = "{\"v\":99,\"do\":\"leave\"}";
    char topic[KAFKA_TOPIC_SIZE];
    return kafka_write(kafka->client, old_topic(kafka, topic), 0, NULL, 0, COMMAND, strlen(COMMAND),
                       SIZE_MAX, error);
}

static int nothing_to_move(const struct kafka *kafka, struct error *error) {
    const struct fleet_self *self = kafka->client->self;
    return error_set(error, EX_USAGE,
                     "nothing to move: %s has no topic %s" OLD_TOPIC
                     " of an older runnel, or the group %s has no committed offsets of topic %s, "
                     "or this version already uses them",
                     kafka->client->options->servers, self->group, self->group, self->stream);
}

static int move_all(struct kafka *kafka, int64_t *offsets, int count, struct error *error) {
    char key[CLAIMS_KEY_SIZE];
    size_t span;
    bool some = false;
    if (kafka_committed(kafka->client, kafka->client->self->stream, offsets, count, error))
        return -1;
    for (int p = 0; p < count; p++)
        some |= offsets[p] > 0;
    if (!some)
        return nothing_to_move(kafka, error);
    if (claims_begin(&kafka->claims, &span, error) || end_old(kafka, error))
        return -1;
    for (int p = 0; p < count; p++)
        if (!kafka->claims.held[p].record &&
            claims_put(&kafka->claims, span, claims_number_key(key, OF_PARTITION, (uint64_t)p),
                       moved_record(offsets[p] > 0 ? offsets[p] : 0), error))
            return -1;
    return claims_commit(&kafka->claims, NULL, NULL, error);
}

/* Creates the topics for the named stream, since it has no configuration of a daemon. */
static int move(struct fleet_link *link, const char *stream, size_t *count, struct error *error) {
    struct kafka *kafka = (struct kafka *)link;
    struct fleet_self self = *kafka->self;
    int partitions, result = -1;
    bool old = false;
    self.stream = stream;
    kafka->client->self = &self;
    if (kafka_connect(kafka->client, false, error) < 0 ||
        kafka_count(kafka->client, stream, &partitions, error))
        goto end;
    self.partitions = *count = (size_t)partitions;
    if (partitions == 0 || partitions > FLEET_PARTITIONS_MAX) {
        nothing_to_move(kafka, error);
        goto end;
    }
    int64_t *offsets = calloc((size_t)partitions + 1, sizeof *offsets);
    if (!offsets)
        error_no_memory(error);
    else if (kafka_connect(kafka->client, true, error) == 0 &&
             claims_follow(&kafka->claims, error) == 0 &&
             is_old(kafka, self.partitions, &old, error) == 0)
        result = old && partitions ? move_all(kafka, offsets, partitions, error)
                                   : nothing_to_move(kafka, error);
    free(offsets);
end:
    kafka->client->self = kafka->self;
    return result ? -1 : 0;
}

/* ---- Opening and closing ---- */

static void close_kafka(struct fleet_link **link) {
    struct kafka *kafka = (struct kafka *)*link;
    if (kafka) {
        claims_forget(&kafka->claims);
        end_group(kafka);
        kafka_disconnect(kafka->client);
        free(kafka->claims.held);
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
    .arrive = claims_arrive,
    .pass = claims_pass,
    .round = claims_round,
    .parameters = claims_parameters,
    .ends = ends,
    .groups = groups,
    .drain = drain,
    .rebalance = rebalance,
    .move = move,
};

int fleet_kafka_open(struct fleet_link **link, const struct kafka_options *options,
                     const struct fleet_self *self, struct error *error) {
    struct kafka *kafka = calloc(1, sizeof *kafka);
    *link = NULL;
    if (!kafka)
        return error_no_memory(error);
    kafka->claims.link.ops = &kafka_ops;
    kafka->client = &kafka->claims.client;
    kafka->client->options = options;
    kafka->self = kafka->client->self = self;
    if (kafka_name_topics(kafka->client, error) || draw_claim(&kafka->client->tag, error) ||
        fleet_id_draw(kafka->run, error)) {
        free(kafka);
        return -1;
    }
    *link = &kafka->claims.link;
    return 0;
}
