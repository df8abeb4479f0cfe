/* Rules of `examples.redis` and `examples.kafka`, which the daemon reads itself. */
#include <string.h>

#include "config_internal.h"

static bool is_given(const struct reading *reading, const char *path) {
    const struct place *place = config_place(reading, path);
    return place && place->given;
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* A key of `section` ("examples.redis.") that is given; NULL: none is. */
static const char *given_below(const struct reading *reading, const char *section) {
    for (size_t k = 0; k < config_key_count; k++)
        if (begins(config_keys[k].path, section) && is_given(reading, config_keys[k].path))
            return config_keys[k].path;
    return NULL;
}

/* There is no socket beside the broker. */
static int check_socket_keys(struct reading *reading, const char *broker) {
    static const char *const SOCKET[] = {"examples.bind",     "examples.connect",
                                         "examples.socket",   "examples.steps",
                                         "examples.max_jump", "security.allow.examples"};
    for (size_t n = 0; n < sizeof SOCKET / sizeof *SOCKET; n++)
        if (is_given(reading, SOCKET[n]))
            return config_fail(reading, SOCKET[n],
                               "found beside %s; the daemon reads its examples there and opens no "
                               "socket for them: allowed is one of both",
                               broker);
    if (!reading->draft.config.journal.enabled)
        return config_fail(reading, "state.journal.enabled",
                           "found false with %s, of which the journal keeps how far it is learned; "
                           "allowed is true",
                           broker);
    return 0;
}

/* A lease is renewed several times: what is shorter ends whenever a machine is busy. */
#define LEASE_MIN 0.5

static int check_fleet(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const char *given = given_below(reading, "fleet.");
    if (!given || (config->fleet.lease == 0 && !config->fleet.average_every))
        return 0;
    if (config->fleet.lease < LEASE_MIN)
        return config_fail(reading, given, "found %s%g; allowed is %g or more",
                           strcmp(given, "fleet.lease") == 0 ? "" : "with fleet.lease ",
                           config->fleet.lease, LEASE_MIN);
    if (!*config->consume.redis.stream && !*config->consume.kafka.topic)
        return config_fail(reading, given,
                           "found without examples.redis.stream and examples.kafka.topic, whose "
                           "partitions a fleet shares out; needed is one of them");
    if (config->consume.redis.latest || config->consume.kafka.latest)
        return config_fail(
            reading, config->consume.redis.latest ? "examples.redis.from" : "examples.kafka.from",
            "found latest with fleet.lease; a fleet begins with the oldest message: "
            "allowed is earliest");
    return 0;
}

int config_check_consume(struct reading *reading) {
    const struct consume_config *consume = &reading->draft.config.consume;
    const char *redis = given_below(reading, "examples.redis.");
    const char *kafka = given_below(reading, "examples.kafka.");
    if (redis && kafka)
        return config_fail(reading, kafka, "found beside %s; allowed is one broker", redis);
    if (redis && !*consume->redis.stream)
        return config_fail(reading, redis,
                           "found without examples.redis.stream; needed is the stream to read");
    if (kafka && !*consume->kafka.topic)
        return config_fail(reading, kafka,
                           "found without examples.kafka.topic; needed is the topic to read");
    if (check_fleet(reading) != 0)
        return -1;
    if (!redis && !kafka)
        return 0;
    if (redis &&
        config_check_address(reading, "examples.redis.url", "redis|unix", consume->redis.url) != 0)
        return -1;
    if (kafka &&
        (config_check_address(reading, "examples.kafka.brokers", NULL, consume->kafka.brokers) !=
             0 ||
         config_check_settings(reading, "examples.kafka.settings", &consume->kafka.settings) != 0))
        return -1;
    return check_socket_keys(reading, redis ? "examples.redis" : "examples.kafka");
}
