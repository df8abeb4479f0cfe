/* The daemons that are watched: a link to each, the newest of what it has said, its history, and
   what is passed on to the pages that are open. */
#ifndef RUNNEL_WEB_FEED_H
#define RUNNEL_WEB_FEED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <poll.h>

#include "common/clock.h"
#include "common/keys.h"
#include "tools/history/history.h"
#include "tools/shared/watch_health.h"
#include "web_backlog.h"
#include "web_experiment.h"
#include "web_forecasts.h"
#include "web_live.h"

enum {
    FEEDS_MAX = 32,
    FEED_ITEMS = 2,        /* of a daemon, to poll for */
    FEED_EVENT_KINDS = 24, /* that are distinguished; the last one is "other" */
    FEED_KIND_SIZE = 32,
};

struct feed_events {
    char kind[FEED_KIND_SIZE];
    uint64_t count;
};

struct feed {
    const char *endpoint;
    bool named; /* by the user: the page shows it even if it never speaks */
    struct link *link;
    struct health health;
    bool refused;        /* by the daemon, for good */
    enum presence shown; /* the presence that pages know of */

    json_t *newest[TOPICS];                      /* bodies; NULL = none yet in this run; owned */
    uint64_t received[TOPICS];                   /* messages since the start of this program */
    struct feed_events events[FEED_EVENT_KINDS]; /* those that have occurred have a kind */

    double sent[TOPICS];  /* when a message last went to the pages, clock_seconds() */
    json_t *held[TOPICS]; /* one that waits for its turn; owned */
    uint64_t merged;      /* `loss` messages in the one that waits */

    /* Only while the daemon says that it publishes them. They have a connection of their own: what
       is lost of it when they come too fast is nothing of the rest. */
    struct link *predictions;
    double rests; /* until then, clock_seconds(), none are taken: they come many at a time */
    struct backlog backlog;
    struct forecasts forecasts;
    bool predicted; /* there are some that pages have not been told of */
    double told;    /* when they were last, clock_seconds() */

    struct runnel_peer peer;
    struct feeds *feeds;
};

struct feeds {
    struct feed feed[FEEDS_MAX];
    size_t count;                  /* 0 = a recording or an experiment is shown */
    const char *recording;         /* its file's name; NULL = none */
    struct experiment *experiment; /* NULL = none; with one there is no history */
    struct history *history;
    struct live *live;
    bool exports_forecasts; /* /metrics has readings and forecasts */
    double committed; /* when the history was, or the recording was looked at, clock_seconds() */
    bool complained;  /* of the history */
};

/* Begin to watch the daemons at these endpoints, with these keys; `named`: the user did name them.
   EX_OK, or complains and returns an exit status. */
int feeds_open(struct feeds *feeds, const char *const endpoints[], size_t count, bool named,
               const struct key_options *keys, struct history *history, struct live *live);

/* Watch no daemon: show a history that is only read, from a file of that name. */
void feeds_open_recording(struct feeds *feeds, const char *path, struct history *history,
                          struct live *live);

/* Watch no daemon: show the results of an experiment. EX_OK, or complains and returns an exit
   status. */
int feeds_open_experiment(struct feeds *feeds, const char *path, struct experiment *experiment,
                          struct live *live);
void feeds_close(struct feeds *feeds);

/* What to poll for now; returns how many. */
size_t feeds_items(const struct feeds *feeds, struct pollfd items[FEEDS_MAX * FEED_ITEMS]);

/* Take what has come, and do what is due. */
void feeds_run(struct feeds *feeds);

/* Seconds until something is due. */
double feeds_next(const struct feeds *feeds);

/* The state of a feed as /api/daemons has it, a new reference; `whole`: with the newest messages.
 */
json_t *feed_describe(const struct feed *feed, bool whole);

/* The daemon's name, or its endpoint while it is unknown. */
const char *feed_name(const struct feed *feed);

#endif
