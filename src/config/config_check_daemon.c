/* Rules between the keys that do not affect learning: one section and one function of `checks`
   for each feature. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/address.h"
#include "common/error.h"
#include "common/mapping_options.h"
#include "common/topics.h"
#include "config_read.h"

/* ---- Sockets ---- */

static const struct {
    const char *bind, *connect, *allow;
    size_t socket, connected; /* offsets in the draft */
} sockets[SOCKET_ROLES] = {
    [SOCKET_EXAMPLES] = {"examples.bind", "examples.connect", "security.allow.examples",
                         offsetof(struct draft, config.examples),
                         offsetof(struct draft, examples_connect)},
    [SOCKET_STATISTICS] = {"statistics.bind", "statistics.connect", "security.allow.statistics",
                           offsetof(struct draft, config.statistics),
                           offsetof(struct draft, statistics_connect)},
    [SOCKET_CONTROL] = {"control.bind", "control.connect", "security.allow.control",
                        offsetof(struct draft, config.control),
                        offsetof(struct draft, control_connect)},
};

static struct socket_config *socket_of(struct reading *reading, size_t role) {
    return (struct socket_config *)(void *)((char *)&reading->draft + sockets[role].socket);
}

/* Whether ZeroMQ chooses a free port or path. */
static bool is_wildcard(const char *endpoint) {
    const char *colon = strrchr(endpoint, ':');
    return !strcmp(endpoint, "ipc://*") || !strcmp(colon, ":*") || !strcmp(colon, ":0");
}

/* Only one of bind and connect may be set. One from an override replaces the other. */
static int check_sockets(struct reading *reading) {
    for (size_t n = 0; n < SOCKET_ROLES; n++) {
        const struct place *bound = config_place(reading, sockets[n].bind);
        const struct place *connected = config_place(reading, sockets[n].connect);
        struct socket_config *socket = socket_of(reading, n);
        if (bound->given && connected->given && !bound->override == !connected->override)
            return config_fail(reading, sockets[n].connect,
                               "cannot be combined with %s; remove one of them", sockets[n].bind);
        socket->connect = connected->given && !(bound->given && bound->override);
        if (socket->connect)
            memcpy(socket->endpoint, (char *)&reading->draft + sockets[n].connected,
                   sizeof socket->endpoint);
    }
    for (size_t n = 1; n < SOCKET_ROLES; n++)
        for (size_t m = 0; m < n; m++) {
            const struct socket_config *a = socket_of(reading, n), *b = socket_of(reading, m);
            if (!a->connect && !b->connect && !is_wildcard(a->endpoint) &&
                !strcmp(a->endpoint, b->endpoint))
                return config_fail(reading, sockets[n].bind,
                                   "\"%s\" is also %s; use another endpoint", a->endpoint,
                                   sockets[m].bind);
        }
    return 0;
}

/* ---- Addresses and settings of brokers ---- */

/* Others may read the file, and a reload logs changes: settings of librdkafka and addresses must
   not contain secrets. */
static int check_settings(struct reading *reading, const char *key,
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
                                   "%s is a secret; use %.*s.user and %.*s.password_file", name,
                                   section, key, section, key);
    }
    return 0;
}

/* SCHEME://HOST... with one of the schemes; without schemes HOST:PORT,... A path may contain an
   '@'. */
static int check_address(struct reading *reading, const char *key, const char *schemes,
                         const char *text) {
    char scheme[CONFIG_TEXT_SIZE], list[CONFIG_TEXT_SIZE];
    const int section = (int)(strrchr(key, '.') - key);
    const char *rest = strstr(text, "://");
    static const char PATH[] = "unix:///";
    if (strchr(text, '@') && strncmp(text, PATH, strlen(PATH)) != 0)
        return config_fail(reading, key,
                           "the address contains a user; use %.*s.user and %.*s.password_file",
                           section, key, section, key);
    if (!schemes && rest)
        return config_fail(reading, key, "expected HOST:PORT,HOST:PORT, got \"%s\"", text);
    snprintf(scheme, sizeof scheme, "%.*s", rest ? (int)(rest - text) : 0, text);
    if (!schemes || config_words_contain(schemes, scheme, NULL))
        return 0;
    config_words_list(schemes, list, sizeof list);
    return config_fail(reading, key, "expected SCHEME://HOST:PORT with %s, got \"%s\"", list, text);
}

/* The first given key of the list, or NULL. */
static const char *given_among(const struct reading *reading, const char *const *keys) {
    while (*keys && !config_given(reading, *keys))
        keys++;
    return *keys;
}

