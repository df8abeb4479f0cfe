#include "fleet.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/example.h"
#include "common/fields.h"
#include "common/format.h"
#include "common/log.h"
#include "common/text.h"
#include "daemon/checkpoints.h"
#include "daemon/moving.h"
#include "daemon/observe.h"
#include "daemon/parts.h"
#include "daemon/run.h"
#include "shares.h"
#include "store/carry.h"

#define INFO_INTERVAL 1.0 /* seconds */
#define HAND_OVER_MIN 5.0 /* seconds to wait when stopping, if a lease is shorter */
#define ROUND_PATIENCE 3  /* time limit of a round, in leases */
#define PASS_AFTER 0.125  /* leases: time to measure this daemon's rate */

/* sizes of the texts of `status` */
enum { TEXT_SIZE = 256, NUMBER_SIZE = 24, PARTITIONS_SHOWN = 1024 };

struct fleet {
    const struct consume_about *about;
    struct fleet_self self;
    struct fleet_worker *worker;
    struct shares shares;
    struct fleet_view view; /* the newest view */
    bool has_view;          /* the view is current: no job was started since */
    bool doubts;            /* the broker may have lost commits */
    bool busy;              /* the worker has a job; it has only one at a time */
    uint64_t jobs;          /* number of finished jobs */
    bool committed;         /* all checkpoints but the newest are committed */
    bool gone;              /* everything is handed over */
    uint64_t serial;        /* serial of averages */

    bool averaging;
    double patience;     /* clock_seconds: end of the wait for a round */
    uint64_t average_at; /* examples: the next average */
    struct {             /* The round in which others wait for this daemon. */
        uint64_t round;  /* 0: none */
        double seen;     /* clock_seconds: when the round was first received */
        uint64_t at;     /* number of examples then */
        bool passed;
    } waiting;

    char *members, *owners; /* texts of `status` */
    json_t *differences;    /* the reported differences of rates, by name; NULL: none yet */
    bool compared;          /* the rates of the view are compared */
    double reported_at;     /* clock_seconds: the last report about this daemon */
    uint64_t rounds;
};

/* ---- Rates: learning rates and clips, the only keys that may differ ---- */

/* Adds "learning.clip", or "members.NAME.learning.clip" of a member. Leaves out a clip that is
   `auto`. */
static void add_rates(json_t *rates, const char *prefix, const struct learning *learning) {
    char key[TEXT_SIZE];
    snprintf(key, sizeof key, "%slearning.optimizer.rate", prefix);
    json_object_set_new(rates, key, json_real(learning->optimizer.rate));
    snprintf(key, sizeof key, "%slearning.clip", prefix);
    json_object_set_new(rates, key, json_real(learning->clip));
}

static json_t *own_rates(const struct daemon *daemon) {
    const struct config *config = daemon->config;
    json_t *rates = json_pack("{s:f}", "fleet.lease", config->fleet.lease);
    if (!config->members_given)
        add_rates(rates, "", &config->learning);
    for (size_t m = 0; config->members_given && m < config->member_count; m++) {
        char prefix[TEXT_SIZE / 2];
        snprintf(prefix, sizeof prefix, "members.%s.", config->members[m].name);
        add_rates(rates, prefix, &config->members[m].learning);
    }
    return rates;
}

/* Makes "worker-2 has learning.clip 2, this daemon 1". */
static json_t *difference(const struct fleet_daemon *member, const json_t *mine,
                          const json_t *its) {
    const char *key = fleet_rates_differ(mine, its);
    char name[TEXT_SIZE], theirs[FORMAT_SIZE], own[FORMAT_SIZE];
    if (!member->living || !key)
        return NULL;
    return json_sprintf("%s has %s %s, this daemon %s", text_copy(name, sizeof name, member->name),
                        key, format_exact(theirs, fleet_rate(its, key)),
                        format_exact(own, fleet_rate(mine, key)));
}

