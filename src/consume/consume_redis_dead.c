/* Dead letters: entries of the stream NAME.dead. */
#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

#include "consume_redis.h"

enum { PLACE_SIZE = 32 };

/* The entry as it is, beside what it was and why it is none; once: the group's hash knows the
   newest of each partition. */
static const char BURY[] =
    "local at = redis.call('HGET', KEYS[2], KEYS[3]) "
    "if at and at >= ARGV[2] then return 0 end "
    "local entry = redis.call('XRANGE', KEYS[3], ARGV[1], ARGV[1])[1] "
    "redis.call('XADD', KEYS[1], '*', 'dead.stream', KEYS[3], 'dead.id', ARGV[1], 'dead.reason', "
    "ARGV[3], unpack(entry and entry[2] or {})) "
    "redis.call('HSET', KEYS[2], KEYS[3], ARGV[2]) "
    "return 1";

int consume_redis_bury(struct consume *consume, const struct consume_item *item,
                       struct error *error) {
    struct redis *redis = consume->broker;
    const struct consume_message *message = &item->message;
    const struct consume_partition *p = consume->partitions[message->partition];
    char to[CONSUME_NAME_SIZE], known[CONSUME_NAME_SIZE + sizeof "runnel::dead"];
    char id[REDIS_ID_SIZE], place[PLACE_SIZE];
    uint64_t first, second;
    if (!redis->context)
        return error_set(error, EX_TEMPFAIL, "the connection has ended");
    redis_id_of(message->place.epoch, message->place.sequence, &first, &second);
    redis_id_print(id, first, second);
    snprintf(to, sizeof to, "%s.dead", consume->config->consume.redis.stream);
    snprintf(known, sizeof known, "runnel:%s:dead", consume->config->consume.redis.group);
    snprintf(place, sizeof place, "%010" PRIu32 "%016" PRIu64, message->place.epoch,
             message->place.sequence);
    const char *words[] = {"EVAL", BURY, "3", to, known, p->stream, id, place, message->text};
    redisReply *reply =
        consume_redis_ask(redis, p, sizeof words / sizeof *words, words, NULL, error);
    if (!reply) {
        error_prefix(error, "a dead letter cannot be written to %s", to);
        return -1;
    }
    freeReplyObject(reply);
    return 0;
}
