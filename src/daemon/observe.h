/* The learner's observer: running figures (metrics.h), the messages about learning (`loss`,
   `state`, `prediction`), results that a sender requested, and their subscribers. */
#ifndef RUNNEL_OBSERVE_H
#define RUNNEL_OBSERVE_H

#include <stddef.h>
#include <stdint.h>

struct daemon;
struct error;
struct learner_observer;
struct loss_fields;
struct status_fields;

/* Call after opening the learner. */
int observe_open(struct daemon *daemon, struct error *error);
void observe_close(struct daemon *daemon);

/* For learner_open; its context is the daemon. */
struct learner_observer observe_learner(struct daemon *daemon);

/* Restarts the running figures, at start and after a reset. */
void observe_begin(struct daemon *daemon);

/* Returns when the newest plan had been played (CLOCK_MONOTONIC in ns). */
uint64_t observe_played(const struct daemon *daemon);

/* Returns the number of examples taken and not yet observed. */
size_t observe_queued(const struct daemon *daemon);

/* Fills in the next `loss` from the newest examples. */
void observe_recent(const struct daemon *daemon, struct loss_fields *loss);

/* Returns examples learned per second since the newest interval began; NAN at the start. */
double observe_speed(const struct daemon *daemon);

/* Fills in fields of `status`: the speed and, for this run without replays, the count of inputs out
   of scale, and of labels by age or reason of refusal (target: later). */
void observe_report(const struct daemon *daemon, struct status_fields *status);

/* Publishes a `loss` that is due by time. */
void observe_turn(struct daemon *daemon);

/* Requests outputs from the learner if a subscriber needs them. */
void observe_want_outputs(struct daemon *daemon);

/* Takes new subscriptions and publishes the messages that they start with. */
void observe_subscriptions(struct daemon *daemon);

#endif