/* Returns the differences by daemon name. */
static json_t *differences(const struct daemon *daemon) {
    const struct fleet *fleet = daemon->cluster->fleet;
    const struct fleet_view *view = &fleet->view;
    json_t *mine = json_pack("{s:o}", FLEET_RATES, own_rates(daemon)), *all = json_object();
    for (size_t d = 0; d < view->daemon_count; d++) {
        if (strcmp(view->daemons[d].name, fleet->self.name) == 0)
            continue;
        json_t *its = json_loads(view->daemons[d].info, 0, NULL);
        json_t *text = difference(&view->daemons[d], mine, its);
        if (text)
            json_object_set_new(all, view->daemons[d].name, text);
        json_decref(its);
    }
    json_decref(mine);
    return all;
}

static void compare_rates(struct daemon *daemon) {
    struct fleet *fleet = daemon->cluster->fleet;
    const char *name, *first = NULL;
    char group[TEXT_SIZE], more[TEXT_SIZE] = "";
    size_t news = 0;
    if (fleet->compared)
        return;
    fleet->compared = true;
    json_t *now = differences(daemon), *text;
    json_object_foreach(now, name, text) {
        if (json_equal(text, json_object_get(fleet->differences, name)))
            continue;
        first = first ? first : json_string_value(text);
        news++;
    }
    if (news > 1)
        snprintf(more, sizeof more, " (and %zu more daemon%s with another value)", news - 1,
                 text_s(news - 1));
    if (news)
        log_warning("fleet %s: %s%s; give all daemons the same value",
                    text_copy(group, sizeof group, fleet->self.group), first, more);
    json_decref(fleet->differences);
    fleet->differences = now;
}

/* ---- Reports to the other daemons and in `status` ---- */

/* Returns the lags of the partitions that this daemon reads: "3": 17. */
static json_t *lags_of(const struct daemon *daemon) {
    const struct fleet *fleet = daemon->cluster->fleet;
    json_t *lags = json_object();
    for (size_t p = 0; p < fleet->shares.count; p++) {
        struct consume_figures figures;
        char name[NUMBER_SIZE];
        if (fleet->shares.list[p].state != SHARE_OWNED)
            continue;
        consume_figures(daemon->cluster->consume, p, &figures);
        snprintf(name, sizeof name, "%zu", p);
        if (figures.lag >= 0)
            json_object_set_new(lags, name, json_integer((json_int_t)figures.lag));
    }
    return lags;
}

static char *describe_self(const struct daemon *daemon) {
    json_t *info = json_pack("{s:s, s:s, s:I, s:f, s:f, s:o, s:o}", "control",
                             control_endpoint(daemon->control), "state", run_state(daemon),
                             "examples", (json_int_t)daemon_examples(daemon), "rate",
                             observe_speed(daemon), "lease", daemon->cluster->fleet->self.lease,
                             "lags", lags_of(daemon), FLEET_RATES, own_rates(daemon));
    char *text = info ? json_dumps(info, JSON_COMPACT) : NULL;
    if (text && strlen(text) > FLEET_INFO_MAX) { /* too long: leave out the details */
        free(text);
        json_object_del(info, "lags");
        text = json_dumps(info, JSON_COMPACT);
    }
    json_decref(info);
    return text;
}

static void send_info(struct daemon *daemon) {
    struct fleet *fleet = daemon->cluster->fleet;
    double now = clock_seconds();
    if (now < fleet->reported_at + INFO_INTERVAL)
        return;
    fleet->reported_at = now;
    compare_rates(daemon);
    char *info = describe_self(daemon);
    if (info)
        fleet_worker_set_info(fleet->worker, info);
    free(info);
}

static const char *state_of(const struct fleet_daemon *member, const json_t *info) {
    const char *state = json_string_value(json_object_get(info, "state"));
    return !member->living ? "gone" : member->draining ? "drained" : state ? state : "joining";
}

