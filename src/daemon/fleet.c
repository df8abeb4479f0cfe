#include "fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "consume/consume.h"
#include "fleet/carry.h"
#include "fleet_internal.h"
#include "learner/example.h"
#include "moving.h"
#include "parts.h"

#define HAND_OVER_MIN 5.0 /* seconds, when stopping; else a lease */

/* ---- Which partition ---- */

size_t fleet_partition_of(const struct daemon *daemon, const char *key, size_t key_size) {
    return consume_partition_of(daemon->consume, daemon->fleet->count, key, key_size);
}

bool fleet_refuses(const struct daemon *daemon, const struct example *example, char *why,
                   size_t size) {
    const struct fleet *fleet = daemon->fleet;
    if (!fleet)
        return false;
    size_t belongs = fleet_partition_of(daemon, example->key, example->key_size);
    if (fleet->shares[belongs].number == example->partition)
        return false;
    snprintf(why, size, "its stream belongs to %s, %s", consume_title(daemon->consume, belongs),
             fleet->about->belongs);
    return true;
}

/* By hand: the stream must be this daemon's. */
static int may_adopt(const struct daemon *daemon, const char *key, size_t key_size,
                     struct error *error) {
    const struct fleet *fleet = daemon->fleet;
    if (!fleet->shares)
        return error_set(error, EX_UNAVAILABLE,
                         "this daemon has not joined the fleet %s yet, and has no stream of it: "
                         "try again when it has",
                         fleet->self.group);
    size_t belongs = fleet_partition_of(daemon, key, key_size);
    if (fleet->shares[belongs].state == SHARE_OWNED)
        return 0;
    return error_set(error, EX_UNAVAILABLE,
                     "the stream belongs to %s, which is not this daemon's in the fleet %s: "
                     "runnel-fleet --partitions says whose it is, and that one can adopt it",
                     consume_title(daemon->consume, belongs), fleet->self.group);
}

/* ---- Opening and closing ---- */

/* What a daemon has learned alone has no claims: the fleet would learn it once more. */
static int check_alone(const struct daemon *daemon, struct error *error) {
    const struct fleet *fleet = daemon->fleet;
    struct journal_place place;
    if (fleet_held_is_there(daemon->config->state_directory))
        return 0;
    for (size_t p = 0; p < fleet->count; p++) {
        const char *name = consume_name(daemon->consume, p);
        if (journal_place(daemon->journal, journal_partition(daemon->journal, name), &place))
            return error_set(
                error, EX_CONFIG,
                "fleet.lease: a lone daemon has learned %s with state.directory %s, and the fleet "
                "%s would learn all of it once more: begin with another state.directory "
                "(runnel-ctl "
                "export and import take the parameters along), or without fleet.lease",
                strchr(name, ':') + 1, daemon->config->state_directory, fleet->self.group);
    }
    return 0;
}

static int check_carry(struct daemon *daemon, struct error *error) {
    struct carry *carry;
    if (carry_open(&carry, daemon->config, daemon->learner, NULL, error))
        return error_prefix(error, "fleet");
    carry_close(&carry);
    return 0;
}

static int open_shares(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    fleet->count = consume_partitions(daemon->consume);
    fleet->shares = calloc(fleet->count + 1, sizeof *fleet->shares);
    if (!fleet->shares)
        return error_no_memory(error);
    if (check_alone(daemon, error) || fleet_held_open(&fleet->held, daemon->config->state_directory,
                                                      fleet->self.group, fleet->count, error))
        return -1;
    for (size_t p = 0; p < fleet->count; p++) {
        struct share *share = &fleet->shares[p];
        share->number = journal_partition(daemon->journal, consume_name(daemon->consume, p));
        share->claim = fleet->held.claims[p];
        share->state = share->claim ? SHARE_KEPT : SHARE_AWAY;
        share->whole = true;
    }
    return 0;
}

static int open_worker(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct fleet_link *link;
    fleet->self.id = fleet->held.id;
    fleet->self.partitions = fleet->count;
    char *info = fleet_info(daemon);
    int result = consume_link(daemon->consume, &fleet->self, &link, error) ||
                         fleet_worker_open(&fleet->worker, link, &fleet->self, fleet->about->where,
                                           info, error)
                     ? -1
                     : 0;
    free(info);
    return result;
}

/* Join, once it is known how many partitions there are: Kafka says so when it answers. */
static int begin(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    if (consume_partitions(daemon->consume) == 0)
        return 0;
    if (open_shares(daemon, error) || open_worker(daemon, error))
        return -1;
    log_info("fleet %s at %s: %s of %zu partition%s", fleet->self.group, fleet->about->where,
             fleet->self.name, fleet->count, text_s(fleet->count));
    return 0;
}

static const struct checkpoints_guard guard;

int fleet_open(struct daemon *daemon, struct error *error) {
    if (daemon->config->fleet.lease <= 0)
        return 0;
    struct fleet *fleet = daemon->fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        return error_no_memory(error);
    if (check_carry(daemon, error))
        return -1;
    fleet->about = consume_about(daemon->consume);
    fleet->self = (struct fleet_self){.group = fleet->about->group,
                                      .stream = fleet->about->stream,
                                      .name = daemon->config->name,
                                      .every = daemon->config->fleet.average_every,
                                      .lease = daemon->config->fleet.lease};
    fleet->serial = clock_unix() > 0 ? (uint64_t)(clock_unix() * 1e6) : 0;
    fleet->average_at = fleet_next_average(daemon);
    checkpoints_guard(daemon, &guard);
    moving_ask(daemon, may_adopt);
    return begin(daemon, error);
}

