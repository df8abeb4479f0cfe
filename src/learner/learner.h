/* The learner: turns examples into plans by the online protocol (README.md: predict, then score,
   then learn), has an engine play them, and passes the results of each example to an observer.

   It handles streams, windows, strides and targets, and no arithmetic. How many examples wait in
   one plan never changes a bit of the learned or observed values, except `played`. */
#ifndef RUNNEL_LEARNER_H
#define RUNNEL_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parts/observer.h"

struct config;
struct error;
struct example;
struct learner;

/* Opens a learner with fresh parameters (config.initial, otherwise model_initialize) on an engine.
   `plan_steps` >= 1 limits the steps in a plan: fewer if rows are wide. Copies what it needs of
   `config`; `model` must outlive it. */
int learner_open(struct learner **learner, const struct config *config, const struct model *model,
                 const struct engine_ops *engine, size_t plan_steps,
                 const struct learner_observer *observer, struct error *error);
void learner_close(struct learner **learner);

/* Open the learner in two steps, for callers that can resume from a checkpoint. The opened learner
   has zero parameters until learner_start sets fresh ones, which reads config.initial. */
int learner_open_empty(struct learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       size_t plan_steps, const struct learner_observer *observer,
                       struct error *error);
int learner_start(struct learner *learner, struct error *error);

/* Plans one example and copies its data; plays the plan when it is full. */
int learner_take(struct learner *learner, const struct example *example, struct error *error);

/* Plays the plan: then every example taken has been observed. */
int learner_flush(struct learner *learner, struct error *error);

/* Returns the learner as parts see it (parts/part.h); parts have the functions for streams. */
struct part_host;
struct part_host *learner_host(const struct learner *learner);

enum { LEARNER_FORECASTS_MAX = 128 }; /* experts and members of scale: forecast */

#define LEARNER_ALL SIZE_MAX /* all members */

/* Set values of one member or all at run time; the learner flushes first. */
int learner_set_rate(struct learner *learner, size_t member, double rate, struct error *error);
int learner_set_clip(struct learner *learner, size_t member, double clip, struct error *error);
void learner_want_outputs(struct learner *learner, bool wanted);
void learner_want_vectors(struct learner *learner, bool wanted);

/* Sets the configured rate and clip of a member (member 0 also without members), which
   learner_reset restores. A changed value takes effect; an unchanged one leaves the value in
   effect. */
int learner_configure(struct learner *learner, size_t member, double rate, double clip,
                      struct error *error);

/* Restores the state of learner_open: parameters, moments, streams, scaler and counters; rate, clip
   and threshold as configured. Returns 1 and changes nothing if starting values are unavailable
   (model.initial not found, out of memory); -1: the device has failed. */
int learner_reset(struct learner *learner, struct error *error);

/* Resets one member: its parameters, moments, least squares, hidden states and rates.
   Streams, experts, mixtures, counters and the other members stay. */
int learner_reset_member(struct learner *learner, size_t member, struct error *error);

/* Forgets one stream's state, without learning from its open steps. Returns 1 for an unknown
   stream; -1: the device has failed. */
bool learner_has_stream(const struct learner *learner, const char *key, size_t key_size);
int learner_forget(struct learner *learner, const char *key, size_t key_size, struct error *error);

struct learner_counters learner_counters(const struct learner *learner);

/* Returns examples taken since the start of learning, observed or not. */
uint64_t learner_taken(const struct learner *learner);

/* The last example or command is the journal's entry at `position`. */
void learner_set_position(struct learner *learner, uint64_t position);
size_t learner_streams(const struct learner *learner);

/* Sums over observed examples since they were cleared; during an observation, with its example. */
const struct learner_errors *learner_errors(const struct learner *learner);
void learner_clear_errors(struct learner *learner);
double learner_rate(const struct learner *learner);

/* The least of its members' (plasticity.h); NaN: not known yet. */
double learner_plasticity(const struct learner *learner);
double learner_clip(const struct learner *learner);

/* The device of the first member: for users, and for checkpoints (struct engine_ops). */
const char *learner_device(const struct learner *learner);
const char *learner_fingerprint(const struct learner *learner);

/* The networks: one without a name, or as many as `members` lists, perhaps none. The learner's
   model is that of the one. */
size_t learner_members(const struct learner *learner);
const char *learner_member_name(const struct learner *learner, size_t member);
const struct model *learner_member_model(const struct learner *learner, size_t member);

/* Computing threads, with the caller's. */
size_t learner_thread_count(const struct learner *learner);

/* Learned parameters of all members. */
size_t learner_parameters(const struct learner *learner);

/* Returns the member of that name; SIZE_MAX: not found. */
size_t learner_member_named(const struct learner *learner, const char *name, size_t length);

/* Keeps predictions until their truths arrive (truth.h), or does not: then examples cost less, and
   `truth` is NULL in struct learned. Initially set by statistics.predictions. scale: forecast
   always keeps them. */
int learner_keep_truths(struct learner *learner, bool wanted, struct error *error);

/* Returns whether anomaly detection is on; sets its threshold at run time. */
bool learner_watches(const struct learner *learner);
/* Returns why it is off although the preset requests it; otherwise "". */
const char *learner_watches_not(const struct learner *learner);
int learner_set_threshold(struct learner *learner, double threshold, struct error *error);
int learner_configure_threshold(struct learner *learner, double threshold, struct error *error);

/* Finds a kept alarm of the stream: anomaly_find_alarm. Returns 1 with an error
   (EX_USAGE) if no such alarm is kept; -1: the device has failed. */
int learner_find_alarm(struct learner *learner, const char *key, size_t key_size, double at,
                       struct anomaly_kept *found, struct error *error);

/* Marks an alarm as normal: anomaly_mark_normal. Returns the same; 1: unchanged. */
int learner_mark_normal(struct learner *learner, const char *key, size_t key_size,
                        enum anomaly_reason reason, double at, struct anomaly_kept *found,
                        struct error *error);

/* Fills in the figures of parts, (PART_FIGURES,) of parts.def; NaN without the part. */
void learner_figures(const struct learner *learner, double *figures);

/* Copies one tensor's parameters, in the table's layout. */
int learner_read_parameters(struct learner *learner, size_t member, size_t tensor, float *values,
                            struct error *error);

#endif
