#include "fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "announce.h"
#include "build-config.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/text.h"
#include "consuming.h"
#include "fleet/carry.h"
#include "fleet/fleet_assign.h"
#include "fleet/fleet_redis.h"
#include "fleet_internal.h"
#include "journalling.h"
#include "observe.h"
#include "parts.h"
#include "run.h"

#define TELL_INTERVAL 1.0 /* seconds */
#define ROUND_PATIENCE 3  /* leases, for a round of averaging */
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
    if (url_parse(&fleet->url, "examples.redis.url", config->consume.redis.url, "redis unix", "",
                  error) ||
        url_login(&fleet->url, *config->consume.redis.user ? config->consume.redis.user : NULL,
                  *config->consume.redis.password_file ? config->consume.redis.password_file : NULL,
                  error))
        return -1;
    fleet->self = (struct fleet_self){.group = config->consume.redis.group,
                                      .name = config->name,
                                      .id = fleet->held.id,
                                      .stream = config->consume.redis.stream,
                                      .digest = config->compatible,
                                      .partitions = fleet->count,
                                      .lease = config->fleet.lease};
    fleet->url.login = "examples.redis.user and examples.redis.password_file";
    return open_link(fleet, &link, error) ||
                   fleet_worker_open(&fleet->worker, link, &fleet->self, fleet->url.name, error)
               ? -1
               : 0;
}

static const struct checkpoints_guard guard;

static uint64_t next_average(const struct daemon *daemon) {
    uint64_t every = daemon->config->fleet.average_every;
    return every ? (daemon_examples(daemon) / every + 1) * every : UINT64_MAX;
}

int fleet_open(struct daemon *daemon, struct error *error) {
    if (daemon->config->fleet.lease <= 0)
        return 0;
    struct fleet *fleet = daemon->fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        return error_no_memory(error);
    if (check_carry(daemon, error) || open_shares(daemon, error) || open_worker(daemon, error))
        return -1;
    fleet->serial = clock_unix() > 0 ? (uint64_t)(clock_unix() * 1e6) : 0;
    fleet->average_at = next_average(daemon);
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
    free(fleet->settle);
    free(fleet->shares);
    free(fleet);
    daemon->fleet = NULL;
}

int fleet_descriptor(const struct daemon *daemon) {
    return daemon->fleet ? fleet_worker_descriptor(daemon->fleet->worker) : -1;
}

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
    job->version = fleet->view.version;
    for (size_t n = 0; n < count; n++) {
        const struct fleet_partition *known = &fleet->view.partitions[partitions[n]];
        job->claims[n] = (struct fleet_claim){.partition = partitions[n],
                                              .claim = known->claim,
                                              .committed = known->committed,
                                              .offset = known->offset,
                                              .learned = known->learned,
                                              .states = known->states};
        job->ended[n].claim = fleet->shares[partitions[n]].claim;
    }
    fleet_ask(daemon, job);
    return 0;
}

/* All partitions of a state are read no more, and handed over. */
static int hand_over(struct daemon *daemon, struct error *error) {
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

static int commit(struct daemon *daemon, struct error *error) {
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

/* Commits that are refused: the next view says whose the partitions are. */
static void committed(struct fleet *fleet, const struct fleet_job *job) {
    bool all = true;
    for (size_t n = 0; n < job->count; n++)
        all &= !job->commits[n].refused;
    fleet->committed = all;
}

static int averaged(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct carry *carry;
    fleet->round = job->last;
    if (!fleet->averaging) /* too late: learning has gone on by itself */
        return 0;
    fleet->averaging = false;
    fleet->average_at = next_average(daemon);
    if (job->failed)
        log_warning("the fleet %s gives no average: %s", fleet->self.group, job->error.text);
    if (job->failed || job->alone)
        return 0;
    if (carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error))
        return -1;
    int result = carry_write_parameters(carry, job->parameters, error);
    carry_close(&carry);
    if (result > 0)
        log_warning("the average of round %" PRIu64 " is not taken: %s", job->last, error->text);
    if (result < 0)
        return run_break(daemon);
    fleet->rounds += result == 0;
    checkpoints_changed(daemon);
    return 0;
}

static int finish_job(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    switch (job->kind) {
    case FLEET_JOB_TAKE:
    case FLEET_JOB_BEGIN:
        return fleet_begin(daemon, job, error);
    case FLEET_JOB_COMMIT:
        if (job->release)
            return fleet_released(daemon, job, error);
        committed(daemon->fleet, job);
        return 0;
    case FLEET_JOB_ENDED:
        return fleet_come_back(daemon, job, error);
    case FLEET_JOB_AVERAGE:
        return averaged(daemon, job, error);
    case FLEET_JOB_SETTLE:
        break;
    }
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
        return hand_over(daemon, error);
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
    if ((count = choose(fleet, self, is_to_begin, list)))
        return ask_for(daemon, FLEET_JOB_BEGIN, list, count, error);
    if (!fleet->committed)
        return commit(daemon, error);
    return fleet->gone ? 0 : share_out(daemon, self, list, error);
}

/* With a view that is of now, and nothing asked. */
static int act(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    int self = fleet_view_find(&fleet->view, fleet->self.name);
    if (fleet->settle_count)
        return settle(daemon, error);
    if (self < 0 || fleet->view.partition_count != fleet->count)
        return 0;
    size_t *list = malloc((fleet->count + 1) * sizeof *list);
    if (!list)
        return error_no_memory(error);
    int result = act_with(daemon, self, list, error);
    free(list);
    return result;
}

/* ---- Averaging ---- */

static bool is_to_average(const struct daemon *daemon) {
    const struct fleet *fleet = daemon->fleet;
    if (fleet->busy || fleet->gone || !fleet->has_view)
        return false;
    return daemon_examples(daemon) >= fleet->average_at;
}

static int read_parameters(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct carry *carry;
    if (learner_flush(daemon->learner, error) ||
        carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error))
        return run_break(daemon);
    job->parameter_count = carry_parameters(carry);
    job->parameters = malloc((job->parameter_count + 1) * sizeof *job->parameters);
    int result = job->parameters ? carry_read_parameters(carry, job->parameters, error)
                                 : error_no_memory(error);
    carry_close(&carry);
    return result ? run_break(daemon) : 0;
}

