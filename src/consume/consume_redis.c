/* Streams of Redis. XREAD says after which id it reads: no group is needed for that, but one is
   told what is durable, so that XINFO GROUPS shows people how far the daemon is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>

#include "brokers/redis_entry.h"
#include "brokers/redis_link.h"
#include "brokers/url.h"
#include "common/clock.h"
#include "common/log.h"
#include "consume_broker.h"
#include "consume_internal.h"

#define LOOK_NS NS_PER_SECOND         /* between two commits, and two looks at what there is */
#define REST_NS (NS_PER_SECOND / 200) /* while the learning thread has something to do */

enum {
    BLOCK_MS = 100, /* of a read that finds nothing */
    BATCH = 512,    /* entries of all streams together, about, */
    BATCH_LEAST = 8,
    WORDS_FIXED = 6, /* of XREAD */
    PLACE_SIZE = 32,
};

struct redis {
    struct url url;
    redisContext *context; /* under the mutex it is made and freed */
    uint64_t due;          /* of the next look */
    bool counts;           /* the server counts what was ever added: Redis 7 */
    const char **words;    /* (2 CONSUME_PARTITIONS_MAX + WORDS_FIXED,) of XREAD */
    char (*ids)[REDIS_ID_SIZE];
    struct consume_partition **reading; /* (reading_count,) */
    size_t reading_count;
    char *object; /* an entry's fields as JSON */
};

/* ---- Opening ---- */

static int add_partitions(struct consume *consume, struct error *error) {
    const uint64_t partitions = consume->config->consume.redis.partitions;
    const char *stream = consume->config->consume.redis.stream;
    char name[CONFIG_ADDRESS_SIZE + sizeof ".18446744073709551615"];
    for (uint64_t n = 0; n < (partitions ? partitions : 1); n++) {
        snprintf(name, sizeof name, partitions ? "%s.%" PRIu64 : "%s", stream, n);
        if (!consume_add(consume, "redis", name))
            return error_no_memory(error);
    }
    return 0;
}

static int open_redis(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker = calloc(1, sizeof *redis);
    if (!redis)
        return error_no_memory(error);
    redis->words = calloc(2 * CONSUME_PARTITIONS_MAX + WORDS_FIXED, sizeof *redis->words);
    redis->ids = calloc(CONSUME_PARTITIONS_MAX, sizeof *redis->ids);
    redis->reading = calloc(CONSUME_PARTITIONS_MAX, sizeof(struct consume_partition *));
    if (!redis->words || !redis->ids || !redis->reading)
        return error_no_memory(error);
    if (consume_redis_url(consume->config, &redis->url, error) < 0)
        return -1;
    redis->counts = true;
    snprintf(consume->endpoint, sizeof consume->endpoint, "%.*s %.*s", CONSUME_NAME_SIZE / 2 - 1,
             redis->url.name, CONSUME_NAME_SIZE / 2 - 1, consume->config->consume.redis.stream);
    return add_partitions(consume, error);
}

static void close_redis(struct consume *consume) {
    struct redis *redis = consume->broker;
    if (!redis)
        return;
    free(redis->words);
    free(redis->ids);
    free(redis->reading);
    free(redis->object);
    free(redis);
}

static void disconnect(struct consume *consume) {
    struct redis *redis = consume->broker;
    pthread_mutex_lock(&consume->mutex);
    redisContext *context = redis->context;
    redis->context = NULL;
    pthread_mutex_unlock(&consume->mutex);
    if (context)
        redisFree(context);
}

static void interrupt(struct consume *consume) {
    const struct redis *redis = consume->broker;
    if (redis->context)
        shutdown(redis->context->fd, SHUT_RDWR);
}

/* ---- Commands ---- */

/* What the server's error says about a stream of ours. */
static int judge(const struct redis *redis, const struct consume_partition *p, const char *text,
                 struct error *error) {
    if (p && strncmp(text, "WRONGTYPE", strlen("WRONGTYPE")) == 0)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: the key %s is no stream, but something else: name another with "
                         "examples.redis.stream, or remove that key",
                         redis->url.name, p->stream);
    return redis_judge(&redis->url, text, error);
}

