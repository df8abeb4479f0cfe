/* The learner: turns examples into plans by the online protocol (README.md: predict, then score,
   then learn), has an engine play them, and gives an observer the results of each example.

   It knows streams, windows, strides and targets, and no arithmetic. How many examples wait in one
   plan never changes a bit of what is learned or observed, but for `played`. */
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

/* Open a learner with fresh parameters (config.initial, else model_initialize) on an engine.
   `plan_steps` is the most steps in one plan, >= 1: fewer when their rows are wide. What it needs
   of `config` is copied; `model` must outlive it. */
int learner_open(struct learner **learner, const struct config *config, const struct model *model,
                 const struct engine_ops *engine, size_t plan_steps,
                 const struct learner_observer *observer, struct error *error);
void learner_close(struct learner **learner);

/* The same in two steps, for callers that may resume from a checkpoint: what is opened has
   parameters all zero, until learner_start gives it the fresh ones. config.initial is read only
   then. */
int learner_open_empty(struct learner **learner, const struct config *config,
                       const struct model *model, const struct engine_ops *engine,
                       size_t plan_steps, const struct learner_observer *observer,
                       struct error *error);
int learner_start(struct learner *learner, struct error *error);

/* Plan one example, copying what it needs; plays the plan whenever it is full. */
int learner_take(struct learner *learner, const struct example *example, struct error *error);

/* Play what is planned. After it every example taken has been observed. */
int learner_flush(struct learner *learner, struct error *error);

/* What its parts see of it (parts/part.h): what they know of streams is asked of them. */
struct part_host;
struct part_host *learner_host(const struct learner *learner);

enum { LEARNER_FORECASTS_MAX = 128 }; /* experts and members of scale: forecast */

#define LEARNER_ALL SIZE_MAX /* members */

/* In flight, between plans (the learner flushes first), of a member or of all. */
int learner_set_rate(struct learner *learner, size_t member, double rate, struct error *error);
int learner_set_clip(struct learner *learner, size_t member, double clip, struct error *error);
void learner_want_outputs(struct learner *learner, bool wanted);

/* A member's own rate and clip in the configuration are these from now on (member 0: also where
   there is none): learner_reset goes back to them, and
   one that is another than before takes effect. One that is not stays as it was set. */
int learner_configure(struct learner *learner, size_t member, double rate, double clip,
                      struct error *error);

/* Back to how learner_open left it: parameters, moments, streams, scaler and counters; rate, clip
   and threshold as configured. Returns 1, with nothing changed, when the starting values cannot be
   had (model.initial has gone, out of memory); -1 when the device has failed. */
int learner_reset(struct learner *learner, struct error *error);

/* The same of one member alone: its parameters, moments, least squares, hidden states and rates.
   Streams, experts, mixtures, counters and all other members stay. */
int learner_reset_member(struct learner *learner, size_t member, struct error *error);

/* Forget one stream's state, as if another had taken its place: what it has not yet learned from is
   dropped. Returns 1 when there is no such stream: nothing is changed; -1 when the device has
   failed. */
bool learner_has_stream(const struct learner *learner, const char *key, size_t key_size);
int learner_forget(struct learner *learner, const char *key, size_t key_size, struct error *error);

struct learner_counters learner_counters(const struct learner *learner);

/* Examples taken since the start of learning, observed or not. */
uint64_t learner_taken(const struct learner *learner);

/* What was taken or set last is the journal's entry at `position`. */
void learner_set_position(struct learner *learner, uint64_t position);
size_t learner_streams(const struct learner *learner);

/* Sums over the examples observed since they were cleared: while one is observed, itself included.
 */
const struct learner_errors *learner_errors(const struct learner *learner);
void learner_clear_errors(struct learner *learner);
double learner_rate(const struct learner *learner);
double learner_clip(const struct learner *learner);
const char *learner_device(const struct learner *learner);

/* The networks: one, whose name is "", or as many as `members` lists, perhaps none. The model of
   the one is the learner's. */
size_t learner_members(const struct learner *learner);
const char *learner_member_name(const struct learner *learner, size_t member);
const struct model *learner_member_model(const struct learner *learner, size_t member);

/* Threads that compute, the caller's among them. */
size_t learner_thread_count(const struct learner *learner);

/* Parameters that are learned, of all members. */
size_t learner_parameters(const struct learner *learner);

/* The member of that name; SIZE_MAX when there is none. */
size_t learner_member_named(const struct learner *learner, const char *name, size_t length);

/* Keep what is said until its truth comes (truth.h), or not: then no example costs anything of it,
   and `truth` is NULL in what is learned. scale: forecast always does. As statistics.predictions
   says, from learner_open on. */
int learner_keep_truths(struct learner *learner, bool wanted, struct error *error);

/* Whether it looks for anomalies; and from which score on they are alarms: to be set in flight. */
bool learner_watches(const struct learner *learner);
const char *learner_watches_not(const struct learner *learner); /* a sentence: why, though the
                                                                   preset says so; else "" */
int learner_set_threshold(struct learner *learner, double threshold, struct error *error);
int learner_configure_threshold(struct learner *learner, double threshold, struct error *error);

/* An alarm of novelty of the stream that is kept: anomaly_find_alarm. Returns 1 with a sentence
   (EX_USAGE) where there is none; -1 when the device has failed. */
int learner_find_alarm(struct learner *learner, const char *key, size_t key_size, double at,
                       struct anomaly_kept *found, struct error *error);

/* Mark one as normal: anomaly_mark_normal. Returns likewise; at 1 nothing is changed. */
int learner_mark_normal(struct learner *learner, const char *key, size_t key_size, double at,
                        struct anomaly_kept *found, struct error *error);

/* What parts publish, (PART_FIGURES,) of parts.def; NaN of those that are not there. */
void learner_figures(const struct learner *learner, double *figures);

/* Copy one tensor's parameters, in the table's layout. */
int learner_read_parameters(struct learner *learner, size_t member, size_t tensor, float *values,
                            struct error *error);

#endif