static json_t *member_json(const struct fleet_view *view, size_t d, const json_t *info) {
    size_t partitions = 0;
    for (size_t p = 0; p < view->partition_count; p++)
        partitions += view->partitions[p].owner == (int)d;
    json_t *member = json_pack("{s:s, s:I}", "state", state_of(&view->daemons[d], info),
                               "partitions", (json_int_t)partitions);
    json_object_set(member, "examples", json_object_get(info, "examples"));
    json_object_set(member, "rate", json_object_get(info, "rate"));
    return member;
}

/* Returns a partition's lag as its owner has reported it. */
static json_t *owner_json(const struct fleet_view *view, size_t p, json_t *const *infos) {
    const struct fleet_partition *partition = &view->partitions[p];
    char name[NUMBER_SIZE];
    snprintf(name, sizeof name, "%zu", p);
    const json_t *info = partition->owner < 0 ? NULL : infos[partition->owner];
    json_t *lag = json_object_get(json_object_get(info, "lags"), name);
    return json_pack("{s:s?, s:I, s:O?}", "daemon",
                     partition->owner < 0 ? NULL : view->daemons[partition->owner].name,
                     "committed", (json_int_t)partition->learned, "lag", lag);
}

static void write_texts(struct fleet *fleet, json_t *const *infos) {
    const struct fleet_view *view = &fleet->view;
    json_t *members = json_object(), *owners = json_array();
    for (size_t d = 0; d < view->daemon_count; d++)
        json_object_set_new(members, view->daemons[d].name, member_json(view, d, infos[d]));
    for (size_t p = 0; p < view->partition_count; p++)
        json_array_append_new(owners, owner_json(view, p, infos));
    fleet->members = json_dumps(members, JSON_COMPACT);
    fleet->owners =
        view->partition_count <= PARTITIONS_SHOWN ? json_dumps(owners, JSON_COMPACT) : NULL;
    json_decref(members);
    json_decref(owners);
}

/* Makes the texts of `status`, which live until the next call. */
static void make_texts(struct fleet *fleet) {
    const struct fleet_view *view = &fleet->view;
    json_t **infos = calloc(view->daemon_count + 1, sizeof(json_t *));
    free(fleet->members);
    free(fleet->owners);
    fleet->members = fleet->owners = NULL;
    for (size_t d = 0; infos && d < view->daemon_count; d++)
        infos[d] = json_loads(view->daemons[d].info, 0, NULL);
    if (infos)
        write_texts(fleet, infos);
    for (size_t d = 0; infos && d < view->daemon_count; d++)
        json_decref(infos[d]);
    free(infos);
}

bool fleet_report(struct daemon *daemon, struct status_fields *status) {
    struct fleet *fleet = daemon->cluster->fleet;
    if (!fleet)
        return false;
    make_texts(fleet);
    for (size_t d = 0; d < fleet->view.daemon_count; d++)
        status->fleet_daemons += fleet->view.daemons[d].living;
    for (size_t p = 0; p < fleet->shares.count; p++)
        status->fleet_partitions += fleet->shares.list[p].state == SHARE_OWNED;
    status->fleet_group = fleet->self.group;
    status->fleet_of = fleet->shares.count;
    status->fleet_taken = fleet->shares.taken;
    status->fleet_released = fleet->shares.released;
    status->fleet_lost = fleet->shares.lost;
    status->fleet_adopted = fleet->shares.adopted;
    status->fleet_replayed = fleet->shares.left_out;
    status->fleet_averages = fleet->rounds;
    status->fleet_round = daemon->config->fleet.average_every > 0 && fleet->view.round > 0
                              ? (double)fleet->view.round
                              : NAN;
    status->fleet_away = fleet->worker ? fleet_worker_away(fleet->worker) : 0;
    status->fleet_members = fleet->members;
    status->fleet_owners = fleet->owners;
    return true;
}

/* ---- Jobs ---- */

static void ask(struct daemon *daemon, struct fleet_job *job) {
    struct fleet *fleet = daemon->cluster->fleet;
    fleet->busy = true;
    fleet->has_view = false;
    fleet_worker_ask(fleet->worker, job);
}

