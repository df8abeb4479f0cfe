/* Streams of Redis. XREAD says after which id it reads: no group is needed for that, but one is
   told what is durable, so that XINFO GROUPS shows people how far the daemon is. */
#include "consume_redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>

#include "brokers/redis_link.h"
#include "common/clock.h"
#include "consume_broker.h"

#define IDLE_NS NS_PER_SECOND /* between two turns, where nothing is to be read */

/* ---- Opening ---- */

static int add_partitions(struct consume *consume, struct error *error) {
    const uint64_t partitions = consume->config->consume.redis.partitions;
    const char *stream = consume->config->consume.redis.stream;
    char name[CONFIG_ADDRESS_SIZE + sizeof ".18446744073709551615"];
    for (uint64_t n = 0; n < (partitions ? partitions : 1); n++) {
        snprintf(name, sizeof name, partitions ? "%s.%" PRIu64 : "%s", stream, n);
        if (!consume_add(consume, "redis", name))
            return error_no_memory(error);
    }
    return 0;
}

static int open_redis(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker = calloc(1, sizeof *redis);
    if (!redis)
        return error_no_memory(error);
    redis->words = calloc(2 * CONSUME_PARTITIONS_MAX + REDIS_READ_WORDS, sizeof *redis->words);
    redis->ids = calloc(CONSUME_PARTITIONS_MAX, sizeof *redis->ids);
    redis->reading = calloc(CONSUME_PARTITIONS_MAX, sizeof(struct consume_partition *));
    if (!redis->words || !redis->ids || !redis->reading)
        return error_no_memory(error);
    if (consume_redis_url(consume->config, &redis->url, error) < 0)
        return -1;
    redis->counts = true;
    snprintf(consume->endpoint, sizeof consume->endpoint, "%.*s %.*s", CONSUME_NAME_SIZE / 2 - 1,
             redis->url.name, CONSUME_NAME_SIZE / 2 - 1, consume->config->consume.redis.stream);
    return add_partitions(consume, error);
}

static void close_redis(struct consume *consume) {
    struct redis *redis = consume->broker;
    if (!redis)
        return;
    free(redis->words);
    free(redis->ids);
    free(redis->reading);
    free(redis->object);
    free(redis);
}

static void disconnect(struct consume *consume) {
    struct redis *redis = consume->broker;
    pthread_mutex_lock(&consume->mutex);
    redisContext *context = redis->context;
    redis->context = NULL;
    pthread_mutex_unlock(&consume->mutex);
    if (context)
        redisFree(context);
}

static void interrupt(struct consume *consume) {
    const struct redis *redis = consume->broker;
    if (redis->context)
        shutdown(redis->context->fd, SHUT_RDWR);
}

/* ---- Commands ---- */

/* What the server's error says about a stream of ours. */
static int judge(const struct redis *redis, const struct consume_partition *p, const char *text,
                 struct error *error) {
    if (p && strncmp(text, "WRONGTYPE", strlen("WRONGTYPE")) == 0)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: the key %s is no stream, but something else: name another with "
                         "examples.redis.stream, or remove that key",
                         redis->url.name, p->stream);
    return redis_judge(&redis->url, text, error);
}

/* The next reply of the context, none of an error unless it begins with `allowed`. */
redisReply *consume_redis_receive(struct redis *redis, const struct consume_partition *p,
                                  const char *allowed, struct error *error) {
    void *reply = NULL;
    if (redisGetReply(redis->context, &reply) != REDIS_OK)
        return redis_lost(redis->context, error), NULL;
    redisReply *got = reply;
    if (got->type != REDIS_REPLY_ERROR ||
        (allowed && strncmp(got->str, allowed, strlen(allowed)) == 0))
        return got;
    judge(redis, p, got->str, error);
    freeReplyObject(got);
    return NULL;
}

int consume_redis_append(struct redis *redis, int count, const char **words, struct error *error) {
    return redisAppendCommandArgv(redis->context, count, words, NULL) == REDIS_OK
               ? 0
               : error_no_memory(error);
}

redisReply *consume_redis_ask(struct redis *redis, const struct consume_partition *p, int count,
                              const char **words, const char *allowed, struct error *error) {
    return consume_redis_append(redis, count, words, error) < 0
               ? NULL
               : consume_redis_receive(redis, p, allowed, error);
}

/* ---- The thread ---- */

static void print(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]) {
    uint64_t first, second;
    redis_id_of(place->epoch, place->sequence, &first, &second);
    redis_id_print(text, first, second);
}

static int connect_redis(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    redisContext *context = redis_reach(&redis->url, error);
    if (!context)
        return -1;
    pthread_mutex_lock(&consume->mutex);
    redis->context = context; /* from now on it can be interrupted */
    bool closing = consume->closing;
    pthread_mutex_unlock(&consume->mutex);
    redis->due = 0;
    redis->each = 1;
    if (closing)
        return 0;
    return redis_log_in(context, &redis->url, error) < 0
               ? -1
               : consume_redis_check_fleet(consume, error);
}

static int meanwhile(struct consume *consume, struct error *error) {
    return consume_redis_look(consume, false, error);
}

static int turn(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    if (!redis->context)
        return connect_redis(consume, error);
    if (consume_redis_choose(consume, error) < 0 || consume_bury(consume, error) < 0)
        return -1;
    if (redis->reading_count == 0) {
        consume_rest(consume, IDLE_NS);
        return 0;
    }
    if (consume_redis_look(consume, true, error) < 0 || consume_redis_read(consume, error) < 0)
        return -1;
    if (!consume->connected || consume->since)
        consume_answers(consume, true);
    return 0;
}

/* At the end the group is told once more. */
static void leave(struct consume *consume) {
    struct redis *redis = consume->broker;
    struct error error;
    redis->due = 0;
    if (consume_is_closing(consume) && redis->context && !redis->context->err)
        consume_redis_look(consume, false, &error);
    disconnect(consume);
}

const struct consume_kind consume_redis = {
    .open = open_redis,
    .close = close_redis,
    .print = print,
    .turn = turn,
    .disconnect = leave,
    .bury = consume_redis_bury,
    .meanwhile = meanwhile,
    .interrupt = interrupt,
};
