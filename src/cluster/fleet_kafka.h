/* Fleets on Kafka (docs/explanation/fleets.md). The first daemon creates three topics for the state
   of the partitions:

   GROUP.claims (one partition, compacted): owner, offset and position of the states for each
   partition; each daemon's report about itself.
   GROUP.streams (as many partitions as the learned topic, compacted): states of its streams.
   GROUP.rounds (one partition): parameters for averages.

   A partition's record names its predecessor and counts only directly after it. So readers of
   GROUP.claims agree which of two records counts, even without transactions (librdkafka's mock
   cluster). */
#ifndef RUNNEL_FLEET_KAFKA_H
#define RUNNEL_FLEET_KAFKA_H

#include "fleet_link.h"

struct kafka_options;

/* Does not connect; the first function does. Both arguments outlive the link. Fails with EX_CONFIG
   if the group's name does not fit a topic. */
int fleet_kafka_open(struct fleet_link **link, const struct kafka_options *options,
                     const struct fleet_self *self, struct error *error);

#endif