static int ask_for(struct daemon *daemon, enum fleet_job_kind kind, const size_t *partitions,
                   size_t count, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    struct fleet_job *job = fleet_job_new(kind, count);
    if (!job)
        return error_no_memory(error);
    for (size_t n = 0; n < count; n++) {
        const struct fleet_partition *known = &fleet->view.partitions[partitions[n]];
        const struct share *share = &fleet->shares.list[partitions[n]];
        /* whether the broker still has the end of the claim */
        const bool is_over = share->state == SHARE_AWAY;
        job->release |= is_over;
        job->claims[n] = (struct fleet_claim){.partition = partitions[n],
                                              .claim = known->claim,
                                              .committed = known->committed,
                                              .offset = known->offset,
                                              .learned = known->learned,
                                              .states = known->states};
        job->ended[n] = (struct fleet_ended){.claim = is_over ? share->end.claim : share->claim,
                                             .partition = partitions[n]};
    }
    ask(daemon, job);
    return 0;
}

static int release(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    for (size_t p = 0; p < fleet->shares.count; p++)
        if (fleet->shares.list[p].state == SHARE_LEAVES &&
            consume_is_read(daemon->cluster->consume, p))
            consume_stop(daemon->cluster->consume, p);
    struct fleet_job *job = shares_export(daemon, SHARE_LEAVES, error);
    if (!job)
        return -1;
    job->release = true;
    ask(daemon, job);
    return 0;
}

static int commit(struct daemon *daemon, struct error *error) {
    struct fleet_job *job = shares_export(daemon, SHARE_OWNED, error);
    if (!job)
        return -1;
    ask(daemon, job);
    return 0;
}

static int settle(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    struct fleet_job *job = fleet_job_new(FLEET_JOB_SETTLE, fleet->shares.settle_count);
    if (!job)
        return error_no_memory(error);
    memcpy(job->settled, fleet->shares.settle,
           fleet->shares.settle_count * sizeof *fleet->shares.settle);
    fleet->shares.settle_count = 0;
    ask(daemon, job);
    return 0;
}

/* ---- Averages: at every such count of examples, a daemon waits for the others ---- */

static uint64_t next_average(const struct daemon *daemon) {
    uint64_t every = daemon->config->fleet.average_every;
    return every ? (daemon_examples(daemon) / every + 1) * every : UINT64_MAX;
}

static bool averages_now(const struct daemon *daemon) {
    const struct fleet *fleet = daemon->cluster->fleet;
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
    struct fleet *fleet = daemon->cluster->fleet;
    struct fleet_job *job = fleet_job_new(FLEET_JOB_AVERAGE, 0);
    if (!job)
        return error_no_memory(error);
    if (read_parameters(daemon, job, error)) {
        fleet_job_free(job);
        return -1;
    }
    job->serial = ++fleet->serial;
    fleet->averaging = true;
    fleet->patience = clock_seconds() + ROUND_PATIENCE * fleet->self.lease;
    ask(daemon, job);
    return 0;
}

/* Stops averaging while the broker is unavailable. After a rollback or a restart of learning, too,
   the next average is due at the next count. */
static void stop_averaging(struct daemon *daemon) {
    struct fleet *fleet = daemon->cluster->fleet;
    if (next_average(daemon) < fleet->average_at)
        fleet->average_at = next_average(daemon);
    bool over = fleet->averaging && clock_seconds() >= fleet->patience;
    bool away = !fleet->averaging && daemon_examples(daemon) >= fleet->average_at &&
                fleet_worker_away(fleet->worker) > fleet->self.lease;
    if (!over && !away)
        return;
    fleet->averaging = false;
    fleet->average_at = next_average(daemon);
    log_warning("fleet %s: no average; learning continues without it", fleet->self.group);
}

/* Whether this daemon reaches the average within a lease, at its rate since others began to
   wait. */
