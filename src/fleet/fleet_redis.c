#include "fleet_redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/redis_link.h"
#include "brokers/url.h"
#include "common/error.h"
#include "fleet_replies.h"
#include "fleet_scripts.h"

enum {
    PREFIX_SIZE = sizeof "runnel:{}:" + FLEET_GROUP_MAX,
    KEY_SIZE = PREFIX_SIZE + 128,
    SHA_SIZE = 41,
    NUMBER_SIZE = 24,
    OFFSET_SIZE = 2 * NUMBER_SIZE,
    COMMIT_WORDS = 6,
    ROWS_AT_ONCE = 256,              /* of states, in one command */
    STAGED_MS = 24 * 60 * 60 * 1000, /* what nobody commits goes by itself */
    ROUND_MS = 60 * 60 * 1000,       /* parameters of a round */
};

struct redis {
    struct fleet_link link;
    const struct url *url;
    const struct fleet_self *self;
    redisContext *context; /* NULL: not connected */
    char prefix[PREFIX_SIZE];
    char sha[FLEET_SCRIPTS][SHA_SIZE]; /* "" = the server has not been given it */
};

/* ---- Words of a command ---- */

struct words {
    const char **word;
    size_t *size, count, room;
    char (*number)[OFFSET_SIZE]; /* (room,) what was written for this */
    bool failed;
};

static void words_free(struct words *words) {
    free(words->word);
    free(words->size);
    free(words->number);
}

static int words_open(struct words *words, size_t room, struct error *error) {
    *words = (struct words){.room = room,
                            .word = calloc(room, sizeof *words->word),
                            .size = calloc(room, sizeof *words->size),
                            .number = calloc(room, sizeof *words->number)};
    if (words->word && words->size && words->number)
        return 0;
    words_free(words);
    return error_no_memory(error);
}

static void add_bytes(struct words *words, const void *bytes, size_t size) {
    words->word[words->count] = bytes;
    words->size[words->count++] = size;
}

static void add(struct words *words, const char *text) {
    add_bytes(words, text, strlen(text));
}

static void add_number(struct words *words, uint64_t number) {
    char *text = words->number[words->count];
    snprintf(text, OFFSET_SIZE, "%" PRIu64, number);
    add(words, text);
}

static void add_offset(struct words *words, struct fleet_offset offset) {
    char *text = words->number[words->count];
    snprintf(text, OFFSET_SIZE, "%" PRIu32 " %" PRIu64, offset.epoch, offset.sequence);
    add(words, text);
}

/* ---- Asking ---- */

static void disconnect(struct redis *redis) {
    if (redis->context)
        redisFree(redis->context);
    redis->context = NULL;
    memset(redis->sha, 0, sizeof redis->sha);
}

static int connect_once(struct redis *redis, struct error *error) {
    if (!redis->context)
        redis->context = redis_connect(redis->url, error);
    return redis->context ? 0 : -1;
}

/* Of a reply, which is freed unless it is a good one. */
static int check(struct redis *redis, redisReply *got, redisReply **reply, struct error *error) {
    *reply = NULL;
    if (!got) {
        redis_lost(redis->context, error);
        disconnect(redis);
        return -1;
    }
    if (got->type == REDIS_REPLY_ERROR) {
        redis_judge(redis->url, got->str, error);
        freeReplyObject(got);
        return -1;
    }
    *reply = got;
    return 0;
}

static int ask(struct redis *redis, const struct words *words, redisReply **reply,
               struct error *error) {
    *reply = NULL;
    if (connect_once(redis, error))
        return -1;
    return check(redis,
                 redisCommandArgv(redis->context, (int)words->count, words->word, words->size),
                 reply, error);
}

static int load(struct redis *redis, enum fleet_script script, struct error *error) {
    size_t head = strlen(fleet_script_words), size = strlen(fleet_script_texts[script]);
    char *text = malloc(head + size);
    redisReply *reply;
    if (!text)
        return error_no_memory(error);
    memcpy(text, fleet_script_words, head);
    memcpy(text + head, fleet_script_texts[script], size);
    int result = check(redis, redisCommand(redis->context, "SCRIPT LOAD %b", text, head + size),
                       &reply, error);
    free(text);
    if (result == 0)
        snprintf(redis->sha[script], SHA_SIZE, "%s", reply->str);
    freeReplyObject(reply);
    return result;
}

/* The words of a script begin with these three. */
enum { SCRIPT_WORDS = 4 };

