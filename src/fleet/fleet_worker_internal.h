/* The worker, for its own files: fleet_worker.c (the thread), fleet_job.c (jobs). */
#ifndef RUNNEL_FLEET_WORKER_INTERNAL_H
#define RUNNEL_FLEET_WORKER_INTERNAL_H

#include <pthread.h>

#include "fleet_worker.h"

struct fleet_worker {
    const struct fleet_self *self;
    const char *where;
    int event; /* eventfd */
    pthread_t thread;
    bool runs;

    /* The thread's own, until it has ended. */
    struct fleet_link *link;
    bool joined;
    double joined_at;        /* clock_seconds */
    int displaced;           /* how often in a row, soon after it had joined */
    uint64_t namesake;       /* when the lease of the daemon that has its name ends */
    int namesake_renewed;    /* how often that was put off */
    double retry;            /* the next try to join, clock_seconds; 0: nobody else has the name */
    double due;              /* the next renewal, clock_seconds */
    double look_due;         /* the next look at all, though nothing has changed */
    struct fleet_view known; /* the newest view, of which the learning thread gets copies */
    double pause;            /* seconds, while the broker is away */

    /* Of both, with the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t something; /* for the thread */
    struct fleet_job *asked, *done;
    uint64_t jobs; /* done */
    struct fleet_view view;
    bool seen;     /* the view is to be given */
    bool look;     /* a view is wanted */
    uint64_t pass; /* the round that need not wait for this daemon; 0: none */
    bool closing;  /* the thread is to end */
    bool failed;   /* it has ended, for */
    struct error error;
    double away; /* since when, clock_seconds; 0: the broker answers */
    char *info;
};

/* Keep the lease, if it is time: for jobs that take longer. As struct fleet_link_ops' functions. */
int fleet_worker_renew(struct fleet_worker *worker, struct error *error);

/* Likewise. What has been done of it before is done again without harm. */
int fleet_job_do(struct fleet_worker *worker, struct fleet_job *job, struct error *error);

#endif
