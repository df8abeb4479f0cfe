#include "consuming.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/fields.h"
#include "common/log.h"
#include "consume/consume.h"
#include "journalling.h"
#include "common/example.h"
#include "parts.h"
#include "run.h"
#include "store/journal.h"

struct consuming {
    uint32_t numbers[CONSUME_PARTITIONS_MAX];            /* the journal's; 0 = none */
    struct consume_place newest[CONSUME_PARTITIONS_MAX]; /* appended, */
    bool appended[CONSUME_PARTITIONS_MAX];               /* since it was started */
    bool given; /* by consuming_take, and not refused: it is appended. Its */
    size_t given_partition;
    struct consume_place given_place;
    size_t started;   /* of all, one after the other */
    uint64_t durable; /* the journal's position when places were last looked at */
    char *places;     /* of consuming_report */
    struct field_count *lags;
};

/* ---- Opening ---- */

int consuming_open(struct daemon *daemon, struct error *error) {
    if (!config_consumes(daemon->config))
        return 0;
    daemon->consuming = calloc(1, sizeof *daemon->consuming);
    return daemon->consuming ? 0 : error_no_memory(error);
}

void consuming_close(struct daemon *daemon) {
    consuming_reported(daemon);
    free(daemon->consuming);
    daemon->consuming = NULL;
}

int consuming_descriptor(const struct daemon *daemon) {
    return consume_descriptor(daemon->consume);
}

/* Whether `name` is what a stream or topic calls its partitions: "redis:sensors",
   "redis:sensors.3", "kafka:sensors[3]". */
static bool is_of(const struct config *config, const char *name) {
    const struct consume_config *c = &config->consume;
    bool redis = *c->redis.stream;
    const char *source = redis ? c->redis.stream : c->kafka.topic;
    const char *kind = redis ? "redis:" : "kafka:";
    size_t size = strlen(kind) + strlen(source);
    if (strncmp(name, kind, strlen(kind)) != 0 ||
        strncmp(name + strlen(kind), source, strlen(source)) != 0)
        return false;
    const char *rest = name + size;
    const size_t begins = *rest == (redis ? '.' : '[');
    return !*rest || (begins && strspn(rest + 1, "0123456789") + 1 + !redis == strlen(rest));
}

static bool is_read(const struct daemon *daemon, const char *name) {
    for (size_t n = 0; n < consume_partitions(daemon->consume); n++)
        if (strcmp(consume_name(daemon->consume, n), name) == 0)
            return true;
    return false;
}

/* Where a key's examples go depends on how many partitions there are. What of another stream is in
   the journal stays there: who names that again resumes it. */
static int check_partitions(const struct daemon *daemon, struct error *error) {
    bool redis = *daemon->config->consume.redis.stream;
    for (uint32_t n = 1; n <= journal_partitions(daemon->journal); n++) {
        const char *name = journal_partition_name(daemon->journal, n);
        if (is_read(daemon, name))
            continue;
        if (is_of(daemon->config, name))
            return error_set(error, EX_CONFIG,
                             "the journal in %s has read %s, which %s leaves out: what comes there "
                             "would never be learned; %s, or give this daemon a directory of its "
                             "own with state.directory",
                             daemon->config->state_directory, strchr(name, ':') + 1,
                             redis ? "examples.redis.partitions" : "the topic, as it is now,",
                             redis ? "set the number that its writers use" : "give it back");
        log_warning("the journal has read %s, which is not read any more: it resumes there once "
                    "that is configured again",
                    name);
    }
    return 0;
}

/* ---- Starting partitions ---- */

/* What was given last has been appended. */
static void settle(struct consuming *consuming) {
    if (!consuming->given)
        return;
    consuming->given = false;
    consuming->newest[consuming->given_partition] = consuming->given_place;
    consuming->appended[consuming->given_partition] = true;
}

static struct consume_place place_of(const struct journal_place *place) {
    return (struct consume_place){place->epoch, place->sequence, place->count};
}

int consuming_start(struct daemon *daemon, size_t partition, const struct consume_place *after,
                    struct error *error) {
    struct consuming *consuming = daemon->consuming;
    struct journal_place found;
    const char *name = consume_name(daemon->consume, partition);
    uint32_t number = journal_partition(daemon->journal, name);
    if (!number)
        return error_set(error, EX_UNAVAILABLE,
                         "the journal in %s keeps the places of %d partitions, and cannot keep "
                         "that of %s: give this daemon a directory of its own with state.directory",
                         daemon->config->state_directory, JOURNAL_PARTITIONS, name);
    bool known = after || journal_place(daemon->journal, number, &found);
    const struct consume_place place = after   ? *after
                                       : known ? place_of(&found)
                                               : (struct consume_place){0};
    consuming->numbers[partition] = number;
    consuming->newest[partition] = place;
    consuming->appended[partition] = false;
    consume_start(daemon->consume, partition, known ? &place : NULL);
    return 0;
}

uint32_t consuming_number(const struct daemon *daemon, size_t partition) {
    return daemon->consuming->numbers[partition];
}

bool consuming_place(const struct daemon *daemon, size_t partition, struct consume_place *place) {
    settle(daemon->consuming);
    *place = daemon->consuming->newest[partition];
    return daemon->consuming->appended[partition];
}

