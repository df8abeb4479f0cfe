#include "fleet_machine.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "fleet_state.h"

#define MS_PER_SECOND 1000.0
#define TIME_MAX ((uint64_t)INT64_MAX / 2) /* so that a lease can be added */

/* Longer than any lease: only all who are awaited close the round. */
#define FOR_EVER (UINT64_MAX / 2)

/* ---- What changes ---- */

static void set_awaited(struct fleet_machine *machine, struct member *member, bool awaited) {
    machine->awaited += awaited;
    machine->awaited -= member->awaited;
    member->awaited = awaited;
}

/* The open round waits for a member, if it lives and has a partition and is not there yet. */
static void await(struct fleet_machine *machine, struct member *member) {
    if (machine_lives(member, machine->time) && member->owned > 0 && !member->arrived)
        set_awaited(machine, member, true);
}

static void renew_lease(struct fleet_machine *machine, struct member *member, uint64_t lease) {
    bool was_leased = member->is_leased;
    member->lease_end = machine->time + lease;
    member->is_leased = true;
    if (member->lease_end < machine->lease_first)
        machine->lease_first = member->lease_end;
    if (was_leased)
        return;
    machine->version++;
    await(machine, member);
}

/* Those whose leases are over are no members. Only once there may be one: now and then. */
static void end_leases(struct fleet_machine *machine) {
    bool any = false;
    if (machine->time < machine->lease_first)
        return;
    machine->lease_first = UINT64_MAX;
    for (size_t n = 0; n < machine->member_count; n++) {
        struct member *member = machine->members[n];
        if (member->is_leased && !machine_lives(member, machine->time)) {
            any = true;
            member->is_leased = false;
            set_awaited(machine, member, false);
        }
        if (member->is_leased && member->lease_end < machine->lease_first)
            machine->lease_first = member->lease_end;
    }
    if (any)
        machine->version++;
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
        set_awaited(machine, partition->owner, false);
    partition->owner = NULL;
    return fleet_claims_put(&machine->ended, &ended);
}

static int finish_all(struct fleet_machine *machine, struct member *member) {
    for (size_t n = 0; member->owned > 0 && n < machine->partition_count; n++)
        if (machine->partitions[n].owner == member && finish(machine, &machine->partitions[n]))
            return -1;
    return 0;
}

/* Who has left, and of whom nothing is known any more, goes. */
static void forget_if_idle(struct fleet_machine *machine, struct member *member) {
    if (!member->is_listed && !member->arrived && member->owned == 0)
        machine_remove(machine, member);
}

/* ---- Rounds ---- */

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
        await(machine, member);
        forget_if_idle(machine, member);
    }
    return result;
}

/* Close it if somebody has arrived, and nobody is awaited or that is a lease ago. -1: out of
 * memory.
 */
static int close_if_due(struct fleet_machine *machine, uint64_t lease) {
    if (machine->arrived == 0)
        return 0;
    end_leases(machine);
    return machine->awaited == 0 || machine->time >= machine->since + lease ? close_round(machine)
                                                                            : 0;
}

static int arrive(struct fleet_machine *machine, struct member *member,
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
    return close_if_due(machine, FOR_EVER);
}

static int pass(struct fleet_machine *machine, struct member *member,
                const struct fleet_command *command) {
    if (command->round != machine->round)
        return 0;
    set_awaited(machine, member, false);
    return close_if_due(machine, FOR_EVER);
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
    machine->version++;
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
    end_leases(machine);
    answer->number = machine->version;
    return 0;
}

static int leave(struct fleet_machine *machine, struct member *member) {
    member->is_listed = member->is_leased = member->draining = false;
    member->serial = 0;
    set_awaited(machine, member, false);
    machine->version++;
    if (finish_all(machine, member))
        return -1;
    forget_if_idle(machine, member);
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
    machine->version++;
    await(machine, member);
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
    machine->version++;
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
        machine->version++;
    member->draining = true;
}

