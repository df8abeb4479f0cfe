/* Commands and scripts of Redis, and what becomes of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/redis_link.h"
#include "brokers/url.h"
#include "common/error.h"
#include "fleet_redis_internal.h"

/* ---- Words of a command ---- */

void fleet_words_free(struct fleet_words *words) {
    free(words->word);
    free(words->size);
    free(words->number);
}

int fleet_words_open(struct fleet_words *words, size_t room, struct error *error) {
    *words = (struct fleet_words){.room = room,
                                  .word = calloc(room, sizeof *words->word),
                                  .size = calloc(room, sizeof *words->size),
                                  .number = calloc(room, sizeof *words->number)};
    if (words->word && words->size && words->number)
        return 0;
    fleet_words_free(words);
    return error_no_memory(error);
}

void fleet_add_bytes(struct fleet_words *words, const void *bytes, size_t size) {
    words->word[words->count] = bytes;
    words->size[words->count++] = size;
}

void fleet_add(struct fleet_words *words, const char *text) {
    fleet_add_bytes(words, text, strlen(text));
}

void fleet_add_number(struct fleet_words *words, uint64_t number) {
    char *text = words->number[words->count];
    snprintf(text, FLEET_OFFSET_SIZE, "%" PRIu64, number);
    fleet_add(words, text);
}

void fleet_add_offset(struct fleet_words *words, struct fleet_offset offset) {
    char *text = words->number[words->count];
    snprintf(text, FLEET_OFFSET_SIZE, "%" PRIu32 " %" PRIu64, offset.epoch, offset.sequence);
    fleet_add(words, text);
}

/* EVALSHA, the script's digest, 1, the prefix. */
enum { SCRIPT_WORDS = 4, SCRIPT_DIGEST = 1, SELF_WORDS = 3 };

int fleet_words_of_script(struct fleet_redis *redis, struct fleet_words *words, size_t more,
                          struct error *error) {
    if (fleet_words_open(words, SCRIPT_WORDS + more, error))
        return -1;
    fleet_add(words, "EVALSHA");
    fleet_add(words, "");
    fleet_add(words, "1");
    fleet_add(words, redis->prefix);
    return 0;
}

int fleet_words_of_self(struct fleet_redis *redis, struct fleet_words *words, size_t more,
                        struct error *error) {
    if (fleet_words_of_script(redis, words, SELF_WORDS + more, error))
        return -1;
    fleet_add(words, redis->self->name);
    fleet_add(words, redis->self->id);
    fleet_add(words, redis->run);
    return 0;
}

/* ---- Sentences ---- */

static int has_something_else(const struct fleet_redis *redis, const char *text,
                              struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s has something else under runnel:{%s}: than a fleet of this version%s%s; "
                     "use another examples.redis.group, or remove these keys while no daemon of it "
                     "runs",
                     redis->url->name, redis->self->group, *text ? ": " : "", text);
}

int fleet_redis_no_sense(const struct fleet_redis *redis, struct error *error) {
    return has_something_else(redis, "", error);
}

int fleet_redis_name_is_taken(const struct fleet_redis *redis, struct error *error) {
    return error_set(error, EX_CONFIG,
                     "another daemon of the name %s is in the fleet %s: give each daemon a name of "
                     "its own (name), and a state directory of its own",
                     redis->self->name, redis->self->group);
}

int fleet_redis_judge(const struct fleet_redis *redis, const char *text, struct error *error) {
    if (!strcmp(text, "name"))
        return fleet_redis_name_is_taken(redis, error);
    if (!strcmp(text, "stale"))
        return error_set(error, EX_TEMPFAIL, "another daemon of this one's name has joined since");
    if (!strcmp(text, "lost"))
        return error_set(error, EX_TEMPFAIL, "it does not remember this daemon");
    return fleet_redis_no_sense(redis, error);
}

/* ---- Asking ---- */

void fleet_redis_disconnect(struct fleet_redis *redis) {
    if (redis->context)
        redisFree(redis->context);
    redis->context = NULL;
    memset(redis->sha, 0, sizeof redis->sha);
}

int fleet_redis_connect(struct fleet_redis *redis, struct error *error) {
    if (redis->context)
        return 0;
    redis->context = redis_connect(redis->url, error);
    redis->anew = true;
    return redis->context ? 0 : -1;
}

