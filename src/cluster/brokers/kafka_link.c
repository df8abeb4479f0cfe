#include "kafka_link.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "common/error.h"
#include "url.h"

enum { WHY_SIZE = 512, NAME_SIZE = 128, SECRET_SIZE = 1024 };
enum { END_SECONDS = 1, END_POLL_MS = 100 };

/* librdkafka ends a reason so: "(after 2ms in state CONNECT, 1 identical error(s) suppressed)". */
#define WHY_TAIL " (after "

/* librdkafka assumes a cause when a server closes the connection ("HOST:PORT/bootstrap:
   Disconnected: ..."). That cause applies only to servers that it knows from the configuration
   alone. */
#define UNKNOWN_SERVER "/bootstrap: "
#define GONE "Disconnected"

static int set(rd_kafka_conf_t *conf, const char *name, const char *value, struct error *error) {
    char why[WHY_SIZE];
    return rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK
               ? 0
               : error_set(error, EX_USAGE, "librdkafka setting %s: %s", name, why);
}

/* librdkafka's errors already report the same. */
static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text) {
    (void)client, (void)level, (void)facility, (void)text;
}

/* Whether a setting begins with this name. */
static bool is_named(const struct kafka_options *options, const char *name) {
    for (size_t i = 0; i < options->settings.count; i++)
        if (strncmp(options->settings.values[i], name, strlen(name)) == 0)
            return true;
    return false;
}

static int set_login(rd_kafka_conf_t *conf, const struct kafka_options *options,
                     struct error *error) {
    char secret[SECRET_SIZE] = "", key[BROKER_KEY_SIZE];
    FILE *file = options->password_file ? fopen(options->password_file, "r") : NULL;
    if (options->password_file && (!file || !fgets(secret, sizeof secret, file))) {
        if (file)
            fclose(file);
        return error_set(error, EX_NOINPUT, "%s: cannot read %s, or it is empty",
                         broker_key(key, options->section, "password-file"),
                         options->password_file);
    }
    if (file)
        fclose(file);
    secret[strcspn(secret, "\r\n")] = '\0';
    return set(conf, "security.protocol", "sasl_ssl", error) < 0 ||
                   (!is_named(options, "sasl.mechanism") &&
                    set(conf, "sasl.mechanisms", "PLAIN", error) < 0) ||
                   (options->user && set(conf, "sasl.username", options->user, error) < 0) ||
                   (options->password_file && set(conf, "sasl.password", secret, error) < 0)
               ? -1
               : 0;
}

static const char *setting_key(char key[BROKER_KEY_SIZE], const struct kafka_options *options) {
    return broker_key(key, options->section, options->section ? "settings" : "setting");
}

/* "NAME=VALUE" */
static int set_pair(rd_kafka_conf_t *conf, const struct kafka_options *options, const char *pair,
                    struct error *error) {
    char name[NAME_SIZE], key[BROKER_KEY_SIZE];
    const char *equals = strchr(pair, '=');
    if (!equals || equals == pair || equals - pair >= NAME_SIZE)
        return error_set(error, EX_USAGE, "%s: expected NAME=VALUE, got '%.*s'",
                         setting_key(key, options), (int)strcspn(pair, "=: "), pair);
    memcpy(name, pair, (size_t)(equals - pair));
    name[equals - pair] = '\0';
    return set(conf, name, equals + 1, error) < 0
               ? error_prefix(error, "%s", setting_key(key, options))
               : 0;
}

/* Whether the settings require both a name and a password. */
static bool wants_password(const rd_kafka_conf_t *conf) {
    char protocol[NAME_SIZE] = "", mechanism[NAME_SIZE] = "";
    size_t protocol_size = sizeof protocol, mechanism_size = sizeof mechanism;
    rd_kafka_conf_get(conf, "security.protocol", protocol, &protocol_size);
    rd_kafka_conf_get(conf, "sasl.mechanisms", mechanism, &mechanism_size);
    return strncmp(protocol, "sasl", strlen("sasl")) == 0 &&
           (strcmp(mechanism, "PLAIN") == 0 || strncmp(mechanism, "SCRAM-", strlen("SCRAM-")) == 0);
}