/* ---- The broker for examples ---- */

/* A lease is renewed several times: shorter ones would expire on a busy machine. */
#define LEASE_MIN 0.5

static int check_fleet(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct consume_config *consume = &config->consume;
    const char *given = config_given_below(reading, "fleet");
    if (!given || (config->fleet.lease == 0 && !config->fleet.average_every))
        return 0;
    if (config->fleet.lease < LEASE_MIN)
        return config_fail(reading, given, "expected %s%g or more, got %g",
                           strcmp(given, "fleet.lease") == 0 ? "" : "fleet.lease of ", LEASE_MIN,
                           config->fleet.lease);
    if (!config_consumes(config))
        return config_fail(reading, given,
                           "requires examples.redis.stream or examples.kafka.topic, whose "
                           "partitions the fleet shares");
    if (consume->redis.latest || consume->kafka.latest)
        return config_fail(reading,
                           consume->redis.latest ? "examples.redis.from" : "examples.kafka.from",
                           "expected earliest with fleet.lease, got latest: a fleet begins with "
                           "the oldest message");
    return 0;
}

void config_mapping(const struct config *config, const char *fields[CONFIG_SHARES_MAX],
                    struct mapping_options *options) {
    static const struct mapping_names NAMES = {"examples.json.field", "examples.json.key_field",
                                               "examples.json.time_field",
                                               "examples.json.time_format", "examples.json.strict"};
    const struct share_config *list = &config->consume.json.field;
    const char *key = config->consume.json.key_field, *time = config->consume.json.time_field;
    const char *format = config->consume.json.time_format;
    for (size_t n = 0; n < list->count; n++)
        fields[n] = list->prefixes[n];
    *options = (struct mapping_options){.fields = fields,
                                        .count = list->count,
                                        .key = *key ? key : NULL,
                                        .time = *time ? time : NULL,
                                        .format = *format ? format : NULL,
                                        .strict = config->consume.json.strict,
                                        .names = &NAMES};
}

