/* One daemon as runnel-alert sees it: from its messages and its silence to conditions in its book.
   Times are in seconds; live they are clock_seconds(), in a recording those of the messages. */
#ifndef RUNNEL_ALERT_WATCHER_H
#define RUNNEL_ALERT_WATCHER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alert_adwin.h"
#include "alert_page_hinkley.h"
#include "common/clock.h"
#include "common/wire.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_state.h"
#include "tools/shared/watch_trend.h"

/* ---- Book ----

   What is wrong with one daemon, kept so that nothing is reported twice: a condition is reported
   when it begins and when it is over, and between two beginnings of one kind is a least time. What
   comes sooner is reported when that time has passed: as a beginning if the condition still holds,
   else as passed, with a count. The second event of a stream is reported at once, and only further
   ones wait: so an alarm is never late.

   Times are on two clocks: that of who calls, and the data's, where it is known. What may be
   reported after so many seconds may be once either has moved on so far: so a year that is replayed
   within minutes has the alerts that the year had. */

enum alert_kind {
    ALERT_SILENCE,
    ALERT_RESTART,
    ALERT_NON_FINITE,
    ALERT_RISING,
    ALERT_PAGE_HINKLEY,
    ALERT_ADWIN,
    ALERT_DEAD,
    ALERT_SATURATED,
    ALERT_QUEUE,
    ALERT_REJECTED,
    ALERT_JOURNAL,
    ALERT_DISK,
    ALERT_GAP,
    ALERT_INPUT_SCALE,
    ALERT_WORSE_THAN_BASELINE,
    ALERT_ANOMALY,
    ALERT_IDLE,
    ALERT_KINDS
};

extern const char *const alert_names[ALERT_KINDS];

/* The kind of that name (not terminated), ALERT_KINDS when there is none. */
enum alert_kind alert_find(const char *name, size_t size);

enum alert_state {
    ALERT_BEGAN,
    ALERT_STILL, /* reported again, as a reminder */
    ALERT_OVER,
    ALERT_PASSED, /* began and ended too soon after the last report to be reported then */
    ALERT_STATES
};

extern const char *const alert_states[ALERT_STATES];

enum {
    ALERT_TEXT_SIZE = 320,
    ALERT_NAME_SIZE = 128,
    ALERT_NOTE_SIZE = WIRE_NOTE_MAX + 1,
    ALERT_RUN_SIZE = 64,
    ALERT_STREAMS = 256, /* whose last report is known; of more, the longest ago is forgotten */
};

/* What is reported. Times are in seconds, on the clock of who calls the book. */
struct alert {
    enum alert_kind kind;
    enum alert_state state;
    char text[ALERT_TEXT_SIZE];   /* a sentence */
    char stream[ALERT_NAME_SIZE]; /* that it is about; "" = none is known */
    char note[ALERT_NOTE_SIZE];   /* of its example, for people; "" = it has none */
    double value, limit;          /* what was measured and its limit; NAN = no number */
    double now, since;            /* since when the condition has held */
    double data_time, data_since; /* the same in data time; NAN = not known */
    uint64_t times;               /* that it has begun since the last report, this one included */
};

struct book {
    bool watched[ALERT_KINDS];
    double data_time;   /* of the newest message that has one; NAN = none yet. Set it at will */
    const char *stream; /* that what begins now is about; NULL = none. Set it at will */
    double interval;    /* seconds between two beginnings of a kind */
    double again;       /* seconds after which what still holds is reported again; 0 = never */
    double ticked;      /* when the last tick was */
    void (*say)(void *context, const struct alert *alert);
    void *context;
    struct condition {
        bool holds, said;
        bool continued; /* reported a second time within the interval */
        double calm;    /* seconds after which it is over; INFINITY = when book_over is called */
        struct moment {
            double now, data;
        } renewed, said_last; /* its last and its reported beginning; -INFINITY = never */
        double reminded;
        struct alert alert;                            /* of the newest beginning */
    } conditions[ALERT_KINDS], streams[ALERT_STREAMS]; /* of book_event: a stream each */
    size_t stream_count;
};

void book_open(struct book *book, const bool watched[ALERT_KINDS], double interval, double again,
               void (*say)(void *context, const struct alert *alert), void *context);

/* Time has passed: reports what was held back, what still holds and what is over. book_next:
   seconds until there is something to do. */
void book_tick(struct book *book, double now);

/* The end: reports what is held back, as of the last tick. */
void book_end(struct book *book);
double book_next(const struct book *book, double now);

/* ---- Drift ----

   The course of a daemon's loss: whether it drifts (two detectors) or rises slowly.

   The detectors watch the logarithm of a loss, so that a change is one by a factor: `mean` of each
   `loss` message, over the examples since the message before. The losses of densities (gaussian,
   mixture), which may be negative, are logarithms already and are watched as they are.

   A loss that is close to 0 varies over powers of ten, and each of its rises is a change. So a loss
   below a hundredth of that of the beginning counts as that: of the greatest of all medians of
   DRIFT_MEDIAN messages among the first DRIFT_BEGINNING. Since a beginning can be wild, half of it
   is forgotten after each DRIFT_FORGOTTEN messages. */

enum {
    DRIFT_BLOCK = 5, /* messages to one value of the trend */
    DRIFT_MEDIAN = 5,
    DRIFT_BEGINNING = 200, /* messages */
    DRIFT_FORGOTTEN = 10000,
};

struct drift_limits {
    double page_hinkley_delta, page_hinkley_lambda, adwin_delta;
    double floor; /* a loss below counts as this */
    bool fixed;   /* only the floor, not what the loss was in the beginning */
};

struct drift {
    struct drift_limits limits;
    bool density;   /* the loss is a logarithm already */
    uint64_t count; /* losses that were taken */
    double recent[DRIFT_MEDIAN], beginning;
    struct page_hinkley page_hinkley;
    struct adwin adwin;
    struct trend trend; /* of means of DRIFT_BLOCK values */
    double block;       /* sum of the values of the one that is not full, */
    int block_count;
};

void drift_open(struct drift *drift, const struct drift_limits *limits);

/* Whether the loss has risen along the whole trend: TREND_VALUES blocks with a slope of
   DRIFT_RISING standard errors, and a tenth of the loss or of a nat in all. */
#define DRIFT_RISING 5.0
struct rising {
    bool known, rises, ended; /* ended: it no longer rises */
    double from, to;          /* losses at both ends of the line */
};
/* ---- Layers ----

   Dead and saturated units, from the statistics of the hidden layers (topic `state`). */

enum {
    LAYERS_MAX = STATE_LAYERS,
    LAYERS_SATURATED_LEAST = 10, /* messages before saturation is judged */
    LAYERS_DEAD_LEAST = 20,      /* messages in a row without a change */
};

/* Standard deviation over a layer's units below which all have the same value. */
#define LAYERS_ALIKE 1e-3

struct layers {
    struct layer {
        bool unbounded;   /* h beyond 1 was seen: |h| > 0.99 is no saturation there */
        int messages;     /* up to LAYERS_SATURATED_LEAST */
        double saturated; /* moving average of the share */
        int alike, same;  /* messages in a row, up to LAYERS_DEAD_LEAST */
        double mean, std, norm;
    } layers[LAYERS_MAX];
};

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
