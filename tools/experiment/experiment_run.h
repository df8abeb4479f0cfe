/* One run: a configuration learns a recorded stream from its first message to its last, on the
   caller's thread, with the same bits as a daemon with that configuration. */
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

/* Progress for other threads. */
struct run_watch {
    _Atomic uint64_t messages; /* messages taken from the stream */
    _Atomic double mean;       /* loss over the scored examples so far; NaN before the first */
};

struct run_options {
    double recent;   /* share of the messages that counts as recent */
    uint64_t points; /* points of the curve, at most */
    unsigned keep;   /* a set of enum spec_keep */
    bool beside;     /* other runs are active: default threads are 1, without pinning */
    const volatile sig_atomic_t *stop;
};

/* Plays the stream. 0: `outcome` is complete except for variant, stream, seed and texts of the
   configuration; state done or nonfinite. 1: *stop became true. -1: it failed. run_clear frees
   the outcome, also after 1 and -1. */
int run_play(struct config *config, struct engines_choice *engine, const struct examples *examples,
             const struct run_options *options, struct run_watch *watch,
             struct experiment_outcome *outcome, struct error *error);
void run_clear(struct experiment_outcome *outcome);

#endif
