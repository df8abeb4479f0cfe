#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "fleet_machine_internal.h"

#define MS_PER_SECOND 1000.0

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
