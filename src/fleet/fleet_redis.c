#include "fleet_redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/redis_entry.h"
#include "brokers/url.h"
#include "common/error.h"
#include "fleet_redis_internal.h"
#include "fleet_replies.h"

/* ---- Members ---- */

static uint64_t lease_ms(const struct fleet_redis *redis) {
    return (uint64_t)(redis->self->lease * 1000);
}

/* What the fleet has, and this daemon has not. */
static int judge_join(struct fleet_redis *redis, const redisReply *reply, struct error *error) {
    const char *what = reply_text(reply, 0), *theirs = reply_text(reply, 1);
    const struct fleet_self *self = redis->self;
    if (!strcmp(what, "ok"))
        return 0;
    if (!strcmp(what, "name")) {
        const double left = strtod(reply_text(reply, 2), NULL) / 1000;
        redis->link.namesake = (struct fleet_namesake){strtoull(theirs, NULL, 10), left};
        return fleet_redis_name_is_taken(redis, error);
    }
    if (!strcmp(what, "stream"))
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns the stream %s, and not %s: two fleets need two "
                         "groups (examples.redis.group)",
                         self->group, redis->url->name, theirs, self->stream);
    if (!strcmp(what, "partitions"))
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s has %s partitions, and not %zu: what each stream "
                         "belongs to would change; go back to that number, or use another "
                         "examples.redis.group",
                         self->group, redis->url->name, theirs, self->partitions);
    if (!strcmp(what, "digest"))
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns with another configuration (its digest is %s, "
                         "and this daemon's %s): give all daemons of a fleet the same one, or use "
                         "another examples.redis.group",
                         self->group, redis->url->name, theirs, self->digest);
    if (!strcmp(what, "every"))
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s averages with fleet.average.every %s, and not %" PRIu64
                         ": give all daemons of a fleet the same one, or use another "
                         "examples.redis.group",
                         self->group, redis->url->name, theirs, self->every);
    if (!strcmp(what, "older"))
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s has daemons of an older version of runnel: end all of "
                         "them, and start them again with this one",
                         self->group, redis->url->name);
    return fleet_redis_no_sense(redis, error);
}

static int join(struct fleet_link *link, const char *info, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { WORDS = 6 };
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_of_self(redis, &words, WORDS, error))
        return -1;
    fleet_add_number(&words, lease_ms(redis));
    fleet_add(&words, redis->self->stream);
    fleet_add_number(&words, redis->self->partitions);
    fleet_add(&words, redis->self->digest);
    fleet_add_number(&words, redis->self->every);
    fleet_add(&words, info);
    int result = fleet_redis_run(redis, SCRIPT_JOIN, &words, &reply, error) ||
                 judge_join(redis, reply, error);
    freeReplyObject(reply);
    if (result == 0)
        fleet_redis_look_at_keeping(redis);
    redis->anew |= result == 0;
    return result ? -1 : 0;
}

static int renew(struct fleet_link *link, const char *info, uint64_t *version,
                 struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { WORDS = 2 };
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_of_self(redis, &words, WORDS, error))
        return -1;
    fleet_add_number(&words, lease_ms(redis));
    fleet_add(&words, info);
    int result = fleet_redis_run(redis, SCRIPT_RENEW, &words, &reply, error);
    if (result == 0 && !strcmp(reply_text(reply, 0), "stale"))
        *version = FLEET_DISPLACED;
    else if (result == 0 && !reply_number(reply, version))
        result = fleet_redis_judge(redis, reply_text(reply, 0), error);
    freeReplyObject(reply);
    return result;
}

static int leave(struct fleet_link *link, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_of_self(redis, &words, 0, error))
        return -1;
    int result = fleet_redis_run(redis, SCRIPT_LEAVE, &words, &reply, error);
    freeReplyObject(reply);
    return result;
}

/* A server that was away may have lost what this view has. */
static int look(struct fleet_link *link, struct fleet_view *view, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    struct fleet_words words;
    redisReply *reply = NULL;
    int result = fleet_redis_connect(redis, error);
    const bool anew = result == 0 && redis->anew;
    if (anew)
        fleet_view_free(view);
    if (result == 0 && (result = fleet_words_of_script(redis, &words, 1, error)) == 0) {
        fleet_add_number(&words, view->version);
        result = fleet_redis_run(redis, SCRIPT_LOOK, &words, &reply, error);
    }
    if (result == 0 && (result = reply_view(reply, view)))
        result =
            result == REPLY_NO_MEMORY ? error_no_memory(error) : fleet_redis_no_sense(redis, error);
    freeReplyObject(reply);
    if (result) {
        fleet_view_free(view);
        return result;
    }
    redis->anew = false;
    view->anew = anew;
    return 0;
}

/* ---- People ---- */

/* What XINFO STREAM says, Redis 7 and later. */
static uint64_t entries_added(const redisReply *info) {
    uint64_t number;
    for (size_t n = 0; n + 1 < info->elements; n += 2)
        if (!strcmp(reply_text(info, n), "entries-added") &&
            reply_number(info->element[n + 1], &number))
            return number;
    return UINT64_MAX;
}

/* Whether nothing is there beyond what is committed, whatever was added: it was deleted, or its ids
   are lower. */
