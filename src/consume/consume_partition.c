#include "consume_partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build-config.h"
#include "common/hash.h"
#include "config/config.h"

#ifdef RUNNEL_KAFKA
#    include <librdkafka/rdkafka.h>
#endif

enum { NUMBER_SIZE = 24 };

static bool is_of_redis(const struct config *config) {
    return *config->consume.redis.stream != 0;
}

/* "STREAM.3", "TOPIC[3]": 3. */
static bool is_named(const struct config *config, size_t count, const char *key, size_t key_size,
                     size_t *partition) {
    bool redis = is_of_redis(config);
    const char *stream = redis ? config->consume.redis.stream : config->consume.kafka.topic;
    char name[CONFIG_ADDRESS_SIZE + NUMBER_SIZE];
    size_t size = strlen(stream);
    if (key_size <= size + 1 || key_size >= size + NUMBER_SIZE || memcmp(key, stream, size) != 0)
        return false;
    memcpy(name, key, key_size);
    name[key_size] = '\0';
    *partition = strtoul(name + size + 1, NULL, 10);
    int length = snprintf(name, sizeof name, redis ? "%s.%zu" : "%s[%zu]", stream, *partition);
    return *partition < count && (size_t)length == key_size && memcmp(name, key, key_size) == 0;
}

#ifdef RUNNEL_KAFKA
static size_t by_kafka(const struct config *config, size_t count, const char *key,
                       size_t key_size) {
    int32_t found = 0, partitions = (int32_t)count;
    switch (config->consume.kafka.partitioner) {
    case KAFKA_MURMUR2:
        found = rd_kafka_msg_partitioner_murmur2(NULL, key, key_size, partitions, NULL, NULL);
        break;
    case KAFKA_CRC32:
        found = rd_kafka_msg_partitioner_consistent(NULL, key, key_size, partitions, NULL, NULL);
        break;
    case KAFKA_FNV1A:
        found = rd_kafka_msg_partitioner_fnv1a(NULL, key, key_size, partitions, NULL, NULL);
        break;
    }
    return found < 0 ? 0 : (size_t)found;
}
#else
static size_t by_kafka(const struct config *config, size_t count, const char *key,
                       size_t key_size) {
    (void)config, (void)count, (void)key, (void)key_size;
    return 0; /* nothing is read from it */
}
#endif

size_t consume_partition_of(const struct config *config, size_t count, const char *key,
                            size_t key_size) {
    size_t partition;
    if (is_named(config, count, key, key_size, &partition))
        return partition;
    return is_of_redis(config) ? hash_bytes(HASH_BEGIN, key, key_size) % count
                               : by_kafka(config, count, key, key_size);
}
