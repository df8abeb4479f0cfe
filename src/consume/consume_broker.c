#include "consume_broker.h"

#include <sysexits.h>

#include "brokers/kafka_options.h"
#include "brokers/redis_url.h"
#include "brokers/url.h"
#include "common/error.h"
#include "config/config.h"

_Static_assert((int)CONFIG_SHARES_MAX <= (int)OPTION_LIST_MAX, "all settings have room");

int consume_redis_url(const struct config *config, struct url *url, struct error *error) {
    if (url_parse(url, "examples.redis.url", config->consume.redis.url, REDIS_URL_SCHEMES,
                  REDIS_URL_FORM, error) == 0) {
        url->section = "examples.redis";
        if (url_login(url, config->consume.redis.user, config->consume.redis.password_file,
                      error) == 0)
            return 0;
    }
    error->status = EX_CONFIG;
    return -1;
}

static const char *given(const char *text) {
    return *text ? text : NULL;
}

void consume_kafka_options(const struct config *config, struct kafka_options *options) {
    *options = (struct kafka_options){.servers = config->consume.kafka.brokers,
                                      .user = given(config->consume.kafka.user),
                                      .password_file = given(config->consume.kafka.password_file),
                                      .section = "examples.kafka"};
    for (size_t n = 0; n < config->consume.kafka.settings.count; n++)
        options->settings.values[options->settings.count++] =
            config->consume.kafka.settings.prefixes[n];
}
