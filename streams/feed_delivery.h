/* Sending examples, and what is reported about it: waiting, progress, a
   daemon that goes away, the summary, and the verdict at the end. */
#ifndef RUNNEL_FEED_DELIVERY_H
#define RUNNEL_FEED_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/keys.h"
#include "feed_progress.h"
#include "runnel.h"

struct shape;

struct destination {
    const char *endpoint;
    struct key_options keys;
    enum runnel_sending kind;
    bool bind;         /* the endpoint, instead of connecting to it */
    uint64_t producer; /* whose numbers are sent; 0 = nobody's in particular */
    bool fresh;        /* it was drawn for this call: nothing that is sent came before */
};

struct delivery {
    struct destination to;               /* set these before delivery_open: */
    bool print;                          /* to standard output, instead of sending: */
    const struct shape *x, *y;           /* numbers like these */
    double linger;                       /* seconds to wait for delivery at the end; INFINITY */
    double (*done)(const void *context); /* share of everything, 0..1, or NAN */
    const void *context;
    void (*settled)(void *source, uint64_t count); /* struct source_type's; or NULL */
    void *source;
    bool strict; /* struct source's */
    bool maps;   /* struct source_type's */

    struct progress progress; /* what delivery_send has sent */
    struct runnel_sender *sender;
    uint64_t told;               /* how many `settled` knows of */
    struct runnel_counts counts; /* of what has come back, after delivery_settle and _close */
    bool started;                /* somebody was there to send to */
    bool closing, outdated_said;
    int signals;        /* as of which closing continues; */
    double until;       /* after another one, until then: clock_seconds */
    uint64_t lost;      /* connections, with examples on their way */
    struct error clash; /* another sender uses the same identity and numbers; text "" = none */
};

/* Connect, and wait until somebody is there: see runnel_sender_wait. Then, and after an error too,
   delivery_close is due. */
int delivery_open(struct delivery *delivery, double wait, struct error *error);

/* Say first what the examples are: see runnel_sender_schema. */
int delivery_schema(struct delivery *delivery, const char *text, struct error *error);

/* An example of so many steps. */
int delivery_send(struct delivery *delivery, const struct runnel_example *example, size_t steps,
                  struct error *error);

/* Routers only: wait until everything is answered; `counts` is filled. */
int delivery_settle(struct delivery *delivery, struct error *error);

/* Look after what was sent, and show the progress line if it is due: for those who do not send for
   a while, and now and then for those who do. */
int delivery_listen(struct delivery *delivery, struct error *error);

/* Sleep until `*due` (CLOCK_MONOTONIC, seconds), listening meanwhile. More than a second too late,
   `*due` becomes now: a schedule that continues from there does not flood a daemon that was away.
   FEED_INTERRUPTED after a signal. */
int delivery_pause(struct delivery *delivery, double *due, struct error *error);

/* Wait for delivery, after a signal for at most STOP_SECONDS and not at all when nobody is
   connected, close, and say what has been done. `status` is what sending came back with, and
   `error` its reason, which stays: 0 when everything that was sent has arrived as far as can be
   known, also after a signal. `skipped`: bad lines. */
int delivery_close(struct delivery *delivery, int status, uint64_t skipped, struct error *error);

#endif
