/* MQTT topics with QoS 1 and a persistent session. A message is an example and is acknowledged
   (PUBACK) once the daemon has it on disk.

   libmosquitto itself queues a PUBACK for each message that it reads, but sends it only in
   mosquitto_loop_write. So that function is called when all messages read so far are settled, and
   at most BATCH messages are read until then. After a broken connection, the broker sends
   unacknowledged messages again with the same packet IDs, and this process recognizes them. MQTT
   has no other number for a message. So a message may be learned twice if a feeder does not
   acknowledge it, or if the broker ends before it reads the acknowledgement. */
#include <mosquitto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cluster/brokers/mqtt_link.h"
#include "cluster/brokers/url.h"
#include "common/clock.h"
#include "common/hash.h"
#include "streams/feed.h"
#include "streams/sources/payload.h"

enum {
    BATCH = 256,     /* messages that wait for the daemon */
    NAME_SIZE = 24,  /* every broker accepts client names of 23 bytes */
    HOST_SIZE = 256, /* of a host name */
    QOS = 1,
    REFUSED = 0x80, /* value in place of a QoS */
};

#define WAIT_SECONDS 1.0
#define ANSWER_SECONDS 10.0
#define LASTING_SECONDS 5.0 /* shortest connection after which to reconnect at once */

/* A message that is not acknowledged yet. */
struct held {
    int id;         /* packet ID */
    uint64_t hash;  /* of topic and payload */
    uint64_t after; /* settled when this many examples are */
    bool answered;  /* its PUBACK is queued on this connection */
};

struct mqtt {
    struct source source;
    const char *url_text, *user, *password_file, *authorities, *name;
    bool retained;
    char own_name[NAME_SIZE];
    struct url url;
    struct retry retry;
    char **topics; /* terminated by NULL */
    struct mosquitto *client;
    bool begun, connected, subscribed;
    int refusal;       /* refusal of CONNECT, or REFUSED; 0 = none */
    uint64_t events;   /* number of events in callbacks */
    double since;      /* clock_seconds when this connection began */
    struct held *held; /* (held_count,) of held_room */
    size_t held_count, held_room, answered;
    uint64_t examples, settled;
    struct mosquitto_message newest; /* read, but not returned yet */
    bool has_newest;
    struct payload *payload;
};

static void set_defaults(struct source *source) {
    struct mqtt *mqtt = (struct mqtt *)source;
    mqtt->url_text = MQTT_URL;
}

static const struct option_row OPTIONS[] = {
    {"url", 0, "URL", "the broker: " MQTT_URL_FORM " (default " MQTT_URL ")",
     OPTION_TEXT(struct mqtt, url_text)},
    {"user", 0, "NAME", "log in as NAME", OPTION_TEXT(struct mqtt, user)},
    {"password-file", 0, "FILE", "log in with the password in the first line of FILE",
     OPTION_FILE(struct mqtt, password_file)},
    {"cafile", 0, "FILE", "mqtts: accept certificates of these authorities (default: the system's)",
     OPTION_FILE(struct mqtt, authorities)},
    {"client-id", 0, "NAME",
     "client name under which the broker keeps messages while nobody reads (default: derived from "
     "this machine and the topics)",
     OPTION_TEXT(struct mqtt, name)},
    {"retained", 0, NULL, "also take retained messages at each subscription",
     OPTION_FLAG(struct mqtt, retained)},
    FIELD_OPTION(struct mqtt),
    PAYLOAD_OPTIONS(struct mqtt),
    OPTIONS_END,
};

/* ---- Events of the broker ---- */

static void on_connect(struct mosquitto *client, void *context, int code, int flags) {
    struct mqtt *mqtt = context;
    bool resumed = flags & 1; /* the session and its subscriptions still exist */
    mqtt->events++;
    mqtt->refusal = code;
    mqtt->connected = code == 0;
    if (code)
        return;
    mqtt->since = clock_seconds();
    if (!resumed)
        mqtt->held_count = mqtt->answered = 0;
    for (size_t n = 0; (!resumed || !mqtt->subscribed) && mqtt->topics[n]; n++)
        mosquitto_subscribe(client, NULL, mqtt->topics[n], QOS);
}

