#include "fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "build-config.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/text.h"
#include "consume/consume.h"
#include "consume/consume_broker.h"
#include "fleet/carry.h"
#include "fleet/fleet_redis.h"
#include "fleet_internal.h"
#include "learner/example.h"
#include "parts.h"

#define HAND_OVER_MIN 5.0 /* seconds, when stopping; else a lease */

enum { NUMBER_SIZE = 24 };

/* ---- Which partition ---- */

/* "STREAM.3", as messages without a key of their own are called: 3. */
static bool is_named(const struct daemon *daemon, const char *key, size_t key_size,
                     size_t *partition) {
    const char *stream = daemon->fleet->self.stream;
    char name[CONFIG_ADDRESS_SIZE + NUMBER_SIZE];
    size_t size = strlen(stream);
    if (key_size <= size + 1 || key_size >= size + NUMBER_SIZE || memcmp(key, stream, size) != 0 ||
        key[size] != '.')
        return false;
    memcpy(name, key, key_size);
    name[key_size] = '\0';
    *partition = strtoul(name + size + 1, NULL, 10);
    int length = snprintf(name, sizeof name, "%s.%zu", stream, *partition);
    return *partition < daemon->fleet->count && (size_t)length == key_size &&
           memcmp(name, key, key_size) == 0;
}

size_t fleet_partition_of(const struct daemon *daemon, const char *key, size_t key_size) {
    size_t partition;
    if (is_named(daemon, key, key_size, &partition))
        return partition;
    return hash_bytes(HASH_BEGIN, key, key_size) % daemon->fleet->count;
}

bool fleet_refuses(const struct daemon *daemon, const struct example *example, char *why,
                   size_t size) {
    const struct fleet *fleet = daemon->fleet;
    if (!fleet)
        return false;
    size_t belongs = fleet_partition_of(daemon, example->key, example->key_size);
    if (fleet->shares[belongs].number == example->partition)
        return false;
    snprintf(
        why, size,
        "its stream belongs to %s.%zu, by the FNV-1a hash of its key: whoever writes must choose "
        "partitions so",
        fleet->self.stream, belongs);
    return true;
}

/* ---- Opening and closing ---- */

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
    if (fleet_held_open(&fleet->held, daemon->config->state_directory,
                        daemon->config->consume.redis.group, fleet->count, error))
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

#ifdef RUNNEL_REDIS
static int open_link(struct fleet *fleet, struct fleet_link **link, struct error *error) {
    return fleet_redis_open(link, &fleet->url, &fleet->self, error);
}
#else
static int open_link(struct fleet *fleet, struct fleet_link **link, struct error *error) {
    (void)fleet, (void)link;
    return error_set(error, EX_UNAVAILABLE, "fleet.lease: this runneld was built without hiredis");
}
#endif

static int open_worker(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    const struct config *config = daemon->config;
    struct fleet_link *link;
    if (consume_redis_url(config, &fleet->url, error))
        return -1;
    fleet->self = (struct fleet_self){.group = config->consume.redis.group,
                                      .name = config->name,
                                      .id = fleet->held.id,
                                      .stream = config->consume.redis.stream,
                                      .digest = config->compatible,
                                      .partitions = fleet->count,
                                      .every = config->fleet.average_every,
                                      .lease = config->fleet.lease};
    return open_link(fleet, &link, error) ||
                   fleet_worker_open(&fleet->worker, link, &fleet->self, fleet->url.name, error)
               ? -1
               : 0;
}

static const struct checkpoints_guard guard;

int fleet_open(struct daemon *daemon, struct error *error) {
    if (daemon->config->fleet.lease <= 0)
        return 0;
    struct fleet *fleet = daemon->fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        return error_no_memory(error);
    if (check_carry(daemon, error) || open_shares(daemon, error) || open_worker(daemon, error))
        return -1;
    fleet->serial = clock_unix() > 0 ? (uint64_t)(clock_unix() * 1e6) : 0;
    fleet->average_at = fleet_next_average(daemon);
    checkpoints_guard(daemon, &guard);
    log_info("fleet %s at %s: %s of %zu partition%s", fleet->self.group, fleet->url.name,
             fleet->self.name, fleet->count, text_s(fleet->count));
    return 0;
}

void fleet_close(struct daemon *daemon) {
    struct fleet *fleet = daemon->fleet;
    if (!fleet)
        return;
    fleet_worker_close(&fleet->worker, fleet->gone);
    fleet_held_close(&fleet->held);
    fleet_view_free(&fleet->view);
    free(fleet->members);
    free(fleet->owners);
    free(fleet->settle);
    free(fleet->shares);
    free(fleet);
    daemon->fleet = NULL;
}

int fleet_descriptor(const struct daemon *daemon) {
    return daemon->fleet ? fleet_worker_descriptor(daemon->fleet->worker) : -1;
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
        return fleet_come_back(daemon, job, error);
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
}

/* One job that is done, and the newest view. 1: a job was done. */
static int poll_worker(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct fleet_job *done;
    struct fleet_view view;
    bool seen;
    if (fleet_worker_poll(fleet->worker, &done, &view, &seen, error)) {
        if (error->status == EX_NOPERM) /* who is to be let in is configured */
            error->status = EX_CONFIG;
        return -1;
    }
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

int fleet_turn(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    if (!fleet)
        return 0;
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
    if (!fleet)
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
