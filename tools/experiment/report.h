/* What is made of an experiment's results: tables on the terminal, CSV, a page of HTML, files for
   TensorBoard, and the comparison with an earlier result. Nothing here changes results. */
#ifndef RUNNEL_REPORT_H
#define RUNNEL_REPORT_H

#include <stdbool.h>

#include "common/error.h"

/* NULL: not asked for. */
struct report_options {
    const char *against;    /* a directory of results, or the file: compare with that */
    const char *csv, *html; /* files; "-" = standard output */
    const char *board;      /* directory for TensorBoard */
    const char *measure;    /* of the table, ranks and tests; a name of experiment_measures */
    bool json;              /* the table, and the comparison, as JSON */
    bool quiet;             /* no table */
};

/* Whether the options name a measure that there is, standard output once, and results to compare
   with that can be read: 0, or -1 with EX_USAGE, or what opening said. To be asked before anything
   runs. */
int report_check(const struct report_options *options, struct error *error);

/* Whether what the page and the event files need is installed: EX_UNAVAILABLE. To be asked before
   anything runs for hours. */
int report_ready(const struct report_options *options, struct error *error);

/* `path`: a directory of results or the file in it. The table goes to standard output, unless
   something else does. -1: EX_NOINPUT, EX_DATAERR and EX_IOERR of what is read (EX_DATAERR, too,
   when `against` has no stream in common, or, once all is written, no run), EX_CANTCREAT and
   EX_IOERR of what is written. */
int report_make(const char *path, const struct report_options *options, struct error *error);

struct experiment_results;

/* The same of results that were read or made elsewhere, and have no courses of runs: the table, or
   what of CSV and JSON was asked for. */
int report_results(struct experiment_results *results, const struct report_options *options,
                   struct error *error);

#endif
