/* Dead letters: entries of the stream NAME.dead. */
#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

#include "consume_redis.h"

enum { PLACE_SIZE = 64 };

/* The entry as it is, beside what it was and why it is none; once: the group's hash knows the
   newest of each partition. Lua's stack ends at 8,000 values: more are one field, a list of JSON.
 */
static const char BURY[] =
    "local at = redis.call('HGET', KEYS[2], KEYS[3]) "
    "if at and at >= ARGV[2] then return 0 end "
    "local entry = redis.call('XRANGE', KEYS[3], ARGV[1], ARGV[1])[1] "
    "local fields = entry and entry[2] or {} "
    "if #fields > 4000 then fields = {'dead.fields', cjson.encode(fields)} end "
    "redis.call('XADD', KEYS[1], '*', 'dead.stream', KEYS[3], 'dead.id', ARGV[1], 'dead.reason', "
    "ARGV[3], unpack(fields)) "
    "redis.call('HSET', KEYS[2], KEYS[3], ARGV[2]) "
    "return 1";

/* Its id, and a text that rises with the ids. Where the place is not the id (its second part is too
   large) the item has that. */
static void name(const struct consume_item *item, char id[REDIS_ID_SIZE], char place[PLACE_SIZE]) {
    const struct consume_place *at = &item->message.place;
    uint64_t first, second;
    int used = snprintf(place, PLACE_SIZE, "%010" PRIu32 "%016" PRIu64, at->epoch, at->sequence);
    redis_id_of(at->epoch, at->sequence, &first, &second);
    if (item->raw_key_size) {
        snprintf(id, REDIS_ID_SIZE, "%.*s", (int)item->raw_key_size, item->raw_key);
        redis_id_parse(id, &first, &second);
        snprintf(place + used, PLACE_SIZE - (size_t)used, ".%020" PRIu64, second);
    }
    redis_id_print(id, first, second);
}

int consume_redis_bury(struct consume *consume, const struct consume_item *item,
                       struct error *error) {
    struct redis *redis = consume->broker;
    const struct consume_message *message = &item->message;
    const struct consume_partition *p = consume->partitions[message->partition];
    char to[CONSUME_NAME_SIZE], known[CONSUME_NAME_SIZE + sizeof "runnel::dead"];
    char id[REDIS_ID_SIZE], place[PLACE_SIZE];
    if (!redis->context)
        return error_set(error, EX_TEMPFAIL, "the connection has ended");
    name(item, id, place);
    snprintf(to, sizeof to, "%s.dead", consume->config->consume.redis.stream);
    snprintf(known, sizeof known, "runnel:%s:dead", consume->config->consume.redis.group);
    const char *words[] = {"EVAL", BURY, "3", to, known, p->stream, id, place, message->text};
    redisReply *reply =
        consume_redis_ask(redis, p, sizeof words / sizeof *words, words, "WRONGTYPE", error);
    if (!reply)
        return error_prefix(error, "a dead letter cannot be written to %s", to);
    bool wrong = reply->type == REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    return wrong ? error_set(error, EX_UNAVAILABLE,
                             "%s: a dead letter cannot be written: %s is no stream, or %s no hash: "
                             "remove that key, or rename it",
                             redis->url.name, to, known)
                 : 0;
}
