/* How far partitions are: what the server knows of a stream, where one begins, what was gone before
   it was read, and what the group is told. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "consume_redis.h"

enum { MISSING_SAID = 3, MORE_SIZE = 48, MISTAKEN_SIZE = CONSUME_NAME_SIZE + 128 };

#define LOOK_NS NS_PER_SECOND /* between two commits, and two looks at what there is */

/* ---- What there is ---- */

/* XINFO STREAM; `length` 0 and all else 0: there is none. */
struct about {
    bool exists;
    int64_t added, length; /* added -1: the server does not say */
    uint64_t last_first, last_second;
    uint64_t first_first, first_second;   /* of the oldest entry, with a length, */
    uint64_t newest_first, newest_second; /* and of the newest one: others were deleted since */
};

/* A count that is below 0 is none. */
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
    if (about->added < about->length) /* all that is there was added */
        about->added = -1;
    if (last && last->str)
        redis_id_parse(last->str, &about->last_first, &about->last_second);
    if (entry && entry->elements == 2 && entry->element[0]->str)
        redis_id_parse(entry->element[0]->str, &about->first_first, &about->first_second);
    if (newest && newest->elements == 2 && newest->element[0]->str)
        redis_id_parse(newest->element[0]->str, &about->newest_first, &about->newest_second);
}

static int compare(uint64_t a_first, uint64_t a_second, uint64_t b_first, uint64_t b_second) {
    if (a_first != b_first)
        return a_first < b_first ? -1 : 1;
    return a_second == b_second ? 0 : a_second < b_second ? -1 : 1;
}

static int look_up(struct redis *redis, const struct consume_partition *p, struct about *about,
                   struct error *error) {
    const char *words[] = {"XINFO", "STREAM", p->stream};
    redisReply *reply = consume_redis_ask(redis, p, 3, words, "ERR no such key", error);
    if (!reply)
        return -1;
    read_about(reply, about);
    freeReplyObject(reply);
    return 0;
}

/* ---- A fleet with this group ---- */

enum { FLEET_KEY_SIZE = CONFIG_ADDRESS_SIZE + sizeof "runnel:{}:offsets" };

/* Of the keys that fleet/fleet_scripts.h lists. What a user may not read is not there. */
static redisReply *ask_fleet(struct consume *consume, const char *command, const char *key,
                             const char *field, struct error *error) {
    char name[FLEET_KEY_SIZE];
    const char *words[] = {command, name, field, field, "WITHSCORES"};
    const int count = strcmp(command, "ZREVRANGE") == 0 ? 5 : 3;
    snprintf(name, sizeof name, "runnel:{%s}:%s", consume->config->consume.redis.group, key);
    return consume_redis_ask(consume->broker, NULL, count, words, "", error);
}

static const char *text_at(const redisReply *list, size_t n) {
    const redisReply *found =
        list->type == REDIS_REPLY_ARRAY && n < list->elements ? list->element[n] : NULL;
    return found && found->type == REDIS_REPLY_STRING ? found->str : "";
}

/* The daemon of the fleet whose lease ends last, if that is not over; else "", as where the user
   may not ask for the time. */
static int find_living(struct consume *consume, char living[CONSUME_NAME_SIZE],
                       struct error *error) {
    const char *words[] = {"TIME"};
    redisReply *newest = ask_fleet(consume, "ZREVRANGE", "leases", "0", error);
    redisReply *time =
        newest ? consume_redis_ask(consume->broker, NULL, 1, words, "", error) : NULL;
    *living = '\0';
    if (time && time->type == REDIS_REPLY_ARRAY &&
        strtod(text_at(newest, 1), NULL) > 1000 * strtod(text_at(time, 0), NULL))
        snprintf(living, CONSUME_NAME_SIZE, "%s", text_at(newest, 0));
    freeReplyObject(newest);
    freeReplyObject(time);
    return time ? 0 : -1;
}

int consume_redis_check_fleet(struct consume *consume, struct error *error) {
    struct redis *redis = consume->broker;
    const char *ours = consume->config->consume.redis.stream;
    char living[CONSUME_NAME_SIZE];
    if (consume->config->fleet.lease > 0)
        return 0;
    redisReply *reply = ask_fleet(consume, "HGET", "fleet", "stream", error);
    if (!reply)
        return -1;
    const size_t size = reply->type == REDIS_REPLY_STRING ? strlen(reply->str) : 0;
    const bool reads =
        size && strncmp(reply->str, ours, size) == 0 && (!ours[size] || ours[size] == '.');
    freeReplyObject(reply);
    redis->had_fleet = reads && !ours[size];
    if (!reads || find_living(consume, living, error) < 0)
        return reads ? -1 : 0;
    if (!*living)
        redis->fleet_said = false;
    if (!*living || redis->fleet_said)
        return 0;
    error_set(error, EX_CONFIG,
              "%s: the daemon %s of the fleet %s reads this stream, and this daemon would learn it "
              "a second time: set another examples.redis.group, or fleet.lease to join the fleet",
              consume->endpoint, living, consume->config->consume.redis.group);
    if (!consume->answered)
        return -1;
    log_warning("%s", error->text);
    redis->fleet_said = true;
    return 0;
}

