/* The results of examples: the learner's observer. Running figures (metrics.h), the messages about
   learning (`loss`, `state`, `prediction`), the results that a sender has asked for, and who
   subscribes to all that. */
#ifndef RUNNEL_OBSERVE_H
#define RUNNEL_OBSERVE_H

#include <stddef.h>
#include <stdint.h>

struct daemon;
struct error;
struct learner_observer;
struct loss_fields;
struct status_fields;

/* After the learner. */
int observe_open(struct daemon *daemon, struct error *error);
void observe_close(struct daemon *daemon);

/* For learner_open; its context is the daemon. */
struct learner_observer observe_learner(struct daemon *daemon);

/* Start the running figures again: at start and after a reset. */
void observe_begin(struct daemon *daemon);

/* When the newest plan had been played, CLOCK_MONOTONIC in ns. */
uint64_t observe_played(const struct daemon *daemon);

/* Examples taken, but not observed yet. */
size_t observe_queued(const struct daemon *daemon);

/* What the next `loss` would say of what has been learned lately. */
void observe_recent(const struct daemon *daemon, struct loss_fields *loss);

/* Examples learned per second since the newest interval began; NAN at the very beginning. */
double observe_speed(const struct daemon *daemon);

/* What `status` says of it: how fast it goes, and of this run, without those of a replay, numbers
   of inputs out of scale, and what came of labels (target: later), by age, or why nothing did. */
void observe_report(const struct daemon *daemon, struct status_fields *status);

/* Publish a `loss` that is due by time of what was learned since the last one. */
void observe_turn(struct daemon *daemon);

/* Ask the learner for outputs if anybody wants them. */
void observe_want_outputs(struct daemon *daemon);

/* Take new subscriptions, and publish what they are owed. */
void observe_subscriptions(struct daemon *daemon);

#endif
