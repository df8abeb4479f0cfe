#include "fleet_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"

enum { ROOM_FIRST = 16, CLAIMS_FIRST = 64 };

/* ---- Opening and closing ---- */

struct fleet_machine *fleet_machine_open(struct error *error) {
    struct fleet_machine *machine = calloc(1, sizeof *machine);
    if (machine)
        machine->round = 1;
    else
        error_no_memory(error);
    return machine;
}

static void free_member(struct member *member) {
    free(member->name);
    free(member->id);
    free(member->run);
    free(member->info);
    free(member);
}

void fleet_machine_close(struct fleet_machine **closed) {
    struct fleet_machine *machine = *closed;
    if (!machine)
        return;
    for (size_t n = 0; n < machine->member_count; n++)
        free_member(machine->members[n]);
    for (size_t n = 0; n < machine->partition_count; n++)
        free(machine->partitions[n].states);
    for (size_t n = 0; n < ROUNDS_KEPT; n++) {
        free(machine->closed[n].names);
        free(machine->closed[n].wheres);
    }
    free(machine->members);
    free(machine->partitions);
    free(machine->results);
    free(machine->stream);
    free(machine->digest);
    free(machine->ended.places);
    free(machine);
    *closed = NULL;
}

/* ---- Members ---- */

size_t machine_place(const struct fleet_machine *machine, const char *name) {
    size_t first = 0, end = machine->member_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (strcmp(machine->members[middle]->name, name) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

struct member *machine_find(const struct fleet_machine *machine, const char *name) {
    size_t place = machine_place(machine, name);
    return place < machine->member_count && strcmp(machine->members[place]->name, name) == 0
               ? machine->members[place]
               : NULL;
}

static int make_room(struct fleet_machine *machine) {
    if (machine->member_count < machine->member_room)
        return 0;
    size_t room = machine->member_room ? 2 * machine->member_room : ROOM_FIRST;
    struct member **members = realloc(machine->members, room * sizeof *members);
    if (!members)
        return -1;
    machine->members = members;
    machine->member_room = room;
    return 0;
}

struct member *machine_add(struct fleet_machine *machine, const char *name) {
    struct member *member = calloc(1, sizeof *member);
    if (!member)
        return NULL;
    member->name = strdup(name);
    member->id = strdup("");
    member->run = strdup("");
    member->info = strdup("{}");
    if (!member->name || !member->id || !member->run || !member->info || make_room(machine)) {
        free_member(member);
        return NULL;
    }
    member->place = machine_place(machine, name);
    for (size_t n = machine->member_count++; n > member->place; n--) {
        machine->members[n] = machine->members[n - 1];
        machine->members[n]->place = n;
    }
    return machine->members[member->place] = member;
}

void machine_remove(struct fleet_machine *machine, struct member *member) {
    for (size_t n = member->place; n + 1 < machine->member_count; n++) {
        machine->members[n] = machine->members[n + 1];
        machine->members[n]->place = n;
    }
    machine->member_count--;
    free_member(member);
}

/* ---- The fleet ---- */

int machine_found(struct fleet_machine *machine, const struct fleet_kind *kind) {
    machine->stream = strdup(kind->stream);
    machine->digest = strdup(kind->digest);
    machine->every = kind->every;
    machine->partition_count = kind->partitions;
    machine->partitions = calloc(kind->partitions + 1, sizeof *machine->partitions);
    return machine->stream && machine->digest && machine->partitions ? 0 : -1;
}

/* ---- Claims that have ended ---- */

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
    struct fleet_claims larger = {.room = claims->room ? 2 * claims->room : CLAIMS_FIRST};
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
