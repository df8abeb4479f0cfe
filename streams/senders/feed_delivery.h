/* What becomes of examples on their way out, and what people are told of it: waiting, progress, a
   daemon that goes away, the summary, and the verdict at the end. */
#ifndef RUNNEL_FEED_DELIVERY_H
#define RUNNEL_FEED_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "feed_sender.h"
#include "streams/feed_progress.h"

struct error;
struct shape;

struct delivery {
    struct sender_options to;            /* set these before delivery_open: */
    bool print;                          /* to standard output, instead of sending: */
    const struct shape *x, *y;           /* numbers like these */
    double linger;                       /* seconds to wait for delivery at the end; INFINITY */
    double (*done)(const void *context); /* share of everything, 0..1, or NAN */
    const void *context;

    struct progress progress; /* what delivery_send has sent */
    struct sender sender;
    struct router_figures figures;
    bool started;  /* somebody was there to send to */
    uint64_t lost; /* connections, with examples on their way */
};

/* Connect, and wait until somebody is there: see outlet_wait. Then, and after an error too,
   delivery_close is due. */
int delivery_open(struct delivery *delivery, double wait, struct error *error);

int delivery_send(struct delivery *delivery, const struct message *message, struct error *error);

/* Routers only: as router_settle; `figures` is filled. */
int delivery_settle(struct delivery *delivery, struct error *error);

/* Look after what was sent, and show the progress line if it is due: for those who do not send for
   a while, and now and then for those who do. */
int delivery_listen(struct delivery *delivery, struct error *error);

/* Sleep until `*due` (CLOCK_MONOTONIC, seconds), listening meanwhile. More than a second too late,
   `*due` becomes now: a schedule that goes on from there does not flood a daemon that was away.
   FEED_INTERRUPTED after a signal. */
int delivery_pause(struct delivery *delivery, double *due, struct error *error);

/* Wait for delivery, close, and say what has been done. `status` is what sending came back with,
   and `error` its reason, which stays: 0 when everything that was sent has arrived as far as can be
   known, also after a signal. `skipped`: bad lines. */
int delivery_close(struct delivery *delivery, int status, uint64_t skipped, struct error *error);

#endif
