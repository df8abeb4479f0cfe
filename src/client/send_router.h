/* Numbered examples on their way to a daemon that acknowledges each of them (examples.socket:
   router). What is not answered is kept, and sent again in order on the next connection: so nothing
   is lost while this process lives.

   A daemon takes a sequence that is not higher than the newest of its stream for a duplicate. So
   one example must never overtake another: each connection begins with the oldest that is not
   answered. */
#ifndef RUNNEL_SEND_ROUTER_H
#define RUNNEL_SEND_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct peer;
struct router;
struct runnel_counts;
struct runnel_example;
struct send_hooks;
struct send_other;

/* As push_open; it only connects. `window`: how many examples may wait for their answers,
   0: 10,000. `counts` is kept up to date. */
int router_open(struct router **router, const struct peer *peer, size_t window,
                const struct send_hooks *hooks, struct runnel_counts *counts, struct error *error);

bool router_connected(const struct router *router);

/* Take in answers and send what can be sent, waiting for at most so many seconds, or until `other`
   (NULL: none) is ready. EX_UNAVAILABLE
   when the daemon has refused this client for good; EX_PROTOCOL when it rejects an example and does
   not say which. */
int router_poll(struct router *router, double seconds, struct send_other *other,
                struct error *error);

/* How many examples, from the first, are answered. */
uint64_t router_settled(const struct router *router);

/* Keep a copy of the example, which needs a header that no other of its stream has, and send it
   when it can be sent. Waits while the window is full: RUNNEL_STOPPED when a tick cut that short;
   then the example is not sent. */
int router_send(struct router *router, const struct runnel_example *example, struct error *error);

/* Begin this connection, and each to come, with this message; it is copied. EX_DATAERR, from here
   or from those above: the daemon does not take such examples. */
int router_schema(struct router *router, const char *text, struct error *error);

/* Wait until everything is answered, at most so many seconds: EX_TEMPFAIL says how many examples
   were not acknowledged; RUNNEL_STOPPED. */
int router_flush(struct router *router, double seconds, struct error *error);

void router_close(struct router **router);

#endif
