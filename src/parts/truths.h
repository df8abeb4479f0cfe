/* Predictions with their truths (truth.h). Planning records predictions and truths in order; they
   are added after the plan has been played. */
#ifndef RUNNEL_TRUTHS_H
#define RUNNEL_TRUTHS_H

#include <stdbool.h>

#include "truth.h"

struct error;
struct part_host;
struct planned;

/* Starts or stops keeping predictions; the plan must be empty. scale: forecast always keeps
   them. */
int truths_keep(struct part_host *host, bool wanted, struct error *error);
bool truths_kept(const struct part_host *host);

/* Returns the coverage of intervals; 0 if none are kept. */
struct truth_coverage truths_coverage(const struct part_host *host);

/* Returns the kept predictions with scale: forecast, where the mixture adds them. */
struct truth *truths_of(const struct part_host *host);

/* Returns the step of an example whose results are delivered next. */
struct truth_step truths_step(const struct part_host *host, const struct planned *example);

#endif
