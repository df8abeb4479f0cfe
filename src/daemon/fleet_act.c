/* What a daemon of a fleet does next, by what it sees: one job at a time. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/log.h"
#include "consuming.h"
#include "fleet/fleet_assign.h"
#include "fleet_internal.h"
#include "parts.h"

/* ---- Jobs ---- */

void fleet_ask(struct daemon *daemon, struct fleet_job *job) {
    struct fleet *fleet = daemon->fleet;
    fleet->busy = true;
    fleet->has_view = false;
    fleet_worker_ask(fleet->worker, job);
}

static int ask_for(struct daemon *daemon, enum fleet_job_kind kind, const size_t *partitions,
                   size_t count, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct fleet_job *job = fleet_job_new(kind, count);
    if (!job)
        return error_no_memory(error);
    for (size_t n = 0; n < count; n++) {
        const struct fleet_partition *known = &fleet->view.partitions[partitions[n]];
        job->claims[n] = (struct fleet_claim){.partition = partitions[n],
                                              .claim = known->claim,
                                              .committed = known->committed,
                                              .offset = known->offset,
                                              .learned = known->learned,
                                              .states = known->states};
        job->ended[n] = (struct fleet_ended){.claim = fleet->shares[partitions[n]].claim,
                                             .partition = partitions[n]};
    }
    fleet_ask(daemon, job);
    return 0;
}

int fleet_release(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    for (size_t p = 0; p < fleet->count; p++)
        if (fleet->shares[p].state == SHARE_LEAVES && consume_is_read(daemon->consume, p))
            consume_stop(daemon->consume, p);
    struct fleet_job *job = fleet_export(daemon, SHARE_LEAVES, error);
    if (!job)
        return -1;
    job->release = true;
    fleet_ask(daemon, job);
    return 0;
}

int fleet_commit(struct daemon *daemon, struct error *error) {
    struct fleet_job *job = fleet_export(daemon, SHARE_OWNED, error);
    if (!job)
        return -1;
    fleet_ask(daemon, job);
    return 0;
}

static int settle(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct fleet_job *job = fleet_job_new(FLEET_JOB_SETTLE, fleet->settle_count);
    if (!job)
        return error_no_memory(error);
    memcpy(job->settled, fleet->settle, fleet->settle_count * sizeof *fleet->settle);
    fleet->settle_count = 0;
    fleet_ask(daemon, job);
    return 0;
}

/* ---- What is to be done ---- */

/* Partitions that fit, into a list (count,) of their numbers. */
typedef bool fits(const struct fleet *fleet, int self, size_t partition);

static size_t choose(const struct fleet *fleet, int self, fits *fit, size_t *list) {
    size_t count = 0;
    for (size_t p = 0; p < fleet->count; p++)
        if (fit(fleet, self, p))
            list[count++] = p;
    return count;
}

static bool is_mine(const struct fleet *fleet, int self, size_t p) {
    const struct fleet_partition *known = &fleet->view.partitions[p];
    return known->owner == self && known->claim == fleet->shares[p].claim;
}

static bool is_kept(const struct fleet *fleet, int self, size_t p) {
    return fleet->shares[p].state == SHARE_KEPT && is_mine(fleet, self, p);
}

static bool is_lost(const struct fleet *fleet, int self, size_t p) {
    const struct share *share = &fleet->shares[p];
    return share->state == SHARE_LOST || (share->state != SHARE_AWAY && !is_mine(fleet, self, p));
}

static bool is_to_begin(const struct fleet *fleet, int self, size_t p) {
    return fleet->shares[p].state == SHARE_AWAY && fleet->view.partitions[p].owner == self;
}

/* What was read before the daemon was started goes on where the journal ends. */
static int keep(struct daemon *daemon, const size_t *list, size_t count, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    for (size_t n = 0; n < count; n++) {
        struct journal_place row = {0};
        struct share *share = &fleet->shares[list[n]];
        journal_place(daemon->journal, share->number, &row);
        const struct consume_place place = {row.epoch, row.sequence, row.count};
        if (consuming_start(daemon, list[n], &place, error))
            return -1;
        share->state = SHARE_OWNED;
        share->published = fleet->view.partitions[list[n]].offset;
    }
    if (count)
        log_info("%zu partition%s still this daemon's", count, count == 1 ? " is" : "s are");
    return 0;
}

static int lose(struct daemon *daemon, const size_t *list, size_t count, struct error *error) {
    for (size_t n = 0; n < count; n++) {
        daemon->fleet->shares[list[n]].state = SHARE_LOST;
        if (consume_is_read(daemon->consume, list[n]))
            consume_stop(daemon->consume, list[n]);
    }
    return ask_for(daemon, FLEET_JOB_ENDED, list, count, error);
}

