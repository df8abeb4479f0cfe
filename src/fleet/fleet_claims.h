/* Claims that have ended, each with the offset at which it did: a table by their numbers. */
#ifndef RUNNEL_FLEET_CLAIMS_H
#define RUNNEL_FLEET_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet_link.h"

/* All zeros is an empty one. Of an entry `is_over` is always true; claim 0 is a free place. */
struct fleet_claims {
    struct fleet_ended *places; /* (room,) a power of two, never full */
    size_t count, room;
};
void fleet_claims_free(struct fleet_claims *claims);

/* The entry of a claim, until the next change; NULL: it has not ended. */
const struct fleet_ended *fleet_claims_find(const struct fleet_claims *claims, uint64_t claim);

/* Add a claim, or change it. -1: out of memory. */
int fleet_claims_put(struct fleet_claims *claims, const struct fleet_ended *ended);
void fleet_claims_remove(struct fleet_claims *claims, uint64_t claim);

#endif
