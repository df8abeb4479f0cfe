/* How a cluster of Kafka is reached, and who logs in: of feeders and tools their options, of the
   daemon a section of its configuration. librdkafka's header is not needed here. */
#ifndef RUNNEL_KAFKA_OPTIONS_H
#define RUNNEL_KAFKA_OPTIONS_H

#include "common/options.h"

#define KAFKA_SERVERS "127.0.0.1:9092"

struct kafka_options {
    const char *servers; /* "HOST:PORT,HOST:PORT" */
    const char *user, *password_file;
    struct option_list settings; /* "NAME=VALUE", librdkafka's */
    const char *section;         /* as broker_key: what these are called */
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

#endif
