/* Results for tables: by stream and variant, over seeds. */
#ifndef RUNNEL_REPORT_SUMMARY_H
#define RUNNEL_REPORT_SUMMARY_H

#include "experiment_store.h"
#include "report_statistics.h"

/* One variant on one stream. */
struct summary_cell {
    const struct experiment_run *runs; /* (run_count,) by seed, including waiting ones */
    size_t run_count;
    size_t done, nonfinite, failed, waiting;             /* numbers of runs */
    struct statistics_sample measure, mean, skill, crps; /* over finished runs */
    double baseline;                                     /* mean over them; NaN: none */
    double rank; /* mean over the seeds for which all variants have finished; NaN: none */
    struct statistics_test test; /* against variant 0, on the seeds that both have finished */
    double holm;                 /* its p, adjusted over all variants of the stream */
    double seconds;              /* processor time per example; NaN: not measured */
    bool best; /* the mean of the measure is the best, and differs from all others */
};

struct summary_stream {
    const struct experiment_stream *stream;
    size_t measure;             /* of experiment_measures */
    bool likely;                /* skill is a difference: for logarithmic losses */
    double baseline;            /* baseline of all variants, if it is the same; else NaN */
    size_t seeds;               /* with a finished run */
    size_t nonfinite, failed;   /* runs */
    const char *verdict;        /* why no variant is the best; NULL: one is, or there is only one */
    struct summary_cell *cells; /* (variant_count,) */
};

/* A key whose values differ between variants. */
struct summary_key {
    const char *key, *brief;
};

struct summary {
    const struct experiment_results *results;
    struct summary_stream *streams; /* (results->stream_count,) */
    double *ranks;                  /* (variant_count,) over all streams and seeds; NaN: none */
    struct summary_key *keys;       /* (key_count,): settings that differ */
    size_t key_count;
    size_t over, nonfinite, failed; /* runs */
};

/* `measure`: a name, or NULL for that of the results, else skill if a stream has a baseline,
   else the mean loss. -1: EX_USAGE for an unknown measure, EX_DATAERR for one that no finished
   run has; out of memory. The summary points into `results`, and is freed with them. */
int summary_make(struct summary *summary, struct experiment_results *results, const char *measure,
                 struct error *error);

/* The device of the runs, from the results or else from the runs; NULL: unknown. */
const char *summary_device(const struct experiment_results *results);

/* The variant's value there; NULL: not set. */
const char *summary_setting(const struct experiment_variant *variant, const char *key);

/* Whether the variants' names only list their settings. */
bool summary_named_by_settings(const struct summary *summary);

#endif
