/* Redis streams through a consumer group. An entry is an example and is acknowledged (XACK) once
   the daemon has it on disk. Redis delivers unacknowledged entries again with the same ID. The ID
   is the example's number, so such an entry is a duplicate.

   The numbers of one producer must rise. Redis delivers the entries of a stream in the order of
   their IDs to one consumer, but not to several; so each consumer is a producer. Entries that
   another consumer has not acknowledged are read in its name and keep its producer. */
#include <hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sysexits.h>

#include "broker.h"
#include "cluster/brokers/redis_entry.h"
#include "cluster/brokers/redis_link.h"
#include "cluster/brokers/url.h"
#include "common/clock.h"
#include "common/error.h"
#include "streams/feed.h"
#include "streams/sources/broker.h"
#include "streams/sources/payload.h"

/* ---- Reader ----

   Reads and acknowledges entries of a Redis consumer group, and reconnects after failures. It first
   reads this consumer's unacknowledged entries, then those of other consumers, then new ones. */

struct redis_topic {
    const char *name;
    uint64_t first, second; /* ID of the newest entry delivered to this consumer */
};

/* Another consumer with unacknowledged entries. */
struct redis_other {
    struct redis_topic *topic;
    char *consumer;
    uint64_t first, second; /* ID up to which it was read */
};

struct redis_reader {
    struct url url; /* Set these before reader_open. */
    const char *group, *consumer, *from;
    uint64_t batch;
    double take_over; /* seconds */

    struct retry retry;
    struct redis_topic *topics; /* (count,) */
    size_t count;
    redisContext *context;
    bool ready;                 /* the connection is set up */
    bool closing;               /* events of the daemon are not handled any more */
    bool any;                   /* the newest reply had entries */
    size_t owed;                /* replies that nobody waits for any more */
    size_t read;                /* number of topics whose old entries are read */
    struct redis_other *others; /* (other_count,) read from the last one */
    size_t other_count;
    bool others_known; /* of topics[read] */

    redisReply *reply;             /* The reply whose entries are returned now. */
    const redisReply *entries;     /* entries of one topic */
    struct redis_topic *topic;     /* this topic */
    size_t topic_at, at;           /* the next topic in the reply, and its next entry */
    const char *reply_of;          /* the consumer of the entries */
    struct redis_other *read_from; /* the other consumer that is read; NULL: this one */
};

struct redis_entry {
    struct redis_topic *topic;
    const char *stream, *consumer; /* the entry's stream and consumer */
    uint64_t first, second;        /* its ID */
    const redisReply *fields;      /* a list: name, value, ...; NULL: the entry was deleted */
};

#define ANSWER_SECONDS 30.0 /* without an answer for this time, reconnect */

enum {
    BLOCK_MS = 2000, /* time limit of a read */
    CLOSE_SECONDS = 3,
    ENTRY_ID_SIZE = 48,
    WORDS_FIXED = 10, /* words of a command, besides the repeated ones */
    ACK_MAX = 500,    /* IDs in one command */
    NAME_SIZE = 256,
};

/* ---- Commands ---- */

/* Drops the connection and its pending replies. */
static void disconnect(struct redis_reader *reader) {
    if (reader->context)
        redisFree(reader->context);
    reader->context = NULL;
    reader->ready = false;
    reader->owed = 0;
}

/* Waits for the next reply, and handles the daemon's answers meanwhile. */
static redisReply *receive(struct redis_reader *reader, struct error *error) {
    double until = clock_seconds() + ANSWER_SECONDS;
    void *reply = NULL;
    if (reader->closing && redisGetReply(reader->context, &reply) != REDIS_OK)
        redis_lost(reader->context, error);
    while (!reader->closing) {
        if (redisGetReplyFromReader(reader->context, &reply) != REDIS_OK)
            return redis_lost(reader->context, error), NULL;
        if (reply)
            return reply;
        double left = until - clock_seconds();
        int ready = feed_await(reader->context->fd, false, left, error);
        reader->owed += ready < 0;
        if (ready < 0)
            return NULL;
        if (ready && redisBufferRead(reader->context) != REDIS_OK)
            return redis_lost(reader->context, error), NULL;
        if (!ready && left <= 0)
            return error_set(error, EX_TEMPFAIL, "no answer for %.0f s", ANSWER_SECONDS), NULL;
    }
    return reply;
}