void fleet_close(struct daemon *daemon) {
    struct fleet *fleet = daemon->fleet;
    if (!fleet)
        return;
    fleet_worker_close(&fleet->worker, fleet->gone);
    fleet_held_close(&fleet->held);
    fleet_view_free(&fleet->view);
    json_decref(fleet->differences);
    free(fleet->members);
    free(fleet->owners);
    free(fleet->settle);
    free(fleet->shares);
    free(fleet);
    daemon->fleet = NULL;
}

int fleet_descriptor(const struct daemon *daemon) {
    bool joins = daemon->fleet && daemon->fleet->worker;
    return joins ? fleet_worker_descriptor(daemon->fleet->worker) : -1;
}

/* ---- The loop ---- */

/* Of commits that are refused the next view says whose the partitions are; what is incomplete is
   committed again, with all states. */
static void committed(struct fleet *fleet, const struct fleet_job *job) {
    bool all = true;
    for (size_t n = 0; n < job->count; n++)
        all &= !job->commits[n].refused && !job->commits[n].incomplete;
    fleet->committed = all;
}

static int finish_job(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    switch (job->kind) {
    case FLEET_JOB_TAKE:
    case FLEET_JOB_BEGIN:
        return fleet_begin(daemon, job, error);
    case FLEET_JOB_COMMIT:
        if (fleet_published(daemon, job, error))
            return -1;
        if (job->release)
            return fleet_released(daemon, job, error);
        committed(daemon->fleet, job);
        return 0;
    case FLEET_JOB_ENDED:
        return job->release ? fleet_compare_ends(daemon, job, error)
                            : fleet_come_back(daemon, job, error);
    case FLEET_JOB_AVERAGE:
        return fleet_averaged(daemon, job, error);
    case FLEET_JOB_SETTLE:
        break;
    }
    return 0;
}

static void take_view(struct fleet *fleet, struct fleet_view *view) {
    fleet_view_free(&fleet->view);
    fleet->view = *view;
    fleet->has_view = !fleet->busy && view->jobs == fleet->jobs;
    fleet->doubts |= view->anew;
    fleet->compared = false;
}

/* One job that is done, and the newest view. 1: a job was done. */
static int poll_worker(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct fleet_job *done;
    struct fleet_view view;
    bool seen;
    if (fleet_worker_poll(fleet->worker, &done, &view, &seen, error))
        return -1;
    int result = 0;
    if (done) {
        fleet->busy = false;
        fleet->jobs++;
        if (done->failed && done->kind != FLEET_JOB_AVERAGE) {
            *error = done->error;
            result = -1;
        } else {
            result = finish_job(daemon, done, error) ? -1 : 1;
        }
        fleet_job_free(done);
    }
    if (seen)
        take_view(fleet, &view);
    return result;
}

/* The partition of a stream depends on how many there are. */
static int has_grown(const struct daemon *daemon, struct error *error) {
    const struct fleet *fleet = daemon->fleet;
    return error_set(error, EX_CONFIG,
                     "the topic %s has %zu partitions now, and the fleet %s began with %zu: what "
                     "each stream belongs to has changed; use another examples.kafka.group",
                     fleet->self.stream, consume_partitions(daemon->consume), fleet->self.group,
                     fleet->count);
}

int fleet_turn(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    if (!fleet)
        return 0;
    if (!fleet->worker)
        return begin(daemon, error);
    if (consume_partitions(daemon->consume) != fleet->count)
        return has_grown(daemon, error);
    fleet_tell(daemon);
    fleet_give_up_averaging(daemon);
    fleet_pass(daemon);
    if (poll_worker(daemon, error) < 0)
        return -1;
    if (fleet->busy)
        return 0;
    if (fleet_averages_now(daemon))
        return fleet_average(daemon, error);
    return fleet->has_view ? fleet_act(daemon, error) : 0;
}

/* ---- Checkpoints ---- */

static bool may_begin(const struct daemon *daemon) {
    const struct fleet *fleet = daemon->fleet;
    if (fleet->busy || !fleet->committed)
        return false;
    for (size_t p = 0; p < fleet->count; p++)
        if (fleet->shares[p].state == SHARE_LOST || fleet->shares[p].state == SHARE_KEPT)
            return false;
    return true;
}

static int begins(struct daemon *daemon, struct error *error) {
    daemon->fleet->committed = false;
    return fleet_commit(daemon, error);
}

static const struct checkpoints_guard guard = {may_begin, begins};

/* ---- The end ---- */

static int wait_until_idle(struct daemon *daemon, double end, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    while (fleet->busy && clock_seconds() < end) {
        fleet_worker_wait(fleet->worker, end - clock_seconds());
        if (poll_worker(daemon, error) < 0)
            return -1;
    }
    return 0;
}

int fleet_hand_over(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    if (!fleet || !fleet->worker)
        return 0;
    double lease = fleet->self.lease;
    double end = clock_seconds() + (lease > HAND_OVER_MIN ? lease : HAND_OVER_MIN);
    size_t owned = 0;
    fleet->gone = true;
    fleet->averaging = false;
    if (wait_until_idle(daemon, end, error))
        return -1;
    if (fleet->busy)
        return 0;
    for (size_t p = 0; p < fleet->count; p++)
        if (fleet->shares[p].state == SHARE_OWNED) {
            fleet->shares[p].state = SHARE_LEAVES;
            owned++;
        }
    if (owned == 0)
        return 0;
    if (fleet_release(daemon, error) || wait_until_idle(daemon, end, error))
        return -1;
    fleet->committed |= !fleet->busy;
    return 0;
}
