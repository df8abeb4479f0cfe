/* The runs of a plan, each on one thread from its beginning to its end, as many at once as there
   are jobs. What comes out does not depend on how many these are. */
#ifndef RUNNEL_EXPERIMENT_POOL_H
#define RUNNEL_EXPERIMENT_POOL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "experiment_examples.h"
#include "experiment_plan.h"
#include "experiment_store.h"

/* Runs that have failed: the others go on. */
struct pool_failures {
    size_t count;
    struct error first;
};

struct pool_options {
    struct experiment_plan *plan;
    const struct examples *examples; /* (streams,) */
    struct experiment_store *store;
    size_t jobs;
    bool quiet;
    struct pool_failures *failures;
    volatile sig_atomic_t *stop; /* set true: runs at work are given up */
};

/* Do what is left, and put each run into the store when it is over. 0, also when *stop was set by
   somebody else; -1: the store cannot be written, or the threads cannot be had. */
int pool_run(const struct pool_options *options, struct error *error);

#endif