/* All of them, but in a fleet, which knows when. */
static int start_known(struct daemon *daemon, struct error *error) {
    if (daemon->config->fleet.lease > 0)
        return 0;
    size_t count = consume_partitions(daemon->consume);
    if (daemon->consuming->started == 0 && count > 0 && check_partitions(daemon, error))
        return -1;
    for (; daemon->consuming->started < count; daemon->consuming->started++)
        if (consuming_start(daemon, daemon->consuming->started, NULL, error))
            return -1;
    return 0;
}

int consuming_begin(struct daemon *daemon, struct error *error) {
    if (!daemon->consume || run_is_stopping(daemon))
        return 0;
    return start_known(daemon, error);
}

/* ---- Taking ---- */

/* The place of what is not learned: a command of the journal that does nothing when it is replayed.
 */
static void note(struct daemon *daemon, const struct consume_message *message) {
    char place[CONSUME_PLACE_SIZE];
    consume_print(daemon->consume, &message->place, place);
    const struct journal_place to = {.epoch = message->place.epoch,
                                     .sequence = message->place.sequence,
                                     .count = message->place.count};
    journalling_append_place(daemon, JOURNAL_SKIP,
                             json_pack("{s:s, s:s, s:s, s:s}", "command", "skip", "partition",
                                       consume_name(daemon->consume, message->partition), "place",
                                       place, "reason", message->text),
                             daemon->consuming->numbers[message->partition], &to);
}

int consuming_take(struct daemon *daemon, uint64_t now, struct example *example,
                   struct error *error) {
    struct consuming *consuming = daemon->consuming;
    struct consume_message message;
    int got;
    settle(consuming);
    while ((got = consume_take(daemon->consume, &message, error)) == 1) {
        *example = message.example;
        example->received = now;
        example->partition = daemon->consuming->numbers[message.partition];
        consuming->given = true;
        consuming->given_partition = message.partition;
        consuming->given_place = message.place;
        if (!message.dead)
            return 1;
        ingest_reject(daemon->ingest, example, message.why, message.text);
        note(daemon, &message);
        settle(consuming);
    }
    return got;
}

void consuming_refuse(struct daemon *daemon, enum reject_reason reason, const char *why) {
    daemon->consuming->given = false;
    consume_refuse(daemon->consume, reason, why);
}

/* ---- What is durable ---- */

int consuming_turn(struct daemon *daemon, struct error *error) {
    struct consuming *consuming = daemon->consuming;
    if (!consuming || run_is_replaying(daemon))
        return 0;
    uint64_t durable = journal_durable(daemon->journal);
    size_t count = consume_partitions(daemon->consume);
    for (size_t n = 0; durable != consuming->durable && n < count; n++) {
        struct journal_place found;
        if (!consuming->numbers[n] || !consume_is_read(daemon->consume, n) ||
            !journal_place(daemon->journal, consuming->numbers[n], &found))
            continue;
        const struct consume_place place = place_of(&found);
        consume_durable(daemon->consume, n, &place);
    }
    consuming->durable = durable;
    return start_known(daemon, error);
}

/* ---- What there is to know ---- */

static const char *group_of(const struct config *config) {
    return *config->consume.redis.stream ? config->consume.redis.group
                                         : config->consume.kafka.group;
}

bool consuming_report(const struct daemon *daemon, struct status_fields *status) {
    struct consuming *consuming = daemon->consuming;
    if (!consuming || !daemon->consume)
        return false;
    size_t count = consume_partitions(daemon->consume), counts = 0;
    json_t *places = json_object();
    consuming->lags = calloc(count + 1, sizeof *consuming->lags);
    bool known = consuming->lags != NULL;
    double lag = 0;
    for (size_t n = 0; n < count; n++) {
        struct consume_figures figures;
        char place[CONSUME_PLACE_SIZE];
        consume_figures(daemon->consume, n, &figures);
        if (figures.durable.epoch || figures.durable.sequence || figures.durable.count) {
            consume_print(daemon->consume, &figures.durable, place);
            json_object_set_new(places, figures.name, json_string(place));
        }
        status->consumer_partitions += figures.read;
        status->consumer_dead += figures.dead;
        status->consumer_lost += figures.lost;
        if (daemon->fleet && !figures.read) /* another daemon's */
            continue;
        known &= figures.lag >= 0;
        lag += (double)figures.lag;
        if (consuming->lags)
            consuming->lags[counts++] =
                (struct field_count){figures.name, figures.lag > 0 ? (uint64_t)figures.lag : 0};
    }
    consuming->places = json_dumps(places, JSON_COMPACT);
    json_decref(places);
    status->consumer_group = group_of(daemon->config);
    status->consumer_places = consuming->places;
    status->consumer_lag = known && count ? lag : NAN;
    status->consumer_lags = (struct field_tally){consuming->lags, counts};
    status->consumer_away = consume_away(daemon->consume);
    return true;
}

void consuming_reported(struct daemon *daemon) {
    struct consuming *consuming = daemon->consuming;
    if (!consuming)
        return;
    free(consuming->places);
    free(consuming->lags);
    consuming->places = NULL;
    consuming->lags = NULL;
}
