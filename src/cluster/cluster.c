#include "cluster.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/example.h"
#include "common/fields.h"
#include "common/log.h"
#include "daemon/journalling.h"
#include "daemon/parts.h"
#include "daemon/run.h"
#include "daemon/source.h"
#include "fleet.h"
#include "shares.h"
#include "store/journal.h"

/* ---- Opening ---- */

static const struct consume_ops *find_ops(const struct config *config) {
#ifdef RUNNEL_REDIS
    if (*config->consume.redis.stream)
        return &consume_redis;
#endif
#ifdef RUNNEL_KAFKA
    if (*config->consume.kafka.topic)
        return &consume_kafka;
#endif
    (void)config;
    return NULL;
}

static int open_broker(struct daemon *daemon, struct error *error) {
    bool redis = *daemon->config->consume.redis.stream;
    const char *name = redis ? "redis" : "kafka", *library = redis ? "hiredis" : "rdkafka";
    const struct consume_ops *ops = find_ops(daemon->config);
    if (!ops)
        return error_set(error, EX_UNAVAILABLE,
                         "examples.%s: runnel-cluster.so was built without lib%s; install "
                         "lib%s-dev and build with configure --with-%s",
                         name, library, library, name);
    daemon->cluster = calloc(1, sizeof *daemon->cluster);
    return daemon->cluster
               ? consume_open(&daemon->cluster->consume, ops, daemon->config, &daemon->model, error)
               : error_no_memory(error);
}

static void free_texts(struct cluster *cluster) {
    free(cluster->places);
    free(cluster->lags);
    cluster->places = NULL;
    cluster->lags = NULL;
}

static void close_broker(struct daemon *daemon) {
    if (!daemon->cluster)
        return;
    fleet_close(daemon);
    consume_close(&daemon->cluster->consume);
    free_texts(daemon->cluster);
    free(daemon->cluster);
    daemon->cluster = NULL;
}

static bool is_read(const struct daemon *daemon, const char *name) {
    for (size_t n = 0; n < consume_partitions(daemon->cluster->consume); n++)
        if (strcmp(consume_name(daemon->cluster->consume, n), name) == 0)
            return true;
    return false;
}

/* The number of partitions decides where the examples of a key go. A partition of another stream
   may stay in the journal: reading resumes there when that stream is configured again. */
static int check_partitions(const struct daemon *daemon, struct error *error) {
    const struct consume_about *about = consume_about(daemon->cluster->consume);
    for (uint32_t n = 1; n <= journal_partitions(daemon->journal); n++) {
        const char *name = journal_partition_name(daemon->journal, n);
        if (is_read(daemon, name))
            continue;
        if (consume_calls_so(daemon->cluster->consume, name))
            return error_set(error, EX_CONFIG,
                             "the journal in %s has read partition %s, but %s does not include it, "
                             "so its examples would never be learned; %s, or set another "
                             "state.directory for this daemon",
                             daemon->config->state_directory, strchr(name, ':') + 1, about->counts,
                             about->regain);
        log_warning("partition %s of the journal is not configured any more; reading resumes there "
                    "once it is configured again",
                    name);
    }
    return 0;
}

/* ---- Starting partitions ---- */

/* Starts all partitions. A fleet starts its own. */
static int start_known(struct daemon *daemon, struct error *error) {
    if (daemon->config->fleet.lease > 0)
        return 0;
    size_t count = consume_partitions(daemon->cluster->consume);
    if (daemon->cluster->started == 0 && count > 0 && check_partitions(daemon, error))
        return -1;
    for (; daemon->cluster->started < count; daemon->cluster->started++)
        if (shares_read(daemon, daemon->cluster->started, NULL, error))
            return -1;
    return 0;
}

static int begin(struct daemon *daemon, struct error *error) {
    if (fleet_open(daemon, error))
        return -1;
    if (run_is_stopping(daemon))
        return 0;
    daemon->cluster->begun = true;
    return start_known(daemon, error);
}

/* ---- Taking messages ---- */

/* Writes the place of a message that is not learned: a journal command without effect in a
   replay. */
static void note(struct daemon *daemon, const struct consume_message *message) {
    char place[CONSUME_PLACE_SIZE];
    consume_print(daemon->cluster->consume, &message->place, place);
    const struct journal_place to = {.epoch = message->place.epoch,
                                     .sequence = message->place.sequence,
                                     .count = message->place.count};
    journalling_append_place(daemon, JOURNAL_SKIP,
                             json_pack("{s:s, s:s, s:s, s:s}", "command", "skip", "partition",
                                       consume_name(daemon->cluster->consume, message->partition),
                                       "place", place, "reason", message->text),
                             daemon->cluster->numbers[message->partition], &to);
}

