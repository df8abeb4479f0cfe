#include "relay_options.h"

#include <string.h>
#include <sysexits.h>

#include "brokers/url.h"
#include "common/complain.h"
#include "common/wire.h"
#include "tools/shared/watch_health.h"

enum { BUFFER_MAX = 100000000, BUFFER_DEFAULT = 100000, KEEP_DEFAULT = 100000 };

/* Another broker must not learn what the file logs in with. */
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

static int take_broker(void *values, const struct option_row *row, const char *text,
                       struct error *error) {
    struct options *o = values;
    if (o->broker && !o->from_file)
        return error_set(error, EX_USAGE, "--%s: there is a broker already, that of --%s",
                         row->name, o->broker);
    bool same =
        o->broker && strcmp(o->broker, row->name) == 0 && strcmp(o->target.address, text) == 0;
    if (o->from_file && !same)
        drop_login(o);
    o->from_file = false;
    o->broker = row->name;
    o->target.address = text;
    return 0;
}

static int take_topic_kind(void *values, const struct option_row *row, const char *text,
                           struct error *error) {
    struct options *o = values;
    enum topic topic = topic_find(text, strlen(text));
    if (topic == TOPICS)
        return error_set(error, EX_USAGE, "--%s: found '%s', expected one of:" TOPIC_WORDS,
                         row->name, text);
    if (o->published_from_file)
        memset(o->published, 0, sizeof o->published);
    o->published_from_file = false;
    o->published[topic] = true;
    return 0;
}

const struct option_row relay_options[] = {
    {"config", 'f', "FILE",
     "do what the section publish of a daemon's configuration says; other options come first, and "
     "another broker gets no login of the file's",
     OPTION_FILE(struct options, config)},
    {"connect", 'c', "ENDPOINT", "the daemon's statistics socket (default " WIRE_STATISTICS ")",
     OPTION_TEXT(struct options, endpoint)},
    KEY_OPTIONS(struct options, keys),
    {"mqtt", 0, "URL", "write to topics of MQTT: mqtt://HOST[:PORT], mqtts://.., unix:///PATH",
     OPTION_TAKE(take_broker)},
    {"redis", 0, "URL", "write to streams of Redis: redis://HOST[:PORT][/DATABASE], unix:///PATH",
     OPTION_TAKE(take_broker)},
    {"kafka", 0, "HOST:PORT,...", "write to topics of Kafka", OPTION_TAKE(take_broker)},
    {"nats", 0, "URL", "write to streams of NATS JetStream: nats://HOST[:PORT], tls://..",
     OPTION_TAKE(take_broker)},
    {"user", 0, "NAME", "log in to the broker as NAME", OPTION_TEXT(struct options, target.user)},
    {"password-file", 0, "FILE", "log in with the first line of FILE",
     OPTION_FILE(struct options, target.password_file)},
    {"credentials", 0, "FILE", "nats: log in with the user's JWT and key in FILE",
     OPTION_FILE(struct options, target.credentials)},
    {"cafile", 0, "FILE",
     "with TLS: who may have signed the broker's certificate (default: those of the system; nats: "
     "beside them)",
     OPTION_FILE(struct options, target.authorities)},
    {"setting", 0, "NAME=VALUE",
     "kafka: a setting of librdkafka's, as security.protocol=ssl; may be repeated",
     OPTION_LIST(struct options, target.settings, OPTION_LIST_MAX)},
    {"topic", 't', "NAME",
     "where messages go; {stream}, {daemon} and {topic} are replaced (default: mqtt "
     "runnel/{daemon}/{topic}, redis runnel:{topic}, kafka runnel.{topic}, nats "
     "runnel.{daemon}.{topic})",
     OPTION_TEXT(struct options, topic)},
    {"publish", 'p', "TOPIC",
     "which messages, may be repeated:" TOPIC_WORDS " (default: prediction)",
     OPTION_TAKE(take_topic_kind), .complete = COMPLETE_WORDS, .words = TOPIC_WORDS},
    {"keep", 'k', "N", "redis: about so many entries a stream keeps, 0 = all (default 100000)",
     OPTION_COUNT(struct options, target.keep, 0, UINT32_MAX)},
    {"buffer", 0, "N", "messages that wait while the broker is away (default 100000)",
     OPTION_COUNT(struct options, buffer, 1, BUFFER_MAX)},
    {"count", 'n', "N", "end when N messages have been written",
     OPTION_COUNT(struct options, count, 1, UINT64_MAX)},
    {"silence", 's', "SECONDS", "say so when no message comes for so long; 0 = never (default 15)",
     OPTION_SECONDS(struct options, silence)},
    OPTIONS_LAST,
};

void relay_options_default(struct options *options) {
    *options = (struct options){.endpoint = WIRE_STATISTICS,
                                .silence = HEALTH_SILENCE,
                                .buffer = BUFFER_DEFAULT,
                                .target.keep = KEEP_DEFAULT};
}

/* The kind of broker of an option, if this build knows it. */
static const struct sink_type *find_sink(const char *name) {
    const struct sink_type *const *type = sink_types;
    while (*type && strcmp((*type)->name, name) != 0)
        type++;
    return *type;
}

int relay_options_check(struct options *o) {
    struct sink_options *target = &o->target;
    struct error error;
    if (!o->broker)
        return complain_usage(
            "a broker is needed: --mqtt, --redis, --kafka or --nats, or --config");
    if (!*o->endpoint)
        return complain_usage("%s: the daemon connects its statistics socket; name where that is "
                              "bound with --connect",
                              o->config);
    o->type = find_sink(o->broker);
    if (!o->type)
        return complain(EX_UNAVAILABLE, "--%s: this runnel-relay was built without its library",
                        o->broker);
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
