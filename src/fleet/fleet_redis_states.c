/* States of streams. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/url.h"
#include "common/error.h"
#include "common/log.h"
#include "fleet_redis_internal.h"
#include "fleet_replies.h"

enum {
    ROWS_AT_ONCE = 256,              /* in one command */
    STAGED_MS = 24 * 60 * 60 * 1000, /* what nobody commits goes by itself */
};

/* ---- Going ---- */

static void append_rows(struct fleet_redis *redis, const char *key, const struct fleet_row *rows,
                        size_t count, struct fleet_words *words) {
    words->count = 0;
    fleet_add(words, "HSET");
    fleet_add(words, key);
    for (size_t n = 0; n < count; n++) {
        fleet_add_bytes(words, rows[n].key, rows[n].key_size);
        fleet_add_bytes(words, rows[n].state_size ? rows[n].state : "", rows[n].state_size);
    }
    redisAppendCommandArgv(redis->context, (int)words->count, words->word, words->size);
}

/* All commands go out before the first is answered. */
static int read_answers(struct fleet_redis *redis, size_t count, struct error *error) {
    int result = 0;
    for (size_t n = 0; n < count; n++) {
        redisReply *reply;
        struct error one = {0};
        if (fleet_redis_next(redis, &reply, &one)) {
            *error = result ? *error : one;
            result = -1;
        }
        freeReplyObject(reply);
        if (!redis->context)
            return -1;
    }
    return result;
}

int fleet_redis_stage(struct fleet_link *link, size_t partition, uint64_t claim, uint64_t serial,
                      const struct fleet_row *rows, size_t count, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    char key[FLEET_KEY_SIZE];
    struct fleet_words words;
    size_t commands = 1;
    if (count == 0)
        return 0;
    if (fleet_redis_connect(redis, error) || fleet_words_open(&words, 2 + 2 * ROWS_AT_ONCE, error))
        return -1;
    snprintf(key, sizeof key, "%sstates:%zu:%" PRIu64 ":%" PRIu64, redis->prefix, partition, claim,
             serial);
    for (size_t n = 0; n < count; n += ROWS_AT_ONCE, commands++)
        append_rows(redis, key, rows + n, count - n < ROWS_AT_ONCE ? count - n : ROWS_AT_ONCE,
                    &words);
    redisAppendCommand(redis->context, "PEXPIRE %s %d", key, STAGED_MS);
    fleet_words_free(&words);
    return read_answers(redis, commands, error);
}

/* ---- Coming ---- */

/* Whether there are any, and all that were committed. */
static int look_at_states(struct fleet_redis *redis, size_t partition, uint64_t *committed,
                          struct error *error) {
    struct fleet_words words;
    struct fleet_claim claim;
    redisReply *reply;
    uint64_t there = 0;
    if (fleet_words_of_script(redis, &words, 1, error))
        return -1;
    fleet_add_number(&words, partition);
    int result = fleet_redis_run(redis, SCRIPT_STATES, &words, &reply, error);
    if (result == 0 && (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
                        !reply_number(reply->element[1], &there) ||
                        !reply_committed(reply_text(reply, 0), &claim)))
        result = fleet_redis_no_sense(redis, error);
    if (result == 0 && claim.committed && there < claim.states)
        log_warning("%s has %" PRIu64 " of the %" PRIu64
                    " states of streams that the fleet %s has committed of partition %zu, as when "
                    "maxmemory-policy lets it remove keys: streams without a state begin anew",
                    redis->url->name, there, claim.states, redis->self->group, partition);
    *committed = result == 0 && claim.committed ? there : 0;
    freeReplyObject(reply);
    return result;
}

/* Of some of the keys; with a cursor a stream could come twice. */
static int visit_some(struct fleet_redis *redis, const char *key, redisReply *const *keys,
                      size_t count, fleet_visit *visit, void *context, struct error *error) {
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_open(&words, 2 + count, error))
        return -1;
    fleet_add(&words, "HMGET");
    fleet_add(&words, key);
    for (size_t n = 0; n < count; n++)
        fleet_add_bytes(&words, keys[n]->str, keys[n]->len);
    int result = fleet_redis_ask(redis, &words, &reply, error);
    fleet_words_free(&words);
    for (size_t n = 0; result == 0 && n < count; n++) {
        const redisReply *state = n < reply->elements ? reply->element[n] : NULL;
        if (!state || state->type != REDIS_REPLY_STRING) {
            result = fleet_redis_no_sense(redis, error);
            break;
        }
        const struct fleet_row row = {keys[n]->str, state->str, keys[n]->len, state->len};
        result = visit(context, &row, error);
    }
    freeReplyObject(reply);
    return result;
}

static int ask_keys(struct fleet_redis *redis, const char *key, redisReply **reply,
                    struct error *error) {
    if (fleet_redis_connect(redis, error) ||
        fleet_redis_check(redis, redisCommand(redis->context, "HKEYS %s", key), reply, error))
        return -1;
    bool good = (*reply)->type == REDIS_REPLY_ARRAY;
    for (size_t n = 0; good && n < (*reply)->elements; n++)
        good = (*reply)->element[n]->type == REDIS_REPLY_STRING;
    return good ? 0 : fleet_redis_no_sense(redis, error);
}

int fleet_redis_states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                       struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    char key[FLEET_KEY_SIZE];
    redisReply *keys = NULL;
    uint64_t count;
    if (look_at_states(redis, partition, &count, error))
        return -1;
    if (count == 0)
        return 0;
    snprintf(key, sizeof key, "%sstates:%zu", redis->prefix, partition);
    int result = ask_keys(redis, key, &keys, error);
    for (size_t n = 0; result == 0 && n < keys->elements; n += ROWS_AT_ONCE) {
        size_t left = keys->elements - n;
        result = visit_some(redis, key, keys->element + n,
                            left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE, visit, context, error);
    }
    freeReplyObject(keys);
    return result;
}
