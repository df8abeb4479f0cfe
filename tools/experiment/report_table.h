/* A summary on the terminal, and the same as JSON. */
#ifndef RUNNEL_REPORT_TABLE_H
#define RUNNEL_REPORT_TABLE_H

#include <jansson.h>
#include <stdio.h>

#include "report_summary.h"

/* At most `width` columns wide where that can be had. -1: out of memory. */
int report_table(const struct summary *summary, FILE *to, int width);

/* A new reference; NULL: out of memory. */
json_t *report_json(const struct summary *summary);

/* ---- Beside results of an earlier call, of the same data ---- */

/* Of one variant on one stream, here and there. */
struct against_cell {
    const struct experiment_variant *variant; /* here; there where it is gone */
    const struct experiment_stream *stream;   /* here */
    enum { AGAINST_BOTH, AGAINST_NEW, AGAINST_GONE } where;
    bool same_settings;          /* else they have the name alone in common */
    double here, there;          /* mean of the measure over the seeds that both have done */
    struct statistics_test test; /* of the differences, here - there */
    double holm;
    size_t runs, equal; /* seeds with losses on both sides; of them with the same bits */
};

struct against {
    const char *path; /* of the other results */
    const struct experiment_results *here, *there;
    struct against_cell *cells; /* (count,) by stream, variants of here first */
    size_t count;
    size_t runs, equal;
};

/* Streams are the same when their data are, variants when their settings are, or else their names.
   -1: EX_DATAERR when no stream has the same data; out of memory. What is made is freed with
   `here`. */
int against_make(struct against *against, const struct summary *summary,
                 struct experiment_results *here, const struct experiment_results *there,
                 const char *path, struct error *error);

int against_print(const struct against *against, const struct summary *summary, FILE *to,
                  int width);

/* A new reference; NULL: out of memory. */
json_t *against_json(const struct against *against);

#endif