static bool is_in_time(const struct fleet *fleet, uint64_t examples, double seconds) {
    double learned = (double)(examples - fleet->waiting.at);
    double left = (double)(fleet->average_at - fleet->waiting.at);
    return learned * fleet->self.lease >= left * seconds;
}

static void pass(struct daemon *daemon) {
    struct fleet *fleet = daemon->cluster->fleet;
    const struct fleet_view *view = &fleet->view;
    double now = clock_seconds();
    if (fleet->average_at == UINT64_MAX || fleet->averaging || !view->arrived) {
        fleet->waiting.round = 0;
        return;
    }
    if (fleet->waiting.round != view->round) {
        fleet->waiting.round = view->round;
        fleet->waiting.seen = now;
        fleet->waiting.at = daemon_examples(daemon);
        fleet->waiting.passed = false;
    }
    double seconds = now - fleet->waiting.seen;
    if (fleet->waiting.passed || seconds < PASS_AFTER * fleet->self.lease ||
        is_in_time(fleet, daemon_examples(daemon), seconds))
        return;
    fleet->waiting.passed = true;
    fleet_worker_pass(fleet->worker, view->round);
}

size_t fleet_batch(const struct daemon *daemon, size_t batch) {
    const struct fleet *fleet = daemon->cluster->fleet;
    if (!fleet)
        return batch;
    uint64_t learned = daemon_examples(daemon);
    if (fleet->averaging || learned >= fleet->average_at)
        return 0;
    return fleet->average_at - learned < batch ? (size_t)(fleet->average_at - learned) : batch;
}

static int averaged(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    struct carry *carry;
    if (!fleet->averaging) /* too late: learning has already continued */
        return 0;
    fleet->averaging = false;
    fleet->average_at = next_average(daemon);
    if (job->failed)
        log_warning("fleet %s: no average: %s", fleet->self.group, job->error.text);
    if (job->failed || job->alone)
        return 0;
    if (carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error))
        return -1;
    int result = carry_write_parameters(carry, job->parameters, false, error);
    carry_close(&carry);
    if (result > 0)
        log_warning("the average of round %" PRIu64 " is not used: %s", job->round, error->text);
    if (result < 0)
        return run_break(daemon);
    fleet->rounds += result == 0;
    checkpoints_changed(daemon);
    return 0;
}

/* ---- Next steps ---- */

/* Selects partitions; their numbers go into a list (count,). */
typedef bool fits(const struct fleet *fleet, int self, size_t partition);

static size_t choose(const struct fleet *fleet, int self, fits *fit, size_t *list) {
    size_t count = 0;
    for (size_t p = 0; p < fleet->shares.count; p++)
        if (fit(fleet, self, p))
            list[count++] = p;
    return count;
}

static bool is_mine(const struct fleet *fleet, int self, size_t p) {
    const struct fleet_partition *known = &fleet->view.partitions[p];
    return known->owner == self && known->claim == fleet->shares.list[p].claim;
}

static bool is_kept(const struct fleet *fleet, int self, size_t p) {
    return fleet->shares.list[p].state == SHARE_KEPT && is_mine(fleet, self, p);
}

static bool is_lost(const struct fleet *fleet, int self, size_t p) {
    const struct share *share = &fleet->shares.list[p];
    return share->state == SHARE_LOST || (share->state != SHARE_AWAY && !is_mine(fleet, self, p));
}

static bool is_to_begin(const struct fleet *fleet, int self, size_t p) {
    return fleet->shares.list[p].state == SHARE_AWAY && fleet->view.partitions[p].owner == self;
}

