#include "build-config.h"

#include "relay_sink.h"

const struct sink_type *const sink_types[] = {
#ifdef RUNNEL_MQTT
    &sink_mqtt,
#endif
#ifdef RUNNEL_REDIS
    &sink_redis,
#endif
#ifdef RUNNEL_KAFKA
    &sink_kafka,
#endif
#ifdef RUNNEL_NATS
    &sink_nats,
#endif
    NULL};
