/* Claims of partitions, and what is committed of them. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "fleet_redis_internal.h"
#include "fleet_replies.h"

/* ---- Taking ---- */

/* Into claims in the order in which they were asked for: what is not among the answers was not
   claimed. */
static int read_taken(const struct fleet_redis *redis, const redisReply *reply,
                      struct fleet_claim *claims, size_t count, size_t *taken,
                      struct error *error) {
    enum { EACH = 3 };
    size_t at = 1;
    if (strcmp(reply_text(reply, 0), "ok") != 0)
        return fleet_redis_judge(redis, reply_text(reply, 0), error);
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
            return fleet_redis_no_sense(redis, error);
        at += EACH;
        ++*taken;
    }
    return at == reply->elements ? 0 : fleet_redis_no_sense(redis, error);
}

int fleet_redis_take(struct fleet_link *link, struct fleet_claim *claims, size_t count,
                     size_t *taken, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { EACH = 2 };
    struct fleet_words words;
    redisReply *reply;
    *taken = 0;
    if (fleet_words_of_self(redis, &words, EACH * count, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        fleet_add_number(&words, claims[n].partition);
        fleet_add_number(&words, claims[n].claim);
    }
    int result = fleet_redis_run(redis, SCRIPT_TAKE, &words, &reply, error) ||
                 read_taken(redis, reply, claims, count, taken, error);
    freeReplyObject(reply);
    return result ? -1 : 0;
}

/* ---- How they ended ---- */

int fleet_redis_ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                      struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { EACH = 2 };
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_of_script(redis, &words, EACH * count, error))
        return -1;
    for (size_t n = 0; n < count; n++) {
        fleet_add_number(&words, claims[n].partition);
        fleet_add_number(&words, claims[n].claim);
    }
    int result = fleet_redis_run(redis, SCRIPT_ENDED, &words, &reply, error);
    for (size_t n = 0; result == 0 && n < count; n++) {
        const char *text = reply_text(reply, n), *offset = strchr(text, ' ');
        claims[n].is_over = strncmp(text, "over ", strlen("over ")) == 0;
        claims[n].is_lost = strncmp(text, "lost ", strlen("lost ")) == 0;
        claims[n].is_known = offset && reply_offset(offset + 1, &claims[n].offset);
        if (!claims[n].is_known && (!offset || strcmp(offset, " -") != 0))
            result = fleet_redis_no_sense(redis, error);
    }
    freeReplyObject(reply);
    return result;
}

int fleet_redis_settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                       struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { WORDS = 2 };
    char key[FLEET_KEY_SIZE];
    struct fleet_words words;
    redisReply *reply;
    if (fleet_words_open(&words, WORDS + count, error))
        return -1;
    snprintf(key, sizeof key, "%sended", redis->prefix);
    fleet_add(&words, "HDEL");
    fleet_add(&words, key);
    for (size_t n = 0; n < count; n++)
        fleet_add_number(&words, claims[n]);
    int result = fleet_redis_ask(redis, &words, &reply, error);
    fleet_words_free(&words);
    freeReplyObject(reply);
    return result;
}

/* ---- Commits ---- */

static int append_commit(struct fleet_redis *redis, const struct fleet_commit *commit, bool release,
                         struct error *error) {
    enum { WORDS = 9 };
    struct fleet_words words;
    if (fleet_words_of_self(redis, &words, WORDS, error))
        return -1;
    fleet_add(&words, release ? "1" : "0");
    fleet_add_number(&words, commit->partition);
    fleet_add_number(&words, commit->claim);
    fleet_add_offset(&words, commit->offset);
    fleet_add_number(&words, commit->learned);
    fleet_add_number(&words, commit->streams);
    fleet_add_number(&words, commit->serial);
    fleet_add_number(&words, commit->rows);
    fleet_add(&words, commit->whole ? "1" : "0");
    fleet_redis_append(redis, SCRIPT_COMMIT, &words);
    fleet_words_free(&words);
    return 0;
}

static int read_committed(const struct fleet_redis *redis, const redisReply *reply,
                          struct fleet_commit *commit, struct error *error) {
    const char *text = reply_text(reply, 0);
    commit->refused = !strcmp(text, "refused");
    commit->incomplete = !strcmp(text, "incomplete");
    if (!strcmp(text, "staged"))
        return error_set(error, EX_TEMPFAIL, "states that it was given are gone");
    return commit->refused || commit->incomplete || !strcmp(text, "ok")
               ? 0
               : fleet_redis_judge(redis, text, error);
}

/* All go out before the first is answered; all answers are read, and the first error is told. */
static int commit_some(struct fleet_redis *redis, struct fleet_commit *commits, size_t count,
                       bool release, struct error *error) {
    size_t sent = 0;
    int result = fleet_redis_load(redis, SCRIPT_COMMIT, error);
    while (result == 0 && sent < count)
        if ((result = append_commit(redis, &commits[sent], release, error)) == 0)
            sent++;
    for (size_t n = 0; n < sent; n++) {
        redisReply *reply;
        struct error one = {0};
        if (fleet_redis_next(redis, &reply, &one) ||
            read_committed(redis, reply, &commits[n], &one)) {
            *error = result ? *error : one;
            result = -1;
        }
        freeReplyObject(reply);
        if (!redis->context)
            return -1;
    }
    return result;
}

int fleet_redis_commit(struct fleet_link *link, struct fleet_commit *commits, size_t count,
                       bool release, struct error *error) {
    struct fleet_redis *redis = (struct fleet_redis *)link;
    enum { AT_ONCE = 256 };
    for (size_t n = 0; n < count; n += AT_ONCE)
        if (commit_some(redis, commits + n, count - n < AT_ONCE ? count - n : AT_ONCE, release,
                        error))
            return -1;
    return 0;
}