/* Reading of a partition from before the restart resumes where the journal ends. */
static int keep(struct daemon *daemon, const size_t *list, size_t count, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    for (size_t n = 0; n < count; n++) {
        struct journal_place row = {0};
        struct share *share = &fleet->shares.list[list[n]];
        journal_place(daemon->journal, share->number, &row);
        const struct consume_place place = {row.epoch, row.sequence, row.count};
        if (shares_read(daemon, list[n], &place, error))
            return -1;
        share->state = SHARE_OWNED;
        share->published = fleet->view.partitions[list[n]].offset;
    }
    if (count)
        log_info("%zu partition%s kept after the restart", count, count == 1 ? " is" : "s are");
    return 0;
}

static int lose(struct daemon *daemon, const size_t *list, size_t count, struct error *error) {
    for (size_t n = 0; n < count; n++) {
        daemon->cluster->fleet->shares.list[list[n]].state = SHARE_LOST;
        if (consume_is_read(daemon->cluster->consume, list[n]))
            consume_stop(daemon->cluster->consume, list[n]);
    }
    return ask_for(daemon, FLEET_JOB_ENDED, list, count, error);
}

/* Commits partitions again that the broker may have lost. */
static void doubt_commits(struct fleet *fleet) {
    for (size_t p = 0; p < fleet->shares.count; p++) {
        const struct fleet_offset *known = &fleet->view.partitions[p].offset;
        struct share *share = &fleet->shares.list[p];
        if (share->state == SHARE_OWNED && (known->epoch != share->published.epoch ||
                                            known->sequence != share->published.sequence)) {
            share->whole = true;
            fleet->committed = false;
        }
    }
}

static bool has_ended(const struct fleet *fleet, int self, size_t p) {
    (void)self;
    return fleet->shares.list[p].state == SHARE_AWAY && fleet->shares.list[p].end.claim;
}

static bool is_free(const struct fleet_view *view, size_t partition) {
    int owner = view->partitions[partition].owner;
    return owner < 0 || !view->daemons[owner].living;
}

/* Releases the surplus partitions, or else takes those that are missing. */
static int share_out(struct daemon *daemon, int self, size_t *list, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    size_t leaving = 0, coming = 0;
    for (size_t p = 0; p < fleet->shares.count; p++) {
        const int to = fleet->view.partitions[p].to;
        struct share *share = &fleet->shares.list[p];
        if (share->state == SHARE_OWNED && to != self) {
            share->state = SHARE_LEAVES;
            leaving++;
        }
        if (share->state == SHARE_AWAY && to == self && is_free(&fleet->view, p))
            list[coming++] = p;
    }
    if (leaving)
        return release(daemon, error);
    return coming ? ask_for(daemon, FLEET_JOB_TAKE, list, coming, error) : 0;
}

static int act_with(struct daemon *daemon, int self, size_t *list, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    size_t count;
    if ((count = choose(fleet, self, is_kept, list)) && keep(daemon, list, count, error))
        return -1;
    if ((count = choose(fleet, self, is_lost, list)))
        return lose(daemon, list, count, error);
    if (fleet->doubts) {
        fleet->doubts = false;
        doubt_commits(fleet);
        if ((count = choose(fleet, self, has_ended, list)))
            return ask_for(daemon, FLEET_JOB_ENDED, list, count, error);
    }
    if ((count = choose(fleet, self, is_to_begin, list)))
        return ask_for(daemon, FLEET_JOB_BEGIN, list, count, error);
    if (!fleet->committed)
        return commit(daemon, error);
    return fleet->gone ? 0 : share_out(daemon, self, list, error);
}

/* Needs a current view and no running job. */
static int act(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    int self = fleet_view_find(&fleet->view, fleet->self.name);
    if (fleet->shares.settle_count)
        return settle(daemon, error);
    if (self < 0) /* the daemon has left, or the broker has lost it; the worker joins again */
        return 0;
    if (fleet->view.partition_count != fleet->shares.count) {
        error_set(error, EX_UNAVAILABLE,
                  "the fleet %s at %s has %zu partitions, but this daemon has %zu: another program "
                  "has changed its keys",
                  fleet->self.group, fleet->about->where, fleet->view.partition_count,
                  fleet->shares.count);
        return -1;
    }
    size_t *list = malloc((fleet->shares.count + 1) * sizeof *list);
    if (!list)
        return error_no_memory(error);
    int result = act_with(daemon, self, list, error);
    free(list);
    return result;
}