static bool is_learned(const redisReply *info, const struct fleet_partition *known) {
    const redisReply *newest = redis_member(info, "last-entry");
    uint64_t first, second, learned_first, learned_second;
    const char *id = newest ? reply_text(newest, 0) : "";
    if (!*id || !known->committed)
        return newest && newest->type == REDIS_REPLY_NIL;
    redis_id_parse(id, &first, &second);
    redis_id_of(known->offset.epoch, known->offset.sequence, &learned_first, &learned_second);
    return first < learned_first || (first == learned_first && second <= learned_second);
}

/* A stream that is not there has had nothing. */
static int end_of(struct fleet_redis *redis, const struct fleet_view *view, size_t partition,
                  bool alone, uint64_t *end, struct error *error) {
    const struct fleet_partition *known = &view->partitions[partition];
    redisReply *info = alone ? redisCommand(redis->context, "XINFO STREAM %s", view->stream)
                             : redisCommand(redis->context, "XINFO STREAM %s.%llu", view->stream,
                                            (unsigned long long)partition);
    bool absent = info && info->type == REDIS_REPLY_ERROR && strstr(info->str, "no such key");
    *end = UINT64_MAX;
    if (absent) {
        freeReplyObject(info);
        return 1;
    }
    if (fleet_redis_check(redis, info, &info, error))
        return -1;
    *end = is_learned(info, known) ? known->learned : entries_added(info);
    freeReplyObject(info);
    return 0;
}

static int ends(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    if (fleet_redis_connect(redis, error))
        return -1;
    for (size_t n = 0; n < view->partition_count; n++) {
        int found = end_of(redis, view, n, false, &ends[n], error);
        if (found > 0 && view->partition_count == 1)
            found = end_of(redis, view, n, true, &ends[n], error);
        if (found < 0)
            return -1;
        if (found > 0)
            ends[n] = 0;
    }
    return 0;
}

static int drain(struct fleet_link *link, const char *name, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    struct fleet_words words;
    redisReply *reply;
    uint64_t there = 0;
    if (fleet_words_of_script(redis, &words, 1, error))
        return -1;
    fleet_add(&words, name);
    int result = fleet_redis_run(redis, SCRIPT_DRAIN, &words, &reply, error);
    if (result == 0 && (!reply_number(reply, &there) || !there))
        result = error_set(error, EX_USAGE, "there is no daemon %s in the fleet %s now", name,
                           redis->self->group);
    freeReplyObject(reply);
    return result;
}

static int rebalance(struct fleet_link *link, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_of_script(redis, &words, 0, error))
        return -1;
    int result = fleet_redis_run(redis, SCRIPT_REBALANCE, &words, &reply, error);
    freeReplyObject(reply);
    return result;
}

/* Keys of a fleet's hash. What was asked for so often and has not ended is left. */
static int groups(struct fleet_link *link, struct fleet_groups *groups, struct error *error) {
    enum { KEYS_AT_ONCE = 1000, ASKED_MAX = 200 };
    struct fleet_redis *redis = (struct fleet_redis *)link;
    char cursor[FLEET_NUMBER_SIZE] = "0";
    if (fleet_redis_connect(redis, error))
        return -1;
    for (int asked = 0; asked < ASKED_MAX && !groups->more; asked++) {
        redisReply *reply = redisCommand(redis->context, "SCAN %s MATCH runnel:{*}:fleet COUNT %d",
                                         cursor, KEYS_AT_ONCE);
        if (fleet_redis_check(redis, reply, &reply, error))
            return -1;
        snprintf(cursor, sizeof cursor, "%s", reply_text(reply, 0));
        const redisReply *keys = reply->elements > 1 ? reply->element[1] : NULL;
        for (size_t n = 0; keys && n < keys->elements; n++)
            if (keys->element[n]->type == REDIS_REPLY_STRING)
                fleet_groups_add(groups, keys->element[n]->str, keys->element[n]->len, "runnel:{",
                                 "}:fleet");
        freeReplyObject(reply);
        if (!*cursor || strcmp(cursor, "0") == 0)
            return 0;
    }
    groups->more = true;
    return 0;
}

/* ---- Opening and closing ---- */

static void close_redis(struct fleet_link **link) {
    struct fleet_redis *redis = (struct fleet_redis *)*link;
    if (redis)
        fleet_redis_disconnect(redis);
    free(redis);
    *link = NULL;
}

static const struct fleet_link_ops redis_ops = {
    .close = close_redis,
    .join = join,
    .renew = renew,
    .leave = leave,
    .look = look,
    .take = fleet_redis_take,
    .ended = fleet_redis_ended,
    .settle = fleet_redis_settle,
    .stage = fleet_redis_stage,
    .commit = fleet_redis_commit,
    .states = fleet_redis_states,
    .arrive = fleet_redis_arrive,
    .pass = fleet_redis_pass,
    .round = fleet_redis_round,
    .parameters = fleet_redis_parameters,
    .ends = ends,
    .drain = drain,
    .rebalance = rebalance,
    .groups = groups,
};

int fleet_redis_open(struct fleet_link **link, const struct url *url, const struct fleet_self *self,
                     struct error *error) {
    struct fleet_redis *redis = calloc(1, sizeof *redis);
    *link = NULL;
    if (!redis)
        return error_no_memory(error);
    redis->link.ops = &redis_ops;
    redis->url = url;
    redis->self = self;
    snprintf(redis->prefix, sizeof redis->prefix, "runnel:{%s}:", self->group);
    if (fleet_id_draw(redis->run, error)) {
        free(redis);
        return -1;
    }
    *link = &redis->link;
    return 0;
}
