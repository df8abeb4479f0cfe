/* Where examples come from: a ZeroMQ socket, streams of Redis, or a topic of Kafka. The loop calls
   these functions, and does not ask which one it is. Brokers, and the fleets over them, are in a
   module (src/cluster), loaded when the configuration names one: the program does without their
   libraries. */
#ifndef RUNNEL_SOURCE_H
#define RUNNEL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

#include "common/wire.h"
#include "sockets/frames.h"

struct config;
struct daemon;
struct error;
struct example;
struct status_fields;

/* What became of an example. */
struct source_answer {
    enum wire_status status;
    enum wire_duplicate why;   /* of a duplicate */
    enum reject_reason reason; /* of one that is rejected; `text`: a clause, for people */
    const char *text;
    uint64_t position; /* in the journal; 0: it is not there */
};

struct source_ops {
    /* Journal and sockets have been opened. */
    int (*open)(struct daemon *daemon, struct error *error);
    void (*close)(struct daemon *daemon);

    /* For people. */
    const char *(*endpoint)(const struct daemon *daemon);

    /* What zmq_poll has to wait for; and it has said that nothing waits there (NULL: who cares). */
    void (*poll)(const struct daemon *daemon, zmq_pollitem_t *item);
    void (*idle)(struct daemon *daemon);

    /* The next example, never waiting; `now` becomes its `received`. 1: valid until the next call;
       0: none waits; -1: nothing can be read. */
    int (*take)(struct daemon *daemon, uint64_t now, struct example *example, struct error *error);

    /* To the example that was taken last. */
    int (*answer)(struct daemon *daemon, const struct example *example,
                  const struct source_answer *answer, struct error *error);

    /* The journal has become durable: whoever waits for that is told. */
    int (*settle)(struct daemon *daemon, struct error *error);

    /* Whether what is not settled comes again by itself: to stop, it need not be taken. */
    bool (*repeats)(const struct daemon *daemon);

    /* ---- NULL without a broker ---- */

    /* What the journal had is learned: nothing is taken before. EX_CONFIG: what the journal has,
       and this would not read. */
    int (*begin)(struct daemon *daemon, struct error *error);

    /* How many may be taken now, `batch` at most. */
    size_t (*batch)(const struct daemon *daemon, size_t batch);

    /* Readable when `turn`, which each turn of the loop calls, has something to do; -1: never. */
    int (*descriptor)(const struct daemon *daemon);
    int (*turn)(struct daemon *daemon, struct error *error);

    /* The daemon stops: what it has goes to others, before the last checkpoint. */
    int (*hand_over)(struct daemon *daemon, struct error *error);

    /* Fill in fields of `status`, whose texts live until the next call: which ones, FIELD_HAS. */
    unsigned (*report)(struct daemon *daemon, struct status_fields *status);
};

/* What the module exports. It calls the program's own functions and reads its structs: both are of
   one build, or the module is refused. */
struct source_module {
    const char *version; /* PACKAGE_VERSION */
    size_t layout;       /* DAEMON_LAYOUT */
    struct source_ops ops;
};

/* The name under which the module exports its struct source_module. */
#define SOURCE_MODULE_SYMBOL "runnel_cluster_module"

/* NULL: a module is needed, and cannot be used (EX_UNAVAILABLE). */
const struct source_ops *source_choose(const struct config *config, struct error *error);

#endif
