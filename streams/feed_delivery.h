/* Sending examples, and what is reported about it: waiting, progress, a
   daemon that goes away, the summary, and the verdict at the end. */
#ifndef RUNNEL_FEED_DELIVERY_H
#define RUNNEL_FEED_DELIVERY_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/keys.h"
#include "common/options.h"
#include "feed.h"
#include "runnel.h"

struct runnel_counts;
struct shape;

/* ---- Progress ----

   What people see of a running feeder, on stderr: one line that is rewritten in place when stderr
   is a terminal, feed_say's sentences, and a closing summary. The terminal is one, so this is one
   too: there is no struct to hand around. */

struct progress {
    uint64_t examples, steps;
    double done;         /* share of everything, 0..1; NAN when there is no end or none in sight */
    const char *waiting; /* the endpoint without a peer, or NULL */
};

/* The clock of the rates begins now: call it when the first example may leave. */
void progress_begin(void);

/* Whether the line is due. Cheap enough to be asked often, not for every example. */
void progress_show(const struct progress *progress);

/* One sentence that people need also with --quiet. */
void progress_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

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

/* ---- Call ----

   How a program that sends examples is called and ends: the options that all of them have, signals,
   the last sentence. */

struct feed_call {
    struct destination to;
    uint64_t epoch;       /* 0..UINT32_MAX */
    const char *producer; /* as given, or NULL */
    double wait, linger;  /* seconds for somebody to connect, for delivery at the end; INFINITY: for
                             ever */
    bool epoch_given, quiet, verbose;
};

/* The values of options that are not given. */
#define FEED_CALL_DEFAULTS .to.endpoint = WIRE_EXAMPLES, .linger = INFINITY, .wait = INFINITY

/* Rows of a table of options: `field` of `type` is a struct feed_call. */
#define FEED_CALL_EPOCH(type, field, help)                                                         \
    {                                                                                              \
        "epoch", 0, "N", help, OPTION_COUNT(type, field.epoch, 0, UINT32_MAX),                     \
            OPTION_GIVEN(type, field.epoch_given)                                                  \
    }
#define FEED_CALL_PRODUCER(type, field, help)                                                      \
    { "producer", 0, "ID", help, OPTION_TEXT(type, field.producer) }
#define FEED_CALL_OPTIONS(type, field)                                                             \
    {"socket", 0, "KIND",                                                                          \
     "push (default), or router: every example is numbered, acknowledged by the daemon, and sent " \
     "again until it is",                                                                          \
     OPTION_CHOICE(type, field.to.kind, "push router")},                                           \
        KEY_OPTIONS(type, field.to.keys),                                                          \
        {"wait", 0, "SECONDS", "give up when no daemon is there by then (default: never)",         \
         OPTION_SECONDS(type, field.wait)},                                                        \
        {"linger", 0, "SECONDS", "wait that long for delivery at the end (default: forever)",      \
         OPTION_SECONDS(type, field.linger)},                                                      \
        {"quiet", 'q', NULL, "report only errors", OPTION_FLAG(type, field.quiet)}, {              \
        "verbose", 'v', NULL, "report more", OPTION_FLAG(type, field.verbose)                      \
    }

/* All is parsed: the client's keys are ready, `to.producer` is what was given, signals are counted
   in feed_signals, and sentences may be said by `program`; `line` as for progress_start. EX_USAGE:
   the keys cannot be used. */
int feed_call_start(struct feed_call *call, const char *program, bool line, struct error *error);

/* The program's exit status, after saying what went wrong. */
int feed_call_end(const struct command_line *line, int status, const struct error *error);

#endif
