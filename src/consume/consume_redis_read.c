/* Entries of the streams that are read, by one XREAD for all of them. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "consume_redis.h"

#define REST_NS (NS_PER_SECOND / 200) /* while the learning thread has something to do */

enum {
    BLOCK_MS = 100, /* of a read that finds nothing */
    BATCH = 512,    /* entries of all streams together, at most about, */
    BATCH_LEAST = 8,
    BATCH_BYTES = 4 << 20, /* and bytes of them, as far as that can be told from the last */
};

/* ---- Reading ---- */

/* What is to be read now. */
int consume_redis_choose(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    size_t before = redis->reading_count;
    bool changed = false;
    redis->reading_count = 0;
    for (size_t n = 0; n < consume->count; n++) {
        struct consume_partition *p = consume->partitions[n];
        bool begins, known;
        if (!consume_wanted(consume, p, &begins, &known))
            continue;
        redis->reading[redis->reading_count++] = p;
        changed |= begins;
        if (!begins)
            continue;
        redis_id_of(p->at.epoch, p->at.sequence, &p->first, &p->second);
        if (!known && consume_redis_find_start(consume, p, error) < 0) {
            p->reading = 0; /* to be found the next time */
            return -1;
        }
        p->begun = p->at.count;
    }
    if (changed || before != redis->reading_count)
        redis->due = 0;
    return 0;
}

/* One entry, [id, [field, value, ..]]; as consume_put. */
static int take_entry(struct consume *consume, struct consume_partition *p, const redisReply *entry,
                      struct error *error) {
    struct redis *redis = consume->broker;
    char id[CONSUME_NAME_SIZE + REDIS_ID_SIZE];
    uint64_t first, second;
    struct message_number number;
    redis_id_parse(entry->element[0]->str, &first, &second);
    bool numbered = redis_id_number(first, second, &number);
    if (!numbered) /* the last place of its millisecond: */
        redis_id_number(first, (1u << REDIS_SECOND_BITS) - 1, &number);
    snprintf(id, sizeof id, "%s of %s", entry->element[0]->str, p->stream);
    struct consume_read read = {
        .partition = p,
        .place = {number.epoch, number.sequence, p->counted ? p->at.count + 1 : 0},
        .message = {.id = id,
                    .key = p->stream,
                    .key_size = strlen(p->stream),
                    .bytes = "",
                    .time = redis_id_time(first)},
        .why = numbered ? NULL
                        : "the second part of its id is above 2097151, so that it cannot be told "
                          "apart from the next: let Redis make the ids",
        .raw_key = numbered ? NULL : entry->element[0]->str,
        .raw_key_size = numbered ? 0 : (size_t)entry->element[0]->len};
    if (numbered && !(redis_are_texts(entry->element[1]) &&
                      redis_payload(entry->element[1], NULL, &read.message, &redis->object)))
        read.why = "its fields are no UTF-8";
    redis->bytes += read.message.size;
    int put = consume_put(consume, &read, error);
    if (put == 1) {
        p->first = first;
        p->second = second;
    }
    return put;
}

static int take_entries(struct consume *consume, struct consume_partition *p,
                        const redisReply *entries, struct error *error) {
    for (size_t n = 0; n < entries->elements; n++) {
        const redisReply *entry = entries->element[n];
        if (entry->elements != 2 || !entry->element[0]->str)
            continue;
        int taken = take_entry(consume, p, entry, error);
        if (taken <= 0)
            return taken;
    }
    return 0;
}

/* [[stream, entries], ..]: in the order in which they were asked for, those with nothing left out.
 */
static int take_reply(struct consume *consume, const redisReply *reply, struct error *error) {
    struct redis *redis = consume->broker;
    size_t n = 0;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *pair = reply->element[i];
        if (pair->elements != 2 || !pair->element[0]->str)
            continue;
        while (n < redis->reading_count &&
               strcmp(redis->reading[n]->stream, pair->element[0]->str) != 0)
            n++;
        if (n < redis->reading_count &&
            take_entries(consume, redis->reading[n], pair->element[1], error) < 0)
            return -1;
    }
    return 0;
}

/* Entries may be of megabytes: after a rest one is asked for, then more, as far as they are small.
 */
static void adapt(struct redis *redis, bool none) {
    if (none)
        redis->each = 1;
    else if (redis->bytes > BATCH_BYTES)
        redis->each -= redis->each / 2;
    else if (redis->bytes <= BATCH_BYTES / 2)
        redis->each *= 2;
}

int consume_redis_read(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    const size_t share = BATCH / redis->reading_count,
                 most = share < BATCH_LEAST ? BATCH_LEAST : share;
    char count[REDIS_ID_SIZE], wait[REDIS_ID_SIZE];
    int words = 0;
    bool idle = consume_is_empty(consume);
    redis->each = redis->each < most ? redis->each : most;
    snprintf(count, sizeof count, "%zu", redis->each);
    snprintf(wait, sizeof wait, "%d", BLOCK_MS);
    redis->words[words++] = "XREAD";
    redis->words[words++] = "COUNT";
    redis->words[words++] = count;
    if (idle) {
        redis->words[words++] = "BLOCK";
        redis->words[words++] = wait;
    }
    redis->words[words++] = "STREAMS";
    for (size_t n = 0; n < redis->reading_count; n++)
        redis->words[words++] = redis->reading[n]->stream;
    for (size_t n = 0; n < redis->reading_count; n++) {
        redis_id_print(redis->ids[n], redis->reading[n]->first, redis->reading[n]->second);
        redis->words[words++] = redis->ids[n];
    }
    redisReply *reply = consume_redis_ask(redis, NULL, words, redis->words, "WRONGTYPE", error);
    if (!reply)
        return -1;
    bool none = reply->type != REDIS_REPLY_ARRAY;
    redis->bytes = 0;
    if (reply->type == REDIS_REPLY_ERROR) /* which of them, the next look says */
        redis->due = 0;
    int status = take_reply(consume, reply, error);
    freeReplyObject(reply);
    adapt(redis, none);
    if (none && !idle)
        consume_rest(consume, REST_NS);
    return status;
}
