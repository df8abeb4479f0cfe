/* Averages of parameters: when a daemon has learned so many examples more it waits for the others.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "fleet.h"
#include "fleet/carry.h"
#include "fleet_internal.h"
#include "parts.h"
#include "run.h"

#define ROUND_PATIENCE 3 /* leases, for a round */
#define PASS_AFTER 0.125 /* leases, in which it is seen how fast this daemon learns */

uint64_t fleet_next_average(const struct daemon *daemon) {
    uint64_t every = daemon->config->fleet.average_every;
    return every ? (daemon_examples(daemon) / every + 1) * every : UINT64_MAX;
}

bool fleet_averages_now(const struct daemon *daemon) {
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

int fleet_average(struct daemon *daemon, struct error *error) {
    struct fleet *fleet = daemon->fleet;
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
    fleet_ask(daemon, job);
    return 0;
}

/* Or do not begin it, while the broker is away. Where examples were left out, or learning has begun
   again, the next one comes at the next count, too. */
void fleet_give_up_averaging(struct daemon *daemon) {
    struct fleet *fleet = daemon->fleet;
    if (fleet_next_average(daemon) < fleet->average_at)
        fleet->average_at = fleet_next_average(daemon);
    bool over = fleet->averaging && clock_seconds() >= fleet->patience;
    bool away = !fleet->averaging && daemon_examples(daemon) >= fleet->average_at &&
                fleet_worker_away(fleet->worker) > fleet->self.lease;
    if (!over && !away)
        return;
    fleet->averaging = false;
    fleet->average_at = fleet_next_average(daemon);
    log_warning("the fleet %s gives no average: learning goes on without", fleet->self.group);
}

/* By what was learned since it was seen that others wait: as much a second until a lease is over.
 */
static bool comes_in_time(const struct fleet *fleet, uint64_t examples, double seconds) {
    double learned = (double)(examples - fleet->waiting.at);
    double left = (double)(fleet->average_at - fleet->waiting.at);
    return learned * fleet->self.lease >= left * seconds;
}

void fleet_pass(struct daemon *daemon) {
    struct fleet *fleet = daemon->fleet;
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
        comes_in_time(fleet, daemon_examples(daemon), seconds))
        return;
    fleet->waiting.passed = true;
    fleet_worker_pass(fleet->worker, view->round);
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

int fleet_averaged(struct daemon *daemon, struct fleet_job *job, struct error *error) {
    struct fleet *fleet = daemon->fleet;
    struct carry *carry;
    if (!fleet->averaging) /* too late: learning has gone on by itself */
        return 0;
    fleet->averaging = false;
    fleet->average_at = fleet_next_average(daemon);
    if (job->failed)
        log_warning("the fleet %s gives no average: %s", fleet->self.group, job->error.text);
    if (job->failed || job->alone)
        return 0;
    if (carry_open(&carry, daemon->config, daemon->learner, daemon->journal, error))
        return -1;
    int result = carry_write_parameters(carry, job->parameters, error);
    carry_close(&carry);
    if (result > 0)
        log_warning("the average of round %" PRIu64 " is not taken: %s", job->round, error->text);
    if (result < 0)
        return run_break(daemon);
    fleet->rounds += result == 0;
    checkpoints_changed(daemon);
    return 0;
}
