/* The results of an experiment: one SQLite file, results.sqlite in the experiment's directory. One
   process writes it, others read it meanwhile (WAL); docs/reference/experiments.md has the tables.

   A run is written whole, in one transaction, when it is over, so that a process that is killed
   loses the runs that it was at and nothing else. A number that is not there is NULL in the file
   and NaN here; a text that is not there is NULL here, too.

   A store belongs to one thread at a time. Functions return 0, or -1 and a sentence that names the
   file: EX_NOINPUT when there is none, EX_DATAERR for one that is damaged or of something else,
   EX_IOERR where it cannot be read or written (the disk is full). */
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
    EXPERIMENT_WRITE, /* made where there is none */
};

/* `path` is the experiment's directory or the file in it. */
int experiment_store_open(struct experiment_store **store, const char *path,
                          enum experiment_access access, struct error *error);

/* After writing, the file is left without a log beside it. */
void experiment_store_close(struct experiment_store **store);

const char *experiment_store_path(const struct experiment_store *store);

/* ---- What is in it ---- */

/* A key that a variant sets. */
struct experiment_setting {
    const char *key;   /* full: "learning.optimizer.rate"; "model.layers.N.norm" of all layers */
    const char *brief; /* as it was written: "rate" */
    const char *value; /* as YAML */
};

struct experiment_variant {
    size_t variant; /* its number; 0 is the one that the others are tested against */
    const char *name;
    const struct experiment_setting *settings; /* (setting_count,) by key */
    size_t setting_count;
};

struct experiment_stream {
    size_t stream; /* its number */
    const char *name;
    const char *command; /* what was recorded: "runnel-feed csv FILE" */
    const char *digest;  /* of its messages, 16 hexadecimal digits; NULL: not recorded yet */
    uint64_t examples, bytes;
    const char *files; /* JSON: [{"path":, "size":, "digest":}] of each operand that is a file */
};

enum experiment_state {
    EXPERIMENT_WAITING,
    EXPERIMENT_DONE,
    EXPERIMENT_NONFINITE, /* it is over; a loss was not finite, or at the end no gradient was:
                             figures are over the finite losses */
    EXPERIMENT_FAILED,    /* it ended with `error` */
};
const char *experiment_state_name(enum experiment_state state); /* as in the file */

/* Of one run. */
struct experiment_figures {
    double mean, recent; /* loss over all scored examples, and over the last share of the run */
    double baseline, baseline_recent;
    double skill,
        skill_recent; /* 1 - mean / baseline; of losses that are logarithms the difference */
    double rmse, mae; /* in original units, over all columns and steps */
    double accuracy, bits;
};

/* The names of these figures, in their order: what `report.measure` may be. */
enum { EXPERIMENT_FIGURES = sizeof(struct experiment_figures) / sizeof(double) };
extern const struct experiment_figures experiment_no_figures; /* NaN, all of them */
struct experiment_measure {
    const char *name;   /* "skill_recent" */
    bool larger_better; /* skill, accuracy */
    const char *title;  /* for people: "skill, recent" */
};
extern const struct experiment_measure experiment_measures[EXPERIMENT_FIGURES];

/* The measure of that name; EXPERIMENT_FIGURES when there is none. */
size_t experiment_measure_named(const char *name);
static inline double experiment_figure(const struct experiment_figures *figures, size_t measure) {
    return ((const double *)figures)[measure];
}

/* A count that a recording does not say; in a file there is none. */
#define EXPERIMENT_UNKNOWN UINT64_MAX

struct experiment_run {
    int64_t run;            /* its number in the file */
    size_t variant, stream; /* numbers, as above */
    int64_t seed;
    enum experiment_state state;
    const char *error;         /* NULL: none */
    const char *configuration; /* all of it as resolved, YAML */
    const char *digest;        /* of that: all that decides what is computed */
    const char *data;          /* digest of the stream */
    const char *version, *device;
    uint64_t parameters, examples, rejected, steps;
    uint64_t scored; /* examples with a loss */
    uint64_t updates, skipped;
    double started;              /* Unix time */
    double seconds, cpu_seconds; /* of learning: of the wall, and of its thread */
    struct experiment_figures figures;
    const char *losses_digest;     /* of the bits of all losses in order, 16 hexadecimal digits */
    const char *parameters_digest; /* of those at the end */
};

