/* What a daemon of a fleet has to say to the others, on a thread of its own, which alone waits for
   the network. It keeps the lease, looks at the fleet when that has changed, and does one job after
   the other, again and again until the broker has answered; one that is not there is said once, and
   so is that it is back.

   All functions are the learning thread's, and none of them waits, unless it says so. */
#ifndef RUNNEL_FLEET_WORKER_H
#define RUNNEL_FLEET_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "fleet_link.h"

struct fleet_worker;

/* States of one partition's streams, copied: the rows point into the bytes once all are in. */
struct fleet_states {
    struct fleet_row *rows; /* their pointers are offsets until fleet_states_done */
    unsigned char *bytes;
    size_t count, row_room, size, room;
};
int fleet_states_add(struct fleet_states *states, const struct fleet_row *row, struct error *error);
void fleet_states_done(struct fleet_states *states);

enum fleet_job_kind {
    FLEET_JOB_TAKE,   /* claims[count], as they were seen, with the states that are committed */
    FLEET_JOB_BEGIN,  /* states of claims[count], which this daemon has already */
    FLEET_JOB_COMMIT, /* commits[count], with their states; release */
    FLEET_JOB_ENDED,  /* ended[count] */
    FLEET_JOB_SETTLE, /* settled[count] */
    FLEET_JOB_AVERAGE /* parameters */
};

/* Asked and answered. What it points to is its own. */
struct fleet_job {
    enum fleet_job_kind kind;
    bool release, failed; /* release: ENDED, too, of what was handed over; failed: `error` says why,
                             and it makes no sense to try again */
    size_t count;
    struct fleet_claim *claims;
    struct fleet_commit *commits;
    struct fleet_ended *ended;
    uint64_t *settled;
    struct fleet_states *states; /* (count,), of claims or commits */
    uint64_t position;           /* of the asker's: which entry of its journal they are of */
    /* AVERAGE: (parameter_count,), and a number that no other one has; answered: the mean over
       those in the round, or `alone`: they are as they were. */
    float *parameters;
    size_t parameter_count;
    uint64_t serial, round;
    bool alone;
    struct error error;
    struct fleet_job *next;
};

/* A job of `count` partitions, all zeros but that; NULL: out of memory. */
struct fleet_job *fleet_job_new(enum fleet_job_kind kind, size_t count);
void fleet_job_free(struct fleet_job *job);

/* Start the thread, which joins the fleet first. The link is the worker's from now on, also when
   this fails. `where`: the broker, for people; `info`: what the daemon says of itself when it
   joins, JSON; NULL: nothing. EX_OSERR. */
int fleet_worker_open(struct fleet_worker **worker, struct fleet_link *link,
                      const struct fleet_self *self, const char *where, const char *info,
                      struct error *error);

/* Ends the thread; waits for what it asks just now. What it has not done is not done. `leave`: the
   daemon is no member any more, if the broker can be told at once. */
void fleet_worker_close(struct fleet_worker **worker, bool leave);

/* Readable when fleet_worker_poll has something new. */
int fleet_worker_descriptor(const struct fleet_worker *worker);

/* What the daemon says of itself from now on, JSON. */
void fleet_worker_tell(struct fleet_worker *worker, const char *info);

/* The round need not wait for this daemon (fleet_link.h). */
void fleet_worker_pass(struct fleet_worker *worker, uint64_t round);

/* The job is the worker's until it comes back. */
void fleet_worker_ask(struct fleet_worker *worker, struct fleet_job *job);

/* What is new: a job that is done (to be freed), NULL: none; whether the view is another, which is
   given then (to be freed). -1: this daemon cannot be in the fleet, or the broker cannot be used.
 */
int fleet_worker_poll(struct fleet_worker *worker, struct fleet_job **done, struct fleet_view *view,
                      bool *seen, struct error *error);

/* Wait until there is something, `seconds` at most; false: nothing. */
bool fleet_worker_wait(const struct fleet_worker *worker, double seconds);

/* Seconds since the broker has answered last; 0: it answers. */
double fleet_worker_away(struct fleet_worker *worker);

#endif
