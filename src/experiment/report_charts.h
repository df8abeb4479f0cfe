/* The charts of one stream: the course of all variants, the measure by variant with a dot a seed,
   and where variants differ in numbers or in two keys, the measure over those. */
#ifndef RUNNEL_REPORT_CHARTS_H
#define RUNNEL_REPORT_CHARTS_H

#include <stdio.h>

#include "report_summary.h"

/* `*id`: of the next chart of the page. */
int report_charts(const struct summary *summary, const struct summary_stream *stream,
                  struct experiment_results *results, struct experiment_store *store, FILE *to,
                  int *id, struct error *error);

#endif