/* librdkafka's own message does not name the option for the missing half of a login. */
static int check_login(const rd_kafka_conf_t *conf, const struct kafka_options *options,
                       struct error *error) {
    char user[BROKER_KEY_SIZE], file[BROKER_KEY_SIZE];
    broker_key(user, options->section, "user");
    broker_key(file, options->section, "password-file");
    if (!wants_password(conf))
        return 0;
    if (options->user && !options->password_file && !is_named(options, "sasl.password"))
        return error_set(
            error, EX_USAGE,
            "%s: missing password: set %s to a file whose first line is the password of %s", user,
            file, options->user);
    if (options->password_file && !options->user && !is_named(options, "sasl.username"))
        return error_set(error, EX_USAGE,
                         "%s: missing user name: set %s to the user of this password", file, user);
    return 0;
}

/* Applies the options after the program's own settings. */
static int configure(rd_kafka_conf_t *conf, const struct kafka_options *options,
                     struct error *error) {
    rd_kafka_conf_set_log_cb(conf, on_log);
    if (set(conf, "bootstrap.servers", options->servers, error) < 0 ||
        set(conf, "client.id", "runnel", error) < 0 ||
        ((options->user || options->password_file) && set_login(conf, options, error) < 0))
        return -1;
    for (size_t i = 0; i < options->settings.count; i++)
        if (set_pair(conf, options, options->settings.values[i], error) < 0)
            return -1;
    return check_login(conf, options, error);
}

rd_kafka_conf_t *kafka_settings(const char *const (*settings)[2], size_t count,
                                const struct kafka_options *options, struct error *error) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int status = 0;
    for (size_t n = 0; n < count && status == 0; n++)
        status = set(conf, settings[n][0], settings[n][1], error);
    if (status == 0 && configure(conf, options, error) == 0)
        return conf;
    rd_kafka_conf_destroy(conf);
    return NULL;
}

int kafka_client(rd_kafka_t **client, rd_kafka_type_t type, rd_kafka_conf_t *conf,
                 struct error *error) {
    char why[WHY_SIZE];
    signal(SIGPIPE, SIG_IGN); /* a TLS write to a closed connection raises it */
    *client = rd_kafka_new(type, conf, why, sizeof why);
    if (*client)
        return 0;
    rd_kafka_conf_destroy(conf);
    return error_set(error, EX_USAGE, "invalid settings for librdkafka: %s", why);
}

/* Accepts a rebalance: otherwise the consumer does not close. */
static void end_event(rd_kafka_t *client, rd_kafka_event_t *event) {
    if (event && rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE)
        rd_kafka_error_destroy(
            rd_kafka_incremental_unassign(client, rd_kafka_event_topic_partition_list(event)));
    rd_kafka_event_destroy(event);
}

/* Closes a consumer first: rd_kafka_destroy would wait in a busy loop. */
static void *end_client(void *context) {
    rd_kafka_t *client = context;
    rd_kafka_queue_t *events = rd_kafka_queue_new(client);
    rd_kafka_error_t *failed = rd_kafka_consumer_close_queue(client, events);
    while (!failed && !rd_kafka_consumer_closed(client))
        end_event(client, rd_kafka_queue_poll(events, END_POLL_MS));
    rd_kafka_error_destroy(failed); /* it is a producer, or closed */
    rd_kafka_queue_destroy(events);
    rd_kafka_destroy_flags(client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    return NULL;
}

void kafka_end(rd_kafka_t **client) {
    struct timespec until;
    pthread_t thread;
    if (!*client)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_SECONDS;
    if (pthread_create(&thread, NULL, end_client, *client) != 0)
        end_client(*client);
    else if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) != 0)
        pthread_detach(thread);
    *client = NULL;
}

bool kafka_refuses(rd_kafka_resp_err_t code) {
    return code == RD_KAFKA_RESP_ERR__AUTHENTICATION ||
           code == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM ||
           code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
}