/* What the broker has lost of partitions that are read goes there again. */
static void doubt_commits(struct fleet *fleet) {
    for (size_t p = 0; p < fleet->count; p++) {
        const struct fleet_offset *known = &fleet->view.partitions[p].offset;
        struct share *share = &fleet->shares[p];
        if (share->state == SHARE_OWNED && (known->epoch != share->published.epoch ||
                                            known->sequence != share->published.sequence)) {
            share->whole = true;
            fleet->committed = false;
        }
    }
}

static bool has_ended(const struct fleet *fleet, int self, size_t p) {
    (void)self;
    return fleet->shares[p].state == SHARE_AWAY && fleet->held.ends[p].claim;
}

/* Whether the broker still has what this daemon committed of partitions that it has no more. */
static int ask_for_ends(struct daemon *daemon, const size_t *list, size_t count,
                        struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct fleet_job *job = fleet_job_new(FLEET_JOB_ENDED, count);
    if (!job)
        return error_no_memory(error);
    for (size_t n = 0; n < count; n++)
        job->ended[n] =
            (struct fleet_ended){.claim = fleet->held.ends[list[n]].claim, .partition = list[n]};
    job->release = true;
    fleet_ask(daemon, job);
    return 0;
}

/* Who has what, among those who may have something; and who is to. `number` is (daemons,), the
   numbers of those, in the order of their names. */
static void assign(const struct fleet *fleet, int *owner, int *to, int *number, size_t *room) {
    const struct fleet_view *view = &fleet->view;
    int count = 0;
    for (size_t d = 0; d < view->daemon_count; d++)
        number[d] = view->daemons[d].living && !view->daemons[d].draining ? count++ : FLEET_NOBODY;
    for (size_t p = 0; p < fleet->count; p++)
        owner[p] = view->partitions[p].owner < 0 ? FLEET_NOBODY : number[view->partitions[p].owner];
    fleet_assign(fleet->count, (size_t)count, owner, to, room);
}

static bool is_free(const struct fleet_view *view, size_t partition) {
    int owner = view->partitions[partition].owner;
    return owner < 0 || !view->daemons[owner].living;
}

/* What it has too much goes, or else what it is to have comes. */
static int move(struct daemon *daemon, int self, const int *to, size_t *list, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    size_t leaving = 0, coming = 0;
    for (size_t p = 0; p < fleet->count; p++) {
        struct share *share = &fleet->shares[p];
        if (share->state == SHARE_OWNED && to[p] != self) {
            share->state = SHARE_LEAVES;
            leaving++;
        }
        if (share->state == SHARE_AWAY && to[p] == self && self != FLEET_NOBODY &&
            is_free(&fleet->view, p))
            list[coming++] = p;
    }
    if (leaving)
        return fleet_release(daemon, error);
    return coming ? ask_for(daemon, FLEET_JOB_TAKE, list, coming, error) : 0;
}

static int share_out(struct daemon *daemon, int self, size_t *list, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    size_t daemons = fleet->view.daemon_count + 1;
    int *owner = calloc(2 * fleet->count + daemons + 1, sizeof *owner);
    size_t *room = calloc(2 * daemons, sizeof *room);
    int result = -1;
    if (owner && room) {
        int *to = owner + fleet->count, *number = to + fleet->count;
        assign(fleet, owner, to, number, room);
        result = move(daemon, number[self], to, list, error);
    } else {
        error_no_memory(error);
    }
    free(owner);
    free(room);
    return result;
}

static int act_with(struct daemon *daemon, int self, size_t *list, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    size_t count;
    if ((count = choose(fleet, self, is_kept, list)) && keep(daemon, list, count, error))
        return -1;
    if ((count = choose(fleet, self, is_lost, list)))
        return lose(daemon, list, count, error);
    if (fleet->doubts) {
        fleet->doubts = false;
        doubt_commits(fleet);
        if ((count = choose(fleet, self, has_ended, list)))
            return ask_for_ends(daemon, list, count, error);
    }
    if ((count = choose(fleet, self, is_to_begin, list)))
        return ask_for(daemon, FLEET_JOB_BEGIN, list, count, error);
    if (!fleet->committed)
        return fleet_commit(daemon, error);
    return fleet->gone ? 0 : share_out(daemon, self, list, error);
}

/* With a view that is of now, and nothing asked. */
int fleet_act(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    int self = fleet_view_find(&fleet->view, fleet->self.name);
    if (fleet->settle_count)
        return settle(daemon, error);
    if (self < 0) /* it has just left, or the broker has lost it: the worker joins again */
        return 0;
    if (fleet->view.partition_count != fleet->count) {
        error_set(error, EX_UNAVAILABLE,
                  "the fleet %s at %s has %zu partitions by now, and not %zu: something else has "
                  "written there",
                  fleet->self.group, fleet->about->where, fleet->view.partition_count,
                  fleet->count);
        return -1;
    }
    size_t *list = malloc((fleet->count + 1) * sizeof *list);
    if (!list)
        return error_no_memory(error);
    int result = act_with(daemon, self, list, error);
    free(list);
    return result;
}
