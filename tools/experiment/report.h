/* Reports of an experiment's results: tables on the terminal, CSV, a page of HTML, files for
   TensorBoard, and the comparison with earlier results. Does not change results. */
#ifndef RUNNEL_REPORT_H
#define RUNNEL_REPORT_H

#include <stdbool.h>

#include "common/error.h"

/* NULL: not requested. */
struct report_options {
    const char *against;    /* a directory of results, or the file, to compare with */
    const char *csv, *html; /* files; "-" = standard output */
    const char *board;      /* directory for TensorBoard */
    const char *measure; /* measure of the table, ranks and tests; a name of experiment_measures */
    bool json;           /* the table, and the comparison, as JSON */
    bool quiet;          /* no table */
};

/* Checks that the measure exists, that standard output is used once, and that the results of
   --against can be read: 0, or -1 with EX_USAGE, or the status of opening. Call it before any
   run. */
int report_check(const struct report_options *options, struct error *error);

/* Checks the dependencies of the page and the event files: EX_UNAVAILABLE. Call it before long
   runs. */
int report_ready(const struct report_options *options, struct error *error);

/* `path`: a directory of results or the file in it. The table goes to standard output, unless
   another output does. -1: EX_NOINPUT, EX_DATAERR and EX_IOERR for input (EX_DATAERR also if
   `against` has no stream in common, or, after all output, no run), EX_CANTCREAT and EX_IOERR
   for output. */
int report_make(const char *path, const struct report_options *options, struct error *error);

struct experiment_results;

/* The same for results that were read or made elsewhere, without courses of runs: the table, or
   CSV and JSON if requested. */
int report_results(struct experiment_results *results, const struct report_options *options,
                   struct error *error);

#endif
