/* The watched daemons: for each its link, newest messages and history, and the events for open
   pages. */
#ifndef RUNNEL_WEB_FEED_H
#define RUNNEL_WEB_FEED_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"
#include "tools/history/history.h"
#include "tools/shared/watch_health.h"
#include "web_experiment.h"
#include "web_live.h"

/* ---- Forecasts ----

   Recent predictions of a daemon with their truths: the newest scored steps of each stream and
   horizon, from messages of the topic `prediction`, and the forecast of the next value. Memory is
   bounded: a stream has at most FORECAST_STEPS steps, fewer if it has many columns. A new stream
   beyond the limit replaces the stream with the oldest message, if that is older than
   FORECAST_SILENCE seconds; else the new stream is ignored. */

enum {
    FORECAST_STEPS = 1000,
    FORECAST_BYTES = 8 << 20, /* maximum bytes of one daemon */
    FORECAST_COLUMNS = 1024,  /* maximum columns of a stream; further ones are left out */
    FORECAST_LEVELS = 32,     /* maximum quantiles of a column; with more none are kept */
};
#define FORECAST_SILENCE 60.0

/* The values of a column at a step, in original units; NaN = none. */
enum forecast_value {
    FORECAST_TARGET,
    FORECAST_PREDICTION,
    FORECAST_LOW, /* ends of the interval */
    FORECAST_HIGH,
    FORECAST_BASELINE,
    FORECAST_VALUES, /* from here on: quantiles at the levels of the series */
};

/* The steps of one stream and horizon, ordered by position. */
struct forecast_series {
    struct forecast_series *following;
    char *stream; /* owned */
    size_t ahead; /* 0 = only one horizon */
    size_t columns, room, count;
    double levels[FORECAST_LEVELS];
    size_t level_count;
    /* (room + 1, FORECAST_PLACES + columns x (FORECAST_VALUES + level_count)); the last row is the
       open one */
    double *rows;
    bool open;      /* whether there is a forecast without a truth */
    double touched; /* time of the last step, clock_seconds() */
};

/* The numbers of a row before its values; NaN = unknown. */
enum forecast_place {
    FORECAST_POSITION, /* number of the example with the target */
    FORECAST_TIME,     /* data time of the target */
    FORECAST_MADE,     /* number of the example that made the forecast */
    FORECAST_MADE_TIME,
    FORECAST_SCORE, /* anomaly score of the target */
    FORECAST_PLACES,
};

struct forecasts {
    struct forecast_series *series;
    size_t bytes;
    double examples;   /* examples learned at the newest message */
    uint64_t left_out; /* steps of streams without room */
    bool wordless;     /* whether predictions are not lists of numbers (classes, strokes) */
    json_t *classes;   /* the newest message with classes by name; NULL = none */
};

/* NULL if it does not exist. */
const struct forecast_series *forecasts_find(const struct forecasts *forecasts, const char *stream,
                                             size_t ahead);

/* Step i, from the oldest on: the numbers before the values, and the values and quantiles of a
   column. */
const double *forecast_row(const struct forecast_series *series, size_t i);
const double *forecast_values(const struct forecast_series *series, size_t i, size_t column);

/* The forecast of the next value, or NULL. Its position and data time are expected ones. Its values
   are at `room`. */
const double *forecast_next(const struct forecast_series *series);

/* ---- Backlog ----

   Predictions that wait to be parsed. A daemon may publish tens of thousands a second. They are
   parsed at most at BACKLOG_RATE, and only the newest BACKLOG_MESSAGES wait, so that the last ones
   are complete when a daemon falls silent. */

enum { BACKLOG_MESSAGES = 1000, BACKLOG_BYTES = 4 << 20 };
#define BACKLOG_RATE 1e6  /* bytes of JSON a second */
#define BACKLOG_BURST 1e6 /* bytes at once after a rest */

/* Initialize with zeros; times are clock_seconds(). */
struct backlog {
    char *texts[BACKLOG_MESSAGES]; /* a ring; owned */
    size_t sizes[BACKLOG_MESSAGES], first, count, bytes;
    double spent, since; /* bytes that the rate has not allowed yet, at the time `since` */
    uint64_t passed;     /* messages that were dropped */
};

enum {
    FEEDS_MAX = 32,
    FEED_ITEMS = 2,        /* descriptors of a daemon to poll */
    FEED_EVENT_KINDS = 24, /* distinct kinds; the last one is "other" */
    FEED_KIND_SIZE = 32,
};

struct feed_events {
    char kind[FEED_KIND_SIZE];
    uint64_t count;
};

struct feed {
    const char *endpoint;
    bool named; /* given by the user, so the page shows it even without messages */
    struct link *link;
    struct health health;
    bool refused;        /* access denied */
    enum presence shown; /* the presence that the pages show */

    json_t *newest[TOPICS];    /* message bodies; NULL = none yet in this run; owned */
    uint64_t received[TOPICS]; /* messages since the program started */
    struct feed_events events[FEED_EVENT_KINDS]; /* kinds that have occurred */

    double sent[TOPICS];  /* time of the last message to the pages, clock_seconds() */
    json_t *held[TOPICS]; /* message that waits to be sent; owned */
    uint64_t merged;      /* number of `loss` messages in the waiting one */

    /* A separate link while the daemon publishes predictions, so that lost ones do not affect other
       topics. */
    struct link *predictions;
    double rests; /* time until which predictions gather, clock_seconds() */
    struct backlog backlog;
    struct forecasts forecasts;
    bool predicted; /* new predictions since the last note to the pages */
    double noted;   /* time of the last note, clock_seconds() */

    struct runnel_peer peer;
    struct feeds *feeds;
};

struct feeds {
    struct feed feed[FEEDS_MAX];
    size_t count;                  /* 0 = a recording or an experiment */
    const char *recording;         /* name of the file; NULL = none */
    struct experiment *experiment; /* NULL = none; an experiment has no history */
    struct history *history;
    struct live *live;
    bool exports_forecasts; /* whether metrics include values and forecasts */
    double committed;       /* time of the last commit or check, clock_seconds() */
    bool complained;        /* an error of the history was reported */
};

/* Starts to watch the daemons at these endpoints with these keys; `named`: the user gave the
   endpoints. Returns EX_OK, or prints an error and returns an exit status. */
int feeds_open(struct feeds *feeds, const char *const endpoints[], size_t count, bool named,
               const struct key_options *keys, struct history *history, struct live *live);

/* Shows a recording with this file name, read-only, instead of daemons. */
void feeds_open_recording(struct feeds *feeds, const char *path, struct history *history,
                          struct live *live);

/* Shows the results of an experiment instead of daemons. Returns EX_OK, or prints an error and
   returns an exit status. */
int feeds_open_experiment(struct feeds *feeds, const char *path, struct experiment *experiment,
                          struct live *live);
void feeds_close(struct feeds *feeds);

/* Fills the items to poll for; returns their number. */
size_t feeds_items(const struct feeds *feeds, struct pollfd items[FEEDS_MAX * FEED_ITEMS]);

/* Takes waiting messages and does everything that is due. */
void feeds_run(struct feeds *feeds);

/* Seconds until feeds_run is due. */
double feeds_next(const struct feeds *feeds);

/* The state of a feed as in /api/daemons, a new reference; `whole`: with the newest messages. */
json_t *feed_describe(const struct feed *feed, bool whole);

/* The daemon's name, or its endpoint if unknown. */
const char *feed_name(const struct feed *feed);

#endif
