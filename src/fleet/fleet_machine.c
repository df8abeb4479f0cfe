#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "fleet_machine_internal.h"

#define TIME_MAX ((uint64_t)INT64_MAX / 2) /* so that a lease can be added */

/* ---- What changes ---- */

static void changed(struct fleet_machine *machine) {
    machine->version++;
}

static void renew_lease(struct fleet_machine *machine, struct member *member, uint64_t lease) {
    bool was_leased = member->is_leased;
    member->lease_end = machine->time + lease;
    member->is_leased = true;
    if (member->lease_end < machine->lease_first)
        machine->lease_first = member->lease_end;
    if (was_leased)
        return;
    changed(machine);
    machine_await(machine, member);
}

void machine_end_leases(struct fleet_machine *machine) {
    bool any = false;
    if (machine->time < machine->lease_first)
        return;
    machine->lease_first = UINT64_MAX;
    for (size_t n = 0; n < machine->member_count; n++) {
        struct member *member = machine->members[n];
        if (member->is_leased && !machine_lives(member, machine->time)) {
            any = true;
            member->is_leased = false;
            machine_await_not(machine, member);
        }
        if (member->is_leased && member->lease_end < machine->lease_first)
            machine->lease_first = member->lease_end;
    }
    if (any)
        changed(machine);
}

static int replace(char **text, const char *with) {
    char *copy = strdup(with);
    if (!copy)
        return -1;
    free(*text);
    *text = copy;
    return 0;
}

/* The claim ends, and who had it can learn of it. The owner is not forgotten here. */
static int finish(struct fleet_machine *machine, struct partition *partition) {
    const struct fleet_ended ended = {.claim = partition->claim,
                                      .is_over = true,
                                      .is_known = partition->committed,
                                      .offset = partition->offset};
    if (--partition->owner->owned == 0)
        machine_await_not(machine, partition->owner);
    partition->owner = NULL;
    return fleet_claims_put(&machine->ended, &ended);
}

static int finish_all(struct fleet_machine *machine, struct member *member) {
    for (size_t n = 0; member->owned > 0 && n < machine->partition_count; n++)
        if (machine->partitions[n].owner == member && finish(machine, &machine->partitions[n]))
            return -1;
    return 0;
}

/* ---- Commands, each -1 when out of memory ---- */

static bool differs(const struct fleet_machine *machine, const struct fleet_command *command,
                    struct fleet_answer *answer) {
    if (!machine->stream)
        return false;
    if (strcmp(machine->stream, command->stream) != 0)
        answer->verdict = FLEET_STREAM;
    else if (machine->partition_count != command->partitions)
        answer->verdict = FLEET_PARTITIONS;
    else if (strcmp(machine->digest, command->digest) != 0)
        answer->verdict = FLEET_DIGEST;
    else if (machine->every != command->every)
        answer->verdict = FLEET_AVERAGE;
    return answer->verdict != FLEET_DONE;
}

/* Another daemon with the name: what the first had is nobody's. */
static int take_name(struct fleet_machine *machine, struct member *member, const char *id) {
    changed(machine);
    return finish_all(machine, member) || replace(&member->id, id) ? -1 : 0;
}

static int join(struct fleet_machine *machine, const struct fleet_command *command,
                struct fleet_answer *answer) {
    const struct fleet_kind kind = {command->stream, command->digest, command->partitions,
                                    command->every};
    struct member *member = machine_find(machine, command->name);
    if (member && strcmp(member->id, command->id) == 0 && strcmp(member->run, command->run) == 0 &&
        command->number <= member->number) {
        answer->verdict = FLEET_REPEATED;
        return 0;
    }
    if (differs(machine, command, answer))
        return 0;
    bool is_another = !member || strcmp(member->id, command->id) != 0;
    if (member && is_another && machine_lives(member, machine->time)) {
        answer->verdict = FLEET_NAMESAKE;
        return 0;
    }
    if ((!machine->stream && machine_found(machine, &kind)) ||
        (!member && !(member = machine_add(machine, command->name))) ||
        (is_another && take_name(machine, member, command->id)) ||
        replace(&member->run, command->run) ||
        replace(&member->info, command->info ? command->info : "{}"))
        return -1;
    member->number = command->number;
    member->is_listed = true;
    renew_lease(machine, member, command->lease);
    return 0;
}

