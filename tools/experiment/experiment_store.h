/* The results of an experiment: one SQLite file, results.sqlite in the experiment's directory. One
   process writes it, others may read it meanwhile (WAL); docs/reference/experiments.md has the
   tables.

   Each run is written in one transaction when it ends, so that a killed process loses only its
   active runs. A missing number is NULL in the file and NaN here; a missing text is NULL here, too.

   One thread at a time may use a store. Functions return 0, or -1 with an error that names the
   file: EX_NOINPUT if not found, EX_DATAERR if damaged or of another program, EX_IOERR if it
   cannot be read or written (the disk is full). */
#ifndef RUNNEL_EXPERIMENT_STORE_H
#define RUNNEL_EXPERIMENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct experiment_store;

enum { EXPERIMENT_PATH_SIZE = 4096 };

enum experiment_access {
    EXPERIMENT_READ,
    EXPERIMENT_WRITE, /* created if missing */
};

/* `path` is the experiment's directory or the file in it. */
int experiment_store_open(struct experiment_store **store, const char *path,
                          enum experiment_access access, struct error *error);

/* After writing, the file is left without a log. */
void experiment_store_close(struct experiment_store **store);

const char *experiment_store_path(const struct experiment_store *store);

/* ---- Contents ---- */

/* A key that a variant sets. */
struct experiment_setting {
    const char *key;   /* full: "learning.optimizer.rate"; "model.layers.N.norm" for all layers */
    const char *brief; /* as written: "rate" */
    const char *value; /* as YAML */
};

struct experiment_variant {
    size_t variant; /* its number; tests compare the others with 0 */
    const char *name;
    const struct experiment_setting *settings; /* (setting_count,) by key */
    size_t setting_count;
};

struct experiment_stream {
    size_t stream; /* its number */
    const char *name;
    const char *command; /* command of the recording: "runnel-feed csv FILE" */
    const char *digest;  /* digest of its messages, 16 hexadecimal digits; NULL: not recorded yet */
    uint64_t examples, bytes;
    const char *files; /* JSON: [{"path":, "size":, "digest":}] of each argument that is a file */
};

enum experiment_state {
    EXPERIMENT_WAITING,
    EXPERIMENT_DONE,
    /* finished; a loss was not finite, or at the end no gradient was: figures are over the
       finite losses */
    EXPERIMENT_NONFINITE,
    EXPERIMENT_FAILED, /* ended with `error` */
};
const char *experiment_state_name(enum experiment_state state); /* as in the file */

struct experiment_figures {
    double mean, recent; /* loss over all scored examples, and over the last share of the run */
    double baseline, baseline_recent;
    double skill, skill_recent; /* 1 - mean / baseline; for logarithmic losses the difference */
    double rmse, mae;           /* errors in original units, over all columns and steps */
    double accuracy, bits;
    double crps, crps_skill; /* of distributions, as in `loss` */
};

/* The names of these figures, in their order: values of `report.measure`. */
enum { EXPERIMENT_FIGURES = sizeof(struct experiment_figures) / sizeof(double) };
extern const struct experiment_figures experiment_no_figures; /* all NaN */
struct experiment_measure {
    const char *name;   /* "skill_recent" */
    bool larger_better; /* skill, accuracy */
    const char *title;  /* for display: "skill, recent" */
};
extern const struct experiment_measure experiment_measures[EXPERIMENT_FIGURES];

/* The measure of that name; EXPERIMENT_FIGURES if unknown. */
size_t experiment_measure_named(const char *name);
static inline double experiment_figure(const struct experiment_figures *figures, size_t measure) {
    return ((const double *)figures)[measure];
}

/* A count that a recording does not have; a file never has it. */
#define EXPERIMENT_UNKNOWN UINT64_MAX

struct experiment_run {
    int64_t run;            /* its number in the file */
    size_t variant, stream; /* numbers, as above */
    int64_t seed;
    enum experiment_state state;
    const char *error;         /* NULL: none */
    const char *configuration; /* the whole resolved configuration, YAML */
    const char *digest; /* digest of the configuration, including everything that affects results */
    const char *data;   /* digest of the stream */
    const char *version, *device;
    uint64_t parameters, examples, rejected, steps;
    uint64_t scored; /* examples with a loss */
    uint64_t updates, skipped;
    double started;              /* Unix time */
    double seconds, cpu_seconds; /* time of learning: wall time, and its thread's time */
    struct experiment_figures figures;
    /* digest of the bits of all losses in order, 16 hexadecimal digits */
    const char *losses_digest;
    const char *parameters_digest; /* digest of the parameters at the end */
};

