#include "fleet_replies.h"

#include <stdlib.h>
#include <string.h>

#include "brokers/redis_entry.h"

/* Parses numbers as the scripts write them, separated by one space. Rejects other forms, which
   damaged data may have: signs, and numbers too large for a journal. */
static bool read_numbers(const char *text, size_t count, uint64_t *numbers) {
    enum { TEN = 10, DIGITS_MAX = 19 };
    for (size_t n = 0; n < count; n++) {
        size_t digits = 0;
        if (n > 0 && *text++ != ' ')
            return false;
        for (numbers[n] = 0; *text >= '0' && *text <= '9' && digits < DIGITS_MAX; digits++)
            numbers[n] = numbers[n] * TEN + (uint64_t)(*text++ - '0');
        if (digits == 0 || numbers[n] > INT64_MAX || (*text != ' ' && *text != '\0'))
            return false;
    }
    return true;
}

const char *reply_text(const redisReply *reply, size_t element) {
    if (reply->type == REDIS_REPLY_ARRAY)
        reply = element < reply->elements ? reply->element[element] : NULL;
    return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS)
               ? reply->str
               : "";
}

bool reply_number(const redisReply *reply, uint64_t *number) {
    if (reply->type == REDIS_REPLY_INTEGER) {
        *number = (uint64_t)reply->integer;
        return reply->integer >= 0;
    }
    return reply->type == REDIS_REPLY_STRING && !strchr(reply->str, ' ') &&
           read_numbers(reply->str, 1, number);
}

bool reply_offset(const char *text, struct fleet_offset *offset) {
    enum { EPOCH, SEQUENCE, NUMBERS };
    uint64_t number[NUMBERS];
    if (!read_numbers(text, NUMBERS, number) || number[EPOCH] > UINT32_MAX)
        return false;
    *offset = (struct fleet_offset){(uint32_t)number[EPOCH], number[SEQUENCE]};
    return true;
}

bool reply_committed(const char *text, struct fleet_claim *claim) {
    claim->committed = *text != '\0';
    claim->offset = (struct fleet_offset){0};
    claim->learned = claim->states = 0;
    if (!claim->committed)
        return true;
    enum { LEARNED = 2, STATES, NUMBERS };
    uint64_t number[NUMBERS];
    if (!reply_offset(text, &claim->offset) || !read_numbers(text, NUMBERS, number))
        return false;
    claim->learned = number[LEARNED];
    claim->states = number[STATES];
    return true;
}

/* ---- Views ---- */

/* Elements of the reply to SCRIPT_LOOK. */
enum { TIME, FLEET, ARRIVED, WHOLE, LEASES, DRAINING, DAEMONS, OWNERS, OFFSETS, GONE, PARTS };

static bool is_good(const redisReply *reply) {
    uint64_t number;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != PARTS ||
        !reply_number(reply->element[TIME], &number) ||
        !reply_number(reply->element[ARRIVED], &number) ||
        !reply_number(reply->element[WHOLE], &number) ||
        reply->element[FLEET]->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t n = LEASES; n <= GONE; n++)
        if (reply->element[n]->type != REDIS_REPLY_ARRAY)
            return false;
    return true;
}

/* ---- The fleet ---- */

/* Skips the version before the digest. */
static const char *digest_of(const redisReply *digest) {
    const char *text = reply_text(digest, 0), *colon = strstr(text, ": ");
    return colon ? colon + 2 : text;
}

static int make_view(const redisReply *fleet, uint64_t partitions, struct fleet_view *view) {
    view->stream = strdup(reply_text(redis_member(fleet, "stream"), 0));
    view->digest = strdup(digest_of(redis_member(fleet, "digest")));
    view->partitions = calloc(partitions + 1, sizeof *view->partitions);
    if (!view->stream || !view->digest || !view->partitions)
        return REPLY_NO_MEMORY;
    view->partition_count = partitions;
    for (size_t n = 0; n < partitions; n++)
        view->partitions[n].owner = -1;
    return 0;
}

/* A fleet that does not exist is valid. */
static int read_fleet(const redisReply *fleet, struct fleet_view *view) {
    const redisReply *version = redis_member(fleet, "version"),
                     *round = redis_member(fleet, "round");
    const redisReply *count = redis_member(fleet, "partitions");
    uint64_t partitions;
    if (fleet->elements == 0)
        return view->stream ? REPLY_NONSENSE : 0;
    if (!version || !round || !count || !redis_member(fleet, "stream") ||
        !redis_member(fleet, "digest") || !reply_number(version, &view->version) ||
        !reply_number(round, &view->round) || !reply_number(count, &partitions) ||
        partitions == 0 || partitions > FLEET_PARTITIONS_MAX)
        return REPLY_NONSENSE;
    if (view->stream)
        return partitions == view->partition_count ? 0 : REPLY_NONSENSE;
    return make_view(fleet, partitions, view);
}

/* ---- Daemons ---- */

/* Reads the daemons of the reply, by name. */
static int read_news(const redisReply *reply, struct fleet_view *news) {
    const redisReply *daemons = reply->element[DAEMONS], *leases = reply->element[LEASES];
    const redisReply *draining = reply->element[DRAINING];
    const double now = strtod(reply_text(reply, TIME), NULL);
    int found;
    news->daemons = calloc(daemons->elements / 2 + 1, sizeof *news->daemons);
    if (!news->daemons)
        return REPLY_NO_MEMORY;
    for (size_t n = 0; n + 1 < daemons->elements; n += 2) {
        struct fleet_daemon *daemon = &news->daemons[news->daemon_count++];
        daemon->name = strdup(reply_text(daemons, n));
        daemon->info = strdup(reply_text(daemons, n + 1));
        if (!daemon->name || !daemon->info)
            return REPLY_NO_MEMORY;
    }
    fleet_view_sort(news);
    for (size_t n = 0; n + 1 < leases->elements; n += 2)
        if ((found = fleet_view_find(news, reply_text(leases, n))) >= 0) {
            double left = (strtod(reply_text(leases, n + 1), NULL) - now) / 1000;
            news->daemons[found].lease = left;
            news->daemons[found].living = left > 0;
        }
    for (size_t n = 0; n < draining->elements; n++)
        if ((found = fleet_view_find(news, reply_text(draining, n))) >= 0)
            news->daemons[found].draining = true;
    return 0;
}