/* Returns the reply to a command, or NULL; EX_TEMPFAIL means to reconnect. */
static redisReply *ask(struct redis_reader *reader, int count, const char **words,
                       struct error *error) {
    int sent = 0;
    if (redisAppendCommandArgv(reader->context, count, words, NULL) != REDIS_OK)
        return error_no_memory(error), NULL;
    while (!sent)
        if (redisBufferWrite(reader->context, &sent) != REDIS_OK)
            return redis_lost(reader->context, error), NULL;
    redisReply *reply = receive(reader, error);
    if (!reply || reply->type != REDIS_REPLY_ERROR)
        return reply;
    redis_fail(&reader->url, reply->str, error);
    freeReplyObject(reply);
    return NULL;
}

/* ---- Connecting ---- */

/* Creates the group, and the stream if it is missing. */
static int make_group(struct redis_reader *reader, const struct redis_topic *topic,
                      struct error *error) {
    const char *words[] = {"XGROUP",      "CREATE",     topic->name,
                           reader->group, reader->from, "MKSTREAM"};
    redisReply *reply = redisCommandArgv(reader->context, 6, words, NULL);
    if (!reply)
        return redis_lost(reader->context, error);
    int status = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSYGROUP", 9) != 0
                     ? redis_fail(&reader->url, reply->str, error)
                     : 0;
    freeReplyObject(reply);
    return status;
}

/* Whether a line of CLIENT LIST, "id=3 addr=.. name=NAME ..", is an older connection with this
   name. */
static bool is_older(const char *line, const char *name, long long id) {
    const char *end = strchr(line, '\n'), *at = strstr(line, " name=");
    size_t size = strlen(name);
    return at && (!end || at < end) && strncmp(line, "id=", 3) == 0 && atoll(line + 3) < id &&
           strncmp(at + 6, name, size) == 0 && at[6 + size] == ' ';
}

/* Two feeders with one consumer name would send numbers out of order, and later ones would be
   duplicates. So the second feeder waits. If the server cannot list its clients, this is not
   checked again. */
static int check_alone(struct redis_reader *reader, struct error *error) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "runnel-feed/%s/%s", reader->group, reader->consumer);
    for (char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_';
    redisReply *named = redisCommand(reader->context, "CLIENT SETNAME %s", name);
    redisReply *id = redisCommand(reader->context, "CLIENT ID");
    redisReply *list = redisCommand(reader->context, "CLIENT LIST");
    bool alone = true;
    if (named && id && id->type == REDIS_REPLY_INTEGER && list &&
        (list->type == REDIS_REPLY_STRING || list->type == REDIS_REPLY_STATUS))
        for (const char *line = list->str; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            alone &= !is_older(line, name, id->integer);
        }
    freeReplyObject(named);
    freeReplyObject(id);
    freeReplyObject(list);
    return alone ? 0
                 : error_set(error, EX_TEMPFAIL,
                             "another feeder reads as consumer %s of group %s: give each its own "
                             "--consumer",
                             reader->consumer, reader->group);
}

static int reader_connect(struct redis_reader *reader, struct error *error) {
    reader->context = redis_connect(&reader->url, error);
    if (!reader->context || check_alone(reader, error) < 0)
        return -1;
    for (size_t n = 0; n < reader->count; n++)
        if (make_group(reader, &reader->topics[n], error) < 0)
            return -1;
    reader->ready = true;
    reader->read = 0;
    reader->others_known = false;
    retry_back(&reader->retry);
    return 0;
}

/* ---- Reading ---- */

static void drop_reply(struct redis_reader *reader) {
    freeReplyObject(reader->reply);
    reader->reply = NULL;
    reader->entries = NULL;
    reader->topic_at = reader->at = 0;
}

