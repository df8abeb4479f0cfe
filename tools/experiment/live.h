/* An experiment on a live stream: one daemon, whose members are the variants. They learn the same
   examples at once, each as it would alone; what a recording of that daemon has becomes a table. */
#ifndef RUNNEL_EXPERIMENT_LIVE_H
#define RUNNEL_EXPERIMENT_LIVE_H

#include <stdio.h>

#include "experiment_plan.h"
#include "report.h"

/* Write the daemon's whole configuration, with the commands that go with it as comments. -1
   (EX_CONFIG): the sentence names the variant and the key that members cannot have, or says that
   there are too many variants or streams, or no scale: forecast. */
int live_print(const struct experiment_plan *plan, FILE *to, struct error *error);

/* The table out of a recording by runnel-record or runnel-web: of the newest run of that daemon. Of
   `options` measure, csv and json count. -1: EX_CONFIG as above, EX_NOINPUT, EX_DATAERR where the
   recording has no such daemon, or is none. */
int live_report(const struct experiment_plan *plan, const char *recording,
                const struct report_options *options, struct error *error);

#endif
