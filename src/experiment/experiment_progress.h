/* How far an experiment is, for people, on standard error: on a terminal one line that is drawn
   again and again, else a line for each run that is over. */
#ifndef RUNNEL_EXPERIMENT_PROGRESS_H
#define RUNNEL_EXPERIMENT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "experiment_examples.h"
#include "experiment_plan.h"
#include "experiment_run.h"

struct progress;

struct progress_options {
    const struct experiment_plan *plan;
    const struct examples *examples; /* (streams,) */
    size_t jobs;
    bool quiet;
};

/* NULL: out of memory. */
struct progress *progress_open(const struct progress_options *options);
void progress_close(struct progress **progress);

/* A run has begun on that worker, `watch` says how far it is until it is over; NULL: it has been
   given up. */
void progress_begin(struct progress *progress, size_t worker, const struct planned_run *run,
                    const struct run_watch *watch);
void progress_over(struct progress *progress, size_t worker, const struct planned_run *run,
                   const struct experiment_outcome *outcome);

/* Draw the line, a few times a second. */
void progress_show(struct progress *progress);

/* A stream is being recorded; UINT64_MAX: no more. */
void progress_recording(bool quiet, const char *stream, uint64_t examples);

#endif