static void rebalance(struct fleet_machine *machine) {
    bool any = false;
    for (size_t n = 0; n < machine->member_count; n++) {
        any |= machine->members[n]->draining;
        machine->members[n]->draining = false;
    }
    if (any)
        machine->version++;
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
        return arrive(machine, member, command, answer);
    case FLEET_COMMAND_PASS:
        return pass(machine, member, command);
    case FLEET_COMMAND_ROUND:
        return command->round == machine->round ? close_if_due(machine, command->lease) : 0;
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

/* ---- What is known ---- */

uint64_t fleet_machine_time(const struct fleet_machine *machine) {
    return machine->time;
}

uint64_t fleet_machine_version(const struct fleet_machine *machine) {
    return machine->version;
}

struct fleet_kind fleet_machine_kind(const struct fleet_machine *machine) {
    return (struct fleet_kind){machine->stream, machine->digest, machine->partition_count,
                               machine->every};
}

struct fleet_namesake fleet_machine_namesake(const struct fleet_machine *machine,
                                             const char *name) {
    const struct member *member = machine_find(machine, name);
    return member && machine_lives(member, machine->time)
               ? (struct fleet_namesake){member->lease_end,
                                         (double)(member->lease_end - machine->time) /
                                             MS_PER_SECOND}
               : (struct fleet_namesake){0};
}

/* ---- The view ---- */

static int copy_daemon(const struct member *member, uint64_t time, struct fleet_daemon *daemon) {
    daemon->name = strdup(member->name);
    daemon->info = strdup(member->info);
    daemon->draining = member->draining;
    daemon->lease =
        member->is_leased ? ((double)member->lease_end - (double)time) / MS_PER_SECOND : 0;
    daemon->living = daemon->lease > 0;
    return daemon->name && daemon->info ? 0 : -1;
}

/* `listed`: (member_count,) where each is in the view, or -1. */
static int copy_daemons(const struct fleet_machine *machine, uint64_t time, int *listed,
                        struct fleet_view *view) {
    for (size_t n = 0; n < machine->member_count; n++) {
        listed[n] = -1;
        if (!machine->members[n]->is_listed)
            continue;
        listed[n] = (int)view->daemon_count;
        if (copy_daemon(machine->members[n], time, &view->daemons[view->daemon_count++]))
            return -1;
    }
    return 0;
}

static void copy_partitions(const struct fleet_machine *machine, const int *listed,
                            struct fleet_view *view) {
    for (size_t n = 0; n < machine->partition_count; n++) {
        const struct partition *partition = &machine->partitions[n];
        view->partitions[n] = (struct fleet_partition){
            .owner = partition->owner ? listed[partition->owner->place] : -1,
            .claim = partition->claim,
            .committed = partition->committed,
            .offset = partition->offset,
            .learned = partition->learned,
            .states = partition->streams};
    }
}

int fleet_machine_view(const struct fleet_machine *machine, uint64_t time, struct fleet_view *view,
                       struct error *error) {
    int *listed = malloc((machine->member_count + 1) * sizeof *listed);
    *view = (struct fleet_view){.version = machine->version};
    if (!listed)
        return error_no_memory(error);
    int result = -1;
    view->daemons = calloc(machine->member_count + 1, sizeof *view->daemons);
    if (!view->daemons ||
        copy_daemons(machine, time > machine->time ? time : machine->time, listed, view))
        goto done;
    if (machine->stream) {
        view->round = machine->round;
        view->arrived = machine->arrived;
        view->stream = strdup(machine->stream);
        view->digest = strdup(machine->digest);
        view->partitions = calloc(machine->partition_count + 1, sizeof *view->partitions);
        if (!view->stream || !view->digest || !view->partitions)
            goto done;
        view->partition_count = machine->partition_count;
        copy_partitions(machine, listed, view);
    }
    result = 0;
done:
    free(listed);
    if (result) {
        fleet_view_free(view);
        error_no_memory(error);
    }
    return result;
}

/* ---- Partitions and claims ---- */

bool fleet_machine_claim(const struct fleet_machine *machine, struct fleet_claim *claim) {
    if (claim->partition >= machine->partition_count)
        return false;
    const struct partition *partition = &machine->partitions[claim->partition];
    claim->claim = partition->claim;
    claim->committed = partition->committed;
    claim->offset = partition->offset;
    claim->learned = partition->learned;
    claim->states = partition->streams;
    return true;
}

const struct fleet_publication *fleet_machine_states(const struct fleet_machine *machine,
                                                     size_t partition, size_t *count) {
    bool is_there = partition < machine->partition_count;
    *count = is_there ? machine->partitions[partition].count : 0;
    return is_there ? machine->partitions[partition].states : NULL;
}

void fleet_machine_ended(const struct fleet_machine *machine, struct fleet_ended *ended) {
    const struct fleet_ended *found = fleet_claims_find(&machine->ended, ended->claim);
    const size_t partition = ended->partition;
    *ended = found ? *found : (struct fleet_ended){.claim = ended->claim};
    ended->partition = partition;
}

/* ---- What is known of rounds ---- */

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
