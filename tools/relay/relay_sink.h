/* The interface to a broker for writing. Each kind of broker is one struct sink_type in its own
   file, sink_NAME.c. Only the queue's thread (relay_queue.h) calls its functions, which may wait
   for some seconds. */
#ifndef RUNNEL_RELAY_SINK_H
#define RUNNEL_RELAY_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/brokers/url.h"
#include "common/options.h"

struct error;
struct sink;

/* A message of a daemon and its destination. */
struct sink_message {
    char *topic; /* a topic, a subject, or the key of a stream */
    char *key;   /* the message's stream; NULL: none */
    char *id;    /* a unique printable ID; NULL: none */
    char *text;  /* JSON, (size,) */
    size_t size;
    bool too_large; /* not written: too large for the broker */
};

/* Options; those of other kinds of broker are not set. */
struct sink_options {
    const char *address, *user, *password_file; /* as given */
    struct url url;                             /* the parsed address, if the type has schemes */
    const char *name;                           /* name of the broker for messages */
    /* file of certificate authorities; NULL: the system's */
    const char *authorities;
    const char *credentials;     /* nats: a file */
    struct option_list settings; /* kafka: NAME=VALUE */
    uint64_t keep;               /* messages that the broker keeps per topic; 0 = all */
};

struct sink_type {
    const char *name;    /* "mqtt": also the name of the option */
    const char *schemes; /* schemes of its addresses, separated by blanks; NULL: not URLs */
    const char *form;    /* form of its addresses */
    const char *topic;   /* default of --topic */

    /* Bytes of a stream's or daemon's name that become '_' in a topic, or all bytes except
       these. */
    const char *replaced, *kept;
    /* maximum bytes of a topic, which must not be "." or ".."; 0: no such rules */
    size_t topic_max;
    const char *size_limit; /* setting for the size limit of messages; NULL: no limit */

    int (*open)(struct sink **sink, const struct sink_options *options, struct error *error);
    /* Connects. Fails with EX_TEMPFAIL and a clause if it should be retried; after other errors a
       retry does not help. */
    int (*connect)(struct sink *sink, struct error *error);
    /* Writes the messages in order. Returns 0 once the broker has confirmed all that are not too
       large. EX_TEMPFAIL: the connection is lost, and all of them will be written again. */
    int (*write)(struct sink *sink, struct sink_message *messages, size_t count,
                 struct error *error);
    /* Keeps the connection alive after a second without messages; returns as `write` does. May be
       NULL. */
    int (*tend)(struct sink *sink, struct error *error);
    void (*disconnect)(struct sink *sink);
    /* Frees the rest before the sink itself is freed. May be NULL. */
    void (*close)(struct sink *sink);
};

extern const struct sink_type sink_mqtt, sink_redis, sink_kafka, sink_nats;

#endif