/* The next reply of the context, none of an error unless it begins with `allowed`. */
static redisReply *receive(struct redis *redis, const struct consume_partition *p,
                           const char *allowed, struct error *error) {
    void *reply = NULL;
    if (redisGetReply(redis->context, &reply) != REDIS_OK)
        return redis_lost(redis->context, error), NULL;
    redisReply *got = reply;
    if (got->type != REDIS_REPLY_ERROR ||
        (allowed && strncmp(got->str, allowed, strlen(allowed)) == 0))
        return got;
    judge(redis, p, got->str, error);
    freeReplyObject(got);
    return NULL;
}

static int append(struct redis *redis, int count, const char **words, struct error *error) {
    return redisAppendCommandArgv(redis->context, count, words, NULL) == REDIS_OK
               ? 0
               : error_no_memory(error);
}

static redisReply *ask(struct redis *redis, const struct consume_partition *p, int count,
                       const char **words, const char *allowed, struct error *error) {
    return append(redis, count, words, error) < 0 ? NULL : receive(redis, p, allowed, error);
}

/* ---- What there is ---- */

/* XINFO STREAM; `length` 0 and all else 0: there is none. */
struct about {
    bool exists;
    int64_t added, length; /* added -1: the server does not say */
    uint64_t last_first, last_second;
    uint64_t first_first, first_second; /* of the oldest entry, with a length */
};

static int64_t number_at(const redisReply *list, const char *name, int64_t otherwise) {
    const redisReply *found = redis_member(list, name);
    return found && found->type == REDIS_REPLY_INTEGER ? found->integer : otherwise;
}

static void read_about(const redisReply *reply, struct about *about) {
    *about = (struct about){.exists = reply->type == REDIS_REPLY_ARRAY, .added = -1};
    if (!about->exists)
        return;
    const redisReply *last = redis_member(reply, "last-generated-id");
    const redisReply *entry = redis_member(reply, "first-entry");
    about->added = number_at(reply, "entries-added", -1);
    about->length = number_at(reply, "length", 0);
    if (last && last->str)
        redis_id_parse(last->str, &about->last_first, &about->last_second);
    if (entry && entry->elements == 2 && entry->element[0]->str)
        redis_id_parse(entry->element[0]->str, &about->first_first, &about->first_second);
}

static int compare(uint64_t a_first, uint64_t a_second, uint64_t b_first, uint64_t b_second) {
    if (a_first != b_first)
        return a_first < b_first ? -1 : 1;
    return a_second == b_second ? 0 : a_second < b_second ? -1 : 1;
}

static int look_up(struct redis *redis, const struct consume_partition *p, struct about *about,
                   struct error *error) {
    const char *words[] = {"XINFO", "STREAM", p->stream};
    redisReply *reply = ask(redis, p, 3, words, "ERR no such key", error);
    if (!reply)
        return -1;
    read_about(reply, about);
    freeReplyObject(reply);
    return 0;
}

/* ---- Where a partition begins that the journal does not know ---- */

static int ask_group(struct consume *consume, struct consume_partition *p, bool *found,
                     struct error *error) {
    struct redis *redis = consume->broker;
    const char *words[] = {"XINFO", "GROUPS", p->stream};
    redisReply *groups = ask(redis, p, 3, words, "ERR no such key", error);
    *found = false;
    if (!groups)
        return -1;
    for (size_t n = 0; groups->type == REDIS_REPLY_ARRAY && n < groups->elements; n++) {
        const redisReply *name = redis_member(groups->element[n], "name");
        const redisReply *last = redis_member(groups->element[n], "last-delivered-id");
        if (!name || !name->str || strcmp(name->str, consume->config->consume.redis.group) != 0 ||
            !last || !last->str)
            continue;
        *found = true;
        redis_id_parse(last->str, &p->first, &p->second);
        p->at.count = (uint64_t)number_at(groups->element[n], "entries-read", 0);
    }
    freeReplyObject(groups);
    return 0;
}

/* From where the group stands, or as `from` says. */
static int find_start(struct consume *consume, struct consume_partition *p, struct error *error) {
    struct about about;
    bool found;
    if (ask_group(consume, p, &found, error) < 0 || look_up(consume->broker, p, &about, error) < 0)
        return -1;
    if (!found) {
        bool latest = consume->config->consume.redis.latest;
        p->first = latest ? about.last_first : 0;
        p->second = latest ? about.last_second : 0;
        p->at.count = about.added < 0 ? 0
                      : latest        ? (uint64_t)about.added
                                      : (uint64_t)(about.added - about.length);
    }
    p->counted = about.added >= 0 && (found ? p->at.count > 0 : true);
    struct message_number number;
    redis_id_number(p->first, p->second, &number);
    p->at.epoch = number.epoch;
    p->at.sequence = number.sequence;
    return 0;
}

