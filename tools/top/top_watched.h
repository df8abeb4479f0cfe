/* One daemon in runnel-top: the connection, its health, its messages so far, and the view of it. */
#ifndef RUNNEL_TOP_WATCHED_H
#define RUNNEL_TOP_WATCHED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/clock.h"
#include "common/fields.h"
#include "common/keys.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_trend.h"
#include "top_canvas.h"

/* ---- Past ----

   The published learning of a daemon since the first message: a sample for each `loss` message, and
   the `state` messages. Memory is bounded: when it is full, pairs of samples in the older half are
   joined and keep minimum and maximum. So a long run stays visible as a whole, with its newest part
   at full resolution. */

struct sample {
    double examples, steps, time; /* of the message; for joined samples, of the newest */
    double weight;                /* number of messages */
    bool apart;                   /* whether examples without a message precede it */
    double values[FIELDS];        /* of `loss`; NAN = not in the message */
};

enum { PAST_SAMPLES = 4096, PAST_STATES = 512 };

/* Initialize with zeros. */
struct past {
    struct sample *samples; /* (count,), by ascending examples; owned */
    size_t count;
    struct past_state {
        double examples;
        char *text; /* JSON; owned */
        size_t size;
    } states[PAST_STATES];
    size_t state_count;
};

/* The index of the first sample with more examples. */
size_t past_after(const struct past *past, double examples);

enum {
    WATCHED_EVENTS = 400,
    WATCHED_TEXT = 240,
    WATCHED_ENDPOINT = 300,
    WATCHED_GAPS = 8, /* number of messages in the average time between two */
};

struct happening {
    double time, examples; /* examples: NAN = unknown */
    enum style style;
    char mark; /* letter on the chart's axis; 0 = none */
    char text[WATCHED_TEXT];
};

/* The user's view of the daemon. */
struct look {
    double span;   /* number of examples in the charts; 0 = all */
    double cursor; /* examples at the right end of the charts; NAN = the newest */
    int events;    /* number of newest events that are hidden below */
    int layers;    /* first visible layer */
    int column;    /* column of the visible truth from 0, or FORECAST_WORST (top_forecast.h) */
};

struct watched {
    const char *endpoint;
    const char *control; /* as the user gave it, or NULL */
    struct key_options keys;
    struct link *link;
    /* a separate link, since predictions may be many; NULL without predictions */
    struct link *predictions;
    json_t *truth;             /* the newest one with a truth; owned, NULL = none yet */
    json_t *columns, *experts; /* of the newest `loss`; owned, NULL = none */
    struct health health;
    bool refused, hindered; /* refused permanently, or hindered temporarily: see link_refusal */

    json_t *status; /* newest message of the topic; owned, NULL = none yet */
    char run[WATCHED_TEXT];
    bool replaying, has_state;
    double last_loss,
        loss_gap; /* clock_seconds() of the last `loss`; average seconds between two */
    struct trend means;
    double gap_reported;    /* see gap_report */
    double last_scale;      /* clock_seconds() of the last event `input_scale` */
    double last_rejected;   /* of the last event `rejected` */
    double speed, rejected; /* of the newest `loss` or `status` with them; NAN = unknown */
    struct past past;
    struct happening events[WATCHED_EVENTS]; /* oldest first */
    size_t event_count;
    struct look look;
};

/* Connects. Endpoint, control and keys must be set, all other fields zero; the address must not
   change. Returns EX_OK, or prints an error and returns an exit status. */
int watched_open(struct watched *watched, double silence);
void watched_close(struct watched *watched);

/* Takes the waiting messages, at most some thousand at once. Returns whether there were any. */
bool watched_receive(struct watched *watched);

/* Adds a remark to the events, with the current time. */
void watched_note(struct watched *watched, enum style style, const char *text);

/* The daemon's name, or its endpoint if unknown. */
const char *watched_name(const struct watched *watched);

/* `state` of the newest status; "" if unknown. */
const char *watched_state(const struct watched *watched);

/* The control socket that the user gave or the daemon reports. Returns false with an explanation in
   `text` if unknown. */
bool watched_control(const struct watched *watched, char text[WATCHED_ENDPOINT]);

/* Whether status, loss and state have arrived. */
bool watched_complete(const struct watched *watched);

/* Whether the state of the newest loss has arrived, if the daemon sends states. */
bool watched_settled(const struct watched *watched);

/* Sample and state under the cursor (NULL = none); the caller owns the state. */
const struct sample *watched_sample(const struct watched *watched);
json_t *watched_layers(const struct watched *watched);

/* Examples of the newest sample, NAN without one; examples at the right end of the charts. */
double watched_newest(const struct watched *watched);
double watched_cursor(const struct watched *watched);

#endif
