/* What is to run: each variant on each stream with each seed, of which an earlier call may have
   done some. */
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
    bool over;                       /* results have it */
    bool left_out;                   /* --only names others */
};

struct plan_options {
    const char *directory;   /* where bases are written that are texts */
    const char *const *sets; /* (set_count,) of --set, as written */
    size_t set_count;
    const char *only; /* a pattern of variants' names; NULL: all */
};

struct experiment_plan {
    const struct experiment_spec *spec;
    struct spec_setting *extra; /* (extra_count,) of --set */
    size_t extra_count;
    const char **bases;       /* (streams,) the file of each one's base */
    struct planned_run *runs; /* (run_count,) in the order in which they are begun: all variants
                                 with the first seed, then with the next */
    size_t run_count;
    size_t *variant_numbers, *stream_numbers; /* those in the results */
    const char
        *device;  /* what computed the runs that are over on a processor; NULL: there are none */
    bool checked; /* it is that of this machine */
    void *memory;
};

/* Load the configuration of every run, before anything else is done. The specification must outlive
   the plan. -1: EX_CONFIG with a sentence that names experiment, variant, stream and key. The plan
   is to be cleared in either case. */
int plan_make(struct experiment_plan *plan, struct experiment_spec *spec,
              const struct plan_options *options, struct error *error);
void plan_clear(struct experiment_plan *plan);

/* The configuration of a run. -1 also when it is another than when the plan was made. */
int plan_load(const struct experiment_plan *plan, const struct planned_run *run,
              struct config *config, struct error *error);

/* Put the plan into the results: what is new is added, what is there must be of the same
   experiment. -1 (EX_DATAERR) where it is not: the sentence says what differs, and the way out. */
int plan_enter(struct experiment_plan *plan, struct experiment_store *store, struct error *error);

/* Runs that are to be done now. */
size_t plan_left(const struct experiment_plan *plan);

#endif