static int words_of_script(struct redis *redis, struct words *words, size_t more,
                           struct error *error) {
    if (words_open(words, SCRIPT_WORDS + more, error))
        return -1;
    add(words, "EVALSHA");
    add(words, ""); /* the script's digest */
    add(words, "1");
    add(words, redis->prefix);
    return 0;
}

/* Run it; frees the words. A server that was started anew has to be given it again. */
static int run(struct redis *redis, enum fleet_script script, struct words *words,
               redisReply **reply, struct error *error) {
    int result = -1;
    *reply = NULL;
    for (int tries = 0; tries < 2 && !*reply; tries++) {
        if (connect_once(redis, error) || (!*redis->sha[script] && load(redis, script, error)))
            break;
        words->word[1] = redis->sha[script];
        words->size[1] = strlen(redis->sha[script]);
        redisReply *got =
            redisCommandArgv(redis->context, (int)words->count, words->word, words->size);
        if (tries == 0 && got && got->type == REDIS_REPLY_ERROR &&
            !strncmp(got->str, "NOSCRIPT", strlen("NOSCRIPT"))) {
            freeReplyObject(got);
            *redis->sha[script] = '\0';
            continue;
        }
        result = check(redis, got, reply, error);
        break;
    }
    words_free(words);
    return result;
}

static int no_sense(const struct redis *redis, struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s has something else under runnel:{%s}: than a fleet of this version; use "
                     "another examples.redis.group",
                     redis->url->name, redis->self->group);
}

static int another_has_the_name(const struct redis *redis, struct error *error) {
    return error_set(error, EX_CONFIG,
                     "another daemon of the name %s is in the fleet %s: give each daemon a name of "
                     "its own (name), and a state directory of its own",
                     redis->self->name, redis->self->group);
}

static void add_self(struct words *words, const struct redis *redis) {
    add(words, redis->self->name);
    add(words, redis->self->id);
}

/* ---- Members ---- */

static uint64_t lease_ms(const struct redis *redis) {
    return (uint64_t)(redis->self->lease * 1000);
}

static int judge_join(const struct redis *redis, const redisReply *reply, struct error *error) {
    const char *what = reply_text(reply, 0), *theirs = reply_text(reply, 1);
    const struct fleet_self *self = redis->self;
    if (!strcmp(what, "ok"))
        return 0;
    if (!strcmp(what, "name"))
        return another_has_the_name(redis, error);
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
    return no_sense(redis, error);
}

static int join(struct fleet_link *link, const char *info, struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 7 };
    struct words words;
    redisReply *reply;
    if (words_of_script(redis, &words, WORDS, error))
        return -1;
    add_self(&words, redis);
    add_number(&words, lease_ms(redis));
    add(&words, redis->self->stream);
    add_number(&words, redis->self->partitions);
    add(&words, redis->self->digest);
    add(&words, info);
    int result = run(redis, SCRIPT_JOIN, &words, &reply, error) || judge_join(redis, reply, error);
    freeReplyObject(reply);
    return result ? -1 : 0;
}

static int renew(struct fleet_link *link, const char *info, uint64_t *version,
                 struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 4 };
    struct words words;
    redisReply *reply;
    if (words_of_script(redis, &words, WORDS, error))
        return -1;
    add_self(&words, redis);
    add_number(&words, lease_ms(redis));
    add(&words, info);
    int result = run(redis, SCRIPT_RENEW, &words, &reply, error);
    if (result == 0 && !reply_number(reply, version))
        result = another_has_the_name(redis, error);
    freeReplyObject(reply);
    return result;
}

static int leave(struct fleet_link *link, struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 2 };
    struct words words;
    redisReply *reply;
    if (words_of_script(redis, &words, WORDS, error))
        return -1;
    add_self(&words, redis);
    int result = run(redis, SCRIPT_LEAVE, &words, &reply, error);
    freeReplyObject(reply);
    return result;
}

static int look(struct fleet_link *link, struct fleet_view *view, struct error *error) {
    struct redis *redis = (struct redis *)link;
    struct words words;
    redisReply *reply;
    *view = (struct fleet_view){0};
    if (words_of_script(redis, &words, 0, error) || run(redis, SCRIPT_LOOK, &words, &reply, error))
        return -1;
    int result = reply_view(reply, view);
    freeReplyObject(reply);
    if (result == 0)
        return 0;
    fleet_view_free(view);
    return result == REPLY_NO_MEMORY ? error_no_memory(error) : no_sense(redis, error);
}

/* ---- Claims ---- */