static int check_json(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct input *input = &config->architecture.input;
    const char *given = config_given_below(reading, "examples.json"), *fields[CONFIG_SHARES_MAX];
    struct mapping_options options;
    struct error error;
    if (!given)
        return 0;
    if (!config_consumes(config))
        return config_fail(reading, given,
                           "requires examples.redis.stream or examples.kafka.topic; runnel-feed "
                           "has options of the same names");
    if (input->column_count == 0)
        return config_fail(reading, given,
                           "requires model.input.columns, which names the numbers of x");
    config_mapping(config, fields, &options);
    const char *wrong = mapping_check(&options, &error);
    if (wrong)
        return config_fail(reading, wrong, "%s", error.text);
    if (options.count == 0 && !options.key && !options.time)
        return config_fail(reading, given, "requires examples.json.field, key_field or time_field");
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

static int check_consume(struct reading *reading) {
    static const char *const SOCKET[] = {"examples.bind",
                                         "examples.connect",
                                         "examples.socket",
                                         "examples.steps",
                                         "examples.max_jump",
                                         "security.allow.examples",
                                         NULL};
    const struct consume_config *consume = &reading->draft.config.consume;
    const char *redis = config_given_below(reading, "examples.redis");
    const char *kafka = config_given_below(reading, "examples.kafka");
    const char *broker = redis ? "examples.redis" : "examples.kafka";
    if (redis && kafka)
        return config_fail(reading, kafka, "cannot be combined with %s; configure one broker",
                           redis);
    if (redis && !*consume->redis.stream)
        return config_fail(reading, redis, "requires examples.redis.stream, the stream to read");
    if (kafka && !*consume->kafka.topic)
        return config_fail(reading, kafka, "requires examples.kafka.topic, the topic to read");
    if (check_fleet(reading) != 0 || check_json(reading) != 0)
        return -1;
    if (!redis && !kafka)
        return 0;
    if (redis &&
        check_address(reading, "examples.redis.url", "redis|unix", consume->redis.url) != 0)
        return -1;
    if (kafka &&
        (check_address(reading, "examples.kafka.brokers", NULL, consume->kafka.brokers) != 0 ||
         check_settings(reading, "examples.kafka.settings", &consume->kafka.settings) != 0))
        return -1;
    const char *socket = given_among(reading, SOCKET);
    if (socket)
        return config_fail(reading, socket,
                           "cannot be combined with %s, which replaces the examples socket; "
                           "remove one of them",
                           broker);
    if (!reading->draft.config.journal.enabled)
        return config_fail(reading, "state.journal.enabled",
                           "expected true with %s, whose position the journal stores, got false",
                           broker);
    return 0;
}

/* ---- Settings of runnel-relay ---- */

/* Published topics must be available. */
static int check_messages(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct share_config *messages = &config->publish.messages;
    bool predictions = messages->count == 0;
    for (size_t n = 0; n < messages->count; n++) {
        enum topic topic = topic_find(messages->prefixes[n], strlen(messages->prefixes[n]));
        if (topic == TOPICS)
            return config_fail(reading, "publish.messages",
                               "unknown topic \"%s\"; expected some of:" TOPIC_WORDS "" TOPIC_WORDS,
                               messages->prefixes[n]);
        predictions |= topic == TOPIC_PREDICTION;
    }
    if (predictions && config->predictions == PREDICTIONS_NONE)
        return config_fail(reading, "publish",
                           "predictions require statistics.predictions: true or all");
    return 0;
}

static int check_publish(struct reading *reading) {
    enum { BROKERS = 4 };
    const struct publish_config *publish = &reading->draft.config.publish;
    /* The key of each broker, the schemes of its addresses, and a key that only it has. */
    const struct {
        const char *key, *schemes, *own, *address;
    } brokers[BROKERS] = {
        {"publish.mqtt", "mqtt|mqtts|unix", NULL, publish->mqtt},
        {"publish.redis", "redis|unix", "publish.keep", publish->redis},
        {"publish.kafka", NULL, "publish.settings", publish->kafka},
        {"publish.nats", "nats|tls", "publish.credentials", publish->nats},
    };
    static const char *const OTHERS[] = {"publish.topic",
                                         "publish.messages",
                                         "publish.user",
                                         "publish.password_file",
                                         "publish.cafile",
                                         "publish.buffer",
                                         NULL};
    int broker = BROKERS;
    for (int n = 0; n < BROKERS; n++) {
        if (!*brokers[n].address)
            continue;
        if (broker < BROKERS)
            return config_fail(reading, brokers[n].key,
                               "cannot be combined with %s; configure "
                               "one broker",
                               brokers[broker].key);
        broker = n;
    }
    for (int n = 0; n < BROKERS; n++)
        if (n != broker && brokers[n].own && config_given(reading, brokers[n].own))
            return config_fail(reading, brokers[n].own, "requires %s", brokers[n].key);
    if (broker < BROKERS)
        return check_address(reading, brokers[broker].key, brokers[broker].schemes,
                             brokers[broker].address) ||
                       check_settings(reading, "publish.settings", &publish->settings)
                   ? -1
                   : check_messages(reading);
    const char *other = given_among(reading, OTHERS);
    return other ? config_fail(reading, other, "requires publish.mqtt, redis, kafka or nats") : 0;
}

/* ---- Security ---- */

/* Lists of keys require keys, and so do sockets that others can reach. */
static int check_security(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    bool keys = *config->security.secret != 0;
    for (size_t n = 0; n < SOCKET_ROLES && !keys; n++) {
        const struct socket_config *socket = socket_of(reading, n);
        if (*config->security.allow[n])
            return config_fail(reading, sockets[n].allow, "requires security.secret");
        if (config->security.insecure || socket->connect)
            continue;
        if (address_is_abstract(socket->endpoint))
            return config_fail(reading, sockets[n].bind,
                               "\"%s\" is an abstract socket that every user of this machine "
                               "can reach; use ipc with a path, or set security.secret "
                               "(runnel-keygen), or security.insecure: true to let all users do "
                               "everything",
                               socket->endpoint);
        if (!address_is_local(socket->endpoint))
            return config_fail(reading, sockets[n].bind,
                               "\"%s\" is reachable from other machines without keys; use "
                               "loopback or ipc, or set security.secret (runnel-keygen), or "
                               "security.insecure: true on a trusted network",
                               socket->endpoint);
    }
    return 0;
}

/* ---- State and paths ---- */

/* An acknowledgement means that the example is in the journal. */
static int check_journal(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    if (config->examples_socket == EXAMPLES_ROUTER && !config->journal.enabled)
        return config_fail(reading, "state.journal.enabled",
                           "expected true with examples.socket: router, which acknowledges "
                           "examples in the journal, got false");
    return 0;
}

/* Put the path below the first `size` bytes of a directory. */
static int put_below(struct reading *reading, const char *key, char path[CONFIG_PATH_SIZE],
                     const char *directory, size_t size, const char *rest) {
    char whole[2 * CONFIG_PATH_SIZE];
    int length = snprintf(whole, sizeof whole, "%.*s%s", (int)size, directory, rest);
    if (length >= CONFIG_PATH_SIZE)
        return config_fail(reading, key, "expected a path of at most %d bytes, got %d bytes",
                           CONFIG_PATH_SIZE - 1, length);
    strcpy(path, whole);
    return 0;
}

/* Resolve a path: ~/ is the home directory. A relative path begins in the directory of the file,
   and in an override in the working directory. */
static int resolve(struct reading *reading, const char *key, char path[CONFIG_PATH_SIZE]) {
    char rest[CONFIG_PATH_SIZE + 1];
    const char *file = reading->origin.path, *slash = strrchr(file, '/'), *home = getenv("HOME");
    snprintf(rest, sizeof rest, "/%s", path);
    if (!strcmp(path, "~") || !strncmp(path, "~/", 2))
        return home && *home == '/'
                   ? put_below(reading, key, path, home, strlen(home), rest + 2)
                   : config_fail(reading, key,
                                 "cannot resolve \"%s\": $HOME is not set; write an absolute "
                                 "path",
                                 path);
    if (*path && *path != '/' && slash && !config_place(reading, key)->override)
        return put_below(reading, key, path, file, (size_t)(slash - file), rest);
    return 0;
}

/* Other programs use the path in other directories. */
static int make_absolute(struct reading *reading, const char *key, char path[CONFIG_PATH_SIZE]) {
    char directory[CONFIG_PATH_SIZE], rest[CONFIG_PATH_SIZE + 1];
    if (*path == '/')
        return 0;
    if (!getcwd(directory, sizeof directory))
        return config_fail(reading, key,
                           "cannot resolve \"%s\" in the working directory: %s; write an "
                           "absolute path",
                           path, strerror(errno));
    snprintf(rest, sizeof rest, "/%s", path);
    return put_below(reading, key, path, directory, strlen(directory), rest);
}

/* $STATE_DIRECTORY is set by systemd: one or more absolute paths separated by colons. */
static int default_directory(struct reading *reading, const char *key) {
    struct config *config = &reading->draft.config;
    const char *systemd = getenv("STATE_DIRECTORY"), *state = getenv("XDG_STATE_HOME"),
               *home = getenv("HOME");
    int length;
    if (systemd && *systemd)
        length = snprintf(config->state_directory, CONFIG_PATH_SIZE, "%.*s",
                          (int)strcspn(systemd, ":"), systemd);
    else if (state && *state == '/')
        length = snprintf(config->state_directory, CONFIG_PATH_SIZE, "%s/runnel/%s", state,
                          config->name);
    else if (home && *home == '/')
        length = snprintf(config->state_directory, CONFIG_PATH_SIZE, "%s/.local/state/runnel/%s",
                          home, config->name);
    else
        return config_fail(reading, key,
                           "missing; expected a path, because $STATE_DIRECTORY, $XDG_STATE_HOME "
                           "and $HOME are not set");
    if (length >= CONFIG_PATH_SIZE)
        return config_fail(reading, key,
                           "the default from the environment has %d bytes, the limit is %d; set "
                           "this key",
                           length, CONFIG_PATH_SIZE - 1);
    return 0;
}

static int check_paths(struct reading *reading) {
    static const char state[] = "state.directory";
    for (size_t k = 0; k < config_key_count; k++)
        if (config_keys[k].type == &value_path &&
            resolve(reading, config_keys[k].path,
                    config_value_home(&config_keys[k], 0, &reading->draft)) != 0)
            return -1;
    return config_given(reading, state)
               ? make_absolute(reading, state, reading->draft.config.state_directory)
               : default_directory(reading, state);
}

/* ---- All checks ---- */

int config_check_daemon(struct reading *reading) {
    static int (*const checks[])(struct reading *) = {check_sockets,  check_consume, check_publish,
                                                      check_security, check_journal, check_paths};
    const struct config *config = &reading->draft.config;
    if (config->vectors && !strncmp(config->device, "cuda", strlen("cuda")))
        return config_fail(reading, "device", "expected cpu with statistics.vectors, got %s",
                           config->device);
    for (size_t n = 0; n < sizeof checks / sizeof *checks; n++)
        if (checks[n](reading) != 0)
            return -1;
    return 0;
}