static int take(struct daemon *daemon, uint64_t now, struct example *example, struct error *error) {
    struct consume_message message;
    int got;
    while ((got = consume_take(daemon->cluster->consume, &message, error)) == 1) {
        *example = message.example;
        example->received = now;
        example->partition = daemon->cluster->numbers[message.partition];
        if (!message.dead) {
            if (!fleet_refuses(daemon, example, message.text, sizeof message.text))
                return 1;
            consume_refuse(daemon->cluster->consume, REJECT_KEY, message.text);
            continue;
        }
        ingest_reject(daemon->ingest, example, message.why, message.text);
        note(daemon, &message);
    }
    return got;
}

/* A learned example needs no other answer: the journal contains its place. A rejected one becomes a
   dead letter. */
static int answer(struct daemon *daemon, const struct example *example,
                  const struct source_answer *given, struct error *error) {
    (void)example, (void)error;
    if (given->status == WIRE_REJECTED)
        consume_refuse(daemon->cluster->consume, given->reason, given->text);
    return 0;
}

static void poll_broker(const struct daemon *daemon, zmq_pollitem_t *item) {
    *item =
        (zmq_pollitem_t){.fd = consume_descriptor(daemon->cluster->consume), .events = ZMQ_POLLIN};
}

/* ---- Durable places and status ---- */

/* Starts new partitions, too. */
static int settle(struct daemon *daemon, struct error *error) {
    struct cluster *cluster = daemon->cluster;
    if (!cluster->begun || run_is_replaying(daemon))
        return 0;
    uint64_t durable = journal_durable(daemon->journal);
    size_t count = consume_partitions(daemon->cluster->consume);
    for (size_t n = 0; durable != cluster->durable && n < count; n++) {
        struct journal_place found;
        if (!cluster->numbers[n] || !consume_is_read(daemon->cluster->consume, n) ||
            !journal_place(daemon->journal, cluster->numbers[n], &found))
            continue;
        const struct consume_place place = {found.epoch, found.sequence, found.count};
        consume_durable(daemon->cluster->consume, n, &place);
    }
    cluster->durable = durable;
    return start_known(daemon, error);
}

static unsigned report(struct daemon *daemon, struct status_fields *status) {
    struct cluster *cluster = daemon->cluster;
    free_texts(cluster);
    size_t count = consume_partitions(daemon->cluster->consume), counts = 0;
    json_t *places = json_object();
    cluster->lags = calloc(count + 1, sizeof *cluster->lags);
    bool known = cluster->lags != NULL;
    double lag = 0;
    for (size_t n = 0; n < count; n++) {
        struct consume_figures figures;
        char place[CONSUME_PLACE_SIZE];
        consume_figures(daemon->cluster->consume, n, &figures);
        if (figures.durable.epoch || figures.durable.sequence || figures.durable.count) {
            consume_print(daemon->cluster->consume, &figures.durable, place);
            json_object_set_new(places, figures.name, json_string(place));
        }
        status->consumer_partitions += figures.read;
        status->consumer_dead += figures.dead;
        status->consumer_lost += figures.lost;
        if (daemon->cluster->fleet && !figures.read) /* another daemon's */
            continue;
        known &= figures.lag >= 0;
        lag += (double)figures.lag;
        if (cluster->lags)
            cluster->lags[counts++] =
                (struct field_count){figures.name, figures.lag > 0 ? (uint64_t)figures.lag : 0};
    }
    cluster->places = json_dumps(places, JSON_COMPACT);
    json_decref(places);
    status->consumer_group = consume_about(daemon->cluster->consume)->group;
    status->consumer_places = cluster->places;
    status->consumer_lag = known && count ? lag : NAN;
    status->consumer_lags = (struct field_tally){cluster->lags, counts};
    status->consumer_away = consume_away(daemon->cluster->consume);
    return FIELD_HAS(NEED_CONSUMER) | (fleet_report(daemon, status) ? FIELD_HAS(NEED_FLEET) : 0);
}

/* ---- Brokers ---- */

static const char *endpoint(const struct daemon *daemon) {
    return consume_about(daemon->cluster->consume)->endpoint;
}

static bool repeats(const struct daemon *daemon) {
    (void)daemon;
    return true;
}

extern const struct source_module runnel_cluster_module;
const struct source_module runnel_cluster_module = {
    .version = PACKAGE_VERSION,
    .layout = DAEMON_LAYOUT,
    .ops = {.open = open_broker,
            .begin = begin,
            .close = close_broker,
            .endpoint = endpoint,
            .poll = poll_broker,
            .take = take,
            .answer = answer,
            .settle = settle,
            .repeats = repeats,
            .batch = fleet_batch,
            .descriptor = fleet_descriptor,
            .turn = fleet_turn,
            .hand_over = fleet_hand_over,
            .report = report},
};