/* Reads entries delivered to `consumer` before, after this ID. */
static int read_before(struct redis_reader *reader, const struct redis_topic *topic,
                       const char *consumer, uint64_t first, uint64_t second, struct error *error) {
    char id[ENTRY_ID_SIZE], batch[ENTRY_ID_SIZE];
    snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)first, (unsigned long long)second);
    snprintf(batch, sizeof batch, "%llu", (unsigned long long)reader->batch);
    const char *words[] = {"XREADGROUP", "GROUP",   reader->group, consumer, "COUNT",
                           batch,        "STREAMS", topic->name,   id};
    reader->reply = ask(reader, 9, words, error);
    reader->reply_of = consumer;
    return reader->reply ? 0 : -1;
}

/* Reads new entries of all topics; waits for them unless entries wait for the daemon's answer. */
static int read_new(struct redis_reader *reader, bool block, struct error *error) {
    const char *words[WORDS_FIXED + 2 * OPTION_LIST_MAX];
    char batch[ENTRY_ID_SIZE], wait[ENTRY_ID_SIZE];
    int count = 0;
    snprintf(batch, sizeof batch, "%llu", (unsigned long long)reader->batch);
    snprintf(wait, sizeof wait, "%d", BLOCK_MS);
    const char *begin[] = {"XREADGROUP", "GROUP", reader->group, reader->consumer, "COUNT", batch};
    for (size_t n = 0; n < sizeof begin / sizeof *begin; n++)
        words[count++] = begin[n];
    if (block) {
        words[count++] = "BLOCK";
        words[count++] = wait;
    }
    words[count++] = "STREAMS";
    for (size_t n = 0; n < reader->count; n++)
        words[count++] = reader->topics[n].name;
    for (size_t n = 0; n < reader->count; n++)
        words[count++] = ">";
    reader->reply = ask(reader, count, words, error);
    reader->reply_of = reader->consumer;
    reader->read_from = NULL;
    return reader->reply ? 0 : -1;
}

static void forget_others(struct redis_reader *reader) {
    while (reader->other_count > 0)
        free(reader->others[--reader->other_count].consumer);
    free(reader->others);
    reader->others = NULL;
}

/* Finds consumers with unacknowledged entries. */
static int find_others(struct redis_reader *reader, struct redis_topic *topic,
                       struct error *error) {
    const char *words[] = {"XINFO", "CONSUMERS", topic->name, reader->group};
    redisReply *list = ask(reader, 4, words, error);
    if (!list)
        return -1;
    forget_others(reader);
    reader->others = calloc(list->elements + 1, sizeof *reader->others);
    for (size_t n = 0; reader->others && n < list->elements; n++) {
        const redisReply *name = redis_member(list->element[n], "name");
        const redisReply *waiting = redis_member(list->element[n], "pending");
        const redisReply *idle = redis_member(list->element[n], "idle");
        if (!name || !name->str || !waiting || !idle || waiting->integer == 0 ||
            strcmp(name->str, reader->consumer) == 0 ||
            (double)idle->integer < reader->take_over * 1000)
            continue;
        char *consumer = strdup(name->str);
        if (consumer)
            reader->others[reader->other_count++] = (struct redis_other){topic, consumer, 0, 0};
        feed_detail("%s: taking over %lld entries left by consumer %s", topic->name,
                    waiting->integer, name->str);
    }
    freeReplyObject(list);
    reader->others_known = true;
    return reader->others ? 0 : error_no_memory(error);
}

/* Requests the next entries. */
static int read_more(struct redis_reader *reader, const struct pending *pending,
                     struct error *error) {
    if (reader->read == reader->count)
        return read_new(reader, pending_count(pending) == 0, error);
    struct redis_topic *topic = &reader->topics[reader->read];
    reader->read_from = NULL;
    if (!reader->others_known)
        return read_before(reader, topic, reader->consumer, topic->first, topic->second, error);
    if (reader->other_count == 0) {
        reader->read++;
        reader->others_known = false;
        return 0;
    }
    reader->read_from = &reader->others[reader->other_count - 1];
    return read_before(reader, topic, reader->read_from->consumer, reader->read_from->first,
                       reader->read_from->second, error);
}

