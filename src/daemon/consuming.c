#include "consuming.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "build-config.h"
#include "common/error.h"
#include "common/example.h"
#include "common/fields.h"
#include "common/log.h"
#include "consume/consume.h"
#include "journalling.h"
#include "parts.h"
#include "run.h"
#include "source.h"
#include "store/journal.h"

struct consuming {
    uint32_t numbers[CONSUME_PARTITIONS_MAX]; /* the journal's; 0 = none */
    bool begun;                               /* what the journal had is learned */
    size_t started;                           /* of all, one after the other */
    uint64_t durable; /* the journal's position when places were last looked at */
    char *places;     /* of consuming_report */
    struct field_count *lags;
};

/* ---- Opening ---- */

/* `ops` NULL: this build has no `library`. */
static int open_consume(struct daemon *daemon, const struct consume_ops *ops, const char *key,
                        const char *library, struct error *error) {
    if (!ops)
        return error_set(error, EX_UNAVAILABLE,
                         "examples.%s: this runneld was built without %s, which it needs to read "
                         "from there; runnel-feed of a build that has it can feed it",
                         key, library);
    daemon->consuming = calloc(1, sizeof *daemon->consuming);
    return daemon->consuming
               ? consume_open(&daemon->consume, ops, daemon->config, &daemon->model, error)
               : error_no_memory(error);
}

static void close_consume(struct daemon *daemon) {
    consume_close(&daemon->consume);
    consuming_reported(daemon);
    free(daemon->consuming);
    daemon->consuming = NULL;
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
    const struct consume_about *about = consume_about(daemon->consume);
    for (uint32_t n = 1; n <= journal_partitions(daemon->journal); n++) {
        const char *name = journal_partition_name(daemon->journal, n);
        if (is_read(daemon, name))
            continue;
        if (consume_calls_so(daemon->consume, name))
            return error_set(error, EX_CONFIG,
                             "the journal in %s has read %s, which %s leaves out: what comes there "
                             "would never be learned; %s, or give this daemon a directory of its "
                             "own with state.directory",
                             daemon->config->state_directory, strchr(name, ':') + 1, about->counts,
                             about->regain);
        log_warning("the journal has read %s, which is not read any more: it resumes there once "
                    "that is configured again",
                    name);
    }
    return 0;
}

/* ---- Starting partitions ---- */

static struct consume_place place_of(const struct journal_place *place) {
    return (struct consume_place){place->epoch, place->sequence, place->count};
}

int consuming_start(struct daemon *daemon, size_t partition, const struct consume_place *after,
                    struct error *error) {
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
    daemon->consuming->numbers[partition] = number;
    consume_start(daemon->consume, partition, known ? &place : NULL);
    return 0;
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

static int begin(struct daemon *daemon, struct error *error) {
    if (run_is_stopping(daemon))
        return 0;
    daemon->consuming->begun = true;
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

static int take(struct daemon *daemon, uint64_t now, struct example *example, struct error *error) {
    struct consume_message message;
    int got;
    while ((got = consume_take(daemon->consume, &message, error)) == 1) {
        *example = message.example;
        example->received = now;
        example->partition = daemon->consuming->numbers[message.partition];
        if (!message.dead)
            return 1;
        ingest_reject(daemon->ingest, example, message.why, message.text);
        note(daemon, &message);
    }
    return got;
}

/* What is taken is answered by its place, which the journal has with it; what is not learned is a
   dead letter. */
static int answer(struct daemon *daemon, const struct example *example,
                  const struct source_answer *given, struct error *error) {
    (void)example, (void)error;
    if (given->status == WIRE_REJECTED)
        consume_refuse(daemon->consume, given->reason, given->text);
    return 0;
}

static void poll_consume(const struct daemon *daemon, zmq_pollitem_t *item) {
    *item = (zmq_pollitem_t){.fd = consume_descriptor(daemon->consume), .events = ZMQ_POLLIN};
}

/* ---- What is durable ---- */

/* Partitions that have become known are read, too. */
static int settle(struct daemon *daemon, struct error *error) {
    struct consuming *consuming = daemon->consuming;
    if (!consuming->begun || run_is_replaying(daemon))
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

bool consuming_report(const struct daemon *daemon, struct status_fields *status) {
    struct consuming *consuming = daemon->consuming;
    if (!consuming)
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
    status->consumer_group = consume_about(daemon->consume)->group;
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

/* ---- The brokers ---- */

static const char *endpoint(const struct daemon *daemon) {
    return consume_about(daemon->consume)->endpoint;
}

static bool repeats(const struct daemon *daemon) {
    (void)daemon;
    return true;
}

static int open_redis(struct daemon *daemon, struct error *error) {
    const struct consume_ops *ops = NULL;
#ifdef RUNNEL_REDIS
    ops = &consume_redis;
#endif
    return open_consume(daemon, ops, "redis", "hiredis (libhiredis-dev)", error);
}

static int open_kafka(struct daemon *daemon, struct error *error) {
    const struct consume_ops *ops = NULL;
#ifdef RUNNEL_KAFKA
    ops = &consume_kafka;
#endif
    return open_consume(daemon, ops, "kafka", "librdkafka (librdkafka-dev)", error);
}

const struct source_ops source_redis = {
    .open = open_redis,
    .begin = begin,
    .close = close_consume,
    .endpoint = endpoint,
    .poll = poll_consume,
    .take = take,
    .answer = answer,
    .settle = settle,
    .repeats = repeats,
};

const struct source_ops source_kafka = {
    .open = open_kafka,
    .begin = begin,
    .close = close_consume,
    .endpoint = endpoint,
    .poll = poll_consume,
    .take = take,
    .answer = answer,
    .settle = settle,
    .repeats = repeats,
};