static int renew(struct fleet_machine *machine, struct member *member,
                 const struct fleet_command *command, struct fleet_answer *answer) {
    if (command->info && replace(&member->info, command->info))
        return -1;
    member->is_listed = true;
    renew_lease(machine, member, command->lease);
    machine_end_leases(machine);
    answer->number = machine->version;
    return 0;
}

static int leave(struct fleet_machine *machine, struct member *member) {
    member->is_listed = member->is_leased = member->draining = false;
    member->serial = 0;
    machine_await_not(machine, member);
    changed(machine);
    if (finish_all(machine, member))
        return -1;
    machine_forget_if_idle(machine, member);
    return 0;
}

static int take_one(struct fleet_machine *machine, struct member *member,
                    const struct fleet_take *take, uint64_t *claim) {
    struct partition *partition = &machine->partitions[take->partition];
    struct member *before = partition->owner;
    if (partition->claim != take->claim || (before && machine_lives(before, machine->time)))
        return 0;
    if (before && finish(machine, partition))
        return -1;
    member->owned++;
    partition->owner = member;
    *claim = partition->claim = ++machine->claim;
    return 0;
}

static int take(struct fleet_machine *machine, struct member *member,
                const struct fleet_command *command) {
    const uint64_t claim = machine->claim;
    if (!machine_lives(member, machine->time))
        return 0;
    for (size_t n = 0; n < command->count; n++)
        if (command->takes[n].partition < machine->partition_count &&
            take_one(machine, member, &command->takes[n], &machine->results[n]))
            return -1;
    if (machine->claim == claim)
        return 0;
    changed(machine);
    machine_await(machine, member);
    return 0;
}

/* The same commit once more, since its answer was lost. */
static bool is_published(const struct partition *partition, const struct fleet_learned *commit) {
    return partition->serial == commit->serial && partition->by == commit->claim;
}

/* Whether the states can be as many as the daemon says: each row is one more or one less, and those
   of a whole publication are all. */
static bool is_complete(const struct partition *partition, const struct fleet_learned *commit) {
    if (commit->rows == 0 || is_published(partition, commit))
        return commit->streams == (commit->whole ? commit->rows : partition->streams);
    if (commit->whole)
        return commit->streams == commit->rows;
    return partition->count < FLEET_PUBLICATIONS_MAX &&
           commit->streams <= partition->streams + commit->rows &&
           partition->streams <= commit->streams + commit->rows;
}

static int add_publication(struct partition *partition, const struct fleet_learned *commit) {
    if (partition->count == partition->room) {
        size_t room = partition->room ? 2 * partition->room : 1;
        void *states = realloc(partition->states, room * sizeof *partition->states);
        if (!states)
            return -1;
        partition->states = states;
        partition->room = room;
    }
    struct fleet_publication *added = &partition->states[partition->count++];
    *added = (struct fleet_publication){
        .claim = commit->claim, .serial = commit->serial, .rows = commit->rows};
    memcpy(added->where, commit->where, sizeof added->where);
    return 0;
}

static int publish(struct partition *partition, const struct fleet_learned *commit) {
    if (commit->whole)
        partition->count = 0;
    partition->serial = commit->serial;
    partition->by = commit->claim;
    return commit->rows ? add_publication(partition, commit) : 0;
}

static int commit_one(struct fleet_machine *machine, struct partition *partition,
                      const struct fleet_learned *commit, bool release) {
    if (commit->serial && !is_published(partition, commit) && publish(partition, commit))
        return -1;
    partition->committed = true;
    partition->offset = commit->offset;
    partition->learned = commit->learned;
    partition->streams = commit->streams;
    if (!release)
        return 0;
    changed(machine);
    return finish(machine, partition);
}

/* Whether the claim has ended just there. */
static bool ended_like_this(const struct fleet_machine *machine,
                            const struct fleet_learned *commit) {
    const struct fleet_ended *ended = fleet_claims_find(&machine->ended, commit->claim);
    return ended && ended->is_known && ended->offset.epoch == commit->offset.epoch &&
           ended->offset.sequence == commit->offset.sequence;
}

