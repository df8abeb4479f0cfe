/* Results as event files for TensorBoard, with what its plugin hparams shows: settings beside
   results, a group of seeds as one. */
#ifndef RUNNEL_REPORT_BOARD_H
#define RUNNEL_REPORT_BOARD_H

#include "report_summary.h"

/* Makes DIRECTORY/EXPERIMENT/STREAM/VARIANT/seed-SEED for every run that is over. Event files that
   are there already are replaced. -1: EX_CANTCREAT, EX_IOERR, or what reading said. */
int report_board(const struct summary *summary, struct experiment_store *store,
                 const char *directory, struct error *error);

#endif
