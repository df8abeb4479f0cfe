#include "fleet_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

enum { ROOM_FIRST = 16 };

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
    fleet_claims_free(&machine->ended);
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
