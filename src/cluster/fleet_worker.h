/* The network thread of a daemon in a fleet. It renews the lease, looks at the fleet after changes,
   and runs one job at a time. It retries a job until the broker answers, and logs once that the
   broker does not answer, and that it is available again.

   All functions belong to the learning thread and do not wait unless noted. */
#ifndef RUNNEL_FLEET_WORKER_H
#define RUNNEL_FLEET_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "fleet_link.h"

struct fleet_worker;

/* States of one partition's streams, copied. The rows point into the bytes after
   fleet_states_done. */
struct fleet_states {
    struct fleet_row *rows; /* offsets until fleet_states_done */
    unsigned char *bytes;
    size_t count, row_room, size, room;
};
int fleet_states_add(struct fleet_states *states, const struct fleet_row *row, struct error *error);
void fleet_states_done(struct fleet_states *states);

enum fleet_job_kind {
    FLEET_JOB_TAKE,   /* claims[count] as last received, with their committed states */
    FLEET_JOB_BEGIN,  /* the states of claims[count], which this daemon already has */
    FLEET_JOB_COMMIT, /* commits[count] with their states; release */
    FLEET_JOB_ENDED,  /* ended[count] */
    FLEET_JOB_SETTLE, /* settled[count] */
    FLEET_JOB_AVERAGE /* parameters */
};

/* A job and its result; it owns its memory. */
struct fleet_job {
    enum fleet_job_kind kind;
    /* release: also look for ENDED afterwards; failed: `error` has the reason, and a retry does not
       help */
    bool release, failed;
    size_t count;
    struct fleet_claim *claims;
    struct fleet_commit *commits;
    struct fleet_ended *ended;
    uint64_t *settled;
    struct fleet_states *states; /* (count,), for claims or commits */
    uint64_t position;           /* of the caller: the journal entry of the states */
    /* AVERAGE: (parameter_count,) and a unique serial. The result is the mean of the round's
       members, or `alone`: unchanged. */
    float *parameters;
    size_t parameter_count;
    uint64_t serial, round;
    bool alone;
    struct error error;
    struct fleet_job *next;
};

/* Creates a job for `count` partitions, otherwise all zeros; NULL: out of memory. */
struct fleet_job *fleet_job_new(enum fleet_job_kind kind, size_t count);
void fleet_job_free(struct fleet_job *job);

/* Starts the thread, which first joins the fleet. It takes over the link, even on failure. `where`:
   name of the broker; `info`: JSON for the join, or NULL. Fails with EX_OSERR. */
int fleet_worker_open(struct fleet_worker **worker, struct fleet_link *link,
                      const struct fleet_self *self, const char *where, const char *info,
                      struct error *error);

/* Ends the thread after its current request; unfinished jobs are dropped. `leave`: leaves the fleet
   if the broker answers at once. */
void fleet_worker_close(struct fleet_worker **worker, bool leave);

/* Readable when fleet_worker_poll has news. */
int fleet_worker_descriptor(const struct fleet_worker *worker);

/* Sets the daemon's report about itself (JSON). */
void fleet_worker_set_info(struct fleet_worker *worker, const char *info);

/* The round need not wait for this daemon (fleet_link.h). */
void fleet_worker_pass(struct fleet_worker *worker, uint64_t round);

/* Queues a job, which the worker owns until fleet_worker_poll returns it. */
void fleet_worker_ask(struct fleet_worker *worker, struct fleet_job *job);

/* Returns news: a finished job, or NULL, and a changed view; both to be freed. Returns -1 if this
   daemon cannot be in the fleet or the broker cannot be used. */
int fleet_worker_poll(struct fleet_worker *worker, struct fleet_job **done, struct fleet_view *view,
                      bool *seen, struct error *error);

/* Waits for news, at most `seconds`; returns false after that time. */
bool fleet_worker_wait(const struct fleet_worker *worker, double seconds);

/* Returns the seconds since the last answer of the broker; 0: it answers. */
double fleet_worker_away(struct fleet_worker *worker);

#endif
