#include "fleet_kafka.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <sys/random.h>

#include "common/clock.h"
#include "fleet_kafka_internal.h"

enum { SNAPSHOT_MESSAGES = 10000 };

/* ---- Members ---- */

static int another_has_the_name(const struct kafka *kafka, struct error *error) {
    return error_set(error, EX_CONFIG,
                     "another daemon of the name %s is in the fleet %s: give each daemon a name of "
                     "its own (name), and a state directory of its own",
                     kafka->self->name, kafka->self->group);
}

static int judge_join(struct kafka *kafka, enum fleet_verdict verdict, struct error *error) {
    const struct fleet_self *self = kafka->self;
    const struct fleet_kind kind = fleet_machine_kind(kafka->machine);
    const char *at = kafka->options->servers;
    switch (verdict) {
    case FLEET_STREAM:
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns the topic %s, and not %s: two fleets need two "
                         "groups (examples.kafka.group)",
                         self->group, at, kind.stream, self->stream);
    case FLEET_PARTITIONS:
        return error_set(
            error, EX_CONFIG,
            "the fleet %s at %s has %" PRIu64 " partitions, and the topic %s has %zu: what "
            "each stream belongs to has changed; use another examples.kafka.group",
            self->group, at, (uint64_t)kind.partitions, self->stream, self->partitions);
    case FLEET_DIGEST:
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns with another configuration (its digest is %s, "
                         "and this daemon's %s): give all daemons of a fleet the same one, or use "
                         "another examples.kafka.group",
                         self->group, at, kind.digest, self->digest);
    case FLEET_AVERAGE:
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s averages every %" PRIu64 " examples, and this daemon "
                         "%" PRIu64 " (0: never): give all daemons of a fleet the same "
                         "fleet.average.every, or use another examples.kafka.group",
                         self->group, at, kind.every, self->every);
    default:
        kafka->link.namesake = fleet_machine_namesake(kafka->machine, self->name);
        return another_has_the_name(kafka, error);
    }
}

/* Whether the member may do what it asked for: -1. */
int kafka_judge(const struct kafka *kafka, const struct fleet_answer *answer, struct error *error) {
    if (answer->verdict == FLEET_NAMESAKE)
        return another_has_the_name(kafka, error);
    if (answer->verdict == FLEET_STALE)
        return error_set(error, EX_TEMPFAIL, "another daemon of this one's name has joined since");
    if (answer->verdict == FLEET_STRANGER)
        return error_set(error, EX_TEMPFAIL, "it does not know this daemon any more");
    return 0;
}

int kafka_ask(struct kafka *kafka, struct fleet_command *command, struct fleet_answer *answer,
              struct error *error) {
    if (kafka_command(kafka, command, answer, error))
        return -1;
    int result = kafka_judge(kafka, answer, error);
    if (result) /* what has become of the membership is asked for at once */
        kafka->renew_due = 0;
    return result;
}

static void is_renewed(struct kafka *kafka, double since) {
    kafka->renew_due = since + kafka->self->lease / FLEET_RENEWALS_A_LEASE;
}

static int join(struct fleet_link *link, const char *info, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_JOIN,
                                    .stream = kafka->self->stream,
                                    .digest = kafka->self->digest,
                                    .info = info,
                                    .lease = kafka_lease(kafka),
                                    .every = kafka->self->every,
                                    .partitions = kafka->self->partitions};
    double since = clock_seconds();
    if (kafka_command(kafka, &command, &answer, error))
        return -1;
    if (answer.verdict != FLEET_DONE)
        return judge_join(kafka, answer.verdict, error);
    is_renewed(kafka, since);
    return 0;
}

/* The log is not written more often than it has to be. */
static int renew(struct fleet_link *link, const char *info, uint64_t *version,
                 struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_answer answer;
    struct fleet_command command = {
        .kind = FLEET_COMMAND_RENEW, .info = info, .lease = kafka_lease(kafka)};
    double since = clock_seconds();
    if (kafka_follow(kafka, true, error))
        return -1;
    if (since >= kafka->renew_due) {
        if (kafka_command(kafka, &command, &answer, error))
            return -1;
        *version = 0;
        if (answer.verdict == FLEET_STALE)
            *version = FLEET_DISPLACED;
        if (answer.verdict == FLEET_STRANGER || answer.verdict == FLEET_STALE)
            return 0;
        if (kafka_judge(kafka, &answer, error))
            return -1;
        is_renewed(kafka, since);
        kafka_snapshot(kafka);
    }
    *version = fleet_machine_version(kafka->machine);
    return 0;
}

static int leave(struct fleet_link *link, struct error *error) {
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_LEAVE};
    return kafka_command(kafka_of(link), &command, &answer, error);
}

