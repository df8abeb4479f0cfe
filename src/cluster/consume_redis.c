/* Redis streams. XREAD receives the ID to read after, and needs no group. Durable IDs go to a group
   all the same, so that XINFO GROUPS shows the daemon's progress. */
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
#include "common/hash.h"
#include "common/log.h"
#include "common/text.h"
#include "consume_ops.h"
#include "fleet_replies.h"

#define IDLE_NS NS_PER_SECOND         /* between two turns without streams to read */
#define REST_NS (NS_PER_SECOND / 200) /* while the learning thread has messages */
#define LOOK_NS NS_PER_SECOND         /* between two commits or two queries of the streams */

enum {
    READ_WORDS = 6, /* words of XREAD, without streams and ids */
    BLOCK_MS = 100, /* time limit of a read */
    BATCH = 512,    /* entries of all streams together, at most about */
    BATCH_LEAST = 8,
    BATCH_BYTES = 4 << 20, /* bytes of a batch, estimated from the last one */
    MISSING_SHOWN = 3,
    MORE_SIZE = 48,
    MISTAKEN_SIZE = CONSUME_NAME_SIZE + 128,
    PLACE_SIZE = 64,
    FLEET_KEY_SIZE = CONFIG_ADDRESS_SIZE + sizeof "runnel:{}:offsets",
};

struct redis {
    struct url url;
    redisContext *context; /* created and freed under the mutex */
    uint64_t due;          /* time of the next query */
    bool counts;           /* the server counts added entries (Redis 7) */
    bool had_fleet;        /* a fleet has used the group; a fleet is running */
    bool fleet_reported;
    const char **words; /* (2 CONSUME_PARTITIONS_MAX + READ_WORDS,) words of XREAD */
    char (*ids)[REDIS_ID_SIZE];
    struct consume_partition **reading; /* (reading_count,) */
    size_t reading_count;
    size_t each;  /* entries of a stream per request */
    size_t bytes; /* bytes of the last reply */
    char *object; /* the fields of an entry as JSON */
};

/* ---- Opening ---- */

static int read_url(const struct config *config, struct url *url, struct error *error) {
    if (url_parse(url, "examples.redis.url", config->consume.redis.url, REDIS_URL_SCHEMES,
                  REDIS_URL_FORM, error) == 0) {
        url->section = "examples.redis";
        if (url_login(url, config->consume.redis.user, config->consume.redis.password_file,
                      error) == 0)
            return 0;
    }
    error->status = EX_CONFIG;
    return -1;
}

