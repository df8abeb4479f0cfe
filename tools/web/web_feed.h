/* The daemons that are watched: a link to each, the newest of what it has said, its history, and
   what is passed on to the pages that are open. */
#ifndef RUNNEL_WEB_FEED_H
#define RUNNEL_WEB_FEED_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/keys.h"
#include "tools/history/history.h"
#include "tools/shared/watch_health.h"
#include "web_experiment.h"
#include "web_live.h"

/* ---- Forecasts ----

   What a daemon has predicted of late beside what came then: of each stream, and of each horizon
   where there are several, the newest steps that were scored. It is filled from messages of the
   topic `prediction`, with what was said of the value that comes next, and bounded: a stream has at
   most FORECAST_STEPS of them, fewer where it has many columns, and when there is no more room the
   stream that has been silent longest makes room, if it has been for FORECAST_SILENCE seconds; else
   the new one is left out. */

enum {
    FORECAST_STEPS = 1000,
    FORECAST_BYTES = 8 << 20, /* of one daemon */
    FORECAST_COLUMNS = 1024,  /* of a stream; further ones are left out */
};
#define FORECAST_SILENCE 60.0

/* What there is of each column at each step, in original units; NaN = there is none. */
enum forecast_value {
    FORECAST_TARGET,
    FORECAST_PREDICTION,
    FORECAST_LOW, /* the ends of the interval */
    FORECAST_HIGH,
    FORECAST_BASELINE,
    FORECAST_VALUES,
};

/* Steps of one stream and horizon, by their position. */
struct forecast_series {
    struct forecast_series *following;
    char *stream; /* owned */
    size_t ahead; /* 0 = there is one horizon only */
    size_t columns, room, count;
    double *rows;   /* (room + 1, FORECAST_PLACES + columns x FORECAST_VALUES); the last: `open` */
    bool open;      /* whether something is said of a value that has not come */
    double touched; /* when the last step came, clock_seconds() */
};

/* What a row has before its values; NaN = unknown. */
enum forecast_place {
    FORECAST_POSITION, /* number of the example that brought the target */
    FORECAST_TIME,     /* its data time */
    FORECAST_SAID,     /* number of the example that said it */
    FORECAST_SAID_TIME,
    FORECAST_SCORE, /* how abnormal what came was */
    FORECAST_PLACES,
};

struct forecasts {
    struct forecast_series *series;
    size_t bytes;
    double examples;   /* learned by the daemon at the newest message */
    uint64_t left_out; /* steps of streams for which there was no room */
    bool wordless;     /* something was scored that is no list of numbers: classes, strokes */
    json_t *said;      /* the newest message that says classes by name; NULL: there is none */
};

/* NULL when there is none. */
const struct forecast_series *forecasts_find(const struct forecasts *forecasts, const char *stream,
                                             size_t ahead);

/* The row of the step i, from the oldest on: its places; then a value of a column. */
const double *forecast_row(const struct forecast_series *series, size_t i);
double forecast_value(const struct forecast_series *series, size_t i, size_t column,
                      enum forecast_value value);

/* What was said last, of a value that has not come: NULL, or a row whose position and data time are
   those at which it is expected: as far after what said it as usual. Its values are at `room`. */
const double *forecast_next(const struct forecast_series *series);

/* ---- Backlog ----

   Predictions that wait to be read. A daemon may publish tens of thousands a second, more than
   anybody sees: they are parsed no faster than BACKLOG_RATE, whatever they are of, and of those
   that wait the newest BACKLOG_MESSAGES are kept. So when a daemon falls silent its last ones are
   all there. */

enum { BACKLOG_MESSAGES = 1000, BACKLOG_BYTES = 4 << 20 };
#define BACKLOG_RATE 1e6  /* bytes of JSON a second, */
#define BACKLOG_BURST 1e6 /* and as many at once after a rest */

/* Zero to begin with; times are clock_seconds(). */
struct backlog {
    char *texts[BACKLOG_MESSAGES]; /* a ring; owned */
    size_t sizes[BACKLOG_MESSAGES], first, count, bytes;
    double spent, since; /* bytes that the rate has not made up for at that time */
    uint64_t passed;     /* messages that were never read */
};

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
