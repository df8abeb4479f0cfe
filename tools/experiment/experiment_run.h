/* One run: a configuration learns a recorded stream from its first message to its last, on the
   thread that calls, with the very bits that a daemon with that configuration gives. */
#ifndef RUNNEL_EXPERIMENT_RUN_H
#define RUNNEL_EXPERIMENT_RUN_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "experiment_examples.h"
#include "experiment_store.h"

struct config;
struct engines_choice;
struct error;

/* What others may see of it meanwhile. */
struct run_watch {
    _Atomic uint64_t messages; /* of the stream that have been taken */
    _Atomic double mean;       /* loss over the scored examples so far; NaN before */
};

struct run_options {
    double recent;   /* share of the messages that is recent */
    uint64_t points; /* of the curve, at most */
    unsigned keep;   /* a set of enum spec_keep */
    bool beside;     /* other runs: it takes no more threads than it is told to, and pins none */
    const volatile sig_atomic_t *stop;
};

/* Play the stream. 0: `outcome` has all but variant, stream, seed and texts of the configuration;
   state done or nonfinite. 1: *stop has become true. -1: it has failed. run_clear frees what is in
   the outcome, also after 1 and -1. */
int run_play(struct config *config, struct engines_choice *engine, const struct examples *examples,
             const struct run_options *options, struct run_watch *watch,
             struct experiment_outcome *outcome, struct error *error);
void run_clear(struct experiment_outcome *outcome);

#endif
