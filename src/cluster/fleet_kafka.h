/* A fleet whose daemons know of each other through Kafka, by three topics:

     GROUP.fleet       one partition: the log of commands, and snapshots (fleet_machine.h)
     GROUP.states      as many as the topic that is learned has: states of its streams
     GROUP.parameters  one: what averages are made of

   All that is decided is decided by the order of the log, which every member computes for itself;
   so looking needs no network. The first daemon makes the topics; they keep what they are given,
   and a member deletes what nobody needs any more: commands before a snapshot, and states before
   those of a whole publication. */
#ifndef RUNNEL_FLEET_KAFKA_H
#define RUNNEL_FLEET_KAFKA_H

#include "fleet_link.h"

struct kafka_options;

/* Does not connect yet: the first function does that. Both outlive the link. EX_CONFIG: no topic
   can be called as the group. */
int fleet_kafka_open(struct fleet_link **link, const struct kafka_options *options,
                     const struct fleet_self *self, struct error *error);

/* For tests: a snapshot after so many messages of the log. */
void fleet_kafka_snapshots(struct fleet_link *link, int64_t messages);

#endif
