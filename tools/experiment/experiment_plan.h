/* The planned runs: each variant on each stream with each seed. Some of them may be finished by
   earlier calls. */
#ifndef RUNNEL_EXPERIMENT_PLAN_H
#define RUNNEL_EXPERIMENT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "experiment_spec.h"
#include "experiment_store.h"

struct error;

struct planned_run {
    size_t variant, stream; /* of the specification */
    int64_t seed;
    char digest[CONFIG_DIGEST_SIZE]; /* of its configuration */
    bool over;                       /* the results have it */
    bool left_out;                   /* excluded by --only */
};

struct plan_options {
    const char *directory;   /* directory for bases that are texts */
    const char *const *sets; /* (set_count,) of --set, as written */
    size_t set_count;
    const char *only; /* a pattern for variants' names; NULL: all */
};

struct experiment_plan {
    const struct experiment_spec *spec;
    struct spec_setting *extra; /* (extra_count,) of --set */
    size_t extra_count;
    const char **bases; /* (streams,) each one's base file */
    /* (run_count,) in the order of starting: all variants with the first seed, then with the
       next */
    struct planned_run *runs;
    size_t run_count;
    size_t *variant_numbers, *stream_numbers; /* those in the results */
    const char *device; /* the processor that computed the finished runs; NULL: none */
    bool checked;       /* it was compared with this machine */
    void *memory;
};

/* Loads the configuration of every run, before anything else. The specification must outlive the
   plan. -1: EX_CONFIG; the error names experiment, variant, stream and key. Call plan_clear in
   either case. */
int plan_make(struct experiment_plan *plan, struct experiment_spec *spec,
              const struct plan_options *options, struct error *error);
void plan_clear(struct experiment_plan *plan);

/* The configuration of a run. -1 also if it has changed since plan_make. */
int plan_load(const struct experiment_plan *plan, const struct planned_run *run,
              struct config *config, struct error *error);

/* Stores the plan in the results: adds new entries, and checks that existing ones are of the
   same experiment. -1 (EX_DATAERR) if not; the error has the difference and the remedy. */
int plan_enter(struct experiment_plan *plan, struct experiment_store *store, struct error *error);

/* Runs to be done now. */
size_t plan_left(const struct experiment_plan *plan);

#endif
