/* Results as a table of values: a row a run, all settings as columns, numbers in full. */
#ifndef RUNNEL_REPORT_CSV_H
#define RUNNEL_REPORT_CSV_H

#include <stdio.h>

#include "experiment_store.h"

/* -1: out of memory. */
int report_csv(const struct experiment_results *results, FILE *to);

#endif