/* What the fleet had committed when it ended, where that is beyond what its group was told. */
static int ask_committed(struct consume *consume, struct consume_partition *p,
                         struct error *error) {
    const char *number = p->stream + strlen(consume->config->consume.redis.stream);
    redisReply *reply = ask_fleet(consume, "HGET", "offsets", *number ? number + 1 : "0", error);
    uint64_t first, second, place[3] = {0};
    if (!reply)
        return -1;
    char *text = reply->type == REDIS_REPLY_STRING ? reply->str : "";
    for (size_t n = 0; n < 3; n++)
        place[n] = strtoull(text, &text, 10);
    freeReplyObject(reply);
    redis_id_of((uint32_t)place[0], place[1], &first, &second);
    if (compare(first, second, p->first, p->second) <= 0)
        return 0;
    p->first = first;
    p->second = second;
    p->at.count = place[2];
    return 0;
}

/* ---- Where a partition begins that the journal does not know ---- */

static int ask_group(struct consume *consume, struct consume_partition *p, bool *found,
                     struct error *error) {
    struct redis *redis = consume->broker;
    const char *words[] = {"XINFO", "GROUPS", p->stream};
    redisReply *groups = consume_redis_ask(redis, p, 3, words, "ERR no such key", error);
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

int consume_redis_find_start(struct consume *consume, struct consume_partition *p,
                             struct error *error) {
    struct about about;
    bool found;
    const struct redis *redis = consume->broker;
    if (ask_group(consume, p, &found, error) < 0 || look_up(consume->broker, p, &about, error) < 0)
        return -1;
    if (found && redis->had_fleet && ask_committed(consume, p, error) < 0)
        return -1;
    if (!found) {
        bool latest = consume->config->consume.redis.latest && consume_is_new(consume);
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
    redisReply *reply = consume_redis_append(consume->broker, 5, words, error) < 0
                            ? NULL
                            : consume_redis_receive(consume->broker, p, "BUSYGROUP", error);
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
        consume_redis_ask(redis, p, redis->counts && place->count ? 7 : 5, words, "NOGROUP", error);
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

static const char *group_of(const struct consume *consume) {
    return consume->config->consume.redis.group;
}

static const char *way_out(const struct consume *consume) {
    return consume->config->fleet.lease > 0
               ? "begin with another examples.redis.group, and give each daemon of the fleet "
                 "another state.directory"
               : "give this daemon a directory and a group of its own with state.directory and "
                 "examples.redis.group";
}

static void say_short(struct consume *consume, struct consume_partition *p,
                      const struct about *about) {
    char end[REDIS_ID_SIZE], place[REDIS_ID_SIZE];
    redis_id_print(end, about->last_first, about->last_second);
    redis_id_print(place, p->first, p->second);
    if (!p->short_said)
        log_warning("%s: %s ends at %s, before %s, up to which the group %s has learned it: it was "
                    "made again, or Redis has lost what it had; entries are read whose ids are "
                    "above that, and for others %s",
                    consume->endpoint, p->stream, end, place, group_of(consume), way_out(consume));
    p->short_said = true;
}

/* What comes to a stream that ends before what is learned, and still does then, is never read. */
static int check_short(struct consume *consume, struct consume_partition *p,
                       const struct about *about, struct error *error) {
    char end[REDIS_ID_SIZE], place[REDIS_ID_SIZE];
    const int64_t entries = about->added >= 0 ? about->added : about->length;
    bool learned = p->first || p->second;
    bool ends_short =
        learned && compare(p->first, p->second, about->last_first, about->last_second) > 0;
    bool more = ends_short && p->is_short && entries > p->short_count;
    if (ends_short && !p->is_short)
        p->short_count = entries;
    p->is_short = ends_short;
    if (!more)
        return 0;
    redis_id_print(end, about->last_first, about->last_second);
    redis_id_print(place, p->first, p->second);
    return error_set(error, EX_DATAERR,
                     "%s: entries come to %s, the newest is %s, whose ids are not above %s, up to "
                     "which the group %s has learned it, and are not read: it was made again, or "
                     "the clock of Redis went back; let ids rise, or %s",
                     consume->endpoint, p->stream, end, place, group_of(consume), way_out(consume));
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
        say_short(consume, p, about);
    else
        p->short_said = false;
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

/* Under the mutex: all that was put. */
static bool is_durable(const struct consume_partition *p) {
    return p->durable.epoch == p->at.epoch && p->durable.sequence == p->at.sequence;
}

/* `between`: all that was read has been put. */
static int look(struct consume *consume, struct consume_partition *p, bool between,
                struct error *error) {
    struct redis *redis = consume->broker;
    struct about about;
    if (look_up(redis, p, &about, error) < 0)
        return -1;
    p->missing = about.exists ? 0 : p->missing ? p->missing : clock_ns();
    p->missing_said &= !about.exists;
    redis->counts = !about.exists || about.added >= 0;
    if (!about.exists) {
        p->grouped = false;
        p->is_short = true;
        p->short_count = 0;
        if (!p->first && !p->second) /* its first entry will be the first of all */
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
    bool commits = consume->commits;
    int64_t from = (int64_t)(durable.count ? durable.count : p->begun);
    bool began = durable.count || (!durable.epoch && !durable.sequence);
    if (p->counted && began && p->reading == p->generation && about.added >= 0)
        p->lag = about.added > from ? about.added - from : 0;
    if (between && is_durable(p) &&
        compare(p->first, p->second, about.newest_first, about.newest_second) >= 0)
        p->lag = 0; /* whatever was added, and was gone before it was read */
    pthread_mutex_unlock(&consume->mutex);
    if (!commits)
        return 0;
    if (!p->grouped && make_group(consume, p, error) < 0)
        return -1;
    bool moved = durable.epoch != p->committed.epoch || durable.sequence != p->committed.sequence;
    return moved && (durable.sequence || durable.epoch) ? tell_group(consume, p, &durable, error)
                                                        : 0;
}

/* Who writes to NAME where NAME.0, NAME.1 are read, or the other way round, would hear nothing.
   What is said of the stream that is there, or "". */
static int find_mistaken(const struct consume *consume, const struct consume_partition *p,
                         char said[MISTAKEN_SIZE], struct error *error) {
    const bool numbered = consume->config->consume.redis.partitions != 0;
    char name[CONSUME_NAME_SIZE];
    const char *words[] = {"TYPE", name};
    snprintf(name, sizeof name, numbered ? "%s" : "%s.0", consume->config->consume.redis.stream);
    redisReply *reply = consume_redis_ask(consume->broker, p, 2, words, "NOPERM", error);
    *said = '\0';
    if (!reply)
        return -1;
    if (reply->type == REDIS_REPLY_STATUS && !strcmp(reply->str, "stream"))
        snprintf(said, MISTAKEN_SIZE,
                 "; there is a stream %s, which is not read: examples.redis.partitions %s", name,
                 numbered ? "is set" : "is not set");
    freeReplyObject(reply);
    return 0;
}

/* One sentence for all that are not there, the first of them by name: some time after the first was
   missed, for partitions are started one after the other. */
static int say_missing(const struct consume *consume, struct error *error) {
    const struct redis *redis = consume->broker;
    const struct consume_partition *first = NULL;
    const uint64_t now = clock_ns();
    char names[MISSING_SAID * CONSUME_NAME_SIZE] = "", more[MORE_SIZE] = "";
    size_t count = 0, used = 0;
    bool due = false;
    for (size_t n = 0; n < redis->reading_count; n++) {
        const struct consume_partition *p = redis->reading[n];
        if (!p->missing || p->missing_said)
            continue;
        due |= now - p->missing >= LOOK_NS;
        first = first ? first : p;
        if (count++ < MISSING_SAID)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     count > 1 ? ", " : "", p->stream);
    }
    char mistaken[MISTAKEN_SIZE];
    if (!due)
        return 0;
    if (find_mistaken(consume, first, mistaken, error) < 0)
        return -1;
    for (size_t n = 0; n < redis->reading_count; n++)
        redis->reading[n]->missing_said = redis->reading[n]->missing != 0;
    if (count > MISSING_SAID)
        snprintf(more, sizeof more, " and %zu more", count - MISSING_SAID);
    log_info("%s: there %s no stream%s %s%s yet; %s read once somebody adds to it (XADD)%s",
             consume->endpoint, count == 1 ? "is" : "are", text_s(count), names, more,
             count == 1 ? "it is" : "each is", mistaken);
    return 0;
}

int consume_redis_look(struct consume *consume, bool between, struct error *error) {
    struct redis *redis = consume->broker;
    if (!redis->context)
        return error_set(error, EX_TEMPFAIL, "the connection has ended");
    if (clock_ns() < redis->due)
        return 0;
    int status = consume_redis_check_fleet(consume, error);
    for (size_t n = 0; n < redis->reading_count && status == 0; n++)
        status = look(consume, redis->reading[n], between, error);
    if (status == 0)
        status = say_missing(consume, error);
    if (status == 0)
        redis->due = clock_ns() + LOOK_NS;
    return status;
}
