#include "fleet_broker.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "build-config.h"
#include "common/error.h"
#include "consume/consume_broker.h"

#ifdef RUNNEL_KAFKA
#    include "fleet/fleet_kafka.h"
#endif
#ifdef RUNNEL_REDIS
#    include "fleet/fleet_redis.h"
#endif

static bool is_redis(const struct config *config) {
    return *config->consume.redis.stream != 0;
}

int fleet_broker_read(struct fleet_broker *broker, const struct config *config,
                      struct error *error) {
    static const char *const PARTITIONERS[] = {"murmur2", "crc32", "fnv1a"};
    if (is_redis(config)) {
        snprintf(broker->digest, sizeof broker->digest, "%s", config->compatible);
        broker->where = broker->url.name;
        broker->keeps = "appendonly";
        return consume_redis_url(config, &broker->url, error);
    }
    snprintf(broker->digest, sizeof broker->digest, "%s, %s%s", config->compatible,
             PARTITIONERS[config->consume.kafka.partitioner],
             config->consume.kafka.by_key ? ", by_key" : "");
    consume_kafka_options(config, &broker->kafka);
    broker->where = broker->kafka.servers;
    broker->keeps = "replicas";
    return 0;
}

void fleet_broker_self(const struct fleet_broker *broker, const struct config *config,
                       struct fleet_self *self) {
    const struct consume_config *consume = &config->consume;
    bool redis = is_redis(config);
    self->group = redis ? consume->redis.group : consume->kafka.group;
    self->stream = redis ? consume->redis.stream : consume->kafka.topic;
    self->digest = broker->digest;
    self->name = config->name;
    self->every = config->fleet.average_every;
    self->lease = config->fleet.lease;
}

int fleet_broker_open(struct fleet_broker *broker, const struct config *config,
                      const struct fleet_self *self, struct fleet_link **link,
                      struct error *error) {
    bool redis = is_redis(config);
#ifdef RUNNEL_REDIS
    if (redis)
        return fleet_redis_open(link, &broker->url, self, error);
#endif
#ifdef RUNNEL_KAFKA
    if (!redis)
        return fleet_kafka_open(link, &broker->kafka, self, error);
#endif
    (void)broker, (void)self, (void)link;
    return error_set(error, EX_UNAVAILABLE, "fleet.lease: this runneld was built without %s",
                     redis ? "hiredis" : "librdkafka");
}