/* ---- Partition of a stream ---- */

bool fleet_refuses(const struct daemon *daemon, const struct example *example, char *why,
                   size_t size) {
    const struct fleet *fleet = daemon->cluster->fleet;
    if (!fleet)
        return false;
    size_t belongs = shares_partition_of(daemon, example->key, example->key_size);
    if (fleet->shares.list[belongs].number == example->partition)
        return false;
    snprintf(why, size, "the stream belongs to partition %s, %s",
             consume_title(daemon->cluster->consume, belongs), fleet->about->belongs);
    return true;
}

/* For the command `adopt`: this daemon must own the stream. */
static int may_adopt(const struct daemon *daemon, const char *key, size_t key_size,
                     struct error *error) {
    const struct fleet *fleet = daemon->cluster->fleet;
    if (!fleet->shares.list)
        return error_set(error, EX_UNAVAILABLE,
                         "this daemon has not joined the fleet %s yet; retry after it has joined",
                         fleet->self.group);
    size_t belongs = shares_partition_of(daemon, key, key_size);
    if (fleet->shares.list[belongs].state == SHARE_OWNED)
        return 0;
    return error_set(
        error, EX_UNAVAILABLE,
        "the stream belongs to partition %s, which this daemon does not own in the fleet "
        "%s; adopt it at the owner (runnel-fleet --partitions shows it)",
        consume_title(daemon->cluster->consume, belongs), fleet->self.group);
}

/* ---- Checkpoints ---- */

static bool may_begin(const struct daemon *daemon) {
    const struct fleet *fleet = daemon->cluster->fleet;
    if (fleet->busy || !fleet->committed)
        return false;
    for (size_t p = 0; p < fleet->shares.count; p++)
        if (fleet->shares.list[p].state == SHARE_LOST || fleet->shares.list[p].state == SHARE_KEPT)
            return false;
    return true;
}

static int begins(struct daemon *daemon, struct error *error) {
    daemon->cluster->fleet->committed = false;
    return commit(daemon, error);
}

static const struct checkpoints_guard guard = {may_begin, begins};

/* ---- Opening and closing ---- */

static int check_carry(struct daemon *daemon, struct error *error) {
    struct carry *carry;
    if (carry_open(&carry, daemon->config, daemon->learner, NULL, error))
        return error_prefix(error, "fleet");
    carry_close(&carry);
    return 0;
}

static int open_worker(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    struct fleet_link *link;
    fleet->self.id = fleet->shares.id;
    fleet->self.partitions = fleet->shares.count;
    char *info = describe_self(daemon);
    int result = consume_link(daemon->cluster->consume, &fleet->self, &link, error) ||
                         fleet_worker_open(&fleet->worker, link, &fleet->self, fleet->about->where,
                                           info, error)
                     ? -1
                     : 0;
    free(info);
    return result;
}

/* Joins once the number of partitions is known: Kafka has to answer first. */
static int begin(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    if (consume_partitions(daemon->cluster->consume) == 0)
        return 0;
    if (shares_open(daemon, error) || open_worker(daemon, error))
        return -1;
    log_info("joining the fleet %s at %s as %s: %zu partition%s", fleet->self.group,
             fleet->about->where, fleet->self.name, fleet->shares.count,
             text_s(fleet->shares.count));
    return 0;
}

int fleet_open(struct daemon *daemon, struct error *error) {
    if (daemon->config->fleet.lease <= 0)
        return 0;
    struct fleet *fleet = daemon->cluster->fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        return error_no_memory(error);
    if (check_carry(daemon, error))
        return -1;
    daemon->cluster->shares = &fleet->shares;
    fleet->about = consume_about(daemon->cluster->consume);
    fleet->self = (struct fleet_self){.group = fleet->about->group,
                                      .stream = fleet->about->stream,
                                      .name = daemon->config->name,
                                      .every = daemon->config->fleet.average_every,
                                      .lease = daemon->config->fleet.lease};
    fleet->serial = clock_unix() > 0 ? (uint64_t)(clock_unix() * 1e6) : 0;
    fleet->average_at = next_average(daemon);
    checkpoints_guard(daemon, &guard);
    moving_ask(daemon, may_adopt);
    return begin(daemon, error);
}

