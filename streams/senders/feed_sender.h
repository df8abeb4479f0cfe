/* Where examples leave: an outlet, which is told nothing of what becomes of them, or a router,
   which is. */
#ifndef RUNNEL_FEED_SENDER_H
#define RUNNEL_FEED_SENDER_H

#include "common/keys.h"
#include "feed_outlet.h"
#include "feed_router.h"

struct sender {
    struct outlet *outlet; /* one of the two is there while it is open */
    struct router *router;
};

struct sender_options {
    const char *endpoint;
    struct key_client keys; /* both must outlive the sender */
    bool bind;              /* the endpoint, instead of connecting to it: outlets only */
    int router;             /* 1, or 0: an outlet */
};

/* As outlet_... and router_... do it. */
int sender_open(struct sender *sender, const struct sender_options *options,
                const struct outlet_waiter *waiter, struct error *error);
int sender_wait(struct sender *sender, double seconds, struct error *error);
int sender_listen(struct sender *sender, struct error *error);
int sender_send(struct sender *sender, const struct message *message, struct error *error);

/* `figures` is what has come back in the end. */
int sender_close(struct sender *sender, double linger, struct router_figures *figures,
                 struct error *error);

#endif
