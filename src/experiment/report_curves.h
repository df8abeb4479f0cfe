/* The course of a variant's runs: one curve for all seeds. */
#ifndef RUNNEL_REPORT_CURVES_H
#define RUNNEL_REPORT_CURVES_H

#include "report_summary.h"

enum { CURVE_SHARE = 20 }; /* a point is of a run's last CURVE_SHARE-th up to there */

struct report_curve {
    double *examples; /* (count,) up to here */
    double *mean;     /* (count,) over seeds; NaN: nothing is known there */
    double *least, *greatest;
    size_t count;
    size_t runs; /* that it is of */
};

/* Loss, or where the stream's measure is skill that of the last examples up to each point: nothing
   of what comes later. Of the runs that are done; where none is, of those that became nonfinite, as
   far as they came. The arrays are freed with `results`. */
int report_curve(struct report_curve *curve, struct experiment_results *results,
                 struct experiment_store *store, const struct summary_stream *stream,
                 const struct summary_cell *cell, struct error *error);

/* The same of the baseline's loss, of the first run that has one; no points: there is none. */
int report_curve_baseline(struct report_curve *curve, struct experiment_results *results,
                          struct experiment_store *store, const struct summary *summary,
                          const struct summary_stream *stream, struct error *error);

/* Whether the curves of the stream are of skill. */
bool report_curve_of_skill(const struct summary_stream *stream);

#endif
