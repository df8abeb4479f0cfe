#include "orders.h"

#include <math.h>

#include "common/random.h"

enum { COUNT_BITS = 20, COUNT_MASK = (1 << COUNT_BITS) - 1, CHECK_SHIFT = 64 - 32 + COUNT_BITS };
enum { WAYS = 8, NEWEST = 64 };

/* Returns the entry of a hash, or the one to replace: that with the least count of WAYS places. */
static uint32_t *find(struct orders *orders, uint64_t hash) {
    uint32_t *first = orders->counts + hash % (ORDERS_ENTRIES / WAYS) * WAYS, *least = first;
    for (uint32_t *at = first; at < first + WAYS; at++) {
        if (*at >> COUNT_BITS == hash >> CHECK_SHIFT && *at & COUNT_MASK)
            return at;
        least = (*at & COUNT_MASK) < (*least & COUNT_MASK) ? at : least;
    }
    return least;
}

static double count_of(uint32_t entry, uint64_t hash) {
    return entry >> COUNT_BITS == hash >> CHECK_SHIFT ? entry & COUNT_MASK : 0;
}

static void increase(uint32_t *entry, uint64_t hash) {
    uint32_t count = (uint32_t)count_of(*entry, hash);
    *entry =
        (uint32_t)(hash >> CHECK_SHIFT) << COUNT_BITS | (count < COUNT_MASK ? count + 1 : count);
}

void orders_take(struct orders *orders, const struct symbols_place *place, uint32_t symbol,
                 size_t seen, bool learn, double *losses) {
    uint64_t context = 0;
    for (uint64_t n = 1; n <= ORDERS_BASELINES; n++) {
        uint32_t back = place->steps >= n ? place->newest[(place->steps - n) % NEWEST] : UINT32_MAX;
        context = random_mix(context + back + 1) + n;
        uint64_t all = random_mix(context),
                 one = random_mix(context ^ ((uint64_t)symbol + 1) << 32);
        uint32_t *total = find(orders, all), *count = find(orders, one);
        double m = fmin(count_of(*count, one), count_of(*total, all));
        losses[n - 1] = log((count_of(*total, all) + (double)seen / 2) / (m + 0.5));
        /* A total that cannot count on keeps its followers: their sum must not exceed it. */
        if (!learn || count_of(*total, all) >= COUNT_MASK)
            continue;
        increase(total, all);
        increase(find(orders, one), one);
    }
}
