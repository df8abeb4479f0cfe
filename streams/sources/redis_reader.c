#include "redis_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sysexits.h>

#include "broker.h"
#include "brokers/redis_entry.h"
#include "brokers/redis_link.h"
#include "common/clock.h"
#include "common/error.h"
#include "streams/feed.h"

#define ANSWER_SECONDS 30.0 /* without an answer the connection is dead */

enum {
    BLOCK_MS = 2000, /* of a read that finds nothing */
    CLOSE_SECONDS = 3,
    ID_SIZE = 48,
    WORDS_FIXED = 10, /* of a command, beside those that are repeated */
    ACK_MAX = 500,    /* ids in one command */
    NAME_SIZE = 256,
};

/* ---- commands ---- */

/* Drop the connection; what it still owes goes with it. */
static void disconnect(struct redis_reader *reader) {
    if (reader->context)
        redisFree(reader->context);
    reader->context = NULL;
    reader->ready = false;
    reader->owed = 0;
}

/* Wait for the next reply, listening to the daemon meanwhile. */
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

/* The reply to a command; NULL with the error, which EX_TEMPFAIL calls a reason to connect again.
 */
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
    redis_judge(&reader->url, reply->str, error);
    freeReplyObject(reply);
    return NULL;
}

/* ---- connecting ---- */

/* A group for the stream; both are made where they are missing. */
static int make_group(struct redis_reader *reader, const struct redis_topic *topic,
                      struct error *error) {
    const char *words[] = {"XGROUP",      "CREATE",     topic->name,
                           reader->group, reader->from, "MKSTREAM"};
    redisReply *reply = redisCommandArgv(reader->context, 6, words, NULL);
    if (!reply)
        return redis_lost(reader->context, error);
    int status = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSYGROUP", 9) != 0
                     ? redis_judge(&reader->url, reply->str, error)
                     : 0;
    freeReplyObject(reply);
    return status;
}

/* Whether a line of CLIENT LIST, "id=3 addr=.. name=NAME ..", is an older connection with the name.
 */
static bool is_older(const char *line, const char *name, long long id) {
    const char *end = strchr(line, '\n'), *at = strstr(line, " name=");
    size_t size = strlen(name);
    return at && (!end || at < end) && strncmp(line, "id=", 3) == 0 && atoll(line + 3) < id &&
           strncmp(at + 6, name, size) == 0 && at[6 + size] == ' ';
}

/* Two feeders that read as one consumer would give numbers out of their order, and what came late
   would be a duplicate: the second one waits. A server that does not say who is there is not asked
   again. */
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
                             "another feeder reads as consumer %s of group %s: give each a "
                             "--consumer of its own",
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

/* ---- reading ---- */

static void drop_reply(struct redis_reader *reader) {
    freeReplyObject(reader->reply);
    reader->reply = NULL;
    reader->entries = NULL;
    reader->topic_at = reader->at = 0;
}

/* Read entries of `consumer` that were given before, after that id. */
static int read_before(struct redis_reader *reader, const struct redis_topic *topic,
                       const char *consumer, uint64_t first, uint64_t second, struct error *error) {
    char id[ID_SIZE], batch[ID_SIZE];
    snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)first, (unsigned long long)second);
    snprintf(batch, sizeof batch, "%llu", (unsigned long long)reader->batch);
    const char *words[] = {"XREADGROUP", "GROUP",   reader->group, consumer, "COUNT",
                           batch,        "STREAMS", topic->name,   id};
    reader->reply = ask(reader, 9, words, error);
    reader->reply_of = consumer;
    return reader->reply ? 0 : -1;
}

/* Read new entries of all topics; wait for them if nothing waits for an answer of the daemon. */
static int read_new(struct redis_reader *reader, bool block, struct error *error) {
    const char *words[WORDS_FIXED + 2 * OPTION_LIST_MAX];
    char batch[ID_SIZE], wait[ID_SIZE];
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

/* Who has not acknowledged all that it was given. */
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
        feed_detail("%s: takes over %lld entries that consumer %s has left", topic->name,
                    waiting->integer, name->str);
    }
    freeReplyObject(list);
    reader->others_known = true;
    return reader->others ? 0 : error_no_memory(error);
}

/* Ask for what comes next. */
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

/* The reply has no entries (more): what was read is read. */
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

/* The entry's id, after which reading resumes. */
static void note(struct redis_reader *reader, struct redis_entry *entry, const char *id) {
    const struct redis_id parsed = redis_id_parse(id);
    entry->first = parsed.first;
    entry->second = parsed.second;
    uint64_t *first = reader->read_from ? &reader->read_from->first : &entry->topic->first;
    uint64_t *second = reader->read_from ? &reader->read_from->second : &entry->topic->second;
    *first = entry->first;
    *second = entry->second;
}

/* The next entry of the reply: [[stream, [[id, [field, value, ..]], ..]], ..], or nil. False: there
   are no more. */
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

/* ---- acknowledging ---- */

/* Acknowledge the oldest entries that are settled: as many as are of one stream. */
static int acknowledge(struct redis_reader *reader, struct pending *pending, struct error *error) {
    const char *words[ACK_MAX + WORDS_FIXED];
    char ids[ACK_MAX][ID_SIZE];
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

/* ---- the reader ---- */

int reader_open(struct redis_reader *reader, char **operands, struct error *error) {
    reader->retry.server = reader->url.name;
    while (operands[reader->count])
        reader->count++;
    if (reader->count > OPTION_LIST_MAX)
        return error_set(error, EX_USAGE, "%zu streams: at most %d can be read by one feeder",
                         reader->count, OPTION_LIST_MAX);
    reader->topics = calloc(reader->count, sizeof *reader->topics);
    if (!reader->topics)
        return error_no_memory(error);
    for (size_t n = 0; n < reader->count; n++)
        reader->topics[n].name = operands[n];
    return 0;
}

/* There is no connection, or no more. One that worked is made again at once. */
static int recover(struct redis_reader *reader, struct error *error) {
    char why[ERROR_TEXT_SIZE];
    snprintf(why, sizeof why, "%s", error->text);
    bool worked = reader->ready;
    drop_reply(reader);
    disconnect(reader);
    if (!worked)
        return retry_wait(&reader->retry, why, error);
    feed_detail("%s: %s; connecting again", reader->url.name, why);
    return 0;
}

/* The next thing to be done over the connection. */
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

int reader_next(struct redis_reader *reader, struct pending *pending, struct redis_entry *entry,
                struct error *error) {
    while (!reader->reply || !take_entry(reader, entry))
        if (advance(reader, pending, error) < 0 &&
            (error->status != EX_TEMPFAIL || recover(reader, error) < 0))
            return -1;
    reader->any = true;
    return 1;
}

/* Acknowledge what is settled, and nothing else, so that nobody is asked twice. */
static int settle_all(struct redis_reader *reader, struct pending *pending, struct error *error) {
    const struct timeval limit = {.tv_sec = CLOSE_SECONDS};
    reader->closing = true;
    if (!reader->ready)
        return error_set(error, EX_TEMPFAIL, "it is not there");
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

void reader_close(struct redis_reader *reader, struct pending *pending) {
    struct error error;
    if (pending && pending_settled(pending) > 0 && settle_all(reader, pending, &error) < 0)
        feed_say("%s: %s; it will give %zu entries again that the daemon has, and answers as "
                 "duplicates",
                 reader->url.name, error.text, pending_settled(pending));
    drop_reply(reader);
    disconnect(reader);
    forget_others(reader);
    free(reader->topics);
}
