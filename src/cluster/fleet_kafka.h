/* A fleet whose daemons know of each other through Kafka: they are members of its consumer group
   (static ones, the daemon's name is group.instance.id), and the group says who is to have which
   partition, cooperatively: what goes is handed over before it comes elsewhere. What has become of
   each partition is in three topics, which the first daemon makes:

     GROUP.claims   one partition, compacted: for each partition who has it, how far it is learned,
                    and where its streams' states are; for each daemon what it says of itself
     GROUP.streams  as many as the topic that is learned has, compacted: states of its streams
     GROUP.rounds   one: what averages are made of

   A commit is a transaction: states, the record that makes them count, and the group's offsets.
   Whom the group has left behind it refuses. A record of a partition names the one before it, and
   counts only after that one: who reads GROUP.claims in its order knows which of two counts, also
   where a cluster has no transactions (librdkafka's mock). */
#ifndef RUNNEL_FLEET_KAFKA_H
#define RUNNEL_FLEET_KAFKA_H

#include "fleet_link.h"

struct kafka_options;

/* Does not connect yet: the first function does that. Both outlive the link. EX_CONFIG: no topic
   can be called as the group. */
int fleet_kafka_open(struct fleet_link **link, const struct kafka_options *options,
                     const struct fleet_self *self, struct error *error);

#endif
