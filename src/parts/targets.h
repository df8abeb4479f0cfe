/* Targets of the one network: their source, their scaled form, and the steps that wait for them
   (model.output.target). With scale: forecast, experts.c sets the targets of every network
   instead. */
#ifndef RUNNEL_TARGETS_H
#define RUNNEL_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observer.h"

struct model;
struct part_host;
struct scored;
struct member;
struct learner_window;

/* Returns whether the window is valid for this model. */
bool targets_window_valid(const struct model *model, const struct member *member,
                          const struct learner_window *window);

/* Returns whether the open steps of the stream in a slot, by their places in the ring, have `terms`
   targets for learning. */
bool targets_terms_fit(const struct part_host *host, uint32_t slot, size_t position, size_t terms);

/* Adds a score of an output of a list to its sums. */
void targets_add(struct part_host *host, const struct scored *score);

const char *targets_label_refusal(enum label_refusal why);

/* Returns mean and deviation (2, target_size) of an open step's prediction; NULL: not scaled.
   `place`: model_place. */
double *targets_scale(const struct part_host *host, uint32_t slot, size_t place);

#endif
