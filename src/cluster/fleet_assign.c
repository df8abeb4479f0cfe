#include "fleet_assign.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/error.h"
#include "fleet_link.h"

static size_t count_above(size_t daemons, const size_t *has, size_t limit) {
    size_t count = 0;
    for (size_t d = 0; d < daemons; d++)
        count += has[d] > limit;
    return count;
}

/* One more for those that now have the most: what they have need not move. Of equals the first. */
static void share_out(size_t partitions, size_t daemons, const size_t *has, size_t *room) {
    size_t least = partitions / daemons, more = partitions % daemons;
    size_t limit = 0, high = partitions; /* limit: above it are not more than `more` */
    while (limit < high) {
        size_t middle = limit + (high - limit) / 2;
        if (count_above(daemons, has, middle) <= more)
            high = middle;
        else
            limit = middle + 1;
    }
    size_t equals = more - count_above(daemons, has, limit);
    for (size_t d = 0; d < daemons; d++) {
        bool is_equal = has[d] == limit && equals > 0;
        room[d] = least + (has[d] > limit || is_equal);
        equals -= is_equal;
    }
}

void fleet_assign(size_t partitions, size_t daemons, const int *owner, int *to, size_t *room) {
    size_t *has = room + daemons, next = 0;
    for (size_t d = 0; d < daemons; d++)
        has[d] = 0;
    for (size_t p = 0; p < partitions; p++) {
        to[p] = owner[p];
        if (to[p] != FLEET_NOBODY)
            has[to[p]]++;
    }
    if (daemons == 0)
        return;
    share_out(partitions, daemons, has, room);
    for (size_t p = 0; p < partitions; p++)
        if (to[p] != FLEET_NOBODY && room[to[p]] > 0)
            room[to[p]]--;
        else
            to[p] = FLEET_NOBODY;
    for (size_t p = 0; p < partitions; p++) {
        if (to[p] != FLEET_NOBODY)
            continue;
        while (room[next] == 0)
            next = (next + 1) % daemons;
        to[p] = (int)next;
        room[next]--;
        next = (next + 1) % daemons;
    }
}

int fleet_assign_view(struct fleet_view *view, struct error *error) {
    const size_t partitions = view->partition_count, daemons = view->daemon_count;
    int *owner = calloc(2 * partitions + 2 * daemons + 1, sizeof *owner), count = 0;
    int *to = owner + partitions, *number = to + partitions, *daemon = number + daemons;
    size_t *room = calloc(2 * daemons + 1, sizeof *room);
    for (size_t d = 0; owner && d < daemons; d++) {
        const bool takes_part = view->daemons[d].living && !view->daemons[d].draining;
        number[d] = takes_part ? count : FLEET_NOBODY;
        if (takes_part)
            daemon[count++] = (int)d;
    }
    for (size_t p = 0; owner && p < partitions; p++)
        owner[p] = view->partitions[p].owner < 0 ? FLEET_NOBODY : number[view->partitions[p].owner];
    if (owner && room)
        fleet_assign(partitions, (size_t)count, owner, to, room);
    for (size_t p = 0; owner && room && p < partitions; p++)
        view->partitions[p].to = to[p] == FLEET_NOBODY ? -1 : daemon[to[p]];
    const bool good = owner && room;
    free(owner);
    free(room);
    return good ? 0 : error_no_memory(error);
}
