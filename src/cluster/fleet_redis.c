#include "fleet_link.h"

#include <hiredis.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/redis_entry.h"
#include "brokers/redis_link.h"
#include "brokers/url.h"
#include "common/error.h"
#include "common/log.h"
#include "fleet_replies.h"
#include "fleet_scripts.h"

enum {
    FLEET_PREFIX_SIZE = sizeof "runnel:{}:" + FLEET_GROUP_MAX,
    FLEET_KEY_SIZE = FLEET_PREFIX_SIZE + 128,
    FLEET_SHA_SIZE = 41,
    FLEET_NUMBER_SIZE = 24,
    FLEET_OFFSET_SIZE = 2 * FLEET_NUMBER_SIZE,
};

struct fleet_redis {
    struct fleet_link link;
    const struct url *url;
    const struct fleet_self *self;
    redisContext *context; /* NULL: not connected */
    bool anew;             /* reconnected since the last query: earlier changes may be lost */
    char prefix[FLEET_PREFIX_SIZE];
    char run[FLEET_ID_SIZE];
    char sha[FLEET_SCRIPTS][FLEET_SHA_SIZE]; /* "" = not loaded on this server */
};

struct fleet_words {
    const char **word;
    size_t *size, count, room;
    char (*number)[FLEET_OFFSET_SIZE]; /* (room,) printed numbers */
};

/* ---- Commands ---- */

static void words_free(struct fleet_words *words) {
    free(words->word);
    free(words->size);
    free(words->number);
}

static int words_open(struct fleet_words *words, size_t room, struct error *error) {
    *words = (struct fleet_words){.room = room,
                                  .word = calloc(room, sizeof *words->word),
                                  .size = calloc(room, sizeof *words->size),
                                  .number = calloc(room, sizeof *words->number)};
    if (words->word && words->size && words->number)
        return 0;
    words_free(words);
    return error_no_memory(error);
}

/* The bytes must live as long as the words. */
static void add_bytes(struct fleet_words *words, const void *bytes, size_t size) {
    words->word[words->count] = bytes;
    words->size[words->count++] = size;
}

static void add(struct fleet_words *words, const char *text) {
    add_bytes(words, text, strlen(text));
}

static void add_number(struct fleet_words *words, uint64_t number) {
    char *text = words->number[words->count];
    snprintf(text, FLEET_OFFSET_SIZE, "%" PRIu64, number);
    add(words, text);
}

static void add_offset(struct fleet_words *words, struct fleet_offset offset) {
    char *text = words->number[words->count];
    snprintf(text, FLEET_OFFSET_SIZE, "%" PRIu32 " %" PRIu64, offset.epoch, offset.sequence);
    add(words, text);
}

/* EVALSHA, the script's digest, 1, the prefix. */
enum { SCRIPT_WORDS = 4, SCRIPT_DIGEST = 1, SELF_WORDS = 3 };

/* Starts a script call, with room for more words. Daemons' scripts get name, ID and run. */
static int words_of_script(struct fleet_redis *redis, struct fleet_words *words, size_t more,
                           struct error *error) {
    if (words_open(words, SCRIPT_WORDS + more, error))
        return -1;
    add(words, "EVALSHA");
    add(words, "");
    add(words, "1");
    add(words, redis->prefix);
    return 0;
}

static void add_self(const struct fleet_redis *redis, struct fleet_words *words) {
    add(words, redis->self->name);
    add(words, redis->self->id);
    add(words, redis->run);
}

static int words_of_self(struct fleet_redis *redis, struct fleet_words *words, size_t more,
                         struct error *error) {
    if (words_of_script(redis, words, SELF_WORDS + more, error))
        return -1;
    add_self(redis, words);
    return 0;
}

static uint64_t lease_ms(const struct fleet_redis *redis) {
    return (uint64_t)(redis->self->lease * 1000);
}

/* ---- Errors ---- */

static int has_something_else(const struct fleet_redis *redis, const char *text,
                              struct error *error) {
    return error_set(error, EX_UNAVAILABLE,
                     "%s: keys runnel:{%s}: are not a fleet of this version%s%s; use another "
                     "examples.redis.group, or stop its daemons and remove these keys",
                     redis->url->name, redis->self->group, *text ? ": " : "", text);
}

static int no_sense(const struct fleet_redis *redis, struct error *error) {
    return has_something_else(redis, "", error);
}

