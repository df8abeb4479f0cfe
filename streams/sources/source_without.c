/* Sources that this build lacks, because a library was missing: only their names and the way to add
   them. */
#include "build-config.h"
#include "streams/feed.h"

#define WITHOUT(source, sentence, library, package, option)                                        \
    {                                                                                              \
        .command = {source, "...", sentence " (not in this build)"},                               \
        .missing = source ": this runnel-feed was built without " library "; install " package     \
                          " and build with configure " option                                      \
    }

#ifndef RUNNEL_MQTT
const struct source_type source_mqtt =
    WITHOUT("mqtt", "MQTT topics, with + and #", "libmosquitto", "libmosquitto-dev", "--with-mqtt");
#endif

#ifndef RUNNEL_REDIS
const struct source_type source_redis = WITHOUT("redis", "Redis streams through a consumer group",
                                                "hiredis", "libhiredis-dev", "--with-redis");
#endif

#ifndef RUNNEL_KAFKA
const struct source_type source_kafka = WITHOUT("kafka", "Kafka topics through a consumer group",
                                                "librdkafka", "librdkafka-dev", "--with-kafka");
#endif

#ifndef RUNNEL_CURL
const struct source_type source_prometheus =
    WITHOUT("prometheus", "metrics of a server in Prometheus format", "libcurl",
            "libcurl4-openssl-dev", "--with-curl");
const struct source_type source_http =
    WITHOUT("http", "JSON from an HTTP server, requested periodically", "libcurl",
            "libcurl4-openssl-dev", "--with-curl");
#endif

#ifndef RUNNEL_NATS
const struct source_type source_nats =
    WITHOUT("nats", "a NATS JetStream stream", "libnats", "libnats-dev", "--with-nats");
#endif

#ifndef RUNNEL_SYSTEMD
const struct source_type source_journal = WITHOUT("journal", "entries of systemd's journal",
                                                  "libsystemd", "libsystemd-dev", "--with-systemd");
#endif
