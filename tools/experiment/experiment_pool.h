/* The runs of a plan, each on one thread, with as many in parallel as there are jobs. Results do
   not depend on the number of jobs. */
#ifndef RUNNEL_EXPERIMENT_POOL_H
#define RUNNEL_EXPERIMENT_POOL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "experiment_examples.h"
#include "experiment_plan.h"
#include "experiment_store.h"

/* Runs that failed; the others continue. */
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
    volatile sig_atomic_t *stop; /* if true, active runs are stopped */
};

/* Does the remaining runs, and stores each when it ends. 0, also if *stop was set elsewhere; -1:
   the store cannot be written, or threads cannot be created. */
int pool_run(const struct pool_options *options, struct error *error);

#endif
