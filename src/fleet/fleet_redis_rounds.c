/* Rounds of averages. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/url.h"
#include "common/error.h"
#include "fleet_redis_internal.h"
#include "fleet_replies.h"

enum { ROUND_MS = 60 * 60 * 1000 /* how long parameters are kept */ };

int fleet_redis_arrive(struct fleet_link *link, uint64_t serial, const void *parameters,
                       size_t size, uint64_t *round, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { WORDS = 3 };
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_of_self(redis, &words, WORDS, error))
        return -1;
    fleet_add_number(&words, serial);
    fleet_add_bytes(&words, parameters, size);
    fleet_add_number(&words, ROUND_MS);
    int result = fleet_redis_run(redis, SCRIPT_ARRIVE, &words, &reply, error);
    if (result == 0 && !reply_number(reply, round))
        result = fleet_redis_judge(redis, reply_text(reply, 0), error);
    freeReplyObject(reply);
    return result;
}

int fleet_redis_pass(struct fleet_link *link, uint64_t round, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { WORDS = 2 };
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_of_script(redis, &words, WORDS, error))
        return -1;
    fleet_add(&words, redis->self->name);
    fleet_add_number(&words, round);
    int result = fleet_redis_run(redis, SCRIPT_PASS, &words, &reply, error);
    freeReplyObject(reply);
    return result;
}

int fleet_redis_round(struct fleet_link *link, uint64_t round, char **names, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { WORDS = 2 };
    struct fleet_words words;
    redisReply *reply;
    *names = NULL;
    if (fleet_words_of_script(redis, &words, WORDS, error))
        return -1;
    fleet_add_number(&words, round);
    fleet_add_number(&words, (uint64_t)(redis->self->lease * 1000));
    int result = fleet_redis_run(redis, SCRIPT_ROUND, &words, &reply, error);
    if (result == 0 && reply->type != REDIS_REPLY_STRING)
        result = fleet_redis_no_sense(redis, error);
    if (result == 0 && reply->len > 0 && !(*names = strdup(reply->str)))
        result = error_no_memory(error);
    freeReplyObject(reply);
    return result;
}

int fleet_redis_parameters(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                           size_t *size, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    redisReply *reply;
    *bytes = NULL;
    if (fleet_redis_connect(redis, error) ||
        fleet_redis_check(redis,
                          redisCommand(redis->context, "GET %sparameters:%llu:%s", redis->prefix,
                                       (unsigned long long)round, name),
                          &reply, error))
        return -1;
    int result = reply->type == REDIS_REPLY_STRING
                     ? 0
                     : error_set(error, EX_UNAVAILABLE,
                                 "%s has the parameters of %s in round %" PRIu64 " no more",
                                 redis->url->name, name, round);
    if (result == 0 && !(*bytes = malloc(reply->len + 1)))
        result = error_no_memory(error);
    if (result == 0)
        memcpy(*bytes, reply->str, *size = reply->len);
    freeReplyObject(reply);
    return result;
}