/* The claim of that partition; NULL: it was not asked for. */
static struct fleet_claim *claim_of(struct fleet_claim *claims, size_t count, uint64_t partition) {
    for (size_t n = 0; n < count; n++)
        if (claims[n].partition == partition && !claims[n].claim)
            return &claims[n];
    return NULL;
}

static int read_taken(const struct redis *redis, const redisReply *reply,
                      struct fleet_claim *claims, size_t count, size_t *taken,
                      struct error *error) {
    enum { EACH = 3 };
    if (!strcmp(reply_text(reply, 0), "name"))
        return another_has_the_name(redis, error);
    for (size_t n = 0; n < count; n++)
        claims[n].claim = 0;
    for (size_t n = 1; n + EACH <= reply->elements; n += EACH, ++*taken) {
        uint64_t partition;
        struct fleet_claim *claim =
            reply_number(reply->element[n], &partition) ? claim_of(claims, count, partition) : NULL;
        if (!claim || !reply_number(reply->element[n + 1], &claim->claim) ||
            !reply_committed(reply_text(reply, n + 2), claim))
            return no_sense(redis, error);
    }
    for (size_t n = 0; n < count; n++)
        if (!claims[n].claim)
            claims[n].partition = SIZE_MAX;
    return 0;
}

static int take(struct fleet_link *link, uint64_t version, struct fleet_claim *claims, size_t count,
                size_t *taken, struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 3 };
    struct words words;
    redisReply *reply;
    *taken = 0;
    if (words_of_script(redis, &words, WORDS + count, error))
        return -1;
    add_self(&words, redis);
    add_number(&words, version);
    for (size_t n = 0; n < count; n++)
        add_number(&words, claims[n].partition);
    int result = run(redis, SCRIPT_TAKE, &words, &reply, error) ||
                 read_taken(redis, reply, claims, count, taken, error);
    freeReplyObject(reply);
    return result ? -1 : 0;
}

static void key_of(const struct redis *redis, char key[KEY_SIZE], const char *name) {
    snprintf(key, KEY_SIZE, "%s%s", redis->prefix, name);
}

static int ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                 struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 2 };
    char key[KEY_SIZE];
    struct words words;
    redisReply *reply;
    if (count == 0)
        return 0;
    if (words_open(&words, WORDS + count, error))
        return -1;
    key_of(redis, key, "ended");
    add(&words, "HMGET");
    add(&words, key);
    for (size_t n = 0; n < count; n++)
        add_number(&words, claims[n].claim);
    int result = ask(redis, &words, &reply, error);
    for (size_t n = 0; result == 0 && n < count; n++) {
        const char *text = reply_text(reply, n);
        claims[n].is_over = *text != '\0';
        claims[n].is_known = reply_offset(text, &claims[n].offset);
    }
    freeReplyObject(reply);
    words_free(&words);
    return result;
}

static int settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                  struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 2 };
    char key[KEY_SIZE];
    struct words words;
    redisReply *reply;
    if (count == 0)
        return 0;
    if (words_open(&words, WORDS + count, error))
        return -1;
    key_of(redis, key, "ended");
    add(&words, "HDEL");
    add(&words, key);
    for (size_t n = 0; n < count; n++)
        add_number(&words, claims[n]);
    int result = ask(redis, &words, &reply, error);
    freeReplyObject(reply);
    words_free(&words);
    return result;
}

static int read_refused(const struct redis *redis, const redisReply *reply,
                        struct fleet_commit *commits, size_t count, struct error *error) {
    uint64_t good;
    if (!strcmp(reply_text(reply, 0), "staged"))
        return error_set(error, EX_TEMPFAIL, "states that it was given are gone");
    if (reply->elements != count + 1)
        return no_sense(redis, error);
    for (size_t n = 0; n < count; n++)
        commits[n].refused = !reply_number(reply->element[n + 1], &good) || !good;
    return 0;
}

static int commit(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                  struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 3 };
    struct words words;
    redisReply *reply;
    if (words_of_script(redis, &words, WORDS + COMMIT_WORDS * count, error))
        return -1;
    add_self(&words, redis);
    add(&words, release ? "1" : "0");
    for (size_t n = 0; n < count; n++) {
        add_number(&words, commits[n].partition);
        add_number(&words, commits[n].claim);
        add_offset(&words, commits[n].offset);
        add_number(&words, commits[n].learned);
        add_number(&words, commits[n].streams);
        add_number(&words, commits[n].serial);
    }
    int result = run(redis, SCRIPT_COMMIT, &words, &reply, error) ||
                 read_refused(redis, reply, commits, count, error);
    freeReplyObject(reply);
    return result ? -1 : 0;
}

