/* Results as one page of HTML that needs nothing from outside: head, tables, charts. */
#ifndef RUNNEL_REPORT_HTML_H
#define RUNNEL_REPORT_HTML_H

#include <stdio.h>

#include "report_summary.h"

/* `summary` is of `results`, whose memory grows. */
int report_html(const struct summary *summary, struct experiment_results *results,
                struct experiment_store *store, FILE *to, struct error *error);

#endif
