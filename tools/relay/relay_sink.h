/* A broker that messages are written to. A kind of broker is one struct sink_type in a file of its
   own, sink_NAME.c. Its functions are called by one thread, the queue's (relay_queue.h), and may
   wait for some seconds. */
#ifndef RUNNEL_RELAY_SINK_H
#define RUNNEL_RELAY_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/brokers/url.h"
#include "common/options.h"

struct error;
struct sink;

/* A message of a daemon, and where it goes. */
struct sink_message {
    char *topic; /* of the broker: a topic, a subject, or the key of a stream */
    char *key;   /* the stream that the message is of; NULL: of none */
    char *id;    /* no other message has it: printable; NULL: there is none */
    char *text;  /* JSON, (size,) */
    size_t size;
    bool too_large; /* the broker takes none of that size: not written */
};

/* What does not concern a kind of broker is not there. */
struct sink_options {
    const char *address, *user, *password_file; /* as given */
    struct url url;                             /* the same, where the type has schemes */
    const char *name;                           /* what sentences call the broker */
    const char *authorities;                    /* a file; NULL: the system's */
    const char *credentials;                    /* nats: a file */
    struct option_list settings;                /* kafka: NAME=VALUE */
    uint64_t keep; /* messages that the broker keeps of a topic; 0 = all */
};

struct sink_type {
    const char *name;    /* "mqtt": also the option */
    const char *schemes; /* of its addresses, between blanks; NULL: they are no URLs */
    const char *form;    /* what its addresses look like */
    const char *topic;   /* where messages go unless --topic says another */

    /* Of a stream's or a daemon's name in a topic, these bytes become '_'; or all but these. */
    const char *replaced, *kept;
    size_t topic_max; /* bytes of a topic, which may not be "." or ".." either; 0: no such rules */
    const char *size_limit; /* what says how large a message may be; NULL: none is too large */

    int (*open)(struct sink **sink, const struct sink_options *options, struct error *error);
    /* Connect. EX_TEMPFAIL: not now, with a clause that says why; else there is no use in trying
       again. */
    int (*connect)(struct sink *sink, struct error *error);
    /* Write the messages in their order: 0 when the broker has confirmed all of them that are not
       too large. EX_TEMPFAIL: the connection is over, and all of them will be written again. */
    int (*write)(struct sink *sink, struct sink_message *messages, size_t count,
                 struct error *error);
    /* Nothing has been written for a second: keep the connection. As write. May be NULL. */
    int (*tend)(struct sink *sink, struct error *error);
    void (*disconnect)(struct sink *sink);
    /* What else there is, before the sink is freed. May be NULL. */
    void (*close)(struct sink *sink);
};

extern const struct sink_type sink_mqtt, sink_redis, sink_kafka, sink_nats;

#endif
