/* The daemon as one of a fleet: which partitions it reads, what it tells the others, and what it
   takes over from them. docs/explanation/fleets.md is the protocol as users see it.

   A checkpoint is a commit: the broker is told how far each partition is learned, with the states
   of its streams, in one step, and no checkpoint begins before that has been answered for the one
   before. So the previous checkpoint has nothing that another daemon may learn again; when a
   partition turns out to be another's, what was learned of it beyond its committed offset is left
   out from there on (rollback.h).

   Without fleet.lease all of it does nothing. */
#ifndef RUNNEL_FLEET_H
#define RUNNEL_FLEET_H

#include <stdbool.h>
#include <stddef.h>

struct daemon;
struct error;
struct example;
struct status_fields;

/* After the journal has been replayed. It joins in the background, and reads no partition before.
 */
int fleet_open(struct daemon *daemon, struct error *error);

/* After fleet_hand_over the others need not wait for the end of the lease. */
void fleet_close(struct daemon *daemon);

/* For zmq_poll; -1 without a fleet. */
int fleet_descriptor(const struct daemon *daemon);

/* What has come from the others, and what is to be done now. -1: the daemon cannot continue. */
int fleet_turn(struct daemon *daemon, struct error *error);

/* How many messages may be taken, `batch` at most: none while parameters are averaged, and not
   beyond where they are next. */
size_t fleet_batch(const struct daemon *daemon, size_t batch);

/* Whether an example's stream belongs to another partition than the one it came from, and the
   sentence. */
bool fleet_refuses(const struct daemon *daemon, const struct example *example, char *why,
                   size_t size);

/* The daemon stops: hand over all that it has, which waits for the broker, but no longer than a
   lease. -1 as fleet_turn. */
int fleet_hand_over(struct daemon *daemon, struct error *error);

/* What `status` says of it; false without a fleet. */
bool fleet_report(struct daemon *daemon, struct status_fields *status);

#endif