static bool begins(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

/* A script that met what it does not know, or a key of another type. */
static bool is_no_sense(const char *text) {
    return begins(text, "WRONGTYPE") || strstr(text, "user_script") != NULL;
}

static int judge(struct fleet_redis *redis, const char *text, struct error *error) {
    if (begins(text, "NOSCRIPT")) { /* of words that were appended */
        memset(redis->sha, 0, sizeof redis->sha);
        return error_set(error, EX_TEMPFAIL, "it says %s", text);
    }
    redis_judge(redis->url, text, error);
    return error->status == EX_UNAVAILABLE && is_no_sense(text)
               ? has_something_else(redis, text, error)
               : -1;
}

int fleet_redis_check(struct fleet_redis *redis, redisReply *got, redisReply **reply,
                      struct error *error) {
    *reply = NULL;
    if (!got) {
        redis_lost(redis->context, error);
        fleet_redis_disconnect(redis);
        return -1;
    }
    if (got->type == REDIS_REPLY_ERROR) {
        judge(redis, got->str, error);
        freeReplyObject(got);
        return -1;
    }
    *reply = got;
    return 0;
}

int fleet_redis_next(struct fleet_redis *redis, redisReply **reply, struct error *error) {
    redisReply *got = NULL;
    if (redisGetReply(redis->context, (void **)&got) != REDIS_OK)
        got = NULL;
    return fleet_redis_check(redis, got, reply, error);
}

int fleet_redis_ask(struct fleet_redis *redis, const struct fleet_words *words, redisReply **reply,
                    struct error *error) {
    *reply = NULL;
    if (fleet_redis_connect(redis, error))
        return -1;
    return fleet_redis_check(
        redis, redisCommandArgv(redis->context, (int)words->count, words->word, words->size), reply,
        error);
}

int fleet_redis_load(struct fleet_redis *redis, enum fleet_script script, struct error *error) {
    size_t head = strlen(fleet_script_words), size = strlen(fleet_script_texts[script]);
    redisReply *reply;
    if (fleet_redis_connect(redis, error))
        return -1;
    if (*redis->sha[script])
        return 0;
    char *text = malloc(head + size);
    if (!text)
        return error_no_memory(error);
    memcpy(text, fleet_script_words, head);
    memcpy(text + head, fleet_script_texts[script], size);
    int result = fleet_redis_check(
        redis, redisCommand(redis->context, "SCRIPT LOAD %b", text, head + size), &reply, error);
    free(text);
    if (result == 0 && (reply->type != REDIS_REPLY_STRING || reply->len != FLEET_SHA_SIZE - 1))
        result = error_set(error, EX_UNAVAILABLE, "%s answers SCRIPT LOAD with no digest",
                           redis->url->name);
    if (result == 0)
        memcpy(redis->sha[script], reply->str, FLEET_SHA_SIZE);
    freeReplyObject(reply);
    return result;
}

static void set_digest(struct fleet_redis *redis, enum fleet_script script,
                       struct fleet_words *words) {
    words->word[SCRIPT_DIGEST] = redis->sha[script];
    words->size[SCRIPT_DIGEST] = strlen(redis->sha[script]);
}

void fleet_redis_append(struct fleet_redis *redis, enum fleet_script script,
                        struct fleet_words *words) {
    set_digest(redis, script, words);
    redisAppendCommandArgv(redis->context, (int)words->count, words->word, words->size);
}

/* A server that was started anew has to be given it again. */
int fleet_redis_run(struct fleet_redis *redis, enum fleet_script script, struct fleet_words *words,
                    redisReply **reply, struct error *error) {
    int result = -1;
    *reply = NULL;
    for (int tries = 0; tries < 2; tries++) {
        if (fleet_redis_load(redis, script, error))
            break;
        set_digest(redis, script, words);
        redisReply *got =
            redisCommandArgv(redis->context, (int)words->count, words->word, words->size);
        if (tries == 0 && got && got->type == REDIS_REPLY_ERROR && begins(got->str, "NOSCRIPT")) {
            freeReplyObject(got);
            *redis->sha[script] = '\0';
            continue;
        }
        result = fleet_redis_check(redis, got, reply, error);
        break;
    }
    fleet_words_free(words);
    return result;
}
