#include "fleet_replies.h"

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
    *number = strtoull(reply->str, &end, 10);
    return *end == '\0';
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

bool reply_states(const char *text, uint64_t *serial, uint64_t *claim) {
    return sscanf(text, "%*u %*u %*u %*u %" SCNu64 " %" SCNu64, serial, claim) == 2;
}

bool reply_is_scan(const redisReply *reply) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[1]->type == REDIS_REPLY_ARRAY && *reply_text(reply, 0);
}

/* ---- The view ---- */

/* As answered, in the order of SCRIPT_LOOK. */
enum { TIME, FLEET, LEASES, DRAINING, DAEMONS, OWNERS, OFFSETS, ARRIVED, PARTS };

static bool is_good(const redisReply *reply) {
    uint64_t number;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != PARTS ||
        !reply_number(reply->element[TIME], &number) ||
        !reply_number(reply->element[ARRIVED], &number))
        return false;
    for (size_t n = FLEET; n <= OFFSETS; n++)
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

static int read_fleet(const redisReply *fleet, uint64_t partitions_max, struct fleet_view *view) {
    const redisReply *version = value_of(fleet, "version"), *round = value_of(fleet, "round");
    const redisReply *count = value_of(fleet, "partitions"), *stream = value_of(fleet, "stream");
    const redisReply *digest = value_of(fleet, "digest");
    uint64_t partitions;
    if (!version || !round || !count || !stream || !digest)
        return fleet->elements ? REPLY_NONSENSE : 0;
    if (!reply_number(version, &view->version) || !reply_number(round, &view->round) ||
        !reply_number(count, &partitions) || partitions > partitions_max)
        return REPLY_NONSENSE;
    view->stream = strdup(stream->str);
    view->digest = strdup(digest->str);
    view->partitions = calloc(partitions + 1, sizeof *view->partitions);
    if (!view->stream || !view->digest || !view->partitions)
        return REPLY_NO_MEMORY;
    view->partition_count = partitions;
    for (size_t n = 0; n < partitions; n++)
        view->partitions[n].owner = -1;
    return 0;
}

static int by_name(const void *a, const void *b) {
    const struct fleet_daemon *one = a, *other = b;
    return strcmp(one->name, other->name);
}

static bool has(const redisReply *set, const char *name) {
    for (size_t n = 0; n < set->elements; n++)
        if (!strcmp(reply_text(set, n), name))
            return true;
    return false;
}

static int read_daemons(const redisReply *reply, struct fleet_view *view) {
    const redisReply *all = reply->element[DAEMONS];
    double now = strtod(reply_text(reply, TIME), NULL);
    view->daemons = calloc(all->elements / 2 + 1, sizeof *view->daemons);
    if (!view->daemons)
        return REPLY_NO_MEMORY;
    for (size_t n = 0; n + 1 < all->elements; n += 2) {
        struct fleet_daemon *daemon = &view->daemons[view->daemon_count++];
        daemon->name = strdup(reply_text(all, n));
        daemon->info = strdup(reply_text(all, n + 1));
        if (!daemon->name || !daemon->info)
            return REPLY_NO_MEMORY;
        const redisReply *ends = value_of(reply->element[LEASES], daemon->name);
        daemon->lease = ends ? (strtod(ends->str, NULL) - now) / 1000 : 0;
        daemon->living = daemon->lease > 0;
        daemon->draining = has(reply->element[DRAINING], daemon->name);
    }
    qsort(view->daemons, view->daemon_count, sizeof *view->daemons, by_name);
    return 0;
}

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
        if (!partition || !name)
            return REPLY_NONSENSE;
        partition->claim = strtoull(text, NULL, 10);
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
    uint64_t arrived;
    if (!is_good(reply))
        return REPLY_NONSENSE;
    int result = read_fleet(reply->element[FLEET], FLEET_PARTITIONS_MAX, view);
    if (result || (result = read_daemons(reply, view)) ||
        (result = read_owners(reply->element[OWNERS], view)))
        return result;
    reply_number(reply->element[ARRIVED], &arrived);
    view->arrived = arrived;
    return read_offsets(reply->element[OFFSETS], view);
}