/* Handles the end of a reply: the last read is finished. */
static int finish_read(struct redis_reader *reader, bool any, struct error *error) {
    drop_reply(reader);
    if (any || reader->read == reader->count)
        return 0;
    if (!reader->read_from)
        return find_others(reader, &reader->topics[reader->read], error);
    free(reader->read_from->consumer);
    reader->other_count--;
    return 0;
}

static struct redis_topic *topic_of(struct redis_reader *reader, const redisReply *name) {
    for (size_t n = 0; n < reader->count; n++)
        if (name->str && strcmp(reader->topics[n].name, name->str) == 0)
            return &reader->topics[n];
    return NULL;
}

/* Notes the entry's ID, after which reading resumes. */
static void note(struct redis_reader *reader, struct redis_entry *entry, const char *id) {
    const struct redis_id parsed = redis_id_parse(id);
    entry->first = parsed.first;
    entry->second = parsed.second;
    uint64_t *first = reader->read_from ? &reader->read_from->first : &entry->topic->first;
    uint64_t *second = reader->read_from ? &reader->read_from->second : &entry->topic->second;
    *first = entry->first;
    *second = entry->second;
}

/* Takes the next entry of the reply: [[stream, [[id, [field, value, ..]], ..]], ..], or nil.
   Returns false at the end. */
static bool take_entry(struct redis_reader *reader, struct redis_entry *entry) {
    const redisReply *reply = reader->reply, *found = NULL;
    while (!found || found->elements != 2 || !found->element[0]->str) {
        if (reader->entries && reader->at < reader->entries->elements) {
            found = reader->entries->element[reader->at++];
            continue;
        }
        if (reply->type != REDIS_REPLY_ARRAY || reader->topic_at == reply->elements)
            return false;
        const redisReply *pair = reply->element[reader->topic_at++];
        reader->topic = pair->elements == 2 ? topic_of(reader, pair->element[0]) : NULL;
        reader->entries = reader->topic ? pair->element[1] : NULL;
        reader->at = 0;
    }
    const redisReply *fields = found->element[1];
    *entry = (struct redis_entry){.topic = reader->topic,
                                  .stream = reader->topic->name,
                                  .consumer = reader->reply_of,
                                  .fields = redis_are_texts(fields) ? fields : NULL};
    note(reader, entry, found->element[0]->str);
    return true;
}

/* ---- Acknowledgements ---- */

/* Acknowledges the oldest settled entries, as many as belong to one stream. */
static int acknowledge(struct redis_reader *reader, struct pending *pending, struct error *error) {
    const char *words[ACK_MAX + WORDS_FIXED];
    char ids[ACK_MAX][ENTRY_ID_SIZE];
    const struct redis_topic *topic = pending_at(pending, 0)->what;
    size_t settled = pending_settled(pending), count = 0;
    struct pending_id id;
    words[0] = "XACK";
    words[1] = topic->name;
    words[2] = reader->group;
    for (; count < settled && count < ACK_MAX && pending_at(pending, count)->what == topic;
         count++) {
        const struct pending_id *at = pending_at(pending, count);
        snprintf(ids[count], sizeof ids[count], "%llu-%llu", (unsigned long long)at->first,
                 (unsigned long long)at->second);
        words[3 + count] = ids[count];
    }
    redisReply *reply = ask(reader, 3 + (int)count, words, error);
    freeReplyObject(reply);
    while (reply && count-- > 0)
        pending_take(pending, &id);
    return reply ? 0 : -1;
}

/* ---- Reader ---- */

