#include <stdlib.h>
#include <string.h>

#include "fleet_machine_internal.h"

static void set_awaited(struct fleet_machine *machine, struct member *member, bool awaited) {
    machine->awaited += awaited;
    machine->awaited -= member->awaited;
    member->awaited = awaited;
}

void machine_await(struct fleet_machine *machine, struct member *member) {
    if (machine_lives(member, machine->time) && member->owned > 0 && !member->arrived)
        set_awaited(machine, member, true);
}

void machine_await_not(struct fleet_machine *machine, struct member *member) {
    set_awaited(machine, member, false);
}

/* ---- Closing ---- */

static int fill_in(const struct fleet_machine *machine, struct closed_round *closed) {
    size_t names = 1, wheres = 1;
    for (size_t n = 0; n < machine->member_count; n++)
        if (machine->members[n]->arrived) {
            names += strlen(machine->members[n]->name) + 1;
            wheres += strlen(machine->members[n]->where) + 1;
        }
    closed->names = malloc(names);
    closed->wheres = malloc(wheres);
    if (!closed->names || !closed->wheres)
        return -1;
    char *name = closed->names, *where = closed->wheres;
    *name = *where = '\0';
    for (size_t n = 0; n < machine->member_count; n++)
        if (machine->members[n]->arrived) {
            name = stpcpy(stpcpy(name, machine->members[n]->name), "\n");
            where = stpcpy(stpcpy(where, machine->members[n]->where), "\n");
        }
    return 0;
}

static int close_round(struct fleet_machine *machine) {
    struct closed_round *closed = &machine->closed[machine->round % ROUNDS_KEPT];
    free(closed->names);
    free(closed->wheres);
    *closed = (struct closed_round){.round = machine->round++};
    int result = fill_in(machine, closed);
    machine->arrived = 0;
    for (size_t n = machine->member_count; n-- > 0;) {
        struct member *member = machine->members[n];
        member->arrived = false;
        set_awaited(machine, member, false);
        machine_await(machine, member);
        machine_forget_if_idle(machine, member);
    }
    return result;
}

int machine_close_round(struct fleet_machine *machine, uint64_t lease) {
    if (machine->arrived == 0)
        return 0;
    machine_end_leases(machine);
    return machine->awaited == 0 || machine->time >= machine->since + lease ? close_round(machine)
                                                                            : 0;
}

/* ---- Commands ---- */

/* Longer than any lease: only all who are awaited close the round. */
#define FOR_EVER (UINT64_MAX / 2)

int machine_arrive(struct fleet_machine *machine, struct member *member,
                   const struct fleet_command *command, struct fleet_answer *answer) {
    if (command->serial && member->serial == command->serial) {
        answer->number = member->round;
        return 0;
    }
    if (machine->arrived == 0) {
        machine->since = machine->time;
        machine->version++;
    }
    machine->arrived += !member->arrived;
    member->arrived = true;
    set_awaited(machine, member, false);
    member->serial = command->serial;
    answer->number = member->round = machine->round;
    memcpy(member->where, command->where, sizeof member->where);
    return machine_close_round(machine, FOR_EVER);
}

int machine_pass(struct fleet_machine *machine, struct member *member,
                 const struct fleet_command *command) {
    if (command->round != machine->round)
        return 0;
    set_awaited(machine, member, false);
    return machine_close_round(machine, FOR_EVER);
}

/* ---- What is known ---- */

static const struct closed_round *find_closed(const struct fleet_machine *machine, uint64_t round) {
    const struct closed_round *closed = &machine->closed[round % ROUNDS_KEPT];
    return round > 0 && closed->round == round ? closed : NULL;
}

/* Whether one lease of those awaited is not over at that time. */
static bool is_awaited(const struct fleet_machine *machine, uint64_t time) {
    for (size_t n = 0; machine->awaited > 0 && n < machine->member_count; n++)
        if (machine->members[n]->awaited && machine_lives(machine->members[n], time))
            return true;
    return false;
}

enum fleet_round_state fleet_machine_round(const struct fleet_machine *machine, uint64_t round,
                                           uint64_t lease, uint64_t time, const char **names) {
    const struct closed_round *closed = find_closed(machine, round);
    *names = closed ? closed->names : NULL;
    if (closed)
        return FLEET_ROUND_CLOSED;
    if (time < machine->time)
        time = machine->time;
    bool due = round == machine->round && machine->arrived > 0 &&
               (time >= machine->since + lease || !is_awaited(machine, time));
    return due ? FLEET_ROUND_DUE : FLEET_ROUND_OPEN;
}

bool fleet_machine_where(const struct fleet_machine *machine, uint64_t round, const char *name,
                         char where[FLEET_WHERE_SIZE]) {
    const struct closed_round *closed = find_closed(machine, round);
    const char *one = closed ? closed->names : "", *its = closed ? closed->wheres : "";
    size_t size = strlen(name);
    for (; *one; one = strchr(one, '\n') + 1, its = strchr(its, '\n') + 1)
        if (strncmp(one, name, size) == 0 && one[size] == '\n') {
            size_t length = (size_t)(strchr(its, '\n') - its);
            if (length >= FLEET_WHERE_SIZE)
                return false;
            memcpy(where, its, length);
            where[length] = '\0';
            return true;
        }
    return false;
}
