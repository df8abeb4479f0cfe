/* The daemon as a member of a fleet: the partitions that it reads, its reports to the other
   daemons, and hand-overs. docs/explanation/fleets.md describes the protocol for users.

   A checkpoint is a commit: in one step, the broker gets the offset of each partition and the
   states of its streams. The next checkpoint waits until this one is acknowledged. So the previous
   checkpoint contains nothing that another daemon may learn again. If a partition has another
   owner, a rollback (rollback.h) removes the examples after its committed offset.

   Without fleet.lease, all functions do nothing. */
#ifndef RUNNEL_FLEET_H
#define RUNNEL_FLEET_H

#include <stdbool.h>
#include <stddef.h>

struct daemon;
struct error;
struct example;
struct status_fields;

/* Call after the journal has been replayed. The daemon joins in the background, and reads
   partitions only then. */
int fleet_open(struct daemon *daemon, struct error *error);

/* After fleet_hand_over, the others need not wait for the end of the lease. */
void fleet_close(struct daemon *daemon);

/* For zmq_poll; -1 without a fleet. */
int fleet_descriptor(const struct daemon *daemon);

/* Handles news of the fleet and starts the next job. Returns -1 if the daemon cannot continue. */
int fleet_turn(struct daemon *daemon, struct error *error);

/* Returns how many messages to take, at most `batch`: up to the next average, and 0 while
   parameters are averaged. */
size_t fleet_batch(const struct daemon *daemon, size_t batch);

/* Whether an example came from the wrong partition for its stream; if so, sets `why`. */
bool fleet_refuses(const struct daemon *daemon, const struct example *example, char *why,
                   size_t size);

/* Hands over all partitions when the daemon stops. Waits for the broker, but at most for a lease.
   Returns as fleet_turn does. */
int fleet_hand_over(struct daemon *daemon, struct error *error);

/* Fills the fleet's part of `status`; returns false without a fleet. */
bool fleet_report(struct daemon *daemon, struct status_fields *status);

#endif