/* `operands`: names of the streams, terminated by NULL. */
static int reader_open(struct redis_reader *reader, char **operands, struct error *error) {
    reader->retry.server = reader->url.name;
    while (operands[reader->count])
        reader->count++;
    if (reader->count > OPTION_LIST_MAX)
        return error_set(error, EX_USAGE, "%zu streams: one feeder can read at most %d",
                         reader->count, OPTION_LIST_MAX);
    reader->topics = calloc(reader->count, sizeof *reader->topics);
    if (!reader->topics)
        return error_no_memory(error);
    for (size_t n = 0; n < reader->count; n++)
        reader->topics[n].name = operands[n];
    return 0;
}

/* Handles a lost connection. Reconnects at once if it has worked. */
static int recover(struct redis_reader *reader, struct error *error) {
    char why[ERROR_TEXT_SIZE];
    snprintf(why, sizeof why, "%s", error->text);
    bool worked = reader->ready;
    drop_reply(reader);
    disconnect(reader);
    if (!worked)
        return retry_wait(&reader->retry, why, error);
    feed_detail("%s: %s; reconnecting", reader->url.name, why);
    return 0;
}

/* Does the next step on the connection. */
static int advance(struct redis_reader *reader, struct pending *pending, struct error *error) {
    if (reader->reply) {
        bool idle = !reader->any && reader->read == reader->count && pending_count(pending) > 0;
        if (finish_read(reader, reader->any, error) < 0)
            return -1;
        return idle && feed_await(-1, false, ANSWER_SECONDS, error) < 0 ? -1 : 0;
    }
    if (!reader->context)
        return reader_connect(reader, error);
    if (pending_settled(pending) > 0)
        return acknowledge(reader, pending, error);
    reader->any = false;
    return read_more(reader, pending, error);
}

/* Returns 1 and the next entry, valid until the next call. Meanwhile it acknowledges settled
   entries of `pending` (`what` is the topic). Returns -1 on FEED_INTERRUPTED, EX_NOPERM or
   EX_UNAVAILABLE. */
static int reader_next(struct redis_reader *reader, struct pending *pending,
                       struct redis_entry *entry, struct error *error) {
    while (!reader->reply || !take_entry(reader, entry))
        if (advance(reader, pending, error) < 0 &&
            (error->status != EX_TEMPFAIL || recover(reader, error) < 0))
            return -1;
    reader->any = true;
    return 1;
}

/* Acknowledges settled entries and handles no other events. */
static int settle_all(struct redis_reader *reader, struct pending *pending, struct error *error) {
    const struct timeval limit = {.tv_sec = CLOSE_SECONDS};
    reader->closing = true;
    if (!reader->ready)
        return error_set(error, EX_TEMPFAIL, "not connected");
    redisSetTimeout(reader->context, limit);
    for (; reader->owed > 0; reader->owed--) {
        redisReply *late = receive(reader, error);
        if (!late)
            return -1;
        freeReplyObject(late);
    }
    while (pending_settled(pending) > 0)
        if (acknowledge(reader, pending, error) < 0)
            return -1;
    return 0;
}

/* Acknowledges settled entries within a few seconds, and closes. */
static void reader_close(struct redis_reader *reader, struct pending *pending) {
    struct error error;
    if (pending && pending_settled(pending) > 0 && settle_all(reader, pending, &error) < 0)
        feed_print("%s: %s; Redis will deliver %zu entries again that the daemon has, which it "
                   "treats as duplicates",
                   reader->url.name, error.text, pending_settled(pending));
    drop_reply(reader);
    disconnect(reader);
    forget_others(reader);
    free(reader->topics);
}

enum { ID_SIZE = 320 };

struct redis {
    struct source source;
    struct redis_reader reader;
    const char *url, *user, *password_file, *field;
    struct payload *payload;
    struct message_number number;
    char id[ID_SIZE]; /* ID of the newest entry, for messages */
    char *object;     /* its fields as JSON */
};

static void set_defaults(struct source *source) {
    struct redis *redis = (struct redis *)source;
    redis->url = REDIS_URL;
    redis->reader.group = "runnel";
    redis->reader.consumer = "runnel-feed";
    redis->reader.from = "0";
    redis->reader.batch = 500;
    redis->reader.take_over = 60;
}

