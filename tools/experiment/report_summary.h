/* Results as tables have them: by stream and variant, over seeds. */
#ifndef RUNNEL_REPORT_SUMMARY_H
#define RUNNEL_REPORT_SUMMARY_H

#include "experiment_store.h"
#include "report_statistics.h"

/* Of one variant on one stream. */
struct summary_cell {
    const struct experiment_run *runs; /* (run_count,) by seed, those that wait among them */
    size_t run_count;
    size_t done, nonfinite, failed, waiting;       /* of them */
    struct statistics_sample measure, mean, skill; /* over the runs that are done */
    double baseline;                               /* mean over them; NaN: there is none */
    double rank; /* mean over the seeds for which all variants are over; NaN: there are none */
    struct statistics_test test; /* against variant 0, on the seeds that both have done */
    double holm;                 /* its p, adjusted over all variants of the stream */
    double seconds;              /* of the processor, an example; NaN: nothing was measured */
    bool best; /* the mean of the measure is the best, and differs from that of all others */
};

struct summary_stream {
    const struct experiment_stream *stream;
    size_t measure;             /* of experiment_measures */
    bool likely;                /* skill is a difference: of losses that are logarithms */
    double baseline;            /* of all variants, where it is the same; else NaN */
    size_t seeds;               /* with a run that is over */
    size_t nonfinite, failed;   /* runs */
    const char *verdict;        /* why no variant is the best; NULL: one is, or there is only one */
    struct summary_cell *cells; /* (variant_count,) */
};

/* A key that not all variants have alike. */
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

/* `measure`: a name, or NULL for that of the results; where they have none, skill where a stream
   has a baseline, else the mean loss. -1: EX_USAGE for one that there is not,
   EX_DATAERR for one that was asked for and that no run has, though some are done; out of memory.
   What is made points into `results`, and is freed with them. */
int summary_make(struct summary *summary, struct experiment_results *results, const char *measure,
                 struct error *error);

/* What the runs were computed on, as the results or else their runs say; NULL: nothing is known. */
const char *summary_device(const struct experiment_results *results);

/* What a variant sets there; NULL: nothing. */
const char *summary_setting(const struct experiment_variant *variant, const char *key);

/* Whether the runs are those of a table: the variants' names say no more than their settings. */
bool summary_named_by_settings(const struct summary *summary);

#endif