void fleet_close(struct daemon *daemon) {
    struct fleet *fleet = daemon->cluster->fleet;
    if (!fleet)
        return;
    fleet_worker_close(&fleet->worker, fleet->gone);
    shares_close(&fleet->shares);
    fleet_view_free(&fleet->view);
    json_decref(fleet->differences);
    free(fleet->members);
    free(fleet->owners);
    free(fleet);
    daemon->cluster->fleet = NULL;
    daemon->cluster->shares = NULL;
}

int fleet_descriptor(const struct daemon *daemon) {
    bool joins = daemon->cluster->fleet && daemon->cluster->fleet->worker;
    return joins ? fleet_worker_descriptor(daemon->cluster->fleet->worker) : -1;
}

/* ---- Event loop ---- */

/* A rejected commit: the next view shows the owner. An incomplete one is repeated with all
   states. */
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
        return shares_begin(daemon, job, error);
    case FLEET_JOB_COMMIT:
        if (shares_published(daemon, job, error))
            return -1;
        if (job->release) {
            int again = shares_released(daemon, job, error);
            return again > 0 ? release(daemon, error) : again;
        }
        committed(daemon->cluster->fleet, job);
        return 0;
    case FLEET_JOB_ENDED:
        return job->release ? shares_compare_ends(daemon, job, error)
                            : shares_come_back(daemon, job, error);
    case FLEET_JOB_AVERAGE:
        return averaged(daemon, job, error);
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

/* Takes one finished job and the newest view. Returns 1 if a job was finished. */
static int poll_worker(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
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

/* The number of partitions decides where streams belong, so it must not change. */
static int has_grown(const struct daemon *daemon, struct error *error) {
    const struct fleet *fleet = daemon->cluster->fleet;
    return error_set(error, EX_CONFIG,
                     "the topic %s has %zu partitions, but the fleet %s began with %zu, so streams "
                     "would change partitions; use another examples.kafka.group",
                     fleet->self.stream, consume_partitions(daemon->cluster->consume),
                     fleet->self.group, fleet->shares.count);
}

int fleet_turn(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    if (!fleet)
        return 0;
    if (!fleet->worker)
        return begin(daemon, error);
    if (consume_partitions(daemon->cluster->consume) != fleet->shares.count)
        return has_grown(daemon, error);
    send_info(daemon);
    stop_averaging(daemon);
    pass(daemon);
    if (poll_worker(daemon, error) < 0)
        return -1;
    if (fleet->busy || run_is_stopping(daemon)) /* fleet_hand_over does the rest */
        return 0;
    if (averages_now(daemon))
        return average(daemon, error);
    return fleet->has_view ? act(daemon, error) : 0;
}

/* ---- Shutdown ---- */

static int wait_until_idle(struct daemon *daemon, double end, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
    while (fleet->busy && clock_seconds() < end) {
        fleet_worker_wait(fleet->worker, end - clock_seconds());
        if (poll_worker(daemon, error) < 0)
            return -1;
    }
    return 0;
}

int fleet_hand_over(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->cluster->fleet;
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
    for (size_t p = 0; p < fleet->shares.count; p++)
        if (fleet->shares.list[p].state == SHARE_OWNED) {
            fleet->shares.list[p].state = SHARE_LEAVES;
            owned++;
        }
    if (owned == 0)
        return 0;
    if (release(daemon, error) || wait_until_idle(daemon, end, error))
        return -1;
    fleet->committed |= !fleet->busy;
    return 0;
}