static int average(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct fleet_job *job = fleet_job_new(FLEET_JOB_AVERAGE, 0);
    if (!job)
        return error_no_memory(error);
    if (read_parameters(daemon, job, error)) {
        fleet_job_free(job);
        return -1;
    }
    job->last = fleet->round;
    fleet->averaging = true;
    fleet->patience = clock_seconds() + ROUND_PATIENCE * fleet->self.lease;
    fleet_ask(daemon, job);
    return 0;
}

/* Or do not begin it, while the broker is away. */
static void give_up_averaging(struct daemon *daemon) {
    struct fleet *fleet = daemon->fleet;
    bool over = fleet->averaging && clock_seconds() >= fleet->patience;
    bool away = !fleet->averaging && daemon_examples(daemon) >= fleet->average_at &&
                fleet_worker_away(fleet->worker) > fleet->self.lease;
    if (!over && !away)
        return;
    fleet->averaging = false;
    fleet->average_at = next_average(daemon);
    log_warning("the fleet %s gives no average: learning goes on without", fleet->self.group);
}

bool fleet_takes(const struct daemon *daemon) {
    return !daemon->fleet ||
           (!daemon->fleet->averaging && daemon_examples(daemon) < daemon->fleet->average_at);
}

size_t fleet_batch(const struct daemon *daemon, size_t batch) {
    if (!daemon->fleet)
        return batch;
    uint64_t left = daemon->fleet->average_at - daemon_examples(daemon);
    return left < batch ? (size_t)left : batch;
}

/* ---- The loop ---- */

static void tell(struct daemon *daemon) {
    struct fleet *fleet = daemon->fleet;
    double now = clock_seconds();
    if (now < fleet->told + TELL_INTERVAL)
        return;
    fleet->told = now;
    json_t *info = json_pack("{s:s, s:s, s:I, s:f}", "control", control_endpoint(daemon->control),
                             "state", run_state(daemon), "examples",
                             (json_int_t)daemon_examples(daemon), "rate", observe_speed(daemon));
    char *text = info ? json_dumps(info, JSON_COMPACT) : NULL;
    if (text)
        fleet_worker_tell(fleet->worker, text);
    free(text);
    json_decref(info);
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
    tell(daemon);
    give_up_averaging(daemon);
    if (poll_worker(daemon, error) < 0)
        return -1;
    if (fleet->busy)
        return 0;
    if (is_to_average(daemon))
        return average(daemon, error);
    return fleet->has_view ? act(daemon, error) : 0;
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
    return commit(daemon, error);
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
    if (hand_over(daemon, error) || wait_until_idle(daemon, end, error))
        return -1;
    fleet->committed |= !fleet->busy;
    return 0;
}

/* ---- What there is to know ---- */

bool fleet_report(struct daemon *daemon, struct status_fields *status) {
    const struct fleet *fleet = daemon->fleet;
    if (!fleet)
        return false;
    for (size_t d = 0; d < fleet->view.daemon_count; d++)
        status->fleet_daemons += fleet->view.daemons[d].living;
    for (size_t p = 0; p < fleet->count; p++)
        status->fleet_partitions += fleet->shares[p].state == SHARE_OWNED;
    status->fleet_group = fleet->self.group;
    status->fleet_of = fleet->count;
    status->fleet_taken = fleet->taken;
    status->fleet_released = fleet->released;
    status->fleet_lost = fleet->lost;
    status->fleet_adopted = fleet->adopted;
    status->fleet_replayed = fleet->left_out;
    status->fleet_averages = fleet->rounds;
    status->fleet_away = fleet_worker_away(fleet->worker);
    return true;
}
