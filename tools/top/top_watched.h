/* One daemon as runnel-top knows it: the connection, how it is, all its messages so far, and
   the view of it. */
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

   What a daemon has published of its learning, from the first message that came: a sample for
   each `loss` message, and the `state` messages beside them. Memory is bounded: when it is full,
   the older half gets coarser, two samples becoming one that keeps minimum and maximum; so all of a
   long run stays in sight, its newest part in full. */

struct sample {
    double examples, steps, time; /* of the message; of several merged ones, those of the newest */
    double weight;                /* messages in it */
    bool apart;                   /* before it there were examples without a message */
    double values[FIELDS];        /* of `loss`; NAN where the message had none */
};

enum { PAST_SAMPLES = 4096, PAST_STATES = 512 };

/* Plain data, zero to begin with. */
struct past {
    struct sample *samples; /* (count,), by rising examples; owned */
    size_t count;
    struct past_state {
        double examples;
        char *text; /* JSON; owned */
        size_t size;
    } states[PAST_STATES];
    size_t state_count;
};

/* The index of the first sample of more examples. */
size_t past_after(const struct past *past, double examples);

enum {
    WATCHED_EVENTS = 400,
    WATCHED_TEXT = 240,
    WATCHED_ENDPOINT = 300,
    WATCHED_GAPS = 8, /* messages over which the time between two of them is averaged */
};

struct happening {
    double time, examples; /* examples: NAN where unknown */
    enum style style;
    char mark; /* for the chart's axis; 0 = none */
    char text[WATCHED_TEXT];
};

/* How the user looks at it. */
struct look {
    double span;   /* examples that the charts show; 0 = all */
    double cursor; /* examples at the right end of the charts; NAN = the newest */
    int events;    /* how many events, newest first, lie below what is shown */
    int layers;    /* the first layer shown */
    int column;    /* whose truth is shown, from 0; SAID_WORST (top_said.h) */
};

struct watched {
    const char *endpoint;
    const char *control; /* as given by the user, or NULL */
    struct key_options keys;
    struct link *link;
    struct link *predictions; /* of their own, for they may be many: NULL unless there are any */
    json_t *truth;            /* the newest of them that brought a truth; owned, NULL = none yet */
    json_t *columns;          /* of the newest `loss`; owned, NULL = it has none */
    struct health health;
    bool refused, hindered; /* for good, or for now: link_refusal says why */

    json_t *status; /* the newest message of the topic; owned, NULL until there is one */
    char run[WATCHED_TEXT];
    bool replaying, state_heard;
    double loss_heard,
        loss_gap; /* clock_seconds() of the last `loss`; seconds between two, about */
    struct trend means;
    double gap_said;        /* see gap_say */
    double scale_said;      /* clock_seconds() of the last event `input_scale` */
    double rejected_said;   /* of the last event `rejected` */
    double speed, rejected; /* of the newest `loss` or `status` that has them; NAN before */
    struct past past;
    struct happening events[WATCHED_EVENTS]; /* oldest first */
    size_t event_count;
    struct look look;
};

/* Connect; `watched` has been filled with endpoint, control and keys, else with zeros, and stays
   where it is. Returns EX_OK, or complains and returns an exit status. */
int watched_open(struct watched *watched, double silence);
void watched_close(struct watched *watched);

/* Take in what waits, at most some thousand messages at once. Returns whether anything has come. */
bool watched_take(struct watched *watched);

/* Add a remark of our own to the events, now. */
void watched_note(struct watched *watched, enum style style, const char *text);

/* The daemon's name, or its endpoint as long as it is not known. */
const char *watched_name(const struct watched *watched);

/* `state` of the newest status, "" when there is none. */
const char *watched_state(const struct watched *watched);

/* Where its control socket is, as the user or else the daemon says; false when neither does, with
   `text` saying why. */
bool watched_control(const struct watched *watched, char text[WATCHED_ENDPOINT]);

/* Whether the newest status, loss and state have come. */
bool watched_complete(const struct watched *watched);

/* Whether the state that comes with the newest loss has come too, where states come at all. */
bool watched_settled(const struct watched *watched);

/* The sample and the state under the cursor (NULL: none); the state is the caller's. */
const struct sample *watched_sample(const struct watched *watched);
json_t *watched_layers(const struct watched *watched);

/* Examples of the newest sample, NAN without one; the right end of the charts likewise. */
double watched_newest(const struct watched *watched);
double watched_cursor(const struct watched *watched);

#endif
