/* Streams of Redis through a consumer group: an entry is an example, and is acknowledged (XACK)
   once the daemon has it on disk. What a feeder was given and did not acknowledge is given again,
   with the same id: so the id is the example's number, and what the daemon has had is a duplicate.

   Numbers of one producer rise. Redis gives the entries of a stream to one consumer in the order of
   their ids, but not to several: a consumer is a producer. What another consumer has not
   acknowledged is read in its name: it stays the same producer's. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/redis_link.h"
#include "brokers/url.h"
#include "common/clock.h"
#include "redis_reader.h"
#include "streams/feed.h"
#include "streams/sources/broker.h"
#include "streams/sources/payload.h"

enum {
    ID_SIZE = 320,
    EPOCH_SHIFT = 32,        /* of the milliseconds: the epoch, */
    SECOND_BITS = 21,        /* and of the number, which has 53, the id's second part */
    STAMP_LEAST = 100000000, /* milliseconds * 1000: ids below are no times */
};

struct redis {
    struct source source;
    struct redis_reader reader;
    const char *url, *user, *password_file, *field;
    struct pending *pending;
    struct payload *payload;
    struct feed_number number;
    char id[ID_SIZE]; /* of the newest entry, for sentences */
    char *object;     /* its fields as JSON */
};

static struct source *create(void) {
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return NULL;
    redis->url = REDIS_URL;
    redis->reader.group = "runnel";
    redis->reader.consumer = "runnel-feed";
    redis->reader.from = "0";
    redis->reader.batch = 500;
    redis->reader.take_over = 60;
    return &redis->source;
}

static const struct option_row OPTIONS[] = {
    {"url", 0, "URL", "the server: " REDIS_URL_FORM " (default " REDIS_URL ")",
     OPTION_TEXT(struct redis, url)},
    {"user", 0, "NAME", "log in as NAME", OPTION_TEXT(struct redis, user)},
    {"password-file", 0, "FILE", "log in with the first line of FILE",
     OPTION_FILE(struct redis, password_file)},
    {"group", 0, "NAME", "the consumer group, which is made if there is none (default runnel)",
     OPTION_TEXT(struct redis, reader.group)},
    {"consumer", 0, "NAME",
     "the consumer in it; each of several feeders needs a name of its own, which it keeps (default "
     "runnel-feed)",
     OPTION_TEXT(struct redis, reader.consumer)},
    {"from", 0, "ID",
     "where a group begins that is made: after this entry, 0 for the first, $ for those to come "
     "(default 0)",
     OPTION_TEXT(struct redis, reader.from)},
    {"field", 0, "NAME",
     "the field that holds the example (default: the only one; several are columns)",
     OPTION_TEXT(struct redis, field)},
    {"batch", 0, "N", "entries to ask for at once (default 500)",
     OPTION_COUNT(struct redis, reader.batch, 1, 100000)},
    {"take-over", 0, "SECONDS",
     "at the start, send what other consumers of the group have left for so long (default 60)",
     OPTION_SECONDS(struct redis, reader.take_over)},
    PAYLOAD_OPTIONS(struct redis),
    OPTIONS_END,
};

static int open_redis(struct source *source, char **operands, struct error *error) {
    struct redis *redis = (struct redis *)source;
    if (url_parse(&redis->reader.url, "--url", redis->url, REDIS_URL_SCHEMES, REDIS_URL_FORM,
                  error) < 0 ||
        url_login(&redis->reader.url, redis->user, redis->password_file, error) < 0 ||
        pending_open(&redis->pending, error) < 0 ||
        payload_open(&redis->payload, source, error) < 0 ||
        reader_open(&redis->reader, operands, error) < 0)
        return -1;
    source->x = (struct shape){VALUE_REAL, 0};
    source->label = "redis";
    source->once = true;
    return 0;
}

/* ---- an entry ---- */

/* "MILLISECONDS-SECOND": 53 bits of it and the epoch above them rise as ids do. */
static int number_entry(struct redis *redis, const struct redis_entry *entry, struct error *error) {
    const struct redis_reader *reader = &redis->reader;
    if (entry->second >> SECOND_BITS)
        return error_set(error, EX_DATAERR,
                         "entry %s: the second part of its id is above %lu, so that it cannot be "
                         "told apart from the next: let Redis make the ids",
                         redis->id, (1UL << SECOND_BITS) - 1);
    redis->number.producer = broker_producer("redis", reader->url.name, entry->stream,
                                             reader->group, entry->consumer, NULL);
    redis->number.epoch = (uint32_t)(entry->first >> EPOCH_SHIFT);
    redis->number.sequence = (entry->first & UINT32_MAX) << SECOND_BITS | entry->second;
    return 0;
}