/* All results except the courses of runs. */
struct experiment_results {
    const char *name;
    const char *measure; /* the default measure of tables; NULL: by the rule */
    double recent;       /* share of a run */
    uint64_t points;     /* of a curve */
    const char *kept;    /* further data of a run: losses, weights, parameters */
    /* results of a recording: the last variant is the daemon's own forecast, of all members */
    bool live;
    const char *version, *device, *isa;
    double started, finished;     /* Unix time; NaN: not yet */
    const char *text, *yaml_path; /* the experiment's YAML, and its path */
    int64_t *seeds;               /* (seed_count,) */
    size_t seed_count;
    uint64_t total;                    /* planned runs */
    struct experiment_stream *streams; /* (stream_count,) by number */
    size_t stream_count;
    struct experiment_variant *variants; /* (variant_count,) by number */
    size_t variant_count;
    struct experiment_run *runs; /* (run_count,) by variant, stream, seed */
    size_t run_count;
    /* memory of all the above, and other data to be freed with it: experiment_memory.h */
    void *memory;
};

int experiment_store_read(struct experiment_store *store, struct experiment_results *results,
                          struct error *error);
void experiment_results_clear(struct experiment_results *results);

/* The stream of that number, and the run; NULL: not found. */
const struct experiment_stream *experiment_stream_of(const struct experiment_results *results,
                                                     size_t number);
const struct experiment_run *experiment_run_of(const struct experiment_results *results,
                                               size_t variant, size_t stream, int64_t seed);

/* The progress of all runs, at low cost, for observers. */
struct experiment_progress {
    uint64_t total, over, nonfinite, failed;
};
int experiment_store_progress(struct experiment_store *store, struct experiment_progress *progress,
                              struct error *error);

/* ---- The course of a run: arrays that the caller frees; NULL and 0 if not kept ---- */

/* Means over the examples since the previous point. */
struct experiment_point {
    uint64_t examples, scored; /* up to here; of those since the previous point */
    double mean, baseline, gradient_norm, update_ratio;
    /* norm of all parameters, here; NaN at most points unless weights are kept */
    double weight_norm;
};
int experiment_store_curve(struct experiment_store *store, int64_t run,
                           struct experiment_point **points, size_t *count, struct error *error);

enum { EXPERIMENT_NAME_SIZE = 128, EXPERIMENT_WHY_SIZE = 320 };

/* One number of the targets, in original units. */
struct experiment_column {
    char name[EXPERIMENT_NAME_SIZE]; /* "": none */
    double rmse, mae, skill;
};
int experiment_store_columns(struct experiment_store *store, int64_t run,
                             struct experiment_column **columns, size_t *count,
                             struct error *error);

/* One expert or member of a forecast. */
struct experiment_expert {
    char name[EXPERIMENT_NAME_SIZE];
    double mean, weight;
};
int experiment_store_experts(struct experiment_store *store, int64_t run,
                             struct experiment_expert **experts, size_t *count,
                             struct error *error);

/* keep: weights. By point, then in the order of the model's tensors. */
struct experiment_weight {
    size_t point;
    char tensor[EXPERIMENT_NAME_SIZE];
    /* norm of the difference to the previous point, or at the first to the start */
    double norm, change;
};
/* ---- Writing ---- */

int experiment_store_begin(struct experiment_store *store, struct error *error);
int experiment_store_commit(struct experiment_store *store, struct error *error);
void experiment_store_undo(struct experiment_store *store);

/* Sets a row of the table `experiment`; a NULL value removes it. */
int experiment_store_set(struct experiment_store *store, const char *key, const char *value,
                         struct error *error);

/* Inserts or replaces the stream of that number. */
int experiment_store_stream(struct experiment_store *store, const struct experiment_stream *stream,
                            struct error *error);
int experiment_store_variant(struct experiment_store *store,
                             const struct experiment_variant *variant, struct error *error);

/* Inserts this run as waiting, unless it exists. */
int experiment_store_plan(struct experiment_store *store, size_t variant, size_t stream,
                          int64_t seed, struct error *error);

/* Removes all waiting and failed runs, to be planned again. */
int experiment_store_unplan(struct experiment_store *store, struct error *error);

/* A finished run with its course, which replaces the waiting one. */
struct experiment_outcome {
    struct experiment_run run;          /* its number is ignored */
    char rejected[EXPERIMENT_WHY_SIZE]; /* reason of the first rejected message; not stored */
    const struct experiment_point *points;
    size_t point_count;
    const struct experiment_column *columns;
    size_t column_count;
    const struct experiment_expert *experts;
    size_t expert_count;
    const double *losses; /* NULL: not kept */
    size_t loss_count;
    const struct experiment_weight *weights;
    size_t weight_count;
    const void *parameters; /* NULL: not kept */
    size_t parameters_size;
};
int experiment_store_put(struct experiment_store *store, const struct experiment_outcome *outcome,
                         struct error *error);

#endif