/* ---- The group ---- */

static int make_group(struct consume *consume, struct consume_partition *p, struct error *error) {
    char id[REDIS_ID_SIZE];
    const char *words[] = {"XGROUP", "CREATE", p->stream, consume->config->consume.redis.group, id};
    redis_id_print(id, p->first, p->second);
    redisReply *reply = append(consume->broker, 5, words, error) < 0
                            ? NULL
                            : receive(consume->broker, p, "BUSYGROUP", error);
    if (!reply)
        return -1;
    freeReplyObject(reply);
    p->grouped = true;
    return 0;
}

/* XGROUP SETID; with the count of what was read, lag is known to the server, too. */
static int tell_group(struct consume *consume, struct consume_partition *p,
                      const struct consume_place *place, struct error *error) {
    struct redis *redis = consume->broker;
    char id[REDIS_ID_SIZE], count[REDIS_ID_SIZE];
    uint64_t first, second;
    redis_id_of(place->epoch, place->sequence, &first, &second);
    redis_id_print(id, first, second);
    snprintf(count, sizeof count, "%" PRIu64, place->count);
    const char *words[] = {"XGROUP", "SETID",       p->stream, consume->config->consume.redis.group,
                           id,       "ENTRIESREAD", count};
    redisReply *reply =
        ask(redis, p, redis->counts && place->count ? 7 : 5, words, "NOGROUP", error);
    if (!reply)
        return -1;
    p->grouped = reply->type != REDIS_REPLY_ERROR;
    if (p->grouped)
        p->committed = *place;
    freeReplyObject(reply);
    return 0;
}

/* ---- Looking ---- */

static void say_lost(struct consume_partition *p, uint64_t lost, const struct consume *consume) {
    log_warning("%s: %" PRIu64 " entr%s of %s %s gone before %s read: trimmed (MAXLEN, MINID) or "
                "deleted; keep more, or let the daemon be faster",
                consume->endpoint, lost, lost == 1 ? "y" : "ies", p->stream,
                lost == 1 ? "was" : "were", lost == 1 ? "it was" : "they were");
}

static void say_behind(struct consume *consume, struct consume_partition *p,
                       const struct about *about) {
    char end[REDIS_ID_SIZE], place[REDIS_ID_SIZE];
    redis_id_print(end, about->last_first, about->last_second);
    redis_id_print(place, p->first, p->second);
    if (!p->behind_said)
        log_warning("%s: %s ends at %s, before %s, up to which it is learned: it was made again, "
                    "or Redis has lost what it had; entries are read whose ids are above that",
                    consume->endpoint, p->stream, end, place);
    p->behind_said = true;
}

/* How many of the partition have come up to `at`, where that can be seen; what is more than was
   read was gone before. */
static void count(struct consume *consume, struct consume_partition *p, const struct about *about) {
    int end = compare(p->first, p->second, about->last_first, about->last_second);
    bool before = about->length == 0 ||
                  compare(p->first, p->second, about->first_first, about->first_second) < 0;
    if (about->added < 0)
        return;
    if (end > 0)
        say_behind(consume, p, about);
    else
        p->behind_said = false;
    if (end < 0 && !before)
        return;
    uint64_t come = (uint64_t)(end >= 0 ? about->added : about->added - about->length);
    uint64_t lost = p->counted && end <= 0 && come > p->at.count ? come - p->at.count : 0;
    if (lost)
        say_lost(p, lost, consume);
    p->at.count = come;
    p->counted = true;
    pthread_mutex_lock(&consume->mutex);
    p->lost += lost;
    pthread_mutex_unlock(&consume->mutex);
}

