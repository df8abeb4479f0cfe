/* One daemon that runnel-alert watches: messages and silence become conditions in a book. Times are
   in seconds: clock_seconds() when live, the times of the messages in a recording. */
#ifndef RUNNEL_ALERT_WATCHER_H
#define RUNNEL_ALERT_WATCHER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alert_adwin.h"
#include "alert_page_hinkley.h"
#include "common/wire.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_state.h"
#include "tools/shared/watch_trend.h"

/* ---- Book ----

   The problems of one daemon, so that nothing is reported twice. A condition is reported when it
   begins and when it ends, and two beginnings of one kind have a minimum time between them. A
   condition that begins sooner is reported after that time: as a beginning if it still holds, else
   as passed, with a count.

   Times are on two clocks: the caller's and the data's, if known. A waiting report is due when
   either clock has advanced far enough. So a replayed year has the same alerts as the year had,
   although the replay takes minutes. */

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
    ALERT_DORMANT,
    ALERT_STALE,
    ALERT_KINDS
};

extern const char *const alert_names[ALERT_KINDS];

/* The kind with this name (not null-terminated); ALERT_KINDS if unknown. */
enum alert_kind alert_find(const char *name, size_t size);

enum alert_state {
    ALERT_BEGAN,
    ALERT_STILL, /* reported again as a reminder */
    ALERT_OVER,
    ALERT_PASSED, /* began and ended within the minimum time */
    ALERT_STATES
};

extern const char *const alert_states[ALERT_STATES];

enum {
    ALERT_TEXT_SIZE = 320,
    ALERT_NAME_SIZE = 128,
    ALERT_NOTE_SIZE = WIRE_NOTE_MAX + 1,
    ALERT_RUN_SIZE = 64,
    ALERT_STREAMS = 256, /* streams whose last report is kept; the oldest is dropped */
};

/* A report. Times are in seconds, on the clock of the book's caller. */
struct alert {
    enum alert_kind kind;
    enum alert_state state;
    char text[ALERT_TEXT_SIZE];
    char stream[ALERT_NAME_SIZE]; /* name of the stream; "" if unknown */
    char note[ALERT_NOTE_SIZE];   /* note of the example; "" = none */
    double value, limit;          /* measured value and its limit; NAN = none */
    double now, since;            /* time of the report, and when the condition began */
    double unix_since;            /* of `since`, set by the first report; 0 = not set */
    double data_time, data_since; /* the same in data time; NAN = unknown */
    double incident;              /* its number; NAN = an event without an end */
    size_t prefix;                /* bytes of `stream` that all its streams begin with */
    uint64_t times;               /* beginnings since the last report, this one included */
};

struct book {
    bool watched[ALERT_KINDS];
    double data_time;   /* data time of the newest message; NAN = none yet; callers set it */
    const char *stream; /* stream of the next beginning; NULL = none; callers set it */
    double interval;    /* minimum seconds between two beginnings of a kind */
    double again;       /* seconds until a condition that holds is reported again; 0 = never */
    double ticked;      /* time of the last tick */
    void (*report)(void *context, struct alert *alert);
    void *context;
    struct condition {
        bool holds, reported;
        double calm; /* seconds until the condition ends; INFINITY = until book_over */
        struct moment {
            double now, data;
        } renewed, last_report; /* last and last reported beginning; -INFINITY = never */
        double reminded;
        double data_time;                      /* of the newest event of a stream */
        struct alert alert;                    /* newest beginning */
    } conditions[ALERT_KINDS + ALERT_STREAMS]; /* those of streams follow, see book_event */
    size_t count;
};

void book_open(struct book *book, const bool watched[ALERT_KINDS], double interval, double again,
               void (*report)(void *context, struct alert *alert), void *context);

/* Reports pending problems, reminders and ends. book_next: seconds until the next tick is due. */
void book_tick(struct book *book, double now);

/* Reports problems that are still pending, with the time of the last tick. */
void book_end(struct book *book);
double book_next(const struct book *book, double now);

