#include "fleet_replies.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *reply_text(const redisReply *reply, size_t element) {
    if (reply->type == REDIS_REPLY_ARRAY)
        reply = element < reply->elements ? reply->element[element] : NULL;
    return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS)
               ? reply->str
               : "";
}

bool reply_number(const redisReply *reply, uint64_t *number) {
    char *end;
    if (reply->type == REDIS_REPLY_INTEGER) {
        *number = (uint64_t)reply->integer;
        return reply->integer >= 0;
    }
    if (reply->type != REDIS_REPLY_STRING || reply->str[0] < '0' || reply->str[0] > '9')
        return false;
    errno = 0;
    *number = strtoull(reply->str, &end, 10);
    return *end == '\0' && errno == 0;
}

bool reply_offset(const char *text, struct fleet_offset *offset) {
    return sscanf(text, "%" SCNu32 " %" SCNu64, &offset->epoch, &offset->sequence) == 2;
}

bool reply_committed(const char *text, struct fleet_claim *claim) {
    claim->committed = *text != '\0';
    claim->offset = (struct fleet_offset){0};
    claim->learned = claim->states = 0;
    return !claim->committed ||
           sscanf(text, "%" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64, &claim->offset.epoch,
                  &claim->offset.sequence, &claim->learned, &claim->states) == 4;
}

/* ---- The view ---- */

/* As answered, in the order of SCRIPT_LOOK. */
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

/* Of a hash: the value of a key; NULL: it is not there. */
static const redisReply *value_of(const redisReply *hash, const char *key) {
    for (size_t n = 0; n + 1 < hash->elements; n += 2)
        if (!strcmp(reply_text(hash, n), key))
            return hash->element[n + 1];
    return NULL;
}

static bool has(const redisReply *set, const char *name) {
    for (size_t n = 0; n < set->elements; n++)
        if (!strcmp(reply_text(set, n), name))
            return true;
    return false;
}

/* ---- The fleet ---- */

/* Without the form that stands before it. */
static const char *digest_of(const redisReply *digest) {
    const char *text = reply_text(digest, 0), *colon = strstr(text, ": ");
    return colon ? colon + 2 : text;
}

static int make_view(const redisReply *fleet, uint64_t partitions, struct fleet_view *view) {
    view->stream = strdup(reply_text(value_of(fleet, "stream"), 0));
    view->digest = strdup(digest_of(value_of(fleet, "digest")));
    view->partitions = calloc(partitions + 1, sizeof *view->partitions);
    if (!view->stream || !view->digest || !view->partitions)
        return REPLY_NO_MEMORY;
    view->partition_count = partitions;
    for (size_t n = 0; n < partitions; n++)
        view->partitions[n].owner = -1;
    return 0;
}

/* A fleet that has never been is no nonsense. */
static int read_fleet(const redisReply *fleet, struct fleet_view *view) {
    const redisReply *version = value_of(fleet, "version"), *round = value_of(fleet, "round");
    const redisReply *count = value_of(fleet, "partitions");
    uint64_t partitions;
    if (fleet->elements == 0)
        return view->stream ? REPLY_NONSENSE : 0;
    if (!version || !round || !count || !value_of(fleet, "stream") || !value_of(fleet, "digest") ||
        !reply_number(version, &view->version) || !reply_number(round, &view->round) ||
        !reply_number(count, &partitions) || partitions == 0 || partitions > FLEET_PARTITIONS_MAX)
        return REPLY_NONSENSE;
    if (view->stream)
        return partitions == view->partition_count ? 0 : REPLY_NONSENSE;
    return make_view(fleet, partitions, view);
}

/* ---- Daemons ---- */

static int by_name(const void *a, const void *b) {
    const struct fleet_daemon *one = a, *other = b;
    return strcmp(one->name, other->name);
}

static int read_daemon(const redisReply *reply, size_t n, struct fleet_daemon *daemon) {
    double now = strtod(reply_text(reply, TIME), NULL);
    daemon->name = strdup(reply_text(reply->element[DAEMONS], n));
    daemon->info = strdup(reply_text(reply->element[DAEMONS], n + 1));
    if (!daemon->name || !daemon->info)
        return REPLY_NO_MEMORY;
    const redisReply *ends = value_of(reply->element[LEASES], daemon->name);
    daemon->lease = ends ? (strtod(reply_text(ends, 0), NULL) - now) / 1000 : 0;
    daemon->living = daemon->lease > 0;
    daemon->draining = has(reply->element[DRAINING], daemon->name);
    return 0;
}

/* Owners are places among the daemons, which are others now. */
static int find_owners_again(const struct fleet_daemon *before, size_t count,
                             struct fleet_view *view) {
    int *now = malloc((count + 1) * sizeof *now);
    if (!now)
        return REPLY_NO_MEMORY;
    for (size_t d = 0; d < count; d++)
        now[d] = fleet_view_find(view, before[d].name);
    for (size_t p = 0; p < view->partition_count; p++)
        if (view->partitions[p].owner >= 0)
            view->partitions[p].owner = now[view->partitions[p].owner];
    free(now);
    return 0;
}

static int add_known(const redisReply *reply, const struct fleet_daemon *known,
                     struct fleet_view *view) {
    struct fleet_daemon *daemon = &view->daemons[view->daemon_count];
    if (value_of(reply->element[DAEMONS], known->name) || has(reply->element[GONE], known->name))
        return 0;
    *daemon = *known;
    daemon->name = strdup(known->name);
    daemon->info = strdup(known->info);
    view->daemon_count++;
    return daemon->name && daemon->info ? 0 : REPLY_NO_MEMORY;
}

static int merge_daemons(const redisReply *reply, const struct fleet_daemon *before, size_t count,
                         struct fleet_view *view) {
    const redisReply *news = reply->element[DAEMONS];
    view->daemon_count = 0;
    view->daemons = calloc(count + news->elements / 2 + 1, sizeof *view->daemons);
    if (!view->daemons)
        return REPLY_NO_MEMORY;
    for (size_t d = 0; d < count; d++)
        if (add_known(reply, &before[d], view))
            return REPLY_NO_MEMORY;
    for (size_t n = 0; n + 1 < news->elements; n += 2)
        if (read_daemon(reply, n, &view->daemons[view->daemon_count++]))
            return REPLY_NO_MEMORY;
    qsort(view->daemons, view->daemon_count, sizeof *view->daemons, by_name);
    return find_owners_again(before, count, view);
}

static int read_daemons(const redisReply *reply, struct fleet_view *view) {
    struct fleet_view before = {.daemons = view->daemons, .daemon_count = view->daemon_count};
    if (reply->element[DAEMONS]->elements == 0 && reply->element[GONE]->elements == 0)
        return 0;
    int result = merge_daemons(reply, before.daemons, before.daemon_count, view);
    fleet_view_free(&before);
    return result;
}

/* ---- Partitions ---- */

/* The partition that an entry of a hash is about; NULL: none. */
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
        char *end;
        if (!partition || !name || *text < '0' || *text > '9')
            return REPLY_NONSENSE;
        partition->claim = strtoull(text, &end, 10);
        if (end != name)
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