static int set_field(void *values, const struct option_row *row, const char *text,
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
    {"password-file", 0, "FILE", "log in with the password in the first line of FILE",
     OPTION_FILE(struct redis, password_file)},
    {"group", 0, "NAME", "the consumer group, created if it does not exist (default runnel)",
     OPTION_TEXT(struct redis, reader.group)},
    {"consumer", 0, "NAME",
     "the consumer; each of several feeders needs its own permanent name (default runnel-feed)",
     OPTION_TEXT(struct redis, reader.consumer)},
    {"from", 0, "ID",
     "first entry of a new group: after this ID, 0 for the first, $ for future entries (default 0)",
     OPTION_TEXT(struct redis, reader.from)},
    {"field", 0, "NAME",
     "the field of an entry with the example (default: the only field; several fields are an "
     "object); as COLUMN=PATH " FIELD_OPTION_HELP,
     OPTION_TAKE(set_field)},
    {"batch", 0, "N", "entries per request (default 500)",
     OPTION_COUNT(struct redis, reader.batch, 1, 100000)},
    {"take-over", 0, "SECONDS",
     "at the start, send entries that other consumers have not acknowledged for this time "
     "(default 60)",
     OPTION_SECONDS(struct redis, reader.take_over)},
    PAYLOAD_OPTIONS(struct redis),
    OPTIONS_END,
};

static int open_redis(struct source *source, char **operands, struct error *error) {
    struct redis *redis = (struct redis *)source;
    if (url_parse(&redis->reader.url, "--url", redis->url, REDIS_URL_SCHEMES, REDIS_URL_FORM,
                  error) < 0 ||
        url_login(&redis->reader.url, redis->user, redis->password_file, error) < 0 ||
        pending_open(&redis->source.pending, error) < 0 ||
        payload_open(&redis->payload, source, error) < 0 ||
        reader_open(&redis->reader, operands, error) < 0)
        return -1;
    source->once = true;
    return 0;
}

/* ---- Entries ---- */

static int number_entry(struct redis *redis, const struct redis_entry *entry, struct error *error) {
    const struct redis_reader *reader = &redis->reader;
    if (!redis_id_number((struct redis_id){entry->first, entry->second}, &redis->number))
        return error_set(
            error, EX_DATAERR,
            "entry %s: the second part of its id is greater than %lu; let Redis generate the ids",
            redis->id, (1UL << REDIS_SECOND_BITS) - 1);
    redis->number.producer = broker_producer("redis", reader->url.name, entry->stream,
                                             reader->group, entry->consumer, NULL);
    return 0;
}

/* Takes an entry. Returns 1, 0 if it is not an example, or -1. */
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
    /* deleted from the stream, but still in the list of unacknowledged entries */
    if (!entry->fields)
        return 0;
    redis_payload(entry->fields, redis->field, &message, &redis->object);
    return payload_step(redis->payload, &message, step, error);
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct redis *redis = (struct redis *)source;
    struct redis_entry entry;
    int status;
    while ((status = reader_next(&redis->reader, redis->source.pending, &entry, error)) > 0) {
        struct pending_id id = {entry.topic, entry.first, entry.second};
        int taken = take(redis, &entry, step, error);
        if (taken < 0 || pending_add(redis->source.pending, &id, taken, error) < 0)
            return -1;
        if (taken)
            return 1;
    }
    return status;
}

static void close_redis(struct source *source) {
    struct redis *redis = (struct redis *)source;
    reader_close(&redis->reader, redis->source.pending);
    pending_close(&redis->source.pending);
    payload_close(&redis->payload);
    free(redis->object);
}

const struct source_type source_redis = {
    .command = {"redis", "STREAM...", "Redis streams through a consumer group", .rows = OPTIONS},
    .notes = PAYLOAD_NOTES "The stream of an entry is its Redis stream. An entry with several "
                           "fields is an object with named columns.",
    .endless = true,
    .ready = true,
    .maps = true,
    .size = sizeof(struct redis),
    .set_defaults = set_defaults,
    .open = open_redis,
    .next = next,
    .settled = broker_settled,
    .close = close_redis,
};
