/* The sources that this build leaves out, since their libraries were not there: only their names,
   and what is missing. */
#include "build-config.h"
#include "streams/feed.h"

#define WITHOUT(what, sentence, library)                                                           \
    {                                                                                              \
        .command = {what, "...", sentence " (not in this build)"},                                 \
        .missing = "this runnel-feed was built without " library ", which it needs for " what      \
    }

#ifndef RUNNEL_MQTT
const struct source_type source_mqtt =
    WITHOUT("mqtt", "topics of MQTT, with + and #", "libmosquitto (libmosquitto-dev)");
#endif

#ifndef RUNNEL_REDIS
const struct source_type source_redis =
    WITHOUT("redis", "streams of Redis, through a consumer group", "hiredis (libhiredis-dev)");
#endif

#ifndef RUNNEL_KAFKA
const struct source_type source_kafka =
    WITHOUT("kafka", "topics of Kafka, through a consumer group", "librdkafka (librdkafka-dev)");
#endif

#ifndef RUNNEL_CURL
const struct source_type source_prometheus = WITHOUT(
    "prometheus", "metrics that a server offers to Prometheus", "libcurl (libcurl4-openssl-dev)");
const struct source_type source_http = WITHOUT(
    "http", "JSON that a server answers, asked again and again", "libcurl (libcurl4-openssl-dev)");
#endif

#ifndef RUNNEL_NATS
const struct source_type source_nats =
    WITHOUT("nats", "a stream of NATS JetStream", "libnats (libnats-dev)");
#endif

#ifndef RUNNEL_SYSTEMD
const struct source_type source_journal =
    WITHOUT("journal", "entries of systemd's journal", "libsystemd (libsystemd-dev)");
#endif