/* Clears `stays` of the daemons that have news or are gone: (before->daemon_count,), all true at
   first. */
static void mark_replaced(const redisReply *gone, const struct fleet_view *news,
                          const struct fleet_view *before, bool *stays) {
    int found;
    for (size_t n = 0; n < news->daemon_count; n++)
        if ((found = fleet_view_find(before, news->daemons[n].name)) >= 0)
            stays[found] = false;
    for (size_t n = 0; n < gone->elements; n++)
        if ((found = fleet_view_find(before, reply_text(gone, n))) >= 0)
            stays[found] = false;
}

/* Owners are indexes of daemons, which have changed. */
static void find_owners_again(const struct fleet_view *before, int *now, struct fleet_view *view) {
    for (size_t d = 0; d < before->daemon_count; d++)
        now[d] = fleet_view_find(view, before->daemons[d].name);
    for (size_t p = 0; p < view->partition_count; p++)
        if (view->partitions[p].owner >= 0)
            view->partitions[p].owner = now[view->partitions[p].owner];
}

/* Moves the remaining daemons and the news into the view, which has no daemons yet. */
static int merge_daemons(const redisReply *gone, struct fleet_view *before, struct fleet_view *news,
                         struct fleet_view *view) {
    const size_t count = before->daemon_count;
    bool *stays = malloc((count + 1) * sizeof *stays);
    int *now = malloc((count + 1) * sizeof *now);
    view->daemons = calloc(count + news->daemon_count + 1, sizeof *view->daemons);
    int result = stays && now && view->daemons ? 0 : REPLY_NO_MEMORY;
    if (result)
        goto end;
    for (size_t d = 0; d < count; d++)
        stays[d] = true;
    mark_replaced(gone, news, before, stays);
    for (size_t d = 0; d < count; d++)
        if (stays[d])
            view->daemons[view->daemon_count++] = before->daemons[d];
    for (size_t n = 0; n < news->daemon_count; n++)
        view->daemons[view->daemon_count++] = news->daemons[n];
    fleet_view_sort(view);
    find_owners_again(before, now, view);
    for (size_t d = 0; d < count; d++)
        if (stays[d])
            before->daemons[d] = (struct fleet_daemon){0};
    news->daemon_count = 0;
end:
    free(stays);
    free(now);
    return result;
}

static int read_daemons(const redisReply *reply, struct fleet_view *view) {
    const redisReply *gone = reply->element[GONE];
    struct fleet_view before = {.daemons = view->daemons, .daemon_count = view->daemon_count};
    struct fleet_view news = {0};
    if (reply->element[DAEMONS]->elements == 0 && gone->elements == 0)
        return 0;
    view->daemons = NULL;
    view->daemon_count = 0;
    int result = read_news(reply, &news);
    if (result == 0)
        result = merge_daemons(gone, &before, &news, view);
    fleet_view_free(&before);
    fleet_view_free(&news);
    return result;
}

/* ---- Partitions ---- */

/* Returns the partition of a hash's entry, or NULL. */
static struct fleet_partition *partition_of(const redisReply *hash, size_t n,
                                            struct fleet_view *view) {
    uint64_t partition;
    return reply_number(hash->element[n], &partition) && partition < view->partition_count
               ? &view->partitions[partition]
               : NULL;
}

static int read_owners(const redisReply *owners, struct fleet_view *view) {
    for (size_t n = 0; n + 1 < owners->elements; n += 2) {
        struct fleet_partition *partition = partition_of(owners, n, view);
        const char *text = reply_text(owners, n + 1), *name = strchr(text, ' ');
        if (!partition || !name || !read_numbers(text, 1, &partition->claim))
            return REPLY_NONSENSE;
        partition->owner = name[1] ? fleet_view_find(view, name + 1) : -1;
    }
    return 0;
}

static int read_offsets(const redisReply *offsets, struct fleet_view *view) {
    for (size_t n = 0; n + 1 < offsets->elements; n += 2) {
        struct fleet_partition *partition = partition_of(offsets, n, view);
        struct fleet_claim claim;
        if (!partition || !reply_committed(reply_text(offsets, n + 1), &claim))
            return REPLY_NONSENSE;
        partition->committed = claim.committed;
        partition->offset = claim.offset;
        partition->learned = claim.learned;
        partition->states = claim.states;
    }
    return 0;
}

int reply_view(const redisReply *reply, struct fleet_view *view) {
    uint64_t arrived, whole;
    int result;
    if (!is_good(reply))
        return REPLY_NONSENSE;
    reply_number(reply->element[ARRIVED], &arrived);
    reply_number(reply->element[WHOLE], &whole);
    if (whole)
        fleet_view_free(view);
    view->arrived = arrived;
    if ((result = read_fleet(reply->element[FLEET], view)) ||
        (result = read_daemons(reply, view)) ||
        (result = read_owners(reply->element[OWNERS], view)))
        return result;
    return read_offsets(reply->element[OFFSETS], view);
}