/* Sets the error for a script's answer to a daemon that may not do this. */
static int fail_member(const struct fleet_redis *redis, const char *text, struct error *error) {
    if (!strcmp(text, "name"))
        return fleet_name_is_taken(redis->self, error);
    if (!strcmp(text, "stale"))
        return error_set(error, EX_TEMPFAIL, "another daemon with this name has joined");
    if (!strcmp(text, "lost"))
        return error_set(error, EX_TEMPFAIL, "the server does not know this daemon");
    return no_sense(redis, error);
}

/* ---- Requests ---- */

static void disconnect(struct fleet_redis *redis) {
    if (redis->context)
        redisFree(redis->context);
    redis->context = NULL;
    memset(redis->sha, 0, sizeof redis->sha);
}

static int connect_redis(struct fleet_redis *redis, struct error *error) {
    if (redis->context)
        return 0;
    redis->context = redis_connect(redis->url, error);
    redis->anew = true;
    return redis->context ? 0 : -1;
}

static bool begins(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

static int check_error(struct fleet_redis *redis, const char *text, struct error *error) {
    if (begins(text, "NOSCRIPT")) { /* words of an appended command */
        memset(redis->sha, 0, sizeof redis->sha);
        return error_set(error, EX_TEMPFAIL, "server error: %s", text);
    }
    redis_fail(redis->url, text, error);
    /* a key of another type, or unknown data in a script */
    return error->status == EX_UNAVAILABLE &&
                   (begins(text, "WRONGTYPE") || strstr(text, "user_script"))
               ? has_something_else(redis, text, error)
               : -1;
}

/* Checks a reply and frees it unless it is good. NULL: the connection is lost. Returns -1 with the
   errors of fleet_link.h. */
static int check(struct fleet_redis *redis, redisReply *got, redisReply **reply,
                 struct error *error) {
    *reply = NULL;
    if (!got) {
        redis_lost(redis->context, error);
        disconnect(redis);
        return -1;
    }
    if (got->type == REDIS_REPLY_ERROR) {
        check_error(redis, got->str, error);
        freeReplyObject(got);
        return -1;
    }
    *reply = got;
    return 0;
}

/* Reads the next reply to appended commands. */
static int next_reply(struct fleet_redis *redis, redisReply **reply, struct error *error) {
    redisReply *got = NULL;
    if (redisGetReply(redis->context, (void **)&got) != REDIS_OK)
        got = NULL;
    return check(redis, got, reply, error);
}

/* Sends one command; on -1 `*reply` is NULL. */
static int ask(struct fleet_redis *redis, const struct fleet_words *words, redisReply **reply,
               struct error *error) {
    *reply = NULL;
    if (connect_redis(redis, error))
        return -1;
    return check(redis,
                 redisCommandArgv(redis->context, (int)words->count, words->word, words->size),
                 reply, error);
}

/* Loads a script on the server: appended calls have only its digest. */
static int load(struct fleet_redis *redis, enum fleet_script script, struct error *error) {
    size_t head = strlen(fleet_script_words), size = strlen(fleet_script_texts[script]);
    redisReply *reply;
    if (connect_redis(redis, error))
        return -1;
    if (*redis->sha[script])
        return 0;
    char *text = malloc(head + size);
    if (!text)
        return error_no_memory(error);
    memcpy(text, fleet_script_words, head);
    memcpy(text + head, fleet_script_texts[script], size);
    int result = check(redis, redisCommand(redis->context, "SCRIPT LOAD %b", text, head + size),
                       &reply, error);
    free(text);
    if (result == 0 && (reply->type != REDIS_REPLY_STRING || reply->len != FLEET_SHA_SIZE - 1))
        result = error_set(error, EX_UNAVAILABLE, "%s: SCRIPT LOAD returned no digest",
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

/* Appends a command, which is sent with the others before the first reply is read. */
static int append(struct fleet_redis *redis, const struct fleet_words *words, struct error *error) {
    return redisAppendCommandArgv(redis->context, (int)words->count, words->word, words->size) ==
                   REDIS_OK
               ? 0
               : error_no_memory(error);
}

/* Runs a script; loads it again after a restart of the server. */
static int run(struct fleet_redis *redis, enum fleet_script script, struct fleet_words *words,
               redisReply **reply, struct error *error) {
    int result = -1;
    *reply = NULL;
    for (int tries = 0; tries < 2; tries++) {
        if (load(redis, script, error))
            break;
        set_digest(redis, script, words);
        redisReply *got =
            redisCommandArgv(redis->context, (int)words->count, words->word, words->size);
        if (tries == 0 && got && got->type == REDIS_REPLY_ERROR && begins(got->str, "NOSCRIPT")) {
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

/* Runs a script with arguments by kind: '@' name, ID and run of this daemon, 's' a text, 'n' a
   uint64_t. `reply` may be NULL. */
static int call(struct fleet_redis *redis, enum fleet_script script, redisReply **reply,
                struct error *error, const char *kinds, ...) {
    struct fleet_words words;
    redisReply *got = NULL;
    va_list arguments;
    if (reply)
        *reply = NULL;
    if (words_of_script(redis, &words, SELF_WORDS + strlen(kinds), error))
        return -1;
    va_start(arguments, kinds);
    for (; *kinds; kinds++)
        if (*kinds == '@')
            add_self(redis, &words);
        else if (*kinds == 's')
            add(&words, va_arg(arguments, const char *));
        else
            add_number(&words, va_arg(arguments, uint64_t));
    va_end(arguments);
    int result = run(redis, script, &words, &got, error);
    if (reply)
        *reply = got;
    else
        freeReplyObject(got);
    return result;
}

/* ---- Durability of the server ---- */

/* Without appendonly, a server loses the fleet's state when it ends, and with it everything that
   was learned since. Redis's default is appendonly no. */

/* Whether INFO has the line. A line that an older server lacks counts as present. */
static bool has_line(const char *info, const char *line) {
    const char *found = strstr(info, line);
    size_t size = strlen(line);
    return found && (found == info || found[-1] == '\n') &&
           (found[size] == '\r' || found[size] == '\n' || found[size] == '\0');
}

static void warn_of_keeping(const struct fleet_redis *redis, const char *info) {
    const char *where = redis->url->name;
    if (has_line(info, "aof_enabled:0"))
        log_warning("%s does not keep acknowledged data on disk (appendonly no): when it ends, the "
                    "fleet loses its progress and rolls back later examples; set appendonly "
                    "yes in its configuration",
                    where);
    if (!has_line(info, "maxmemory:0") && strstr(info, "maxmemory_policy:") &&
        !has_line(info, "maxmemory_policy:noeviction"))
        log_warning("%s may delete keys and messages of the fleet when its memory is full: set "
                    "maxmemory-policy noeviction in its configuration",
                    where);
}

/* Warns if the server does not keep acknowledged data. Needs a connection; a user who may not call
   INFO gets no warning. */
static void look_at_keeping(struct fleet_redis *redis) {
    redisReply *reply = redisCommand(redis->context, "INFO");
    if (reply && reply->type == REDIS_REPLY_STRING)
        warn_of_keeping(redis, reply->str);
    freeReplyObject(reply);
}

/* ---- Claims ---- */

/* Fills the claims from the reply, in the requested order; those that it lacks were not claimed. */
static int read_taken(const struct fleet_redis *redis, const redisReply *reply,
                      struct fleet_claim *claims, size_t count, size_t *taken,
                      struct error *error) {
    enum { EACH = 3 };
    size_t at = 1;
    if (strcmp(reply_text(reply, 0), "ok") != 0)
        return fail_member(redis, reply_text(reply, 0), error);
    for (size_t n = 0; n < count; n++) {
        uint64_t partition;
        struct fleet_claim *claim = &claims[n];
        bool is_next = at + EACH <= reply->elements &&
                       reply_number(reply->element[at], &partition) &&
                       partition == claim->partition;
        if (!is_next) {
            claim->partition = SIZE_MAX;
            continue;
        }
        if (!reply_number(reply->element[at + 1], &claim->claim) ||
            !reply_committed(reply_text(reply, at + 2), claim))
            return no_sense(redis, error);
        at += EACH;
        ++*taken;
    }
    return at == reply->elements ? 0 : no_sense(redis, error);
}

static int take(struct fleet_link *link, struct fleet_claim *claims, size_t count, size_t *taken,
                struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { EACH = 2 };
    struct fleet_words words;
    redisReply *reply;
    *taken = 0;
    if (words_of_self(redis, &words, EACH * count, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        add_number(&words, claims[n].partition);
        add_number(&words, claims[n].claim);
    }
    int result = run(redis, SCRIPT_TAKE, &words, &reply, error) ||
                 read_taken(redis, reply, claims, count, taken, error);
    freeReplyObject(reply);
    return result ? -1 : 0;
}

/* ---- Ends of claims ---- */

static int ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                 struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { EACH = 2 };
    struct fleet_words words;
    redisReply *reply;
    if (words_of_script(redis, &words, EACH * count, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        add_number(&words, claims[n].partition);
        add_number(&words, claims[n].claim);
    }
    int result = run(redis, SCRIPT_ENDED, &words, &reply, error);
    for (size_t n = 0; result == 0 && n < count; n++) {
        const char *text = reply_text(reply, n), *offset = strchr(text, ' ');
        claims[n].is_over = strncmp(text, "over ", strlen("over ")) == 0;
        claims[n].is_lost = strncmp(text, "lost ", strlen("lost ")) == 0;
        claims[n].is_known = offset && reply_offset(offset + 1, &claims[n].offset);
        if (!claims[n].is_known && (!offset || strcmp(offset, " -") != 0))
            result = no_sense(redis, error);
    }
    freeReplyObject(reply);
    return result;
}

static int settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                  struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { WORDS = 2 };
    char key[FLEET_KEY_SIZE];
    struct fleet_words words;
    redisReply *reply;
    if (words_open(&words, WORDS + count, error))
        return -1;
    snprintf(key, sizeof key, "%sended", redis->prefix);
    add(&words, "HDEL");
    add(&words, key);
    for (size_t n = 0; n < count; n++)
        add_number(&words, claims[n]);
    int result = ask(redis, &words, &reply, error);
    words_free(&words);
    freeReplyObject(reply);
    return result;
}

/* ---- Commits ---- */

static int append_commit(struct fleet_redis *redis, const struct fleet_commit *commit, bool release,
                         struct error *error) {
    enum { WORDS = 10 };
    struct fleet_words words;
    if (words_of_self(redis, &words, WORDS, error))
        return -1;
    add(&words, release ? "1" : "0");
    add_number(&words, commit->partition);
    add_number(&words, commit->claim);
    add_offset(&words, commit->offset);
    add_number(&words, commit->learned);
    add_number(&words, commit->streams);
    add_number(&words, commit->serial);
    add_number(&words, commit->rows);
    add(&words, commit->whole ? "1" : "0");
    add_offset(&words, commit->base);
    set_digest(redis, SCRIPT_COMMIT, &words);
    int result = append(redis, &words, error);
    words_free(&words);
    return result;
}

static int read_committed(const struct fleet_redis *redis, const redisReply *reply,
                          struct fleet_commit *commit, struct error *error) {
    const char *text = reply_text(reply, 0);
    commit->refused = !strcmp(text, "refused");
    commit->incomplete = !strcmp(text, "incomplete");
    if (!strcmp(text, "staged"))
        return error_set(error, EX_TEMPFAIL, "staged states are lost");
    return commit->refused || commit->incomplete || !strcmp(text, "ok")
               ? 0
               : fail_member(redis, text, error);
}

/* Reads all replies, after all commands were sent, and sets the first error. `commits` are those of
   the commands, or NULL. */
static int read_answers(struct fleet_redis *redis, struct fleet_commit *commits, size_t count,
                        struct error *error) {
    int result = 0;
    for (size_t n = 0; n < count; n++) {
        redisReply *reply;
        struct error one = {0};
        if (next_reply(redis, &reply, &one) ||
            (commits && read_committed(redis, reply, &commits[n], &one))) {
            *error = result ? *error : one;
            result = -1;
        }
        freeReplyObject(reply);
        if (!redis->context)
            return -1;
    }
    return result;
}

static int commit_some(struct fleet_redis *redis, struct fleet_commit *commits, size_t count,
                       bool release, struct error *error) {
    size_t sent = 0;
    struct error later = {0};
    int result = load(redis, SCRIPT_COMMIT, error);
    while (result == 0 && sent < count)
        if ((result = append_commit(redis, &commits[sent], release, error)) == 0)
            sent++;
    return read_answers(redis, commits, sent, result ? &later : error) ? -1 : result;
}

static int commit(struct fleet_link *link, struct fleet_commit *commits, size_t count, bool release,
                  struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { AT_ONCE = 256 };
    for (size_t n = 0; n < count; n += AT_ONCE)
        if (commit_some(redis, commits + n, count - n < AT_ONCE ? count - n : AT_ONCE, release,
                        error))
            return -1;
    return 0;
}

enum {
    ROWS_AT_ONCE = 256,              /* rows per command */
    STAGED_MS = 24 * 60 * 60 * 1000, /* staged states expire after this time */
};

/* ---- Staging ---- */

static int append_rows(struct fleet_redis *redis, const char *key, const struct fleet_row *rows,
                       size_t count, struct fleet_words *words, struct error *error) {
    words->count = 0;
    add(words, "HSET");
    add(words, key);
    for (size_t n = 0; n < count; n++) {
        add_bytes(words, rows[n].key, rows[n].key_size);
        add_bytes(words, rows[n].state_size ? rows[n].state : "", rows[n].state_size);
    }
    return append(redis, words, error);
}

static int append_expiry(struct fleet_redis *redis, const char *key, struct fleet_words *words,
                         struct error *error) {
    words->count = 0;
    add(words, "PEXPIRE");
    add(words, key);
    add_number(words, STAGED_MS);
    return append(redis, words, error);
}

static int stage(struct fleet_link *link, const struct fleet_commit *commit,
                 const struct fleet_row *rows, size_t count, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    char key[FLEET_KEY_SIZE];
    struct fleet_words words;
    size_t commands = 0;
    if (count == 0)
        return 0;
    if (connect_redis(redis, error) || words_open(&words, 2 + 2 * ROWS_AT_ONCE, error))
        return -1;
    snprintf(key, sizeof key, "%sstates:%zu:%" PRIu64 ":%" PRIu64, redis->prefix, commit->partition,
             commit->claim, commit->serial);
    int result = 0;
    for (size_t n = 0; result == 0 && n < count; n += ROWS_AT_ONCE) {
        const size_t some = count - n < ROWS_AT_ONCE ? count - n : ROWS_AT_ONCE;
        result = append_rows(redis, key, rows + n, some, &words, error);
        commands += result == 0;
    }
    if (result == 0 && (result = append_expiry(redis, key, &words, error)) == 0)
        commands++;
    words_free(&words);
    struct error later = {0};
    return read_answers(redis, NULL, commands, result ? &later : error) ? -1 : result;
}

/* ---- States ---- */

/* Stores the number of committed states that exist; 0 = none. Warns if some are missing. */
static int look_at_states(struct fleet_redis *redis, size_t partition, uint64_t *committed,
                          struct error *error) {
    struct fleet_claim claim;
    redisReply *reply;
    uint64_t there = 0;
    int result = call(redis, SCRIPT_STATES, &reply, error, "n", (uint64_t)partition);
    if (result == 0 && (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
                        !reply_number(reply->element[1], &there) ||
                        !reply_committed(reply_text(reply, 0), &claim)))
        result = no_sense(redis, error);
    if (result == 0 && claim.committed && there < claim.states)
        log_warning("%s has %" PRIu64 " of %" PRIu64
                    " states that the fleet %s committed of partition %zu (does maxmemory-policy "
                    "allow evictions?); streams without a state start from scratch",
                    redis->url->name, there, claim.states, redis->self->group, partition);
    *committed = result == 0 && claim.committed ? there : 0;
    freeReplyObject(reply);
    return result;
}

/* Visits the states of some keys; a cursor (HSCAN) could return a stream twice. */
static int visit_some(struct fleet_redis *redis, const char *key, redisReply *const *keys,
                      size_t count, fleet_visit *visit, void *context, struct error *error) {
    struct fleet_words words;
    redisReply *reply;
    if (words_open(&words, 2 + count, error))
        return -1;
    add(&words, "HMGET");
    add(&words, key);
    for (size_t n = 0; n < count; n++)
        add_bytes(&words, keys[n]->str, keys[n]->len);
    int result = ask(redis, &words, &reply, error);
    words_free(&words);
    for (size_t n = 0; result == 0 && n < count; n++) {
        const redisReply *state = n < reply->elements ? reply->element[n] : NULL;
        if (!state || state->type != REDIS_REPLY_STRING) {
            result = no_sense(redis, error);
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
    if (connect_redis(redis, error) ||
        check(redis, redisCommand(redis->context, "HKEYS %s", key), reply, error))
        return -1;
    bool good = (*reply)->type == REDIS_REPLY_ARRAY;
    for (size_t n = 0; good && n < (*reply)->elements; n++)
        good = (*reply)->element[n]->type == REDIS_REPLY_STRING;
    return good ? 0 : no_sense(redis, error);
}

static int states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
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

enum { ROUND_MS = 60 * 60 * 1000 /* time until parameters expire */ };

static int arrive(struct fleet_link *link, uint64_t serial, const void *parameters, size_t size,
                  uint64_t *round, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { WORDS = 3 };
    struct fleet_words words;
    redisReply *reply;
    if (words_of_self(redis, &words, WORDS, error))
        return -1;
    add_number(&words, serial);
    add_bytes(&words, parameters, size);
    add_number(&words, ROUND_MS);
    int result = run(redis, SCRIPT_ARRIVE, &words, &reply, error);
    if (result == 0 && !reply_number(reply, round))
        result = fail_member(redis, reply_text(reply, 0), error);
    freeReplyObject(reply);
    return result;
}

static int pass(struct fleet_link *link, uint64_t round, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    return call(redis, SCRIPT_PASS, NULL, error, "sn", redis->self->name, round);
}

static int round_of(struct fleet_link *link, uint64_t round, char **names, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    redisReply *reply;
    *names = NULL;
    int result = call(redis, SCRIPT_ROUND, &reply, error, "nn", round, lease_ms(redis));
    if (result == 0 && reply->type != REDIS_REPLY_STRING)
        result = no_sense(redis, error);
    if (result == 0 && reply->len > 0 && !(*names = strdup(reply->str)))
        result = error_no_memory(error);
    freeReplyObject(reply);
    return result;
}

static int parameters_of(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                         size_t *size, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    redisReply *reply;
    *bytes = NULL;
    if (connect_redis(redis, error) ||
        check(redis,
              redisCommand(redis->context, "GET %sparameters:%llu:%s", redis->prefix,
                           (unsigned long long)round, name),
              &reply, error))
        return -1;
    int result = reply->type == REDIS_REPLY_STRING
                     ? 0
                     : error_set(error, EX_UNAVAILABLE,
                                 "%s: parameters of %s in round %" PRIu64 " not found",
                                 redis->url->name, name, round);
    if (result == 0 && !(*bytes = malloc(reply->len + 1)))
        result = error_no_memory(error);
    if (result == 0)
        memcpy(*bytes, reply->str, *size = reply->len);
    freeReplyObject(reply);
    return result;
}

/* ---- Members ---- */

/* Compares the fleet's settings with this daemon's. */
static int fail_join(struct fleet_redis *redis, const redisReply *reply, struct error *error) {
    const char *what = reply_text(reply, 0), *theirs = reply_text(reply, 1);
    const struct fleet_self *self = redis->self;
    if (!strcmp(what, "ok"))
        return 0;
    if (!strcmp(what, "name")) {
        const double left = strtod(reply_text(reply, 2), NULL) / 1000;
        redis->link.namesake = (struct fleet_namesake){strtoull(theirs, NULL, 10), left};
        return fleet_name_is_taken(redis->self, error);
    }
    if (!strcmp(what, "stream"))
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s learns the stream %s, not %s: use one group per fleet "
                         "(examples.redis.group)",
                         self->group, redis->url->name, theirs, self->stream);
    if (!strcmp(what, "partitions"))
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s has %s partitions, not %zu, so streams would change "
                         "partitions; use that number, or another examples.redis.group",
                         self->group, redis->url->name, theirs, self->partitions);
    if (!strcmp(what, "digest"))
        return error_set(
            error, EX_CONFIG,
            "the fleet %s at %s has another configuration (digest %s, this daemon's %s): give all "
            "daemons of a fleet the same configuration, or use another examples.redis.group%s",
            self->group, redis->url->name, theirs, self->digest, fleet_hint(self, theirs));
    if (!strcmp(what, "every"))
        return error_set(
            error, EX_CONFIG,
            "the fleet %s at %s has fleet.average.every %s, not %" PRIu64
            ": give all daemons of a fleet the same value, or use another examples.redis.group",
            self->group, redis->url->name, theirs, self->every);
    if (!strcmp(what, "older"))
        return error_set(error, EX_CONFIG,
                         "the fleet %s at %s has daemons of an older version: stop them all, and "
                         "start them again with this version",
                         self->group, redis->url->name);
    return no_sense(redis, error);
}

static int join(struct fleet_link *link, const char *info, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    const struct fleet_self *self = redis->self;
    redisReply *reply;
    int result = call(redis, SCRIPT_JOIN, &reply, error, "@nsnsns", lease_ms(redis), self->stream,
                      (uint64_t)self->partitions, self->digest, self->every, info) ||
                 fail_join(redis, reply, error);
    freeReplyObject(reply);
    if (result == 0)
        look_at_keeping(redis);
    redis->anew |= result == 0;
    return result ? -1 : 0;
}

static int renew(struct fleet_link *link, const char *info, uint64_t *version,
                 struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    redisReply *reply;
    int result = call(redis, SCRIPT_RENEW, &reply, error, "@ns", lease_ms(redis), info);
    if (result == 0 && !strcmp(reply_text(reply, 0), "stale"))
        *version = FLEET_DISPLACED;
    else if (result == 0 && !reply_number(reply, version))
        result = fail_member(redis, reply_text(reply, 0), error);
    freeReplyObject(reply);
    return result;
}

static int leave(struct fleet_link *link, struct error *error) {
    return call((struct fleet_redis *)link, SCRIPT_LEAVE, NULL, error, "@");
}

/* After a reconnect, the server may have lost parts of this view. */
static int look(struct fleet_link *link, struct fleet_view *view, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    redisReply *reply = NULL;
    int result = connect_redis(redis, error);
    const bool anew = result == 0 && redis->anew;
    if (anew)
        fleet_view_free(view);
    if (result == 0)
        result = call(redis, SCRIPT_LOOK, &reply, error, "n", view->version);
    if (result == 0 && (result = reply_view(reply, view)))
        result = result == REPLY_NO_MEMORY ? error_no_memory(error) : no_sense(redis, error);
    freeReplyObject(reply);
    if (result) {
        fleet_view_free(view);
        return result;
    }
    redis->anew = false;
    view->anew = anew;
    return fleet_assign_view(view, error);
}

/* ---- Commands of runnel-fleet ---- */

/* Reads the count from XINFO STREAM (Redis 7 and later). */
static uint64_t entries_added(const redisReply *info) {
    const redisReply *added = redis_member(info, "entries-added");
    uint64_t number;
    return added && reply_number(added, &number) ? number : UINT64_MAX;
}

/* Whether all entries that exist are committed; others were deleted, or have lower IDs. */
static bool is_learned(const redisReply *info, const struct fleet_partition *known) {
    const redisReply *newest = redis_member(info, "last-entry");
    const char *id = newest ? reply_text(newest, 0) : "";
    if (!*id || !known->committed)
        return newest && newest->type == REDIS_REPLY_NIL;
    return redis_id_compare(redis_id_parse(id),
                            redis_id_of(known->offset.epoch, known->offset.sequence)) <= 0;
}

/* A missing stream has no entries. */
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
    if (check(redis, info, &info, error))
        return -1;
    *end = is_learned(info, known) ? known->learned : entries_added(info);
    freeReplyObject(info);
    return 0;
}

static int ends(struct fleet_link *link, const struct fleet_view *view, uint64_t *ends,
                struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    if (connect_redis(redis, error))
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
    redisReply *reply;
    uint64_t there = 0;
    int result = call(redis, SCRIPT_DRAIN, &reply, error, "s", name);
    if (result == 0 && (!reply_number(reply, &there) || !there))
        result = error_set(error, EX_USAGE, "daemon not found: %s in the fleet %s", name,
                           redis->self->group);
    freeReplyObject(reply);
    return result;
}

static int rebalance(struct fleet_link *link, struct error *error) {
    return call((struct fleet_redis *)link, SCRIPT_REBALANCE, NULL, error, "");
}

/* Finds hashes of fleets; stops after a number of requests. */
static int groups(struct fleet_link *link, struct fleet_groups *groups, struct error *error) {
    enum { KEYS_AT_ONCE = 1000, ASKED_MAX = 200 };
    struct fleet_redis *redis = (struct fleet_redis *)link;
    char cursor[FLEET_NUMBER_SIZE] = "0";
    if (connect_redis(redis, error))
        return -1;
    for (int asked = 0; asked < ASKED_MAX && !groups->more; asked++) {
        redisReply *reply = redisCommand(redis->context, "SCAN %s MATCH runnel:{*}:fleet COUNT %d",
                                         cursor, KEYS_AT_ONCE);
        if (check(redis, reply, &reply, error))
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
    .pass = pass,
    .round = round_of,
    .parameters = parameters_of,
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
