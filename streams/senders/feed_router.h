/* Numbered examples on their way to a daemon that acknowledges each of them (examples.socket:
   router). What is not answered is kept, and sent again in order on the next connection: so nothing
   is lost while this process lives.

   A daemon takes a sequence that is not higher than the newest of its stream for a duplicate. So
   one example must never overtake another: each connection begins with the oldest that is not
   answered. */
#ifndef RUNNEL_FEED_ROUTER_H
#define RUNNEL_FEED_ROUTER_H

#include "common/keys.h"
#include "feed_outlet.h"

struct error;
struct router;

/* What has come back so far. */
struct router_figures {
    uint64_t acknowledged; /* they are safe; */
    uint64_t duplicates;   /* of these, what the daemon had before */
    uint64_t outdated;     /* of the duplicates, those of the newest epoch that was sent, whose
                              streams have a greater one there: they were never learned */
    uint64_t rejected;
    const char *reason; /* of the first rejection, as docs/protocol.md names it */
};

/* As outlet_open; it only connects. `lost` of the waiter is called when a connection ends with
   examples that are not answered. */
int router_open(struct router **router, const char *endpoint, const struct key_client *keys,
                const struct outlet_waiter *waiter, struct error *error);

/* As outlet_wait and outlet_listen; both take in answers, and send what can be sent. */
int router_wait(struct router *router, double seconds, struct error *error);
int router_listen(struct router *router, struct error *error);

/* Keep the example, as window_add has it, and send it when it can be sent. Waits while the window
   is full: FEED_INTERRUPTED when a signal cut that short; then the example is not sent. */
int router_send(struct router *router, const struct message *message, struct error *error);

const struct router_figures *router_figures(const struct router *router);

/* Wait until everything is answered; FEED_INTERRUPTED when a signal cut that short. */
int router_settle(struct router *router, struct error *error);

/* Wait until everything is answered, for at most `linger` seconds, after a signal for at most
   OUTLET_STOP_SECONDS and not at all when nobody is connected, or until another signal comes; and
   close. -1 (EX_TEMPFAIL) says how many examples were not acknowledged. `figures` is what has come
   back. */
int router_close(struct router **router, double linger, struct router_figures *figures,
                 struct error *error);

#endif
