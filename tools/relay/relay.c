/* runnel-relay: writes a daemon's messages to a message broker. See runnel-relay(1). */
#include "build-config.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <yaml.h>

#include "cluster/brokers/url.h"
#include "common/clock.h"
#include "common/complain.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/hash.h"
#include "common/json_member.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/text.h"
#include "common/wire.h"
#include "relay_queue.h"
#include "relay_sink.h"
#include "tools/shared/ending.h"
#include "tools/shared/tool.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_names.h"

/* ---- Options ----

   The daemon, the broker, and the messages to relay. */

struct options {
    const char *config;   /* a file whose section `publish` sets options, or NULL */
    const char *endpoint; /* "": not in the file */
    struct key_options keys;
    /* "mqtt": the kind of broker; its address is target.address */
    const char *broker;
    struct sink_options target, of_file; /* of_file: the file's broker with its login */
    const char *topic;
    bool published[TOPICS];
    bool from_file; /* the broker is from the file and may be replaced */
    bool published_from_file;
    uint64_t buffer, count;
    double silence;

    const struct sink_type *type; /* set by relay_options_check, like target.url and name */
};

enum { BUFFER_MAX = 100000000, BUFFER_DEFAULT = 100000, KEEP_DEFAULT = 100000 };

/* Another broker must not get the file's login. */
static void drop_login(struct options *o) {
    const struct sink_options *file = &o->of_file;
    struct sink_options *target = &o->target;
    if (target->user == file->user)
        target->user = NULL;
    if (target->password_file == file->password_file)
        target->password_file = NULL;
    if (target->credentials == file->credentials)
        target->credentials = NULL;
}

static int set_broker(void *values, const struct option_row *row, const char *text,
                      struct error *error) {
    struct options *o = values;
    if (o->broker && !o->from_file)
        return error_set(error, EX_USAGE, "--%s: excludes --%s; set one broker", row->name,
                         o->broker);
    bool same =
        o->broker && strcmp(o->broker, row->name) == 0 && strcmp(o->target.address, text) == 0;
    if (o->from_file && !same)
        drop_login(o);
    o->from_file = false;
    o->broker = row->name;
    o->target.address = text;
    return 0;
}

static int add_topic_kind(void *values, const struct option_row *row, const char *text,
                          struct error *error) {
    struct options *o = values;
    enum topic topic = topic_find(text, strlen(text));
    if (topic == TOPICS)
        return error_set(error, EX_USAGE, "--%s: expected one of:" TOPIC_WORDS ", got '%s'",
                         row->name, text);
    if (o->published_from_file)
        memset(o->published, 0, sizeof o->published);
    o->published_from_file = false;
    o->published[topic] = true;
    return 0;
}

