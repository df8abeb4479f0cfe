/* Streams of Redis through a consumer group: an entry is an example, and is acknowledged (XACK)
   once the daemon has it on disk. What a feeder was given and did not acknowledge is given again,
   with the same id: so the id is the example's number, and what the daemon has had is a duplicate.

   Numbers of one producer rise. Redis gives the entries of a stream to one consumer in the order of
   their ids, but not to several: a consumer is a producer. What another consumer has not
   acknowledged is read in its name: it stays the same producer's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "brokers/redis_entry.h"
#include "brokers/redis_link.h"
#include "brokers/url.h"
#include "redis_reader.h"
#include "streams/feed.h"
#include "streams/sources/broker.h"
#include "streams/sources/payload.h"

enum { ID_SIZE = 320 };

struct redis {
    struct source source;
    struct redis_reader reader;
    const char *url, *user, *password_file, *field;
    struct pending *pending;
    struct payload *payload;
    struct message_number number;
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

static int take_field(void *values, const struct option_row *row, const char *text,
                      struct error *error) {
    struct redis *redis = values;
    struct option_list *columns = &redis->source.fields.columns;
    if (!strchr(text, '='))
        redis->field = text;
    else if (columns->count < OPTION_LIST_MAX)
        columns->values[columns->count++] = text;
    else
        return error_set(error, EX_USAGE, "--%s: may be given at most %d times", row->name,
                         OPTION_LIST_MAX);
    return 0;
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
     "the field of an entry that holds the example (default: the only one; several are an object); "
     "as COLUMN=PATH " FIELD_OPTION_HELP,
     OPTION_TAKE(take_field)},
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

static int number_entry(struct redis *redis, const struct redis_entry *entry, struct error *error) {
    const struct redis_reader *reader = &redis->reader;
    if (!redis_id_number((struct redis_id){entry->first, entry->second}, &redis->number))
        return error_set(error, EX_DATAERR,
                         "entry %s: the second part of its id is above %lu, so that it cannot be "
                         "told apart from the next: let Redis make the ids",
                         redis->id, (1UL << REDIS_SECOND_BITS) - 1);
    redis->number.producer = broker_producer("redis", reader->url.name, entry->stream,
                                             reader->group, entry->consumer, NULL);
    return 0;
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
    message.time = redis_id_time((struct redis_id){entry->first, entry->second});
    if (!entry->fields) /* deleted from the stream, but not from the list of what was given */
        return 0;
    redis_payload(entry->fields, redis->field, &message, &redis->object);
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
    .maps = true,
    .create = create,
    .open = open_redis,
    .next = next,
    .settled = settled,
    .close = close_redis,
};
