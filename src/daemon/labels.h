/* What came of labels in this run (target: later): counted by their age, and why others changed
   nothing. Those of a replay were counted when they came. */
#ifndef RUNNEL_LABELS_H
#define RUNNEL_LABELS_H

#include <stddef.h>

#include "learner/learner.h"

struct daemon;
struct error;
struct status_fields;

int labels_open(struct daemon *daemon, struct error *error);
void labels_close(struct daemon *daemon);

/* As learner_observer's `labelled` and `refused` have them. */
void labels_add(struct daemon *daemon, const struct example *label, size_t age, double time);
void labels_refuse(struct daemon *daemon, enum label_refusal why);

/* The fields `labels`. */
void labels_report(const struct daemon *daemon, struct status_fields *status);

#endif