/* ---- States ---- */

static void key_of_states(const struct redis *redis, char key[KEY_SIZE], uint64_t partition,
                          uint64_t claim, uint64_t serial) {
    snprintf(key, KEY_SIZE, "%sstates:%" PRIu64 ":%" PRIu64 ":%" PRIu64, redis->prefix, partition,
             claim, serial);
}

static void add_rows(struct redis *redis, const char *key, const struct fleet_row *rows,
                     size_t count, struct words *words) {
    words->count = 0;
    add(words, "HSET");
    add(words, key);
    for (size_t n = 0; n < count; n++) {
        add_bytes(words, rows[n].key, rows[n].key_size);
        add_bytes(words, rows[n].state, rows[n].state_size);
    }
    redisAppendCommandArgv(redis->context, (int)words->count, words->word, words->size);
}

/* All commands go out before the first is answered. */
static int answers(struct redis *redis, size_t count, struct error *error) {
    int result = 0;
    for (size_t n = 0; n < count; n++) {
        redisReply *got = NULL, *reply = NULL;
        struct error *first = result ? NULL : error;
        if (redisGetReply(redis->context, (void **)&got) != REDIS_OK)
            got = NULL;
        result |= check(redis, got, &reply, first);
        freeReplyObject(reply);
        if (!redis->context)
            return -1;
    }
    return result;
}

static int stage(struct fleet_link *link, size_t partition, uint64_t claim, uint64_t serial,
                 const struct fleet_row *rows, size_t count, struct error *error) {
    struct redis *redis = (struct redis *)link;
    char key[KEY_SIZE];
    struct words words;
    size_t commands = 0;
    if (count == 0)
        return 0;
    if (connect_once(redis, error) || words_open(&words, 2 + 2 * ROWS_AT_ONCE, error))
        return -1;
    key_of_states(redis, key, partition, claim, serial);
    for (size_t n = 0; n < count; n += ROWS_AT_ONCE, commands++)
        add_rows(redis, key, rows + n, count - n < ROWS_AT_ONCE ? count - n : ROWS_AT_ONCE, &words);
    redisAppendCommand(redis->context, "PEXPIRE %s %d", key, STAGED_MS);
    words_free(&words);
    return answers(redis, commands + 1, error);
}

/* Which states were committed: false, none. */
static int find_states(struct redis *redis, size_t partition, char key[KEY_SIZE],
                       struct error *error) {
    redisReply *reply;
    uint64_t serial = 0, claim = 0;
    if (connect_once(redis, error) ||
        check(redis,
              redisCommand(redis->context, "HGET %soffsets %llu", redis->prefix,
                           (unsigned long long)partition),
              &reply, error))
        return -1;
    if (reply->type == REDIS_REPLY_STRING)
        reply_states(reply->str, &serial, &claim);
    freeReplyObject(reply);
    key_of_states(redis, key, partition, claim, serial);
    return serial > 0;
}

static int visit_rows(const redisReply *rows, fleet_visit *visit, void *context,
                      struct error *error) {
    for (size_t n = 0; n + 1 < rows->elements; n += 2) {
        const redisReply *key = rows->element[n], *state = rows->element[n + 1];
        const struct fleet_row row = {key->str, state->str, key->len, state->len};
        if (visit(context, &row, error))
            return -1;
    }
    return 0;
}

static int states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                  struct error *error) {
    struct redis *redis = (struct redis *)link;
    char key[KEY_SIZE], cursor[NUMBER_SIZE] = "0";
    int found = find_states(redis, partition, key, error);
    if (found <= 0)
        return found;
    do {
        redisReply *reply;
        if (check(redis,
                  redisCommand(redis->context, "HSCAN %s %s COUNT %d", key, cursor, ROWS_AT_ONCE),
                  &reply, error))
            return -1;
        int result = reply_is_scan(reply) ? visit_rows(reply->element[1], visit, context, error)
                                          : no_sense(redis, error);
        snprintf(cursor, sizeof cursor, "%s", reply_text(reply, 0));
        freeReplyObject(reply);
        if (result)
            return -1;
    } while (strcmp(cursor, "0") != 0);
    return 0;
}

/* ---- Rounds ---- */

