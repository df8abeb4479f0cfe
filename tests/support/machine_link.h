/* A fleet on a log that is in memory, as a link of fleet_link.h: what fleet_kafka.h is over a real
   log, without one. Every command goes through its bytes and comes to the log twice. */
#ifndef RUNNEL_TESTS_MACHINE_LINK_H
#define RUNNEL_TESTS_MACHINE_LINK_H

#include "cluster/fleet_link.h"

struct machine_world;

/* -1: out of memory. Links are closed before their world. */
int machine_world_open(struct machine_world **world);
void machine_world_close(struct machine_world **world);

/* The text of `self` outlives the link. */
int machine_link_open(struct fleet_link **link, struct machine_world *world,
                      const struct fleet_self *self);

/* What no command does: the first claim gets this number; a daemon's lease is over; the open round
   waits since long ago; the machine becomes one that was loaded from its snapshot. */
void machine_first_claim(struct machine_world *world, uint64_t claim);
void machine_end_lease(struct machine_world *world, const char *name);
void machine_round_is_old(struct machine_world *world);
void machine_save_and_load(struct machine_world *world);

#endif