static const struct option_row relay_options[] = {
    {"config", 'f', "FILE",
     "read options from the section publish of a daemon's configuration; other options override "
     "it, and another broker does not get its login",
     OPTION_FILE(struct options, config)},
    {"connect", 'c', "ENDPOINT", "the daemon's statistics socket (default " WIRE_STATISTICS ")",
     OPTION_TEXT(struct options, endpoint)},
    KEY_OPTIONS(struct options, keys),
    {"mqtt", 0, "URL", "write to MQTT topics: mqtt://HOST[:PORT], mqtts://.., unix:///PATH",
     OPTION_TAKE(set_broker)},
    {"redis", 0, "URL", "write to Redis streams: redis://HOST[:PORT][/DATABASE], unix:///PATH",
     OPTION_TAKE(set_broker)},
    {"kafka", 0, "HOST:PORT,...", "write to Kafka topics", OPTION_TAKE(set_broker)},
    {"nats", 0, "URL", "write to NATS JetStream streams: nats://HOST[:PORT], tls://..",
     OPTION_TAKE(set_broker)},
    {"user", 0, "NAME", "log in to the broker as NAME", OPTION_TEXT(struct options, target.user)},
    {"password-file", 0, "FILE", "log in with the password in the first line of FILE",
     OPTION_FILE(struct options, target.password_file)},
    {"credentials", 0, "FILE", "nats: log in with the JWT and the key of the user in FILE",
     OPTION_FILE(struct options, target.credentials)},
    {"cafile", 0, "FILE",
     "with TLS: accept certificates of these authorities (default: the system's; nats: in addition "
     "to those)",
     OPTION_FILE(struct options, target.authorities)},
    {"setting", 0, "NAME=VALUE",
     "kafka: a librdkafka setting, such as security.protocol=ssl; may be repeated",
     OPTION_LIST(struct options, target.settings, OPTION_LIST_MAX)},
    {"topic", 't', "NAME",
     "topic of the messages; {stream}, {daemon} and {topic} are replaced (default: mqtt "
     "runnel/{daemon}/{topic}, redis runnel:{topic}, kafka runnel.{topic}, nats "
     "runnel.{daemon}.{topic})",
     OPTION_TEXT(struct options, topic)},
    {"publish", 'p', "TOPIC",
     "kinds of messages, may be repeated:" TOPIC_WORDS " (default: prediction)",
     OPTION_TAKE(add_topic_kind), .complete = COMPLETE_WORDS, .words = TOPIC_WORDS},
    {"keep", 'k', "N",
     "redis: maximum entries per stream, approximately; 0 = no limit (default 100000)",
     OPTION_COUNT(struct options, target.keep, 0, UINT32_MAX)},
    {"buffer", 0, "N", "maximum queued messages while the broker is unavailable (default 100000)",
     OPTION_COUNT(struct options, buffer, 1, BUFFER_MAX)},
    {"count", 'n', "N", "end after N messages are written",
     OPTION_COUNT(struct options, count, 1, UINT64_MAX)},
    {"silence", 's', "SECONDS", "warn if no message arrives for this time; 0 = never (default 15)",
     OPTION_SECONDS(struct options, silence)},
    OPTIONS_LAST,
};

/* Sets the defaults of the options. */
static void relay_options_default(struct options *options) {
    *options = (struct options){.endpoint = WIRE_STATISTICS,
                                .silence = HEALTH_SILENCE,
                                .buffer = BUFFER_DEFAULT,
                                .target.keep = KEEP_DEFAULT};
}