/* All of it but what belongs to a run's course. */
struct experiment_results {
    const char *name;
    const char
        *measure;     /* what tables compare, when nothing else is asked for; NULL: by the rule */
    double recent;    /* share of a run */
    uint64_t points;  /* of a curve */
    const char *kept; /* what more is kept of a run: losses, weights, parameters */
    bool live; /* of a recording: the last variant is the daemon's own forecast, of all members */
    const char *version, *device, *isa;
    double started, finished;     /* Unix time; NaN: not yet */
    const char *text, *yaml_path; /* the experiment's YAML, and where it was */
    int64_t *seeds;               /* (seed_count,) */
    size_t seed_count;
    uint64_t total;                    /* runs planned */
    struct experiment_stream *streams; /* (stream_count,) by number */
    size_t stream_count;
    struct experiment_variant *variants; /* (variant_count,) by number */
    size_t variant_count;
    struct experiment_run *runs; /* (run_count,) by variant, stream, seed */
    size_t run_count;
    void *memory; /* of all the above, and what else is to be freed with it: experiment_memory.h */
};

int experiment_store_read(struct experiment_store *store, struct experiment_results *results,
                          struct error *error);
void experiment_results_clear(struct experiment_results *results);

/* The one of that number, and the run; NULL: there is none. */
const struct experiment_stream *experiment_stream_of(const struct experiment_results *results,
                                                     size_t number);
const struct experiment_run *experiment_run_of(const struct experiment_results *results,
                                               size_t variant, size_t stream, int64_t seed);

/* Where all runs stand, cheaply: for who watches one that is at work. */
struct experiment_progress {
    uint64_t total, over, nonfinite, failed;
};
int experiment_store_progress(struct experiment_store *store, struct experiment_progress *progress,
                              struct error *error);

/* ---- The course of a run: arrays that the caller frees; NULL and 0 where nothing was kept ---- */

/* Means over the examples since the point before. */
struct experiment_point {
    uint64_t examples, scored; /* up to here; of those since the point before */
    double mean, baseline, gradient_norm, update_ratio;
    double weight_norm; /* of all parameters, here; NaN at most points unless weights are kept */
};
int experiment_store_curve(struct experiment_store *store, int64_t run,
                           struct experiment_point **points, size_t *count, struct error *error);

enum { EXPERIMENT_NAME_SIZE = 128, EXPERIMENT_WHY_SIZE = 320 };

/* Of one number of the targets, in original units. */
struct experiment_column {
    char name[EXPERIMENT_NAME_SIZE]; /* "" : it has none */
    double rmse, mae, skill;
};
int experiment_store_columns(struct experiment_store *store, int64_t run,
                             struct experiment_column **columns, size_t *count,
                             struct error *error);

/* Of one expert or member of a forecast. */
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
    double norm, change; /* of the difference to the point before, at the first to the start */
};
/* ---- Writing ---- */

int experiment_store_begin(struct experiment_store *store, struct error *error);
int experiment_store_commit(struct experiment_store *store, struct error *error);
void experiment_store_undo(struct experiment_store *store);

/* A row of the table `experiment`; a value that is NULL is taken out. */
int experiment_store_say(struct experiment_store *store, const char *key, const char *value,
                         struct error *error);

/* Insert, or replace that of the same number. */
int experiment_store_stream(struct experiment_store *store, const struct experiment_stream *stream,
                            struct error *error);
int experiment_store_variant(struct experiment_store *store,
                             const struct experiment_variant *variant, struct error *error);

/* That this run is to be; nothing where it is there already. */
int experiment_store_plan(struct experiment_store *store, size_t variant, size_t stream,
                          int64_t seed, struct error *error);

/* Take out all runs that wait or have failed, to be planned again. */
int experiment_store_unplan(struct experiment_store *store, struct error *error);

/* A run that is over, with its course: replaces the one that waits. */
struct experiment_outcome {
    struct experiment_run run;          /* its number counts for nothing */
    char rejected[EXPERIMENT_WHY_SIZE]; /* why the first message was; not kept */
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