static int open_redis(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker = calloc(1, sizeof *redis);
    if (!redis)
        return error_no_memory(error);
    redis->words = calloc(2 * CONSUME_PARTITIONS_MAX + READ_WORDS, sizeof *redis->words);
    redis->ids = calloc(CONSUME_PARTITIONS_MAX, sizeof *redis->ids);
    redis->reading = calloc(CONSUME_PARTITIONS_MAX, sizeof(struct consume_partition *));
    if (!redis->words || !redis->ids || !redis->reading)
        return error_no_memory(error);
    if (read_url(consume->config, &redis->url, error) < 0)
        return -1;
    redis->counts = true;
    consume->about = (struct consume_about){
        .stream = consume->config->consume.redis.stream,
        .group = consume->config->consume.redis.group,
        .where = redis->url.name,
        .keeps = "appendonly",
        .counts = "examples.redis.partitions",
        .regain = "set the number of partitions that its writers use",
        .belongs = "by the FNV-1a hash of its key, which the writer must use, too",
    };
    const uint64_t partitions = consume->config->consume.redis.partitions;
    for (uint64_t n = 0; n < (partitions ? partitions : 1); n++)
        if (!consume_add(consume, partitions ? (int32_t)n : -1))
            return error_no_memory(error);
    return 0;
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

static size_t choose(const struct config *config, const char *key, size_t key_size, size_t count) {
    (void)config;
    return hash_bytes(HASH_BEGIN, key, key_size) % count;
}

static int link_redis(struct consume *consume, struct fleet_self *self, struct fleet_link **link,
                      struct error *error) {
    const struct redis *redis = consume->broker;
    self->earlier = consume->config->earlier.compatible;
    self->hint = config_hint(consume->config, self->earlier);
    self->digest = consume->config->compatible;
    return fleet_redis_open(link, &redis->url, self, error);
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

/* Sets the error for a server's error reply about a stream. */
static int fail_reply(const struct redis *redis, const struct consume_partition *p,
                      const char *text, struct error *error) {
    if (p && strncmp(text, "WRONGTYPE", strlen("WRONGTYPE")) == 0)
        return error_set(
            error, EX_UNAVAILABLE,
            "%s: key %s is not a stream: set another examples.redis.stream, or remove the key",
            redis->url.name, p->stream);
    return redis_fail(&redis->url, text, error);
}

/* Sends a command and returns its reply. An error reply fails unless it begins with `allowed`. `p`
   is the partition of the command. Returns NULL with the errors of `turn`. */
static redisReply *ask(struct redis *redis, const struct consume_partition *p, int count,
                       const char **words, const char *allowed, struct error *error) {
    redisReply *got = redisCommandArgv(redis->context, count, words, NULL);
    if (!got)
        return redis_lost(redis->context, error), NULL;
    if (got->type != REDIS_REPLY_ERROR ||
        (allowed && strncmp(got->str, allowed, strlen(allowed)) == 0))
        return got;
    fail_reply(redis, p, got->str, error);
    freeReplyObject(got);
    return NULL;
}

/* ---- Streams ---- */

/* Result of XINFO STREAM. All zeros if the stream does not exist. */
struct about {
    bool exists;
    int64_t added, length; /* added -1: the server does not count */
    struct redis_id last;
    struct redis_id oldest; /* ID of the oldest entry, if length is not 0 */
    struct redis_id newest; /* ID of the newest entry that was ever added */
};

/* A negative count is unknown. */
static int64_t number_at(const redisReply *list, const char *name, int64_t otherwise) {
    const redisReply *found = redis_member(list, name);
    return found && found->type == REDIS_REPLY_INTEGER && found->integer >= 0 ? found->integer
                                                                              : otherwise;
}

static void read_about(const redisReply *reply, struct about *about) {
    *about = (struct about){.exists = reply->type == REDIS_REPLY_ARRAY, .added = -1};
    if (!about->exists)
        return;
    const redisReply *last = redis_member(reply, "last-generated-id");
    const redisReply *entry = redis_member(reply, "first-entry");
    const redisReply *newest = redis_member(reply, "last-entry");
    about->added = number_at(reply, "entries-added", -1);
    about->length = number_at(reply, "length", 0);
    if (about->added < about->length) /* no entry was deleted */
        about->added = -1;
    if (last && last->str)
        about->last = redis_id_parse(last->str);
    if (entry && entry->elements == 2 && entry->element[0]->str)
        about->oldest = redis_id_parse(entry->element[0]->str);
    if (newest && newest->elements == 2 && newest->element[0]->str)
        about->newest = redis_id_parse(newest->element[0]->str);
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

/* ---- Fleets with the same group ---- */

/* Reads a key of a fleet (fleet_scripts.h). A key that the user may not read counts as missing. */
static redisReply *ask_fleet(struct consume *consume, const char *command, const char *key,
                             const char *field, struct error *error) {
    char name[FLEET_KEY_SIZE];
    const char *words[] = {command, name, field, field, "WITHSCORES"};
    const int count = strcmp(command, "ZREVRANGE") == 0 ? 5 : 3;
    snprintf(name, sizeof name, "runnel:{%s}:%s", consume->about.group, key);
    return ask(consume->broker, NULL, count, words, "", error);
}

/* Finds the daemon of the fleet whose lease ends last, if it has not ended; else "". "", too, if
   the user may not call TIME. */
static int find_living(struct consume *consume, char living[CONSUME_NAME_SIZE],
                       struct error *error) {
    const char *words[] = {"TIME"};
    redisReply *newest = ask_fleet(consume, "ZREVRANGE", "leases", "0", error);
    redisReply *time = newest ? ask(consume->broker, NULL, 1, words, "", error) : NULL;
    *living = '\0';
    if (time && time->type == REDIS_REPLY_ARRAY &&
        strtod(reply_text(newest, 1), NULL) > 1000 * strtod(reply_text(time, 0), NULL))
        snprintf(living, CONSUME_NAME_SIZE, "%s", reply_text(newest, 0));
    freeReplyObject(newest);
    freeReplyObject(time);
    return time ? 0 : -1;
}

static int check_fleet(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    const char *ours = consume->about.stream;
    char living[CONSUME_NAME_SIZE];
    if (consume->config->fleet.lease > 0)
        return 0;
    redisReply *reply = ask_fleet(consume, "HGET", "fleet", "stream", error);
    if (!reply)
        return -1;
    const char *theirs = reply_text(reply, 0);
    const size_t size = strlen(theirs);
    const bool reads =
        size && strncmp(theirs, ours, size) == 0 && (!ours[size] || ours[size] == '.');
    freeReplyObject(reply);
    redis->had_fleet = reads && !ours[size];
    if (!reads || find_living(consume, living, error) < 0)
        return reads ? -1 : 0;
    if (!*living)
        redis->fleet_reported = false;
    if (!*living || redis->fleet_reported)
        return 0;
    error_set(error, EX_CONFIG,
              "%s: daemon %s of the fleet %s reads this stream, and this daemon would learn it a "
              "second time; set another examples.redis.group, or fleet.lease to join the fleet",
              consume->endpoint, living, consume->about.group);
    if (!consume->answered)
        return -1;
    log_warning("%s", error->text);
    redis->fleet_reported = true;
    return 0;
}

/* Reads the place that the fleet had committed, if it is beyond the group's. */
static int ask_committed(struct consume *consume, struct consume_partition *p,
                         struct error *error) {
    const char *number = p->stream + strlen(consume->about.stream);
    redisReply *reply = ask_fleet(consume, "HGET", "offsets", *number ? number + 1 : "0", error);
    struct fleet_claim claim;
    if (!reply)
        return -1;
    const bool known = reply_committed(reply_text(reply, 0), &claim) && claim.committed;
    freeReplyObject(reply);
    const struct redis_id id = redis_id_of(claim.offset.epoch, claim.offset.sequence);
    if (!known || redis_id_compare(id, p->id) <= 0)
        return 0;
    p->id = id;
    p->at.count = claim.learned;
    return 0;
}

/* ---- Start of a partition that is not in the journal ---- */

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
        if (!name || !name->str || strcmp(name->str, consume->about.group) != 0 || !last ||
            !last->str)
            continue;
        *found = true;
        p->id = redis_id_parse(last->str);
        p->at.count = (uint64_t)number_at(groups->element[n], "entries-read", 0);
    }
    freeReplyObject(groups);
    return 0;
}

static int find_start(struct consume *consume, struct consume_partition *p, struct error *error) {
    struct about about;
    bool found;
    const struct redis *redis = consume->broker;
    if (ask_group(consume, p, &found, error) < 0 || look_up(consume->broker, p, &about, error) < 0)
        return -1;
    if (found && redis->had_fleet && ask_committed(consume, p, error) < 0)
        return -1;
    if (!found) {
        bool latest = consume->config->consume.redis.latest && consume_is_new(consume);
        p->id = latest ? about.last : (struct redis_id){0};
        p->at.count = about.added < 0 ? 0
                      : latest        ? (uint64_t)about.added
                                      : (uint64_t)(about.added - about.length);
    }
    p->counted = about.added >= 0 && (found ? p->at.count > 0 : true);
    struct message_number number;
    redis_id_number(p->id, &number);
    p->at.epoch = number.epoch;
    p->at.sequence = number.sequence;
    return 0;
}

/* ---- Groups ---- */

static int make_group(struct consume *consume, struct consume_partition *p, struct error *error) {
    char id[REDIS_ID_SIZE];
    const char *words[] = {"XGROUP", "CREATE", p->stream, consume->about.group, id};
    redis_id_print(id, p->id);
    redisReply *reply = ask(consume->broker, p, 5, words, "BUSYGROUP", error);
    if (!reply)
        return -1;
    freeReplyObject(reply);
    p->grouped = true;
    return 0;
}

/* XGROUP SETID. With the count of read entries, the server can compute the lag. */
static int update_group(struct consume *consume, struct consume_partition *p,
                        const struct consume_place *place, struct error *error) {
    struct redis *redis = consume->broker;
    char id[REDIS_ID_SIZE], count[REDIS_ID_SIZE];
    redis_id_print(id, redis_id_of(place->epoch, place->sequence));
    snprintf(count, sizeof count, "%" PRIu64, place->count);
    const char *words[] = {"XGROUP", "SETID",       p->stream, consume->about.group,
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

/* ---- Looks at the streams ---- */

static void report_lost(struct consume_partition *p, uint64_t lost, const struct consume *consume) {
    log_warning("%s: %" PRIu64 " entr%s of %s %s deleted before %s read: trimmed (MAXLEN, MINID) "
                "or removed (XDEL); keep more entries, or make the daemon faster",
                consume->endpoint, lost, lost == 1 ? "y" : "ies", p->stream,
                lost == 1 ? "was" : "were", lost == 1 ? "it was" : "they were");
}

static const char *way_out(const struct consume *consume) {
    return consume->config->fleet.lease > 0
               ? "use another examples.redis.group, and give each daemon of the fleet another "
                 "state.directory"
               : "set another state.directory and examples.redis.group for this daemon";
}

static void report_short(struct consume *consume, struct consume_partition *p,
                         const struct about *about) {
    char end[REDIS_ID_SIZE], place[REDIS_ID_SIZE];
    redis_id_print(end, about->last);
    redis_id_print(place, p->id);
    if (!p->short_reported)
        log_warning("%s: %s ends at %s, but the group %s has learned it up to %s: the stream was "
                    "created again, or Redis has lost entries; only entries with a greater ID are "
                    "read; to read the others %s",
                    consume->endpoint, p->stream, end, consume->about.group, place,
                    way_out(consume));
    p->short_reported = true;
}

/* Fails if new entries arrive while the stream still ends before the learned ones: their IDs would
   never be read. */
static int check_short(struct consume *consume, struct consume_partition *p,
                       const struct about *about, struct error *error) {
    char end[REDIS_ID_SIZE], place[REDIS_ID_SIZE];
    const int64_t entries = about->added >= 0 ? about->added : about->length;
    bool learned = p->id.first || p->id.second;
    bool ends_short = learned && redis_id_compare(p->id, about->last) > 0;
    bool more = ends_short && p->is_short && entries > p->short_count;
    if (ends_short && !p->is_short)
        p->short_count = entries;
    p->is_short = ends_short;
    if (!more)
        return 0;
    redis_id_print(end, about->last);
    redis_id_print(place, p->id);
    return error_set(error, EX_DATAERR,
                     "%s: cannot read new entries of %s: the newest ID is %s, but the group %s has "
                     "learned IDs up to %s: the stream was created again, or the Redis clock went "
                     "back; add greater IDs, or %s",
                     consume->endpoint, p->stream, end, consume->about.group, place,
                     way_out(consume));
}

/* Counts the partition's entries up to `at`, if possible. Entries that were not read have been
   deleted. */
static void count(struct consume *consume, struct consume_partition *p, const struct about *about) {
    int end = redis_id_compare(p->id, about->last);
    bool before = about->length == 0 || redis_id_compare(p->id, about->oldest) < 0;
    if (about->added < 0)
        return;
    if (end > 0)
        report_short(consume, p, about);
    else
        p->short_reported = false;
    if (end < 0 && !before)
        return;
    uint64_t come = (uint64_t)(end >= 0 ? about->added : about->added - about->length);
    uint64_t lost = p->counted && end <= 0 && come > p->at.count ? come - p->at.count : 0;
    if (lost)
        report_lost(p, lost, consume);
    p->at.count = come;
    p->counted = true;
    pthread_mutex_lock(&consume->mutex);
    p->lost += lost;
    pthread_mutex_unlock(&consume->mutex);
}

/* Whether all queued entries are durable. Locked. */
static bool is_durable(const struct consume_partition *p) {
    return p->durable.epoch == p->at.epoch && p->durable.sequence == p->at.sequence;
}

/* `between`: all entries that were read are queued. */
static int look(struct consume *consume, struct consume_partition *p, bool between,
                struct error *error) {
    struct redis *redis = consume->broker;
    struct about about;
    if (look_up(redis, p, &about, error) < 0)
        return -1;
    p->missing = about.exists ? 0 : p->missing ? p->missing : clock_ns();
    p->missing_reported &= !about.exists;
    redis->counts = !about.exists || about.added >= 0;
    if (!about.exists) {
        p->grouped = false;
        p->is_short = true;
        p->short_count = 0;
        if (!p->id.first && !p->id.second) /* its first entry will be the first of all */
            p->counted = true;
        pthread_mutex_lock(&consume->mutex);
        if (is_durable(p))
            p->lag = 0;
        pthread_mutex_unlock(&consume->mutex);
        return 0;
    }
    if (between && check_short(consume, p, &about, error) < 0)
        return -1;
    if (between)
        count(consume, p, &about);
    pthread_mutex_lock(&consume->mutex);
    struct consume_place durable = p->durable;
    int64_t from = (int64_t)(durable.count ? durable.count : p->begun);
    bool began = durable.count || (!durable.epoch && !durable.sequence);
    if (p->counted && began && p->reading == p->generation && about.added >= 0)
        p->lag = about.added > from ? about.added - from : 0;
    if (between && is_durable(p) && redis_id_compare(p->id, about.newest) >= 0)
        p->lag = 0; /* entries may have been added, but were deleted before they were read */
    pthread_mutex_unlock(&consume->mutex);
    if (!p->grouped && make_group(consume, p, error) < 0)
        return -1;
    bool moved = durable.epoch != p->committed.epoch || durable.sequence != p->committed.sequence;
    return moved && (durable.sequence || durable.epoch) ? update_group(consume, p, &durable, error)
                                                        : 0;
}

/* A writer may use NAME where NAME.0, NAME.1 are configured, or vice versa. Describes such
   a stream that exists, or sets "". */
static int find_mistaken(const struct consume *consume, const struct consume_partition *p,
                         char text[MISTAKEN_SIZE], struct error *error) {
    const bool numbered = consume->config->consume.redis.partitions != 0;
    char name[CONSUME_NAME_SIZE];
    const char *words[] = {"TYPE", name};
    snprintf(name, sizeof name, numbered ? "%s" : "%s.0", consume->about.stream);
    redisReply *reply = ask(consume->broker, p, 2, words, "NOPERM", error);
    *text = '\0';
    if (!reply)
        return -1;
    if (reply->type == REDIS_REPLY_STATUS && !strcmp(reply->str, "stream"))
        snprintf(text, MISTAKEN_SIZE,
                 "; stream %s exists, but is not read: examples.redis.partitions %s", name,
                 numbered ? "is set" : "is not set");
    freeReplyObject(reply);
    return 0;
}

/* Logs all missing streams in one message. It waits a moment after the first, since partitions
   start one after the other. */
static int report_missing(const struct consume *consume, struct error *error) {
    const struct redis *redis = consume->broker;
    const struct consume_partition *first = NULL;
    const uint64_t now = clock_ns();
    char names[MISSING_SHOWN * CONSUME_NAME_SIZE] = "", more[MORE_SIZE] = "";
    size_t count = 0;
    bool due = false;
    for (size_t n = 0; n < redis->reading_count; n++) {
        const struct consume_partition *p = redis->reading[n];
        if (!p->missing || p->missing_reported)
            continue;
        due |= now - p->missing >= LOOK_NS;
        first = first ? first : p;
        if (count++ < MISSING_SHOWN)
            text_append(names, sizeof names, "%s%s", count > 1 ? ", " : "", p->stream);
    }
    char mistaken[MISTAKEN_SIZE];
    if (!due)
        return 0;
    if (find_mistaken(consume, first, mistaken, error) < 0)
        return -1;
    for (size_t n = 0; n < redis->reading_count; n++)
        redis->reading[n]->missing_reported = redis->reading[n]->missing != 0;
    if (count > MISSING_SHOWN)
        snprintf(more, sizeof more, " and %zu more", count - MISSING_SHOWN);
    log_info("%s: stream%s not found: %s%s; reading begins with the first entry (XADD)%s",
             consume->endpoint, text_s(count), names, more, mistaken);
    return 0;
}

static int look_at_all(struct consume *consume, bool between, struct error *error) {
    struct redis *redis = consume->broker;
    if (!redis->context)
        return error_set(error, EX_TEMPFAIL, "connection closed");
    if (clock_ns() < redis->due)
        return 0;
    int status = check_fleet(consume, error);
    for (size_t n = 0; n < redis->reading_count && status == 0; n++)
        status = look(consume, redis->reading[n], between, error);
    if (status == 0)
        status = report_missing(consume, error);
    if (status == 0)
        redis->due = clock_ns() + LOOK_NS;
    return status;
}

/* ---- Reading ---- */

/* Chooses the partitions to read now. */
static int choose_read(struct consume *consume, struct error *error) {
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
        p->id = redis_id_of(p->at.epoch, p->at.sequence);
        if (!known && find_start(consume, p, error) < 0) {
            p->reading = 0; /* retried at the next turn */
            return -1;
        }
        p->begun = p->at.count;
    }
    if (changed || before != redis->reading_count)
        redis->due = 0;
    return 0;
}

/* Takes one entry, [id, [field, value, ...]]; returns as consume_put does. */
static int take_entry(struct consume *consume, struct consume_partition *p, const redisReply *entry,
                      struct error *error) {
    struct redis *redis = consume->broker;
    char id[CONSUME_NAME_SIZE + REDIS_ID_SIZE];
    struct message_number number;
    const struct redis_id its = redis_id_parse(entry->element[0]->str);
    bool numbered = redis_id_number(its, &number);
    if (!numbered) /* the place is the last one of its millisecond */
        redis_id_number((struct redis_id){its.first, (1u << REDIS_SECOND_BITS) - 1}, &number);
    snprintf(id, sizeof id, "%s of %s", entry->element[0]->str, p->stream);
    struct consume_read read = {
        .partition = p,
        .place = {number.epoch, number.sequence, p->counted ? p->at.count + 1 : 0},
        .message = {.id = id,
                    .key = p->stream,
                    .key_size = strlen(p->stream),
                    .bytes = "",
                    .time = redis_id_time(its)},
        .why = numbered ? NULL
                        : "the second part of the ID is above 2097151; let Redis generate the IDs",
        .raw_key = numbered ? NULL : entry->element[0]->str,
        .raw_key_size = numbered ? 0 : (size_t)entry->element[0]->len};
    if (numbered && !(redis_are_texts(entry->element[1]) &&
                      redis_payload(entry->element[1], NULL, &read.message, &redis->object)))
        read.why = "the fields are not UTF-8 text";
    redis->bytes += read.message.size;
    int put = consume_put(consume, &read, error);
    if (put == 1)
        p->id = its;
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

/* Takes a reply, [[stream, entries], ...]: streams in the order of the request, without those that
   have no entries. */
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

/* Entries may have megabytes: after a pause, request one, and then more while they are small. */
static void adapt(struct redis *redis, bool none) {
    if (none)
        redis->each = 1;
    else if (redis->bytes > BATCH_BYTES)
        redis->each -= redis->each / 2;
    else if (redis->bytes <= BATCH_BYTES / 2)
        redis->each *= 2;
}

static int read_entries(struct consume *consume, struct error *error) {
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
        redis_id_print(redis->ids[n], redis->reading[n]->id);
        redis->words[words++] = redis->ids[n];
    }
    redisReply *reply = ask(redis, NULL, words, redis->words, "WRONGTYPE", error);
    if (!reply)
        return -1;
    bool none = reply->type != REDIS_REPLY_ARRAY;
    redis->bytes = 0;
    if (reply->type == REDIS_REPLY_ERROR) /* the next query finds the stream */
        redis->due = 0;
    int status = take_reply(consume, reply, error);
    freeReplyObject(reply);
    adapt(redis, none);
    if (none && !idle)
        consume_rest(consume, REST_NS);
    return status;
}

/* ---- Dead letters: entries of the stream NAME.dead ---- */

/* Copies the entry, with its stream, ID and reason. It is written once: the group's hash has the
   newest dead letter of each partition. Lua's stack ends at 8,000 values: more fields become one, a
   JSON list. */
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

/* Prints the ID, and a text that rises with the IDs. If the second part of the ID is too large for
   a place, only the item has the whole ID. */
static void name(const struct consume_item *item, char id[REDIS_ID_SIZE], char place[PLACE_SIZE]) {
    const struct consume_place *at = &item->message.place;
    struct redis_id its = redis_id_of(at->epoch, at->sequence);
    int used = snprintf(place, PLACE_SIZE, "%010" PRIu32 "%016" PRIu64, at->epoch, at->sequence);
    if (item->raw_key_size) {
        snprintf(id, REDIS_ID_SIZE, "%.*s", (int)item->raw_key_size, item->raw_key);
        its = redis_id_parse(id);
        snprintf(place + used, PLACE_SIZE - (size_t)used, ".%020" PRIu64, its.second);
    }
    redis_id_print(id, its);
}

static int bury(struct consume *consume, const struct consume_item *item, struct error *error) {
    struct redis *redis = consume->broker;
    const struct consume_message *message = &item->message;
    const struct consume_partition *p = consume->partitions[message->partition];
    char to[CONSUME_NAME_SIZE], known[CONSUME_NAME_SIZE + sizeof "runnel::dead"];
    char id[REDIS_ID_SIZE], place[PLACE_SIZE];
    if (!redis->context)
        return error_set(error, EX_TEMPFAIL, "connection closed");
    name(item, id, place);
    snprintf(to, sizeof to, "%s.dead", consume->about.stream);
    snprintf(known, sizeof known, "runnel:%s:dead", consume->about.group);
    const char *words[] = {"EVAL", BURY, "3", to, known, p->stream, id, place, message->text};
    redisReply *reply = ask(redis, p, sizeof words / sizeof *words, words, "WRONGTYPE", error);
    if (!reply)
        return error_prefix(error, "cannot write a dead letter to %s", to);
    bool wrong = reply->type == REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    return wrong ? error_set(error, EX_UNAVAILABLE,
                             "%s: cannot write a dead letter: %s is not a stream, or %s is not a "
                             "hash; remove or rename that key",
                             redis->url.name, to, known)
                 : 0;
}

/* ---- Thread ---- */

static void print_place(const struct consume_place *place, char text[CONSUME_PLACE_SIZE]) {
    redis_id_print(text, redis_id_of(place->epoch, place->sequence));
}

static int connect_redis(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    redisContext *context = redis_reach(&redis->url, error);
    if (!context)
        return -1;
    pthread_mutex_lock(&consume->mutex);
    redis->context = context; /* from now on another thread can interrupt it */
    bool closing = consume->closing;
    pthread_mutex_unlock(&consume->mutex);
    redis->due = 0;
    redis->each = 1;
    if (closing)
        return 0;
    return redis_log_in(context, &redis->url, error) < 0 ? -1 : check_fleet(consume, error);
}

static int meanwhile(struct consume *consume, struct error *error) {
    return look_at_all(consume, false, error);
}

static int turn(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    if (!redis->context)
        return connect_redis(consume, error);
    if (choose_read(consume, error) < 0 || consume_bury(consume, error) < 0)
        return -1;
    if (redis->reading_count == 0) {
        consume_rest(consume, IDLE_NS);
        return 0;
    }
    if (look_at_all(consume, true, error) < 0 || read_entries(consume, error) < 0)
        return -1;
    if (!consume->connected || consume->since)
        consume_answers(consume, true);
    return 0;
}

/* Reports the durable places to the group a last time. */
static void leave(struct consume *consume) {
    struct redis *redis = consume->broker;
    struct error error;
    redis->due = 0;
    if (consume_is_closing(consume) && redis->context && !redis->context->err)
        look_at_all(consume, false, &error);
    disconnect(consume);
}

const struct consume_ops consume_redis = {
    .kind = "redis",
    .before = ".",
    .after = "",
    .open = open_redis,
    .close = close_redis,
    .print = print_place,
    .choose = choose,
    .link = link_redis,
    .turn = turn,
    .disconnect = leave,
    .bury = bury,
    .meanwhile = meanwhile,
    .interrupt = interrupt,
};
