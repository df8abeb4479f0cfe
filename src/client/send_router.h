/* Sends numbered examples to a daemon that acknowledges each of them (examples.socket: router).
   Unanswered examples are kept, and sent again in order on the next connection, so nothing is
   lost while this process lives.

   A daemon treats a sequence that is not higher than the newest of its stream as a duplicate. An
   example must therefore never overtake another: each connection begins with the oldest
   unanswered example. */
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

/* Works like push_open, but only connects. `window` is the largest number of unanswered examples,
   0: 10,000. `counts` is kept up to date. */
int router_open(struct router **router, const struct peer *peer, size_t window,
                const struct send_hooks *hooks, struct runnel_counts *counts, struct error *error);

bool router_connected(const struct router *router);

/* Process answers and send examples, for at most `seconds`, or until `other` (NULL: none) is
   ready. EX_UNAVAILABLE: the daemon permanently refuses this client. EX_PROTOCOL: the daemon
   rejects an example without its numbers. */
int router_poll(struct router *router, double seconds, struct send_other *other,
                struct error *error);

/* The number n such that the first n examples are answered. */
uint64_t router_settled(const struct router *router);

/* Keep a copy of the example and send it when possible. It needs a header that is unique in its
   stream. Waits while the window is full; RUNNEL_STOPPED if a tick ends the wait: then the
   example is not sent. */
int router_send(struct router *router, const struct runnel_example *example, struct error *error);

/* Begin the current and all later connections with this message, which is copied. EX_DATAERR,
   also from the functions above: the daemon rejects such examples. */
int router_schema(struct router *router, const char *text, struct error *error);

/* Wait until everything is answered, at most `seconds`. EX_TEMPFAIL contains the number of
   unanswered examples; RUNNEL_STOPPED. */
int router_flush(struct router *router, double seconds, struct error *error);

void router_close(struct router **router);

#endif
