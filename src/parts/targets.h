/* Targets of the one network: where they come from, what the network sees of them, and the steps
   that wait for them (model.output.target). With scale: forecast
   there are none: experts.c asks every network for its own. */
#ifndef RUNNEL_TARGETS_H
#define RUNNEL_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observer.h"

struct model;
struct part_host;
struct member;
struct learner_window;

/* Whether a window can be of this model. */
bool targets_window_valid(const struct model *model, const struct member *member,
                          const struct learner_window *window);

/* Whether open steps of the stream in a slot, by their places in the ring, have as many targets to
   be learned from as `terms` says. */
bool targets_terms_fit(const struct part_host *host, uint32_t slot, size_t position, size_t terms);

const char *targets_label_refusal(enum label_refusal why);

/* What an open step was predicted with: mean and deviation (2, target_size); NULL where targets are
   not scaled. `place`: model_place. */
double *targets_scale(const struct part_host *host, uint32_t slot, size_t place);

#endif
