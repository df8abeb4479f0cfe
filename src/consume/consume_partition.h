/* Which partition a stream belongs to, as those who write to the broker choose it. */
#ifndef RUNNEL_CONSUME_PARTITION_H
#define RUNNEL_CONSUME_PARTITION_H

#include <stddef.h>

struct config;

/* Of `count` partitions. A stream that is called as one of them ("sensors.3" of Redis, "sensors[3]"
   of Kafka), as messages without a key are, belongs there; any other where the hash of its key
   says: of Redis FNV-1a of 64 bits modulo `count`, of Kafka what examples.kafka.partitioner is. */
size_t consume_partition_of(const struct config *config, size_t count, const char *key,
                            size_t key_size);

#endif