static void on_subscribe(struct mosquitto *client, void *context, int id, int count,
                         const int *granted) {
    struct mqtt *mqtt = context;
    (void)client, (void)id;
    mqtt->events++;
    mqtt->subscribed = true;
    for (int n = 0; n < count; n++)
        if (granted[n] == REFUSED)
            mqtt->refusal = REFUSED;
}

/* One at a time: the next is read after this one is returned. */
static void on_message(struct mosquitto *client, void *context,
                       const struct mosquitto_message *message) {
    struct mqtt *mqtt = context;
    (void)client;
    mqtt->events++;
    mqtt->has_newest = mosquitto_message_copy(&mqtt->newest, message) == MOSQ_ERR_SUCCESS;
}

/* ---- Waiting messages ---- */

static uint64_t hash_of(const struct mosquitto_message *message) {
    uint64_t hash = hash_bytes(HASH_BEGIN, message->topic, strlen(message->topic) + 1);
    return hash_bytes(hash, message->payload, (size_t)message->payloadlen);
}

/* Whether the message was received before, on a connection that broke before its
   acknowledgement. */
static bool recognize(struct mqtt *mqtt, const struct mosquitto_message *message) {
    for (size_t n = 0; n < mqtt->held_count; n++) {
        struct held *held = &mqtt->held[n];
        if (held->answered || held->id != message->mid || held->hash != hash_of(message))
            continue;
        held->answered = true;
        mqtt->answered++;
        return true;
    }
    return false;
}

/* `taken`: 1 for an example, 0 for another message, -1 for one that must never be acknowledged. */
static int hold(struct mqtt *mqtt, const struct mosquitto_message *message, int taken,
                struct error *error) {
    mqtt->examples += taken > 0;
    if (message->qos == 0)
        return 0;
    if (mqtt->held_count == mqtt->held_room) {
        struct held *grown = realloc(mqtt->held, (mqtt->held_room + BATCH) * sizeof *grown);
        if (!grown)
            return error_no_memory(error);
        mqtt->held = grown;
        mqtt->held_room += BATCH;
    }
    mqtt->held[mqtt->held_count++] = (struct held){message->mid, hash_of(message),
                                                   taken < 0 ? UINT64_MAX : mqtt->examples, true};
    mqtt->answered++;
    return 0;
}

/* Whether there is a message to acknowledge, and none that must not be. */
static bool may_acknowledge(const struct mqtt *mqtt) {
    for (size_t n = 0; n < mqtt->held_count; n++)
        if (mqtt->held[n].answered && mqtt->held[n].after > mqtt->settled)
            return false;
    return mqtt->answered > 0;
}

/* Sends the acknowledgements. */
static int acknowledge(struct mqtt *mqtt, struct error *error) {
    size_t kept = 0;
    do {
        if (mqtt_check(mosquitto_loop_write(mqtt->client, 1), error) < 0)
            return -1;
        if (mosquitto_want_write(mqtt->client) &&
            feed_await(mosquitto_socket(mqtt->client), true, WAIT_SECONDS, error) < 0)
            return -1;
    } while (mosquitto_want_write(mqtt->client));
    for (size_t n = 0; n < mqtt->held_count; n++)
        if (!mqtt->held[n].answered)
            mqtt->held[kept++] = mqtt->held[n];
    mqtt->held_count = kept;
    mqtt->answered = 0;
    retry_back(&mqtt->retry);
    return 0;
}

/* ---- Connection ---- */

static int refuse(struct mqtt *mqtt, struct error *error) {
    if (mqtt->refusal == REFUSED)
        return error_set(error, EX_NOPERM, "%s: access denied: this client may not subscribe to %s",
                         mqtt->url.name, mqtt->topics[0]);
    return mqtt_check_connack(&mqtt->url, mqtt->refusal, error);
}

