/* Rules of `publish`, which runnel-relay reads: the daemon only checks it. */
#include <stdio.h>
#include <string.h>

#include "common/topics.h"
#include "config_internal.h"

enum { BROKERS = 4 };

/* Of each: its key, the schemes of its addresses, and the keys that it alone has. */
static const struct {
    const char *key, *schemes, *own;
} brokers[BROKERS] = {
    {"publish.mqtt", "mqtt|mqtts|unix", NULL},
    {"publish.redis", "redis|unix", "publish.keep"},
    {"publish.kafka", NULL, "publish.settings"},
    {"publish.nats", "nats|tls", "publish.credentials"},
};

static bool is_given(const struct reading *reading, const char *path) {
    const struct place *place = config_place(reading, path);
    return place && place->given;
}

/* Others may read the file, and what is changed in it is published. */
int config_check_settings(struct reading *reading, const char *key,
                          const struct share_config *settings) {
    static const char *const SECRETS[] = {"password", "secret", "sasl.jaas.config", ".pem"};
    const int section = (int)(strrchr(key, '.') - key);
    for (size_t n = 0; n < settings->count; n++) {
        char name[CONFIG_SHARE_SIZE];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(settings->prefixes[n], "=: "),
                 settings->prefixes[n]);
        for (size_t i = 0; i < sizeof SECRETS / sizeof *SECRETS; i++)
            if (strcasestr(name, SECRETS[i]))
                return config_fail(reading, key,
                                   "found the secret %s; allowed are settings without one, beside "
                                   "%.*s.user and %.*s.password_file",
                                   name, section, key, section, key);
    }
    return 0;
}

/* SCHEME://HOST.., without a password, for the same reason; a path may have an '@'. */
int config_check_address(struct reading *reading, const char *key, const char *schemes,
                         const char *text) {
    char scheme[CONFIG_TEXT_SIZE], list[CONFIG_TEXT_SIZE];
    const int section = (int)(strrchr(key, '.') - key);
    const char *rest = strstr(text, "://");
    static const char PATH[] = "unix:///";
    if (strchr(text, '@') && strncmp(text, PATH, strlen(PATH)) != 0)
        return config_fail(reading, key,
                           "found an address with a user in it; allowed is one without, beside "
                           "%.*s.user and %.*s.password_file",
                           section, key, section, key);
    snprintf(scheme, sizeof scheme, "%.*s", rest ? (int)(rest - text) : 0, text);
    if (!schemes)
        return rest
                   ? config_fail(reading, key, "found \"%s\"; allowed is HOST:PORT,HOST:PORT", text)
                   : 0;
    if (config_words_contain(schemes, scheme, NULL))
        return 0;
    config_words_list(schemes, list, sizeof list);
    return config_fail(reading, key, "found \"%s\"; allowed is SCHEME://HOST:PORT with %s", text,
                       list);
}

/* What is published has to be there. */
static int check_messages(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct share_config *messages = &config->publish.messages;
    bool predictions = messages->count == 0;
    for (size_t n = 0; n < messages->count; n++) {
        enum topic topic = topic_find(messages->prefixes[n], strlen(messages->prefixes[n]));
        if (topic == TOPICS)
            return config_fail(reading, "publish.messages",
                               "found \"%s\"; allowed are:" TOPIC_WORDS, messages->prefixes[n]);
        predictions |= topic == TOPIC_PREDICTION;
    }
    if (predictions && config->predictions == PREDICTIONS_NONE)
        return config_fail(reading, "publish",
                           "found predictions to publish, with statistics.predictions: false; "
                           "needed is true or all");
    return 0;
}

int config_check_publish(struct reading *reading) {
    const struct publish_config *publish = &reading->draft.config.publish;
    const char *const addresses[BROKERS] = {publish->mqtt, publish->redis, publish->kafka,
                                            publish->nats};
    static const char *const OTHERS[] = {"publish.topic",  "publish.messages",
                                         "publish.user",   "publish.password_file",
                                         "publish.cafile", "publish.buffer"};
    int broker = BROKERS;
    for (int n = 0; n < BROKERS; n++) {
        if (!*addresses[n])
            continue;
        if (broker < BROKERS)
            return config_fail(reading, brokers[n].key, "found beside %s; allowed is one broker",
                               brokers[broker].key);
        broker = n;
    }
    for (int n = 0; n < BROKERS; n++)
        if (n != broker && brokers[n].own && is_given(reading, brokers[n].own))
            return config_fail(reading, brokers[n].own, "found without %s, which alone has it",
                               brokers[n].key);
    for (size_t n = 0; broker == BROKERS && n < sizeof OTHERS / sizeof *OTHERS; n++)
        if (is_given(reading, OTHERS[n]))
            return config_fail(reading, OTHERS[n],
                               "found without a broker; needed is publish.mqtt, redis, kafka or "
                               "nats");
    if (broker == BROKERS)
        return 0;
    return config_check_address(reading, brokers[broker].key, brokers[broker].schemes,
                                addresses[broker]) != 0 ||
                   config_check_settings(reading, "publish.settings", &publish->settings) != 0
               ? -1
               : check_messages(reading);
}
