/* A summary on the terminal, and as JSON. */
#ifndef RUNNEL_REPORT_TABLE_H
#define RUNNEL_REPORT_TABLE_H

#include <jansson.h>
#include <stdio.h>

#include "report_summary.h"

/* The table has at most `width` columns if possible. -1: out of memory. */
int report_table(const struct summary *summary, FILE *to, int width);

/* A new reference; NULL: out of memory. */
json_t *report_json(const struct summary *summary);

/* ---- Comparison with results of an earlier call, of the same data ---- */

/* One variant on one stream, here and there. */
struct against_cell {
    const struct experiment_variant *variant; /* here; there if it is gone */
    const struct experiment_stream *stream;   /* here */
    enum { AGAINST_BOTH, AGAINST_NEW, AGAINST_GONE } where;
    bool same_settings;          /* else they only have the same name */
    double here, there;          /* mean of the measure over the seeds that both have finished */
    struct statistics_test test; /* test of the differences, here - there */
    double holm;
    size_t runs, equal; /* seeds with losses on both sides; those with the same bits */
};

struct against {
    const char *path; /* of the other results */
    const struct experiment_results *here, *there;
    struct against_cell *cells; /* (count,) by stream, variants of here first */
    size_t count;
    size_t runs, equal;
};

/* Streams match by their data, variants by their settings or else by their names. -1: EX_DATAERR
   if no stream has the same data; out of memory. The result is freed with `here`. */
int against_make(struct against *against, const struct summary *summary,
                 struct experiment_results *here, const struct experiment_results *there,
                 const char *path, struct error *error);

int against_print(const struct against *against, const struct summary *summary, FILE *to,
                  int width);

/* A new reference; NULL: out of memory. */
json_t *against_json(const struct against *against);

#endif
