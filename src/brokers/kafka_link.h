/* Connections to Kafka, or what speaks its protocol: Redpanda, Azure Event Hubs. librdkafka
   connects again by itself, after pauses that grow to ten seconds. */
#ifndef RUNNEL_KAFKA_LINK_H
#define RUNNEL_KAFKA_LINK_H

#include <stdbool.h>

#include <librdkafka/rdkafka.h>

#include "common/options.h"

struct error;

#define KAFKA_SERVERS "127.0.0.1:9092"

struct kafka_options {
    const char *servers; /* "HOST:PORT,HOST:PORT" */
    const char *user, *password_file;
    struct option_list settings; /* "NAME=VALUE", librdkafka's */
};

/* Rows of a table of options: `field` of `type` is a struct kafka_options. */
#define KAFKA_OPTIONS(type, field)                                                                 \
    {"servers", 0, "HOST:PORT,...",                                                                \
     "servers of the cluster to ask first (default " KAFKA_SERVERS ")",                            \
     OPTION_TEXT(type, field.servers)},                                                            \
        {"user", 0, "NAME",                                                                        \
         "log in as NAME, with SASL PLAIN over TLS unless --setting says otherwise",               \
         OPTION_TEXT(type, field.user)},                                                           \
        {"password-file", 0, "FILE", "log in with the first line of FILE",                         \
         OPTION_FILE(type, field.password_file)},                                                  \
    {                                                                                              \
        "setting", 0, "NAME=VALUE",                                                                \
            "a setting of librdkafka's, as security.protocol=ssl; may be repeated",                \
            OPTION_LIST(type, field.settings, OPTION_LIST_MAX)                                     \
    }

/* One setting. EX_USAGE: librdkafka takes none like that. */
int kafka_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct error *error);

/* What the options say, after what the program has set. EX_USAGE, EX_NOINPUT. */
int kafka_configure(rd_kafka_conf_t *conf, const struct kafka_options *options,
                    struct error *error);

/* A client; the settings are taken, also when it fails. EX_USAGE: they contradict each other. */
int kafka_client(rd_kafka_t **client, rd_kafka_type_t type, rd_kafka_conf_t *conf,
                 struct error *error);

/* Whether the code says that this user is not admitted, and the sentence: EX_NOPERM. Returns -1. */
bool kafka_refuses(rd_kafka_resp_err_t code);
int kafka_say_refused(struct error *error, const char *servers, const char *why);

/* Whether a server answers within so many milliseconds. */
bool kafka_answers(rd_kafka_t *client, int milliseconds);

#endif
