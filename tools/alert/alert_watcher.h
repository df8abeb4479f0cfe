/* One daemon as runnel-alert sees it: from its messages and its silence to conditions in its book.
   Times are in seconds; live they are clock_seconds(), in a recording those of the messages. */
#ifndef RUNNEL_ALERT_WATCHER_H
#define RUNNEL_ALERT_WATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "alert_book.h"
#include "alert_drift.h"
#include "alert_layers.h"
#include "common/clock.h"
#include "tools/shared/watch_link.h"

struct limits {
    struct drift_limits drift;
    double silence;   /* seconds; 0 = never */
    double idle;      /* likewise, without an example */
    double saturated; /* share of a layer's units */
    double queue;     /* examples */
    double waiting;   /* seconds that an example may wait for the disk */
    double disk;      /* bytes that must be free */
    double calm;      /* seconds after which what has happened is over */
};

/* Fill with watcher_open. */
struct watcher {
    const struct limits *limits;
    struct book book;
    struct drift drift;
    struct layers layers;
    char endpoint[ALERT_NAME_SIZE], name[ALERT_NAME_SIZE], run[ALERT_RUN_SIZE];
    double examples;            /* of the newest message; NAN = none yet */
    double learned, learned_at; /* examples when they last became more, and when that was */
    bool ending;                /* the daemon said so */
    bool loss_known, gradient_known;
    double skipped, rejected, missing; /* counts of the newest message; NAN = none yet */
    double queued;                     /* moving average; NAN = none yet */
    double queued_since;               /* when it came over the limit; INFINITY = it is below */
    bool every_said;
};

/* The book is opened by itself; `limits` must outlive it. */
void watcher_open(struct watcher *watcher, const char *endpoint, const struct limits *limits);

/* A message without a problem. */
void watcher_message(struct watcher *watcher, const struct message *message, double now);

/* Nothing has come for so many seconds; `connected` to whatever listens there. */
void watcher_quiet(struct watcher *watcher, double seconds, bool connected, double now);

/* A statistics interval too long to find a drift soon: that many examples, once; else 0. */
double watcher_slow_statistics(struct watcher *watcher, const struct message *message);

#endif
