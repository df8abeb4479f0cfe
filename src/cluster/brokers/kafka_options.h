/* The servers and the login of a Kafka cluster: options of a feeder or tool, or a section of the
   daemon's configuration. This header does not need librdkafka's. */
#ifndef RUNNEL_KAFKA_OPTIONS_H
#define RUNNEL_KAFKA_OPTIONS_H

#include "common/options.h"

#define KAFKA_SERVERS "127.0.0.1:9092"

struct kafka_options {
    const char *servers; /* "HOST:PORT,HOST:PORT" */
    const char *user, *password_file;
    struct option_list settings; /* librdkafka settings, "NAME=VALUE" */
    const char *section;         /* prefix of the keys, see broker_key */
};

/* Rows for a table of options: `field` of `type` is a struct kafka_options. */
#define KAFKA_OPTIONS(type, field)                                                                 \
    {"servers", 0, "HOST:PORT,...",                                                                \
     "servers of the cluster to ask first (default " KAFKA_SERVERS ")",                            \
     OPTION_TEXT(type, field.servers)},                                                            \
        {"user", 0, "NAME",                                                                        \
         "log in as NAME; uses SASL PLAIN over TLS unless --setting changes it",                   \
         OPTION_TEXT(type, field.user)},                                                           \
        {"password-file", 0, "FILE", "log in with the password in the first line of FILE",         \
         OPTION_FILE(type, field.password_file)},                                                  \
    {                                                                                              \
        "setting", 0, "NAME=VALUE",                                                                \
            "a librdkafka setting, such as security.protocol=ssl; may be repeated",                \
            OPTION_LIST(type, field.settings, OPTION_LIST_MAX)                                     \
    }

#endif