static int begin(struct mqtt *mqtt, struct error *error) {
    for (size_t n = 0; n < mqtt->held_count; n++)
        mqtt->held[n].answered = false;
    mqtt->answered = 0;
    mqtt->connected = false;
    mqtt->begun = true;
    mqtt->refusal = 0;
    mqtt->since = clock_seconds();
    return mqtt_connect(mqtt->client, &mqtt->url, error);
}

/* Handles a lost connection. Reconnects at once if it has lasted. */
static int recover(struct mqtt *mqtt, struct error *error) {
    char why[ERROR_TEXT_SIZE];
    snprintf(why, sizeof why, "%s", error->text);
    bool lasted = mqtt->connected && clock_seconds() - mqtt->since > LASTING_SECONDS;
    bool short_lived = mqtt->connected && !lasted;
    mqtt->begun = mqtt->connected = false;
    if (short_lived)
        snprintf(why, sizeof why,
                 "%.200s, soon after the connection; if this repeats, another client may use the "
                 "name %s (--client-id)",
                 error->text, mqtt->name);
    if (!lasted)
        return retry_wait(&mqtt->retry, why, error);
    feed_detail("%s: %s; reconnecting", mqtt->url.name, why);
    return 0;
}

/* Reads one packet; `got`: whether there was one. */
static int read_packet(struct mqtt *mqtt, bool *got, struct error *error) {
    uint64_t before = mqtt->events;
    bool was = mqtt->connected;
    int code = mosquitto_loop_read(mqtt->client, 1);
    *got = mqtt->events != before;
    if (mqtt->refusal)
        return refuse(mqtt, error);
    if (mqtt_check(code, error) < 0)
        return -1;
    if (was)
        return 0; /* CONNECT waits for the TLS handshake; SUBSCRIBE follows */
    return mqtt_check(mosquitto_loop_write(mqtt->client, 1), error);
}

/* Does the next step, or waits. */
static int advance(struct mqtt *mqtt, struct error *error) {
    bool got = false, room = mqtt->answered < BATCH;
    if (!mqtt->begun)
        return begin(mqtt, error);
    if (may_acknowledge(mqtt))
        return acknowledge(mqtt, error);
    if (room && read_packet(mqtt, &got, error) < 0)
        return -1;
    if (got)
        return 0;
    double age = clock_seconds() - mqtt->since;
    if (!mqtt->connected && age > ANSWER_SECONDS)
        return error_set(error, EX_TEMPFAIL, "no answer");
    if (mqtt->connected && age > LASTING_SECONDS)
        retry_back(&mqtt->retry);
    if (mqtt->held_count == 0 && mqtt->connected &&
        (mqtt_check(mosquitto_loop_misc(mqtt->client), error) < 0 ||
         mqtt_check(mosquitto_loop_write(mqtt->client, 1), error) < 0))
        return -1;
    return feed_await(room ? mosquitto_socket(mqtt->client) : -1, false, WAIT_SECONDS, error) < 0
               ? -1
               : 0;
}

/* ---- Source ---- */

/* Derives a name from the machine and the topics, so that later calls have the same. */
static void make_name(struct mqtt *mqtt) {
    char host[HOST_SIZE] = "";
    gethostname(host, sizeof host - 1);
    uint64_t hash = hash_bytes(HASH_BEGIN, host, strlen(host) + 1);
    for (size_t n = 0; mqtt->topics[n]; n++)
        hash = hash_bytes(hash, mqtt->topics[n], strlen(mqtt->topics[n]) + 1);
    snprintf(mqtt->own_name, sizeof mqtt->own_name, "runnel-%016llx", (unsigned long long)hash);
    mqtt->name = mqtt->own_name;
}