/* ---- Drift ----

   The course of a daemon's loss: whether it drifts (two detectors) or rises slowly.

   The detectors watch the logarithm of a loss, so that a change is a factor. The loss is `mean` of
   each `loss` message: the mean over the examples since the message before. The losses of densities
   (gaussian, mixture) can be negative. They are logarithms already and are used unchanged.

   A loss close to 0 varies over powers of ten, and each rise would be a change. So a loss below a
   hundredth of the initial loss counts as that hundredth. The initial loss is the greatest median
   of DRIFT_MEDIAN messages among the first DRIFT_BEGINNING. Since the first losses can be extreme,
   it is halved after each DRIFT_FORGOTTEN messages. */

enum {
    DRIFT_BLOCK = 5, /* messages in one value of the trend */
    DRIFT_MEDIAN = 5,
    DRIFT_BEGINNING = 200, /* messages */
    DRIFT_FORGOTTEN = 10000,
};

struct drift_limits {
    double page_hinkley_delta, page_hinkley_lambda, adwin_delta;
    double floor; /* a lower loss counts as this */
    bool fixed;   /* use only `floor`, not the initial loss */
};

struct drift {
    struct drift_limits limits;
    bool density;   /* the loss is a logarithm already */
    uint64_t count; /* losses added */
    double recent[DRIFT_MEDIAN], beginning;
    struct page_hinkley page_hinkley;
    struct adwin adwin;
    struct trend trend; /* means of DRIFT_BLOCK values */
    double block;       /* sum of the values of the incomplete block */
    int block_count;
};

/* Whether the loss has risen over the whole trend: TREND_VALUES blocks with a slope of at least
   DRIFT_RISING standard errors, and a rise of a tenth of the loss or 0.1 nats. */
#define DRIFT_RISING 5.0
struct rising {
    bool known, rises, ended;
    double from, to; /* losses at both ends of the line */
};
/* ---- Layers ----

   Dead, saturated and dormant units, from the statistics of the hidden layers (topic `state`). */

enum {
    LAYERS_MAX = STATE_LAYERS,
    LAYERS_SHARE_LEAST = 10, /* messages before shares are checked */
    LAYERS_DEAD_LEAST = 20,  /* consecutive messages without a change */
};

/* A layer whose units have a smaller standard deviation has equal units. */
#define LAYERS_ALIKE 1e-3

/* The shares of a layer's units that have a limit. */
enum { SHARE_SATURATED, SHARE_DORMANT, LAYERS_SHARES };

struct layers {
    struct layer {
        bool unbounded;               /* |h| > 1 was seen, so |h| > 0.99 is not saturation */
        int messages;                 /* at most LAYERS_SHARE_LEAST */
        double shares[LAYERS_SHARES]; /* moving averages */
        int alike, same;              /* consecutive messages, at most LAYERS_DEAD_LEAST */
        double mean, std, norm;
    } layers[LAYERS_MAX];
};

struct limits {
    struct drift_limits drift;
    double silence;               /* seconds; 0 = never */
    double idle;                  /* seconds without an example; 0 = never */
    double shares[LAYERS_SHARES]; /* of a layer's units */
    double queue;                 /* examples */
    double waiting;               /* seconds that an example waits for the disk */
    double disk;                  /* bytes of free space */
    double calm;                  /* seconds without recurrence after which an event ends */
};

/* Initialize with watcher_open. */
struct watcher {
    const struct limits *limits;
    struct book book;
    struct drift drift;
    struct layers layers;
    char endpoint[ALERT_NAME_SIZE], name[ALERT_NAME_SIZE], run[ALERT_RUN_SIZE];
    double examples;            /* of the newest message; NAN = none yet */
    double learned, learned_at; /* last increase of `examples`: count and time */
    bool ending;                /* the daemon announced its end */
    bool loss_known, gradient_known;
    double skipped, rejected, missing; /* counts of the newest message; NAN = none yet */
    double queued;                     /* moving average; NAN = none yet */
    double queued_since;               /* when it exceeded the limit; INFINITY = below */
    bool every_reported;
};

/* Does not open the book. `limits` must outlive the watcher. */
void watcher_open(struct watcher *watcher, const char *endpoint, const struct limits *limits);

/* The message must not have a problem. */
void watcher_message(struct watcher *watcher, const struct message *message, double now);

/* No message for `seconds`. `connected`: the connection to the endpoint is open. */
void watcher_quiet(struct watcher *watcher, double seconds, bool connected, double now);

/* The statistics interval in examples, once, if it is too long to find a drift soon; else 0. */
double watcher_slow_statistics(struct watcher *watcher, const struct message *message);

#endif
