#include "fleet_claims.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { ROOM_FIRST = 64 };

static size_t first_place(const struct fleet_claims *claims, uint64_t claim) {
    return hash_mix(claim, HASH_ODD) & (claims->room - 1);
}

/* Where the claim is, or would be. */
static size_t place_of(const struct fleet_claims *claims, uint64_t claim) {
    size_t place = first_place(claims, claim);
    while (claims->places[place].claim && claims->places[place].claim != claim)
        place = (place + 1) & (claims->room - 1);
    return place;
}

static int grow(struct fleet_claims *claims) {
    struct fleet_claims larger = {.room = claims->room ? 2 * claims->room : ROOM_FIRST};
    larger.places = calloc(larger.room, sizeof *larger.places);
    if (!larger.places)
        return -1;
    for (size_t n = 0; n < claims->room; n++)
        if (claims->places[n].claim)
            larger.places[place_of(&larger, claims->places[n].claim)] = claims->places[n];
    larger.count = claims->count;
    free(claims->places);
    *claims = larger;
    return 0;
}

void fleet_claims_free(struct fleet_claims *claims) {
    free(claims->places);
    *claims = (struct fleet_claims){.places = NULL};
}

const struct fleet_ended *fleet_claims_find(const struct fleet_claims *claims, uint64_t claim) {
    if (claims->count == 0 || claim == 0)
        return NULL;
    const struct fleet_ended *found = &claims->places[place_of(claims, claim)];
    return found->claim ? found : NULL;
}

int fleet_claims_put(struct fleet_claims *claims, const struct fleet_ended *ended) {
    if (2 * (claims->count + 1) > claims->room && grow(claims))
        return -1;
    struct fleet_ended *place = &claims->places[place_of(claims, ended->claim)];
    claims->count += place->claim == 0;
    *place = *ended;
    return 0;
}

/* What comes after it moves to where it is looked for. */
void fleet_claims_remove(struct fleet_claims *claims, uint64_t claim) {
    if (!fleet_claims_find(claims, claim))
        return;
    size_t mask = claims->room - 1, hole = place_of(claims, claim);
    for (size_t n = (hole + 1) & mask; claims->places[n].claim; n = (n + 1) & mask) {
        size_t first = first_place(claims, claims->places[n].claim);
        if (((n - first) & mask) >= ((n - hole) & mask)) {
            claims->places[hole] = claims->places[n];
            hole = n;
        }
    }
    claims->places[hole] = (struct fleet_ended){.claim = 0};
    claims->count--;
}