static int open_mqtt(struct source *source, char **operands, struct error *error) {
    struct mqtt *mqtt = (struct mqtt *)source;
    mqtt->topics = operands;
    for (size_t n = 0; operands[n]; n++)
        if (mosquitto_sub_topic_check(operands[n]) != MOSQ_ERR_SUCCESS)
            return error_set(error, EX_USAGE, "invalid MQTT topic '%s'", operands[n]);
    if (!mqtt->name)
        make_name(mqtt);
    if (url_parse(&mqtt->url, "--url", mqtt->url_text, MQTT_URL_SCHEMES, MQTT_URL_FORM, error) <
            0 ||
        url_login(&mqtt->url, mqtt->user, mqtt->password_file, error) < 0 ||
        payload_open(&mqtt->payload, source, error) < 0 ||
        mqtt_open(&mqtt->client, &mqtt->url, mqtt->name, false, mqtt->authorities, mqtt, error) < 0)
        return -1;
    mosquitto_connect_with_flags_callback_set(mqtt->client, on_connect);
    mosquitto_subscribe_callback_set(mqtt->client, on_subscribe);
    mosquitto_message_callback_set(mqtt->client, on_message);
    mqtt->retry.server = mqtt->url.name;
    source->once = true;
    return 0;
}

/* Takes a message. Returns 1, or 0 if it is not an example or does not count. */
static int take(struct mqtt *mqtt, struct step *step, struct error *error) {
    const struct mosquitto_message *newest = &mqtt->newest;
    char id[2 * HOST_SIZE];
    if (recognize(mqtt, newest))
        return 0;
    snprintf(id, sizeof id, "%d of %.255s", newest->mid, newest->topic);
    const struct message message = {.id = id,
                                    .key = newest->topic,
                                    .key_size = strlen(newest->topic),
                                    .bytes = newest->payload ? newest->payload : "",
                                    .size = (size_t)newest->payloadlen};
    int taken =
        newest->retain && !mqtt->retained ? 0 : payload_step(mqtt->payload, &message, step, error);
    return hold(mqtt, newest, taken, error) < 0 ? -1 : taken;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct mqtt *mqtt = (struct mqtt *)source;
    for (;;) {
        if (mqtt->has_newest) {
            int taken = take(mqtt, step, error);
            mosquitto_message_free_contents(&mqtt->newest);
            mqtt->has_newest = false;
            if (taken)
                return taken;
        } else if (advance(mqtt, error) < 0 &&
                   (error->status != EX_TEMPFAIL || recover(mqtt, error) < 0)) {
            return -1;
        }
    }
}

static void settled(struct source *source, uint64_t count) {
    struct mqtt *mqtt = (struct mqtt *)source;
    mqtt->settled = count;
}

/* Unsettled messages must not be acknowledged: with any, the connection is cut off. */
static void close_mqtt(struct source *source) {
    struct mqtt *mqtt = (struct mqtt *)source;
    struct error error;
    if (mqtt->client && mqtt->connected && !mqtt->has_newest && may_acknowledge(mqtt))
        acknowledge(mqtt, &error);
    if (mqtt->held_count > 0)
        feed_print(
            "%s: %zu messages are not acknowledged and will be sent again; some examples may "
            "be learned twice",
            mqtt->url.name, mqtt->held_count);
    else if (mqtt->client && mqtt->connected && !mqtt->has_newest &&
             mosquitto_disconnect(mqtt->client) == MOSQ_ERR_SUCCESS)
        mosquitto_loop_write(mqtt->client, 1);
    if (mqtt->client)
        mosquitto_destroy(mqtt->client);
    mosquitto_lib_cleanup();
    if (mqtt->has_newest)
        mosquitto_message_free_contents(&mqtt->newest);
    payload_close(&mqtt->payload);
    free(mqtt->held);
}

const struct source_type source_mqtt = {
    .command = {"mqtt", "TOPIC...", "MQTT topics, with + and #", .rows = OPTIONS},
    .notes = PAYLOAD_NOTES "The stream of a message is its topic.",
    .endless = true,
    .ready = true,
    .maps = true,
    .size = sizeof(struct mqtt),
    .set_defaults = set_defaults,
    .open = open_mqtt,
    .next = next,
    .settled = settled,
    .close = close_mqtt,
};
