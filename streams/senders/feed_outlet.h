/* The PUSH socket that examples leave through. When the daemon is slow or away a bounded queue
   fills up, and then sending waits. What has left the queue is lost when the daemon ends before it
   has read it; ZeroMQ does not tell how much that is, so only the loss of the connection is told.
 */
#ifndef RUNNEL_FEED_OUTLET_H
#define RUNNEL_FEED_OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/wire.h"

struct error;
struct outlet;
struct stream;

/* One example. */
struct message {
    const struct stream *stream;
    const void *x, *y; /* y NULL = none */
    size_t x_size, y_size, steps;
    bool headed; /* the header goes with it */
    struct wire_header header;
    const char *json; /* instead of all that: one frame of JSON, or NULL */
    size_t json_size;
};

/* `tick` is called at least every FEED_TICK_MS while an outlet waits; `connected`: somebody is
   there. `lost` is called when somebody is gone who may not have read everything. */
struct outlet_waiter {
    void (*tick)(void *context, bool connected);
    void (*lost)(void *context);
    void *context;
};

/* Open the socket, as the client that `keys`, which must outlive it, makes it, and connect it or
   bind it. Errors: EX_USAGE for an endpoint that is none, EX_UNAVAILABLE for one that cannot be
   had. */
int outlet_open(struct outlet **outlet, const char *endpoint, bool bind,
                const struct key_client *keys, const struct outlet_waiter *waiter,
                struct error *error);

/* Wait until somebody is connected, but for at most `seconds` (INFINITY: for ever). EX_UNAVAILABLE
   then, and when the daemon refuses the keys: sending finds out too.
   FEED_INTERRUPTED after a signal. */
int outlet_wait(struct outlet *outlet, double seconds, struct error *error);

/* Look whether somebody is gone: for those who do not send for a while. */
void outlet_listen(struct outlet *outlet);

/* Queue the example, waiting while the queue is full; FEED_INTERRUPTED when a signal cut that
   short: then the example has not been sent. */
int outlet_send(struct outlet *outlet, const struct message *message, struct error *error);

/* Close the outlet once everything has been handed to the network, or `linger` seconds are over,
   or another signal comes: -1 (EX_UNAVAILABLE), and the newest examples may be lost. After a
   signal, and when the daemon refuses this client, it waits for at most OUTLET_STOP_SECONDS, and
   not at all when nobody is connected. */
enum { OUTLET_STOP_SECONDS = 5 };
int outlet_close(struct outlet **outlet, double linger, struct error *error);

#endif
