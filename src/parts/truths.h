/* Predictions beside their truths (truth.h): while a plan is made, what is said and which truths
   come is noted in order; when it has been played, both follow. */
#ifndef RUNNEL_TRUTHS_H
#define RUNNEL_TRUTHS_H

#include <stdbool.h>

#include "truth.h"

struct error;
struct part_host;
struct planned;

/* Begin to keep what is said, or stop: no plan waits. scale: forecast always keeps it. */
int truths_keep(const struct part_host *host, bool wanted, struct error *error);
bool truths_kept(const struct part_host *host);

/* How often intervals held; 0 where nothing is kept. */
struct truth_coverage truths_coverage(const struct part_host *host);

/* With scale: forecast, where the mixture says what comes when: what is kept. */
struct truth *truths_of(const struct part_host *host);

/* The step of an example whose results are given next. */
struct truth_step truths_step(const struct part_host *host, const struct planned *example);

#endif
