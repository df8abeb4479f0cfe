#include "fleet_assign.h"

/* One more for the daemon that now has the most of those that have none more yet: what it has need
   not move. Of equals the first. */
static void give_more(size_t daemons, const size_t *has, size_t *room, size_t least) {
    size_t chosen = daemons;
    for (size_t d = 0; d < daemons; d++)
        if (room[d] == least && (chosen == daemons || has[d] > has[chosen]))
            chosen = d;
    room[chosen]++;
}

static void share_out(size_t partitions, size_t daemons, const size_t *has, size_t *room) {
    size_t least = partitions / daemons;
    for (size_t d = 0; d < daemons; d++)
        room[d] = least;
    for (size_t more = partitions % daemons; more > 0; more--)
        give_more(daemons, has, room, least);
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