static int length_of(const char *why) {
    const char *tail = strstr(why, WHY_TAIL), *gone = strstr(why, GONE);
    if (gone && !strstr(why, UNKNOWN_SERVER))
        tail = gone + strlen(GONE);
    return (int)(tail ? (size_t)(tail - why) : strlen(why));
}

/* Reports the access rule that is missing. */
static int report_forbidden(struct error *error, const struct kafka_options *options,
                            const char *operation, const char *kind, const char *name) {
    char user[BROKER_KEY_SIZE], setting[BROKER_KEY_SIZE];
    const char *who = options->user ? options->user : "NAME";
    return error_set(
        error, EX_NOPERM,
        "%s: access denied to the %s %s: the user needs the operation %s (kafka-acls.sh --add "
        "--allow-principal User:%s --operation %s --%s %s); see %s and %s",
        options->servers, kind, name, operation, who, operation, kind, name,
        broker_key(user, options->section, "user"), setting_key(setting, options));
}

int kafka_report_refused(struct error *error, const struct kafka_options *options,
                         rd_kafka_resp_err_t code, const struct kafka_aim *aim, const char *why) {
    char user[BROKER_KEY_SIZE], file[BROKER_KEY_SIZE], setting[BROKER_KEY_SIZE];
    if (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED && aim->topic)
        return report_forbidden(error, options, aim->operation, "topic", aim->topic);
    if (code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED && aim->group)
        return report_forbidden(error, options, "Read", "group", aim->group);
    return error_set(
        error, EX_NOPERM, "%s: access denied: %.*s; see %s, %s and %s", options->servers,
        length_of(why), why, broker_key(user, options->section, "user"),
        broker_key(file, options->section, "password-file"), setting_key(setting, options));
}

void kafka_keep_why(char kept[KAFKA_WHY_SIZE], rd_kafka_resp_err_t code, const char *why) {
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        snprintf(kept, KAFKA_WHY_SIZE, "%.*s", length_of(why), why);
}

int kafka_report_away(struct error *error, const struct kafka_options *options,
                      const char kept[KAFKA_WHY_SIZE]) {
    char setting[BROKER_KEY_SIZE];
    bool secure = strstr(kept, "security.protocol") || strstr(kept, "SSL");
    return error_set(error, EX_TEMPFAIL, "no server answers%s%s%s%s", *kept ? ": " : "", kept,
                     secure ? "; see " : "", secure ? setting_key(setting, options) : "");
}

bool kafka_passes(rd_kafka_resp_err_t code) {
    return code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__TRANSPORT ||
           code == RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE ||
           code == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT ||
           code == RD_KAFKA_RESP_ERR_NOT_CONTROLLER ||
           code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
}

bool kafka_answers(rd_kafka_t *client, int milliseconds) {
    const struct rd_kafka_metadata *metadata;
    if (rd_kafka_metadata(client, 0, NULL, &metadata, milliseconds) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    rd_kafka_metadata_destroy(metadata);
    return true;
}

/* RD_KAFKA_OFFSET_BEGINNING and RD_KAFKA_OFFSET_END are valid as times, too. */
static rd_kafka_resp_err_t ask_offset(rd_kafka_t *client, const char *topic, int32_t partition,
                                      int64_t which, int64_t *offset, int milliseconds) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition)->offset = which;
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(client, list, milliseconds);
    if (!code)
        code = list->elems[0].err;
    *offset = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return code || *offset >= 0 ? code : RD_KAFKA_RESP_ERR__FAIL;
}

rd_kafka_resp_err_t kafka_ask_offsets(rd_kafka_t *client, const char *topic, int32_t partition,
                                      int64_t *low, int64_t *high, int milliseconds) {
    rd_kafka_resp_err_t code =
        ask_offset(client, topic, partition, RD_KAFKA_OFFSET_BEGINNING, low, milliseconds);
    return code ? code
                : ask_offset(client, topic, partition, RD_KAFKA_OFFSET_END, high, milliseconds);
}