/* The brokers of this build. */
static const struct sink_type *const sink_types[] = {
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

/* Returns the kind of broker of an option, or NULL if this build lacks it. */
static const struct sink_type *find_sink(const char *name) {
    const struct sink_type *const *type = sink_types;
    while (*type && strcmp((*type)->name, name) != 0)
        type++;
    return *type;
}

static int complain_missing(const char *broker) {
    static const char *const libraries[][2] = {{"mqtt", "libmosquitto"},
                                               {"redis", "libhiredis"},
                                               {"kafka", "librdkafka"},
                                               {"nats", "libnats"}};
    const char *library = "its library";
    for (size_t n = 0; n < sizeof libraries / sizeof *libraries; n++)
        if (strcmp(libraries[n][0], broker) == 0)
            library = libraries[n][1];
    return complain(EX_UNAVAILABLE,
                    "--%s: this runnel-relay was built without %s; install %s-dev and build with "
                    "configure --with-%s",
                    broker, library, library, broker);
}

/* Returns OPTIONS_GO_ON, or an exit status after an error message. */
static int relay_options_check(struct options *o) {
    struct sink_options *target = &o->target;
    struct error error;
    if (!o->broker)
        return complain_usage(
            "missing broker: set --mqtt, --redis, --kafka or --nats, or --config");
    if (!*o->endpoint)
        return complain_usage("%s: the daemon connects its statistics socket; set --connect to the "
                              "address where it is bound",
                              o->config);
    o->type = find_sink(o->broker);
    if (!o->type)
        return complain_missing(o->broker);
    if (!o->topic)
        o->topic = o->type->topic;
    target->name = o->type->schemes ? target->url.name : target->address;
    if (o->type->schemes &&
        (url_parse(&target->url, o->broker, target->address, o->type->schemes, o->type->form,
                   &error) < 0 ||
         url_login(&target->url, target->user, target->password_file, &error) < 0))
        return error.status == EX_USAGE ? complain_usage("%s", error.text) : complain_error(&error);
    bool any = false;
    for (int topic = 0; topic < TOPICS; topic++)
        any |= o->published[topic];
    o->published[TOPIC_PREDICTION] |= !any;
    return key_options_ready(&o->keys) ? OPTIONS_GO_ON : EX_USAGE;
}

/* ---- Config ----

   The section `publish` of a daemon's configuration as options of runnel-relay; each key is an
   option. The daemon checks the section, but so does this program. */

/* Keys of publish and their options. */
static const struct {
    const char *key, *option;
    bool path, list;
} KEYS[] = {
    {"mqtt", "mqtt", false, false},
    {"redis", "redis", false, false},
    {"kafka", "kafka", false, false},
    {"nats", "nats", false, false},
    {"topic", "topic", false, false},
    {"messages", "publish", false, true},
    {"user", "user", false, false},
    {"password_file", "password-file", true, false},
    {"credentials", "credentials", true, false},
    {"cafile", "cafile", true, false},
    {"settings", "setting", false, true},
    {"keep", "keep", false, false},
    {"buffer", "buffer", false, false},
};
enum { KEYS_COUNT = sizeof KEYS / sizeof KEYS[0] };

struct relay_config {
    const char *path;
    yaml_document_t document;
    bool loaded;
    bool given[KEYS_COUNT];
    char *paths[KEYS_COUNT]; /* paths that are relative to the file */
    char *endpoint;
};

static int fail(const struct relay_config *config, const yaml_node_t *node, struct error *error,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
static int fail(const struct relay_config *config, const yaml_node_t *node, struct error *error,
                const char *format, ...) {
    char text[ERROR_TEXT_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    return error_set(error, EX_CONFIG, "%s:%zu: %s", config->path,
                     node ? node->start_mark.line + 1 : 1, text);
}

static int load(struct relay_config *config, struct error *error) {
    yaml_parser_t parser;
    FILE *file = fopen(config->path, "re");
    if (!file)
        return error_set(error, EX_NOINPUT, "%s: cannot open: %s", config->path,
                         error_of_file(errno));
    if (!yaml_parser_initialize(&parser)) {
        fclose(file);
        return error_no_memory(error);
    }
    yaml_parser_set_input_file(&parser, file);
    config->loaded = yaml_parser_load(&parser, &config->document);
    if (!config->loaded)
        error_set(error, EX_CONFIG, "%s:%zu: invalid YAML: %s", config->path,
                  parser.problem_mark.line + 1, parser.problem ? parser.problem : "");
    yaml_parser_delete(&parser);
    fclose(file);
    return config->loaded ? 0 : -1;
}

static const char *text_of(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

/* Returns the value of the key, or NULL. */
static yaml_node_t *member(struct relay_config *config, const yaml_node_t *node, const char *key) {
    if (!node || node->type != YAML_MAPPING_NODE)
        return NULL;
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const char *name = text_of(yaml_document_get_node(&config->document, pair->key));
        if (name && strcmp(name, key) == 0)
            return yaml_document_get_node(&config->document, pair->value);
    }
    return NULL;
}

/* Expands "~/" to the home directory, and relative paths to the file's directory, as the daemon
   does. Returns NULL if out of memory. */
static const char *whole_path(struct relay_config *config, size_t key, const char *text) {
    const char *slash = strrchr(config->path, '/'), *home = getenv("HOME");
    int size = 0;
    if (strncmp(text, "~/", 2) == 0 && home)
        size = asprintf(&config->paths[key], "%s%s", home, text + 1);
    else if (*text != '/' && slash)
        size = asprintf(&config->paths[key], "%.*s/%s", (int)(slash - config->path), config->path,
                        text);
    else
        return text;
    if (size < 0)
        config->paths[key] = NULL;
    return config->paths[key];
}

static int set_text(struct relay_config *config, size_t key, const yaml_node_t *node,
                    struct options *options, struct error *error) {
    const char *text = text_of(node);
    struct error reason;
    if (!text)
        return fail(config, node, error, "publish.%s: expected a text or a number", KEYS[key].key);
    if (KEYS[key].path && !(text = whole_path(config, key, text)))
        return error_no_memory(error);
    if (option_set(relay_options, options, KEYS[key].option, text, &reason) == 0)
        return 0;
    return fail(config, node, error, "publish.%s: %s", KEYS[key].key, reason.text);
}

/* Takes a value or a list of values. */
static int take(struct relay_config *config, const char *name, yaml_node_t *node,
                struct options *options, struct error *error) {
    size_t key = 0;
    while (key < KEYS_COUNT && strcmp(KEYS[key].key, name) != 0)
        key++;
    if (key == KEYS_COUNT)
        return fail(config, node, error, "publish.%s: unknown key; see runnel.yaml(5)", name);
    if (config->given[key])
        return fail(config, node, error, "publish.%s: duplicate key", name);
    config->given[key] = true;
    if (node->type == YAML_SEQUENCE_NODE && !KEYS[key].list)
        return fail(config, node, error, "publish.%s: expected one value, got a list", name);
    if (node->type != YAML_SEQUENCE_NODE)
        return set_text(config, key, node, options, error);
    for (const yaml_node_item_t *item = node->data.sequence.items.start;
         item < node->data.sequence.items.top; item++)
        if (set_text(config, key, yaml_document_get_node(&config->document, *item), options,
                     error) < 0)
            return -1;
    return 0;
}

/* Sets the endpoint that the daemon binds, on this machine. */
static int set_endpoint(struct relay_config *config, const yaml_node_t *root,
                        struct options *options, struct error *error) {
    static const char *const EVERYWHERE[] = {"tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:"};
    const yaml_node_t *statistics = member(config, root, "statistics");
    const char *endpoint = text_of(member(config, statistics, "bind"));
    if (member(config, statistics, "connect"))
        endpoint = ""; /* then --connect is required */
    for (size_t n = 0; endpoint && n < sizeof EVERYWHERE / sizeof *EVERYWHERE; n++) {
        size_t size = strlen(EVERYWHERE[n]);
        if (strncmp(endpoint, EVERYWHERE[n], size) != 0)
            continue;
        if (asprintf(&config->endpoint, "tcp://127.0.0.1:%s", endpoint + size) < 0) {
            config->endpoint = NULL;
            return error_no_memory(error);
        }
        endpoint = config->endpoint;
    }
    if (endpoint)
        options->endpoint = endpoint;
    return 0;
}

/* Sets the options from the file, including the daemon's statistics socket. The options point into
   `*result`, which must outlive them. Fails with EX_NOINPUT or EX_CONFIG. */
static int relay_config_open(struct relay_config **result, const char *path,
                             struct options *options, struct error *error) {
    struct relay_config *config = *result = calloc(1, sizeof *config);
    if (!config)
        return error_no_memory(error);
    config->path = path;
    if (load(config, error) < 0)
        return -1;
    yaml_node_t *root = yaml_document_get_root_node(&config->document);
    yaml_node_t *publish = member(config, root, "publish");
    if (!publish || publish->type != YAML_MAPPING_NODE)
        return fail(config, publish, error,
                    "missing section publish, which sets the broker; see runnel.yaml(5)");
    for (const yaml_node_pair_t *pair = publish->data.mapping.pairs.start;
         pair < publish->data.mapping.pairs.top; pair++) {
        const char *name = text_of(yaml_document_get_node(&config->document, pair->key));
        if (take(config, name ? name : "", yaml_document_get_node(&config->document, pair->value),
                 options, error) < 0)
            return -1;
    }
    options->from_file = options->published_from_file = true;
    options->of_file = options->target;
    return set_endpoint(config, root, options, error);
}

static void relay_config_close(struct relay_config **pointer) {
    struct relay_config *config = *pointer;
    if (!config)
        return;
    if (config->loaded)
        yaml_document_delete(&config->document);
    for (size_t key = 0; key < KEYS_COUNT; key++)
        free(config->paths[key]);
    free(config->endpoint);
    free(config);
    *pointer = NULL;
}

#define LINGER_SECONDS 5.0
#define TICK_SECONDS 1.0

enum {
    MESSAGES_AT_ONCE = 1000, /* between two checks of signals and the time */
    TOPIC_SIZE = 1024,
    DAEMON_SIZE = 65,
    ID_SIZE = 128,
};

struct relay {
    struct options options;
    struct sink *sink;
    struct queue *queue;
    struct link *link;
    struct health health;
    char name[DAEMON_SIZE]; /* of the daemon */
    char *target_names;     /* JSON list of the targets' names; NULL: none */
    bool refused, no_predictions_reported, hindrance_reported;
    uint64_t taken; /* messages added to the queue */
};

/* ---- Messages ---- */

static void note(void *context, const char *text) {
    (void)context;
    complain(EX_OK, "%s", text);
}

/* Appends `word` to the topic. Replaces separators, wildcards and unprintable characters. */
static size_t put_word(const struct sink_type *type, char *topic, size_t used, const char *text) {
    char copy[WIRE_KEY_MAX + 1];
    for (const char *word = text_copy(copy, sizeof copy, text); *word && used + 1 < TOPIC_SIZE;
         word++) {
        bool bad = type->kept ? !strchr(type->kept, *word) : strchr(type->replaced, *word) != NULL;
        topic[used++] = bad ? '_' : *word;
    }
    return used;
}

/* Cuts a topic that is too long for the broker, and ends it with a hash of the whole. */
static void fit_topic(const struct sink_type *type, char *topic) {
    enum { HASH_SIZE = 17 }; /* "-0123456789abcdef" */
    size_t size = strlen(topic);
    if (type->topic_max == 0)
        return;
    if (size > type->topic_max)
        snprintf(topic + type->topic_max - HASH_SIZE, HASH_SIZE + 1, "-%016llx",
                 (unsigned long long)hash_bytes(HASH_BEGIN, topic, size));
    if (strcmp(topic, ".") == 0 || strcmp(topic, "..") == 0)
        memset(topic, '_', size);
}

/* Makes the message's topic from the option's pattern. */
static void make_topic(const struct relay *r, const struct message *message,
                       char topic[TOPIC_SIZE]) {
    static const char *const MARKS[] = {"{stream}", "{daemon}", "{topic}"};
    const char *stream = member_string(message->body, "stream");
    const char *const words[] = {stream && *stream ? stream : "_", r->name,
                                 topic_names[message->topic]};
    size_t used = 0;
    for (const char *c = r->options.topic; *c && used + 1 < TOPIC_SIZE;) {
        int mark = 0;
        while (mark < 3 && strncmp(c, MARKS[mark], strlen(MARKS[mark])) != 0)
            mark++;
        if (mark < 3) {
            used = put_word(r->options.type, topic, used, words[mark]);
            c += strlen(MARKS[mark]);
        } else {
            topic[used++] = *c++;
        }
    }
    topic[used] = '\0';
    fit_topic(r->options.type, topic);
}

/* Takes names from `status`, separated by commas, as a list. */
static void set_names(struct relay *r, const char *names) {
    json_t *list = json_array();
    size_t length;
    const char *name;
    for (size_t n = 0; (name = names_find(names, n, &length)); n++)
        json_array_append_new(list, json_stringn(name, length));
    free(r->target_names);
    r->target_names = json_array_size(list) ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
}

/* Adds a last member to the message: the names of the columns in its lists. */
static void add_names(const struct relay *r, struct message *message) {
    static const char form[] = ",\"target_names\":%s}";
    bool has_lists = message->topic == TOPIC_PREDICTION || message->topic == TOPIC_LOSS;
    char *end = strrchr(message->text, '}');
    if (!has_lists || !r->target_names || !end || end == strchr(message->text, '{') + 1)
        return;
    size_t used = (size_t)(end - message->text);
    size_t size = strlen(r->target_names) + sizeof form;
    char *text = realloc(message->text, used + size);
    if (!text)
        return;
    message->text = text;
    snprintf(text + used, size, form, r->target_names);
}

static void take_status(struct relay *r, const json_t *body) {
    const char *name = member_string(body, "name");
    const json_t *predictions = json_object_get(body, "predictions");
    set_names(r, member_string(body, fields_of_status[STATUS_target_names].key));
    if (name)
        snprintf(r->name, sizeof r->name, "%s", name);
    bool none = json_is_false(predictions) && r->options.published[TOPIC_PREDICTION];
    if (none && !r->no_predictions_reported)
        complain(EX_OK,
                 "%s does not publish predictions; set statistics.predictions: true in its "
                 "configuration",
                 r->name);
    r->no_predictions_reported = none;
}

/* Makes a unique ID. Returns false if the daemon's message has no printable run and sequence. */
static bool make_id(const struct message *message, char id[ID_SIZE]) {
    const char *run = member_string(message->body, "run");
    double sequence = 0;
    member_number(message->body, "sequence", &sequence);
    int size =
        snprintf(id, ID_SIZE, "%s/%s/%.0f", run ? run : "", topic_names[message->topic], sequence);
    bool good = run && *run && size < ID_SIZE;
    for (const char *byte = id; *byte && good; byte++)
        good = *byte > ' ' && *byte < '\x7f';
    return good;
}

static void take_message(struct relay *r, struct message *message) {
    char topic[TOPIC_SIZE], id[ID_SIZE];
    if (message->problem)
        return;
    if (message->topic == TOPIC_STATUS)
        take_status(r, message->body);
    if (!r->options.published[message->topic])
        return;
    make_topic(r, message, topic);
    bool named = make_id(message, id);
    add_names(r, message);
    const char *stream = member_string(message->body, "stream");
    queue_add(r->queue, topic, stream, named ? id : NULL, message->text);
    message->text = NULL; /* owned by the queue now */
    r->taken++;
}

static void take_change(struct relay *r, enum runnel_kind change) {
    bool hindered = change == RUNNEL_HINDERED && !r->hindrance_reported;
    r->refused |= change == RUNNEL_REFUSED;
    r->hindrance_reported |= hindered;
    if (hindered || change == RUNNEL_REFUSED)
        complain(EX_OK, "%s", link_refusal(r->link));
    health_changed(&r->health, change);
}

static bool is_done(const struct relay *r) {
    return r->options.count && r->taken >= r->options.count;
}

static void take_messages(struct relay *r) {
    struct message message;
    enum runnel_kind kind;
    for (int i = 0; i < MESSAGES_AT_ONCE && !is_done(r) &&
                    (kind = link_next(r->link, &message)) != RUNNEL_NOTHING;
         i++) {
        if (kind != RUNNEL_MESSAGE) {
            take_change(r, kind);
            continue;
        }
        health_message(&r->health, &message);
        take_message(r, &message);
        message_clear(&message);
    }
}

/* ---- Main loop ---- */

static int run(struct relay *r) {
    bool broken = false;
    while (!ending_asked() && !is_done(r) && !r->refused && !broken) {
        struct pollfd items[] = {{.fd = link_descriptor(r->link), .events = POLLIN},
                                 {.fd = ending_descriptor(), .events = POLLIN},
                                 {.fd = queue_descriptor(r->queue), .events = POLLIN}};
        poll(items, 3, clock_milliseconds(fmin(TICK_SECONDS, health_next(&r->health))));
        broken = items[2].revents;
        take_messages(r);
        health_tick(&r->health, false);
    }
    health_tick(&r->health, true);
    return r->refused ? complain(EX_UNAVAILABLE, "access denied: this key may not subscribe (see "
                                                 "security.allow in the daemon's configuration)")
                      : EX_OK;
}

/* Waits until the queue is written, and reports the counts; with --count without a time limit. */
static int finish(struct relay *r, int status) {
    struct queue_counts counts;
    struct error error;
    int refused = queue_close(&r->queue, is_done(r) ? INFINITY : LINGER_SECONDS, &counts, &error);
    complain(EX_OK,
             "wrote %llu messages; %llu lost before they arrived here, %llu dropped, %llu not "
             "written, %llu too large",
             (unsigned long long)counts.written, (unsigned long long)r->health.missed_total,
             (unsigned long long)counts.dropped, (unsigned long long)counts.left,
             (unsigned long long)counts.too_large);
    if (refused < 0)
        return complain_error(&error);
    bool lost = counts.left || counts.dropped || counts.too_large;
    return status == EX_OK && lost ? EX_TEMPFAIL : status;
}

static int relay(struct relay *r) {
    const struct options *o = &r->options;
    struct error error;
    bool topics[TOPICS];
    struct runnel_peer peer = tool_peer(o->endpoint, &o->keys);
    int status = ending_catch_signals();
    if (status != EX_OK)
        return status;
    memcpy(topics, o->published, sizeof topics);
    topics[TOPIC_STATUS] = true;
    health_open(&r->health, o->endpoint, o->silence, note, r);
    if (o->type->open(&r->sink, &o->target, &error) < 0 ||
        queue_open(&r->queue, o->type, r->sink, o->target.name, o->buffer, &error) < 0)
        status = complain_error(&error);
    if (status == EX_OK)
        status = link_open(&r->link, &peer, topics);
    if (status == EX_OK)
        status = finish(r, run(r));
    link_close(&r->link);
    struct queue_counts counts;
    queue_close(&r->queue, 0, &counts, NULL);
    if (r->sink)
        o->type->disconnect(r->sink);
    if (r->sink && o->type->close)
        o->type->close(r->sink);
    free(r->sink);
    return status;
}

int main(int argc, char **argv) {
    struct relay r = {.name = "runnel"};
    const struct command_line line = {
        .name = "runnel-relay",
        .operands = "",
        .summary = "Write a running daemon's predictions and other messages to a message broker.",
        .ending =
            "Ends on Ctrl-C. Exit status: 0 ended normally, 64 usage, 69 daemon or broker denied "
            "access, 75 messages dropped or not written, 77 wrong login at the broker.",
        .groups = {{NULL, relay_options, &r.options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    struct relay_config *config = NULL;
    struct error error;
    relay_options_default(&r.options);
    int status = options_parse(&line, argc, argv, &operands);
    const char *file = r.options.config;
    /* then the command line again, since it takes precedence */
    if (status == OPTIONS_GO_ON && file) {
        relay_options_default(&r.options);
        if (relay_config_open(&config, file, &r.options, &error) < 0)
            status = complain_error(&error);
        else
            status = options_parse(&line, argc, argv, &operands);
    }
    if (status == OPTIONS_GO_ON)
        status = relay_options_check(&r.options);
    if (status == OPTIONS_GO_ON)
        status = relay(&r);
    relay_config_close(&config);
    free(r.target_names);
    return status;
}