static int commit(struct fleet_machine *machine, struct member *member,
                  const struct fleet_command *command) {
    for (size_t n = 0; n < command->count; n++) {
        const struct fleet_learned *one = &command->commits[n];
        struct partition *partition =
            one->partition < machine->partition_count ? &machine->partitions[one->partition] : NULL;
        machine->results[n] = FLEET_REFUSED;
        if (!partition || partition->owner != member || partition->claim != one->claim) {
            if (partition && command->release && ended_like_this(machine, one))
                machine->results[n] = FLEET_COMMITTED;
        } else if (!is_complete(partition, one)) {
            machine->results[n] = FLEET_INCOMPLETE;
        } else {
            machine->results[n] = FLEET_COMMITTED;
            if (commit_one(machine, partition, one, command->release))
                return -1;
        }
    }
    return 0;
}

static void drain(struct fleet_machine *machine, const char *name, struct fleet_answer *answer) {
    struct member *member = machine_find(machine, name);
    if (!member || !machine_lives(member, machine->time)) {
        answer->verdict = FLEET_ABSENT;
        return;
    }
    if (!member->draining)
        changed(machine);
    member->draining = true;
}

static void rebalance(struct fleet_machine *machine) {
    bool any = false;
    for (size_t n = 0; n < machine->member_count; n++) {
        any |= machine->members[n]->draining;
        machine->members[n]->draining = false;
    }
    if (any)
        changed(machine);
}

/* ---- Applying ---- */

static enum fleet_verdict judge(const struct member *member, const struct fleet_command *command) {
    if (!member)
        return FLEET_STRANGER;
    if (strcmp(member->id, command->id) != 0)
        return FLEET_NAMESAKE;
    if (strcmp(member->run, command->run) != 0)
        return FLEET_STALE;
    return command->number <= member->number ? FLEET_REPEATED : FLEET_DONE;
}

static int apply_of_member(struct fleet_machine *machine, const struct fleet_command *command,
                           struct fleet_answer *answer) {
    struct member *member = machine_find(machine, command->name);
    answer->verdict = judge(member, command);
    if (answer->verdict != FLEET_DONE)
        return 0;
    member->number = command->number;
    switch (command->kind) {
    case FLEET_COMMAND_RENEW:
        return renew(machine, member, command, answer);
    case FLEET_COMMAND_LEAVE:
        return leave(machine, member);
    case FLEET_COMMAND_TAKE:
        return take(machine, member, command);
    case FLEET_COMMAND_COMMIT:
        return commit(machine, member, command);
    case FLEET_COMMAND_SETTLE:
        for (size_t n = 0; n < command->count; n++)
            fleet_claims_remove(&machine->ended, command->settled[n]);
        return 0;
    case FLEET_COMMAND_ARRIVE:
        return machine_arrive(machine, member, command, answer);
    case FLEET_COMMAND_PASS:
        return machine_pass(machine, member, command);
    case FLEET_COMMAND_ROUND:
        return command->round == machine->round ? machine_close_round(machine, command->lease) : 0;
    default:
        return 0;
    }
}

static int make_results(struct fleet_machine *machine, size_t count) {
    if (count > machine->results_room) {
        uint64_t *results = realloc(machine->results, count * sizeof *results);
        if (!results)
            return -1;
        machine->results = results;
        machine->results_room = count;
    }
    if (count)
        memset(machine->results, 0, count * sizeof *machine->results);
    return 0;
}

void fleet_machine_skip(struct fleet_machine *machine, uint64_t time) {
    if (time > machine->time && time <= TIME_MAX)
        machine->time = time;
}

int fleet_machine_apply(struct fleet_machine *machine, uint64_t time,
                        const struct fleet_command *command, struct fleet_answer *answer,
                        struct error *error) {
    int result = make_results(machine, command->count);
    *answer = (struct fleet_answer){.results = machine->results};
    fleet_machine_skip(machine, time);
    if (result == 0 && command->kind == FLEET_COMMAND_JOIN)
        result = join(machine, command, answer);
    else if (result == 0 && command->kind == FLEET_COMMAND_DRAIN)
        drain(machine, command->target, answer);
    else if (result == 0 && command->kind == FLEET_COMMAND_REBALANCE)
        rebalance(machine);
    else if (result == 0)
        result = apply_of_member(machine, command, answer);
    return result ? error_no_memory(error) : 0;
}
