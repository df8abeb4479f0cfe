/* Rules of `examples.redis` and `examples.kafka`, which the daemon reads itself. */
#include <string.h>

#include "common/error.h"
#include "common/mapping_options.h"
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

/* ---- JSON ---- */

static const char *given_text(const char *text) {
    return *text ? text : NULL;
}

void config_mapping(const struct config *config, const char *fields[CONFIG_SHARES_MAX],
                    struct mapping_options *options) {
    static const struct mapping_names NAMES = {"examples.json.field", "examples.json.key_field",
                                               "examples.json.time_field",
                                               "examples.json.time_format", "examples.json.strict"};
    const struct share_config *list = &config->consume.json.field;
    for (size_t n = 0; n < list->count; n++)
        fields[n] = list->prefixes[n];
    *options = (struct mapping_options){.fields = fields,
                                        .count = list->count,
                                        .key = given_text(config->consume.json.key_field),
                                        .time = given_text(config->consume.json.time_field),
                                        .format = given_text(config->consume.json.time_format),
                                        .strict = config->consume.json.strict,
                                        .names = &NAMES};
}

static int check_json(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct input *input = &config->architecture.input;
    const char *given = given_below(reading, "examples.json."), *fields[CONFIG_SHARES_MAX];
    struct mapping_options options;
    struct error error;
    if (!given)
        return 0;
    if (!config_consumes(config))
        return config_fail(reading, given,
                           "found without examples.redis.stream and examples.kafka.topic, whose "
                           "messages it is for; runnel-feed has options of the same names");
    if (input->column_count == 0)
        return config_fail(reading, given,
                           "found without model.input.columns, which name the numbers of x");
    config_mapping(config, fields, &options);
    const char *wrong = mapping_check(&options, &error);
    if (wrong)
        return config_fail(reading, wrong, "%s", error.text);
    if (options.count == 0 && !options.key && !options.time)
        return config_fail(reading, given,
                           "found alone; needed is examples.json.field, key_field or time_field");
    for (size_t n = 0; n < options.count; n++) {
        size_t size = mapping_column(fields[n]), k = 0;
        while (k < input->column_count && (strncmp(input->columns[k].name, fields[n], size) != 0 ||
                                           input->columns[k].name[size]))
            k++;
        if (k == input->column_count)
            return config_fail(reading, options.names->field,
                               "unknown column '%.*s' (not in model.input.columns)", (int)size,
                               fields[n]);
    }
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
    if (check_fleet(reading) != 0 || check_json(reading) != 0)
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
