/* The source of examples: a ZeroMQ socket, streams of Redis, or a topic of Kafka, behind one
   interface. Brokers and fleets are in a module (src/cluster), loaded when the configuration names
   one, so that the program does not need their libraries. */
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

/* The answer to an example. */
struct source_answer {
    enum wire_status status;
    enum wire_duplicate why;   /* duplicate: the reason */
    enum reject_reason reason; /* rejected: the reason; `text` is a clause */
    const char *text;
    uint64_t position; /* position in the journal, 0 = absent */
};

struct source_ops {
    /* Call after opening journal and sockets. */
    int (*open)(struct daemon *daemon, struct error *error);
    void (*close)(struct daemon *daemon);

    /* Returns the address for messages. */
    const char *(*endpoint)(const struct daemon *daemon);

    /* `poll` sets the item for zmq_poll. `idle` (may be NULL) follows when nothing waits there. */
    void (*poll)(const struct daemon *daemon, zmq_pollitem_t *item);
    void (*idle)(struct daemon *daemon);

    /* Takes the next example without waiting; `now` becomes its `received`. 1: valid until the next
       call; 0: none waits; -1: the source has failed. */
    int (*take)(struct daemon *daemon, uint64_t now, struct example *example, struct error *error);

    /* Answers the example that was taken last. */
    int (*answer)(struct daemon *daemon, const struct example *example,
                  const struct source_answer *answer, struct error *error);

    /* The journal has become durable: acknowledges examples that waited for it. */
    int (*settle)(struct daemon *daemon, struct error *error);

    /* Returns whether unsettled examples are sent again automatically: stopping need not take
       them. */
    bool (*repeats)(const struct daemon *daemon);

    /* ---- NULL without a broker ---- */

    /* The journal has been replayed; nothing is taken before. EX_CONFIG: the journal has entries
       that this source would not read. */
    int (*begin)(struct daemon *daemon, struct error *error);

    /* Returns how many examples may be taken now, at most `batch`. */
    size_t (*batch)(const struct daemon *daemon, size_t batch);

    /* The descriptor is readable when `turn` has work; -1: never. Each turn of the loop calls
       `turn`. */
    int (*descriptor)(const struct daemon *daemon);
    int (*turn)(struct daemon *daemon, struct error *error);

    /* The daemon stops: hands its partitions over to others, before the last checkpoint. */
    int (*hand_over)(struct daemon *daemon, struct error *error);

    /* Fills in fields of `status` and returns FIELD_HAS of each. Texts live until the next call. */
    unsigned (*report)(struct daemon *daemon, struct status_fields *status);
};

/* The module's export. Module and program call each other's functions and share structs, so a
   module of another build is refused. */
struct source_module {
    const char *version; /* PACKAGE_VERSION */
    size_t layout;       /* DAEMON_LAYOUT */
    struct source_ops ops;
};

/* The symbol of the module's struct source_module. */
#define SOURCE_MODULE_SYMBOL "runnel_cluster_module"

/* Returns NULL (EX_UNAVAILABLE) if the required module cannot be used. */
const struct source_ops *source_choose(const struct config *config, struct error *error);

#endif