static int arrive(struct fleet_link *link, uint64_t last, const void *parameters, size_t size,
                  uint64_t *round, struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 5 };
    struct words words;
    redisReply *reply;
    if (words_of_script(redis, &words, WORDS, error))
        return -1;
    add_self(&words, redis);
    add_number(&words, last);
    add_bytes(&words, parameters, size);
    add_number(&words, ROUND_MS);
    int result = run(redis, SCRIPT_ARRIVE, &words, &reply, error);
    if (result == 0 && !reply_number(reply, round))
        result = no_sense(redis, error);
    freeReplyObject(reply);
    return result;
}

static int round_of(struct fleet_link *link, uint64_t round, char **names, struct error *error) {
    struct redis *redis = (struct redis *)link;
    enum { WORDS = 2 };
    struct words words;
    redisReply *reply;
    *names = NULL;
    if (words_of_script(redis, &words, WORDS, error))
        return -1;
    add_number(&words, round);
    add_number(&words, lease_ms(redis));
    int result = run(redis, SCRIPT_ROUND, &words, &reply, error);
    if (result == 0 && reply->type != REDIS_REPLY_STRING)
        result = no_sense(redis, error);
    if (result == 0 && reply->len > 0 && !(*names = strdup(reply->str)))
        result = error_no_memory(error);
    freeReplyObject(reply);
    return result;
}

static int parameters(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                      size_t *size, struct error *error) {
    struct redis *redis = (struct redis *)link;
    redisReply *reply;
    *bytes = NULL;
    if (connect_once(redis, error) ||
        check(redis,
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

/* A stream that is not there has had nothing. */
static int end_of(struct redis *redis, const char *stream, size_t partition, bool alone,
                  uint64_t *end, struct error *error) {
    redisReply *info = alone ? redisCommand(redis->context, "XINFO STREAM %s", stream)
                             : redisCommand(redis->context, "XINFO STREAM %s.%llu", stream,
                                            (unsigned long long)partition);
    bool absent = info && info->type == REDIS_REPLY_ERROR && strstr(info->str, "no such key");
    *end = UINT64_MAX;
    if (absent) {
        freeReplyObject(info);
        return 1;
    }
    if (check(redis, info, &info, error))
        return -1;
    *end = entries_added(info);
    freeReplyObject(info);
    return 0;
}

static int ends(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error) {
    struct redis *redis = (struct redis *)link;
    if (connect_once(redis, error))
        return -1;
    for (size_t n = 0; n < view->partition_count; n++) {
        int found = end_of(redis, view->stream, n, false, &ends[n], error);
        if (found > 0 && view->partition_count == 1)
            found = end_of(redis, view->stream, n, true, &ends[n], error);
        if (found < 0)
            return -1;
        if (found > 0)
            ends[n] = 0;
    }
    return 0;
}

static int drain(struct fleet_link *link, const char *name, struct error *error) {
    struct redis *redis = (struct redis *)link;
    struct words words;
    redisReply *reply;
    uint64_t there = 0;
    if (words_of_script(redis, &words, 1, error))
        return -1;
    add(&words, name);
    int result = run(redis, SCRIPT_DRAIN, &words, &reply, error);
    if (result == 0 && (!reply_number(reply, &there) || !there))
        result = error_set(error, EX_USAGE, "there is no daemon %s in the fleet %s now", name,
                           redis->self->group);
    freeReplyObject(reply);
    return result;
}

static int rebalance(struct fleet_link *link, struct error *error) {
    struct redis *redis = (struct redis *)link;
    struct words words;
    redisReply *reply;
    if (words_of_script(redis, &words, 0, error))
        return -1;
    int result = run(redis, SCRIPT_REBALANCE, &words, &reply, error);
    freeReplyObject(reply);
    return result;
}

/* ---- Opening and closing ---- */

static void close_redis(struct fleet_link **link) {
    struct redis *redis = (struct redis *)*link;
    if (redis)
        disconnect(redis);
    free(redis);
    *link = NULL;
}

static const struct fleet_link_ops redis_ops = {
    .close = close_redis,
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
    .arrive = arrive,
    .round = round_of,
    .parameters = parameters,
    .ends = ends,
    .drain = drain,
    .rebalance = rebalance,
};

int fleet_redis_open(struct fleet_link **link, const struct url *url, const struct fleet_self *self,
                     struct error *error) {
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return error_no_memory(error);
    redis->link.ops = &redis_ops;
    redis->url = url;
    redis->self = self;
    snprintf(redis->prefix, sizeof redis->prefix, "runnel:{%s}:", self->group);
    *link = &redis->link;
    return 0;
}