/* Who is no member has to read the log to its end; that may have been long ago. */
static int look(struct fleet_link *link, struct fleet_view *view, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    bool member = kafka->self->name != NULL;
    fleet_view_free(view);
    int found = kafka_follow(kafka, member, error);
    if (found)
        return found > 0 ? 0 : -1;
    if (!member && kafka_catch_up(kafka, error))
        return -1;
    if (fleet_machine_view(kafka->machine, member ? 0 : kafka_now(), view, error))
        return -1;
    for (size_t n = 0; n < view->partition_count; n++)
        view->partitions[n].committed &= kafka_from_log(&view->partitions[n].offset);
    return 0;
}

/* ---- People ---- */

static int ends(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error) {
    struct kafka *kafka = kafka_of(link);
    if (kafka_connect(kafka, false, error) < 0)
        return -1;
    for (size_t n = 0; n < view->partition_count; n++) {
        int64_t low, high;
        if (kafka_offsets(kafka, view->stream, (int32_t)n, &low, &high, error))
            return -1;
        ends[n] = high >= 0 ? (uint64_t)high : UINT64_MAX;
    }
    return 0;
}

static int drain(struct fleet_link *link, const char *name, struct error *error) {
    struct kafka *kafka = kafka_of(link);
    struct fleet_answer answer = {.verdict = FLEET_ABSENT};
    struct fleet_command command = {.kind = FLEET_COMMAND_DRAIN, .target = name};
    if (kafka_command(kafka, &command, &answer, error) < 0)
        return -1;
    return answer.verdict == FLEET_ABSENT
               ? error_set(error, EX_USAGE, "there is no daemon %s in the fleet %s now", name,
                           kafka->self->group)
               : 0;
}

static int rebalance(struct fleet_link *link, struct error *error) {
    struct fleet_answer answer;
    struct fleet_command command = {.kind = FLEET_COMMAND_REBALANCE};
    return kafka_command(kafka_of(link), &command, &answer, error) < 0 ? -1 : 0;
}

/* ---- Opening and closing ---- */

static void close_kafka(struct fleet_link **link) {
    struct kafka *kafka = kafka_of(*link);
    if (kafka) {
        kafka_disconnect(kafka);
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
    .take = kafka_take,
    .ended = kafka_ended,
    .settle = kafka_settle,
    .stage = kafka_stage,
    .commit = kafka_commit,
    .states = kafka_states,
    .arrive = kafka_arrive,
    .pass = kafka_pass,
    .round = kafka_round,
    .parameters = kafka_parameters,
    .ends = ends,
    .groups = kafka_groups,
    .drain = drain,
    .rebalance = rebalance,
};

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

static int name_topics(struct kafka *kafka, struct error *error) {
    const char *group = kafka->self->group;
    size_t size = strlen(group);
    if (size == 0 || size > FLEET_GROUP_MAX || strspn(group, LETTERS) != size)
        return error_set(error, EX_CONFIG,
                         "the fleet %s needs the topics %s.fleet, %s.states and %s.parameters, "
                         "which Kafka cannot have: give its group (examples.kafka.group) at most "
                         "%d letters, digits, '.', '_' and '-'",
                         group, group, group, group, FLEET_GROUP_MAX);
    snprintf(kafka->log, sizeof kafka->log, "%s.fleet", group);
    snprintf(kafka->states, sizeof kafka->states, "%s.states", group);
    snprintf(kafka->parameters, sizeof kafka->parameters, "%s.parameters", group);
    return 0;
}

/* A run, and tags, that nobody else in the fleet has. */
static int draw(struct kafka *kafka, struct error *error) {
    if (getrandom(&kafka->tag, sizeof kafka->tag, 0) != sizeof kafka->tag)
        return error_set(error, EX_OSERR, "there are no random numbers: %s", strerror(errno));
    return fleet_id_draw(kafka->run, error);
}

int fleet_kafka_open(struct fleet_link **link, const struct kafka_options *options,
                     const struct fleet_self *self, struct error *error) {
    struct kafka *kafka = calloc(1, sizeof *kafka);
    *link = NULL;
    if (!kafka)
        return error_no_memory(error);
    kafka->link.ops = &kafka_ops;
    kafka->options = options;
    kafka->self = self;
    kafka->snapshots = SNAPSHOT_MESSAGES;
    if (name_topics(kafka, error) || draw(kafka, error)) {
        free(kafka);
        return -1;
    }
    *link = &kafka->link;
    return 0;
}

void fleet_kafka_snapshots(struct fleet_link *link, int64_t messages) {
    kafka_of(link)->snapshots = messages;
}
