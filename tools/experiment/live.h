/* An experiment on a live stream: one daemon, whose members are the variants. They learn the
   same examples, each as it would alone. A table is made from a recording of that daemon. */
#ifndef RUNNEL_EXPERIMENT_LIVE_H
#define RUNNEL_EXPERIMENT_LIVE_H

#include <stdio.h>

#include "experiment_plan.h"
#include "report.h"

/* Writes the daemon's whole configuration, with the commands as comments. -1 (EX_CONFIG): the
   error names the variant and the key that members cannot have, or reports too many variants or
   streams, or a missing scale: forecast. */
int live_print(const struct experiment_plan *plan, FILE *to, struct error *error);

/* The table from a recording by runnel-record or runnel-web, of the newest run of that daemon.
   Uses measure, csv and json of `options`. -1: EX_CONFIG as above, EX_NOINPUT, EX_DATAERR if the
   recording does not have the daemon, or is not a recording. */
int live_report(const struct experiment_plan *plan, const char *recording,
                const struct report_options *options, struct error *error);

#endif