/* A value as JSON: numbers, lists and objects are such, and the marks of an example; all else is a
   text. */
static json_t *value_of(const char *name, const redisReply *value) {
    bool mark = strcmp(name, "end") == 0 || strcmp(name, "learn") == 0;
    json_t *json = json_loadb(value->str, (size_t)value->len, JSON_DECODE_ANY, NULL);
    if (json_is_number(json) || json_is_array(json) || json_is_object(json) ||
        (mark && json_is_boolean(json)))
        return json;
    json_decref(json);
    return json_stringn(value->str, (size_t)value->len);
}

/* Fields as an object of JSON; NULL: they are not UTF-8. */
static char *object_of(const redisReply *fields) {
    json_t *object = json_object();
    bool good = object;
    for (size_t n = 0; good && n + 1 < fields->elements; n += 2)
        good = json_object_set_new(object, fields->element[n]->str,
                                   value_of(fields->element[n]->str, fields->element[n + 1])) == 0;
    char *text = good ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}

/* Where in the fields the example is. False: nowhere. */
static bool find_payload(struct redis *redis, const redisReply *fields, struct message *message) {
    free(redis->object);
    redis->object = NULL;
    for (size_t n = 0; n + 1 < fields->elements; n += 2)
        if (redis->field ? strcmp(fields->element[n]->str, redis->field) == 0
                         : fields->elements == 2) {
            message->bytes = fields->element[n + 1]->str;
            message->size = (size_t)fields->element[n + 1]->len;
            return true;
        }
    message->bytes = redis->object = redis->field ? NULL : object_of(fields);
    message->size = redis->object ? strlen(redis->object) : 0;
    return redis->object;
}

/* 1: the entry is an example. 0: it is none. -1. */
static int take(struct redis *redis, const struct redis_entry *entry, struct step *step,
                struct error *error) {
    struct message message = {.id = redis->id,
                              .key = entry->stream,
                              .key_size = strlen(entry->stream),
                              .bytes = "",
                              .number = &redis->number};
    snprintf(redis->id, sizeof redis->id, "%llu-%llu of %s", (unsigned long long)entry->first,
             (unsigned long long)entry->second, entry->stream);
    if (number_entry(redis, entry, error) < 0)
        return -1;
    if (entry->first / 1000 >= STAMP_LEAST)
        message.time = (double)entry->first / 1000;
    if (!entry->fields) /* deleted from the stream, but not from the list of what was given */
        return 0;
    find_payload(redis, entry->fields, &message);
    return payload_step(redis->payload, &message, step, error);
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct redis *redis = (struct redis *)source;
    struct redis_entry entry;
    int status;
    while ((status = reader_next(&redis->reader, redis->pending, &entry, error)) > 0) {
        struct pending_id id = {entry.topic, entry.first, entry.second};
        int taken = take(redis, &entry, step, error);
        if (taken < 0 || pending_add(redis->pending, &id, taken, error) < 0)
            return -1;
        if (taken)
            return 1;
    }
    return status;
}

static void settled(struct source *source, uint64_t count) {
    struct redis *redis = (struct redis *)source;
    pending_settle(redis->pending, count);
}

static void close_redis(struct source **source) {
    struct redis *redis = (struct redis *)*source;
    reader_close(&redis->reader, redis->pending);
    pending_close(&redis->pending);
    payload_close(&redis->payload);
    free(redis->object);
    free(redis);
    *source = NULL;
}

const struct source_type source_redis = {
    .command = {"redis", "STREAM...", "streams of Redis, through a consumer group",
                .rows = OPTIONS},
    .notes = PAYLOAD_NOTES
    "Its stream is named as that of Redis. An entry with several fields is an object "
    "that names columns.",
    .endless = true,
    .ready = true,
    .create = create,
    .open = open_redis,
    .next = next,
    .settled = settled,
    .close = close_redis,
};
