/* What is measured while a run learns: figures over all of it and over its last share, a curve, and
   what else is to be kept. Beside learning itself it costs next to nothing. */
#ifndef RUNNEL_EXPERIMENT_COURSE_H
#define RUNNEL_EXPERIMENT_COURSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "experiment_store.h"

struct course;
struct error;
struct learned;
struct learner;
struct model;

struct course_options {
    size_t messages;   /* of the stream */
    uint64_t points;   /* of the curve, at most */
    double recent;     /* share of the messages */
    bool keep_losses;  /* of each example */
    bool keep_weights; /* norms and changes of each tensor at each point */
};

/* The learner has taken nothing yet; both must outlive the course. */
int course_open(struct course **course, const struct course_options *options,
                const struct model *model, struct learner *learner, struct error *error);
void course_close(struct course **course);

/* One more example, as the learner's observer is told. */
void course_add(struct course *course, const struct learned *learned);

/* Mean loss so far; NaN before one was scored. */
double course_mean(const struct course *course);

/* After how many messages, more than `next`, course_reach is to be called: the learner has been
   flushed then. */
size_t course_next(const struct course *course, size_t next);
int course_reach(struct course *course, size_t messages, struct error *error);

/* Figures, points, columns, experts, digests, losses and weights; state done or nonfinite. What is
   allocated is the outcome's. */
int course_finish(struct course *course, struct experiment_outcome *outcome, struct error *error);

#endif