/* `between`: all that was read has been put. */
static int look(struct consume *consume, struct consume_partition *p, bool between,
                struct error *error) {
    struct redis *redis = consume->broker;
    struct about about;
    if (look_up(redis, p, &about, error) < 0)
        return -1;
    if (!about.exists && !p->missing_said)
        log_info("%s: there is no stream %s yet; it is read once somebody adds to it (XADD)",
                 consume->endpoint, p->stream);
    p->missing_said = !about.exists;
    redis->counts = !about.exists || about.added >= 0;
    if (!about.exists) {
        p->grouped = false;
        if (!p->first && !p->second) /* its first entry will be the first of all */
            p->counted = true;
        return 0;
    }
    if (between)
        count(consume, p, &about);
    pthread_mutex_lock(&consume->mutex);
    struct consume_place durable = p->durable;
    bool commits = consume->commits;
    int64_t from = (int64_t)(durable.count ? durable.count : p->begun);
    bool began = durable.count || (!durable.epoch && !durable.sequence);
    if (p->counted && began && p->reading == p->generation && about.added >= 0)
        p->lag = about.added > from ? about.added - from : 0;
    pthread_mutex_unlock(&consume->mutex);
    if (!commits)
        return 0;
    if (!p->grouped && make_group(consume, p, error) < 0)
        return -1;
    bool moved = durable.epoch != p->committed.epoch || durable.sequence != p->committed.sequence;
    return moved && (durable.sequence || durable.epoch) ? tell_group(consume, p, &durable, error)
                                                        : 0;
}

static int look_at_all(struct consume *consume, bool between, struct error *error) {
    struct redis *redis = consume->broker;
    if (!redis->context)
        return error_set(error, EX_TEMPFAIL, "the connection has ended");
    if (clock_ns() < redis->due)
        return 0;
    for (size_t n = 0; n < redis->reading_count; n++)
        if (look(consume, redis->reading[n], between, error) < 0)
            return -1;
    redis->due = clock_ns() + LOOK_NS;
    return 0;
}

/* ---- Reading ---- */

/* What is to be read now. */
static int choose(struct consume *consume, struct error *error) {
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
        if (!known && find_start(consume, p, error) < 0) {
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
                          "apart from the next: let Redis make the ids"};
    if (numbered && !(redis_are_texts(entry->element[1]) &&
                      redis_payload(entry->element[1], NULL, &read.message, &redis->object)))
        read.why = "its fields are no UTF-8";
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

static int read_streams(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    const size_t each = BATCH / redis->reading_count;
    char count[REDIS_ID_SIZE], wait[REDIS_ID_SIZE];
    int words = 0;
    bool idle = consume_is_empty(consume);
    snprintf(count, sizeof count, "%zu", each < BATCH_LEAST ? BATCH_LEAST : each);
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
    redisReply *reply = ask(redis, redis->reading[0], words, redis->words, NULL, error);
    if (!reply)
        return -1;
    bool none = reply->type != REDIS_REPLY_ARRAY;
    int status = take_reply(consume, reply, error);
    freeReplyObject(reply);
    if (none && !idle)
        consume_rest(consume, REST_NS);
    return status;
}

/* ---- Dead letters ---- */

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

static int bury(struct consume *consume, const struct consume_item *item, struct error *error) {
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
    redisReply *reply = ask(redis, p, sizeof words / sizeof *words, words, NULL, error);
    if (!reply) {
        error_prefix(error, "a dead letter cannot be written to %s", to);
        return -1;
    }
    freeReplyObject(reply);
    return 0;
}

/* ---- The thread ---- */

static void print(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]) {
    uint64_t first, second;
    redis_id_of(place->epoch, place->sequence, &first, &second);
    redis_id_print(text, first, second);
}

static int connect_redis(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    redisContext *context = redis_connect(&redis->url, error);
    if (!context)
        return -1;
    pthread_mutex_lock(&consume->mutex);
    redis->context = context;
    pthread_mutex_unlock(&consume->mutex);
    redis->due = 0;
    return 0;
}

static int meanwhile(struct consume *consume, struct error *error) {
    return look_at_all(consume, false, error);
}

static int turn(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    if (!redis->context)
        return connect_redis(consume, error);
    if (choose(consume, error) < 0 || consume_bury(consume, error) < 0)
        return -1;
    if (redis->reading_count == 0) {
        consume_rest(consume, LOOK_NS);
        return 0;
    }
    if (look_at_all(consume, true, error) < 0 || read_streams(consume, error) < 0)
        return -1;
    if (!consume->connected || consume->since)
        consume_answers(consume, true);
    return 0;
}

/* At the end the group is told once more. */
static void leave(struct consume *consume) {
    struct redis *redis = consume->broker;
    struct error error;
    redis->due = 0;
    if (consume_is_closing(consume) && redis->context && !redis->context->err)
        look_at_all(consume, false, &error);
    disconnect(consume);
}

const struct consume_kind consume_redis = {
    .open = open_redis,
    .close = close_redis,
    .print = print,
    .turn = turn,
    .disconnect = leave,
    .bury = bury,
    .meanwhile = meanwhile,
    .interrupt = interrupt,
};
