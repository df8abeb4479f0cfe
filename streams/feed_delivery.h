/* Sends examples and reports on it: waits, progress, lost connections, the summary and the
   result. */
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

   Messages of a running feeder on stderr: a line that is rewritten in place on a terminal, the
   messages of feed_print, and a summary. There is only one stderr, so the state is global. */

struct progress {
    uint64_t examples, steps;
    double done;         /* finished share, 0..1; NAN without a known end */
    const char *waiting; /* the endpoint without a peer, or NULL */
};

/* Starts the clock of the rates, before the first example is sent. */
void progress_begin(void);

/* Shows the line if it is due. Too slow to be called for every example. */
void progress_show(const struct progress *progress);

/* Prints a message even with --quiet. */
void progress_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct destination {
    const char *endpoint;
    struct key_options keys;
    enum runnel_sending kind;
    bool bind;         /* bind the endpoint instead of connecting to it */
    uint64_t producer; /* producer of the numbers; 0 = none */
    bool fresh;        /* the producer is new: nothing was sent with it before */
};

struct delivery {
    struct destination to;               /* Set these before delivery_open. */
    bool print;                          /* print to standard output instead of sending */
    const struct shape *x, *y;           /* the shapes of the printed examples */
    double linger;                       /* seconds to wait for delivery at the end; INFINITY */
    double (*done)(const void *context); /* finished share, 0..1, or NAN */
    const void *context;
    void (*settled)(void *source, uint64_t count); /* see struct source_type; or NULL */
    void *source;
    bool strict; /* see struct source */
    bool maps;   /* see struct source_type */

    struct progress progress; /* counts of delivery_send */
    struct runnel_sender *sender;
    uint64_t reported; /* the last count passed to `settled` */
    /* the daemon's answers, after delivery_settle and delivery_close */
    struct runnel_counts counts;
    bool started; /* a daemon was connected */
    bool schema;  /* a schema was sent that the daemon answers */
    bool closing, outdated_reported;
    int signals;        /* the number of signals at which the final wait continues */
    double until;       /* clock_seconds: its end after another signal */
    uint64_t lost;      /* connections lost with examples in transit */
    struct error clash; /* another sender uses the same producer and numbers; text "" = none */
};

/* Connects and waits for a daemon, see runnel_sender_wait. Always call delivery_close afterwards,
   even on an error. */
int delivery_open(struct delivery *delivery, double wait, struct error *error);

/* Sends the schema, see runnel_sender_schema. */
int delivery_schema(struct delivery *delivery, const char *text, struct error *error);

/* After delivery_close: whether the daemon received a schema, but answered no example. */
bool delivery_refused(const struct delivery *delivery);

int delivery_send(struct delivery *delivery, const struct runnel_example *example, size_t steps,
                  struct error *error);

/* Routers only: waits until everything is answered, and fills `counts`. */
int delivery_settle(struct delivery *delivery, struct error *error);

/* Handles answers, and shows the progress line if it is due. Call it now and then, and while
   nothing is sent. */
int delivery_listen(struct delivery *delivery, struct error *error);

/* Waits until `*due` (CLOCK_MONOTONIC, seconds) and handles answers. If it is more than a second
   late, `*due` becomes now, so that a daemon is not flooded after a pause. Returns FEED_INTERRUPTED
   after a signal. */
int delivery_pause(struct delivery *delivery, double *due, struct error *error);

/* Waits for delivery, closes, and prints the summary. After a signal it waits at most STOP_SECONDS,
   and not at all without a connection. `status` and `error` are the result of sending, which stays.
   Returns 0 if, as far as known, everything sent has arrived. `skipped`: bad lines. */
int delivery_close(struct delivery *delivery, int status, uint64_t skipped, struct error *error);

/* ---- Call ----

   The common options, signals and final message of programs that send examples. */

struct feed_call {
    struct destination to;
    uint64_t epoch;       /* 0..UINT32_MAX */
    const char *producer; /* as given, or NULL */
    /* seconds to wait for a connection, and for delivery at the end; INFINITY: forever */
    double wait, linger;
    bool epoch_given, quiet, verbose;
};

/* Defaults of the options. */
#define FEED_CALL_DEFAULTS .to.endpoint = WIRE_EXAMPLES, .linger = INFINITY, .wait = INFINITY

/* Rows for a table of options: `field` of `type` is a struct feed_call. */
#define FEED_CALL_EPOCH(type, field, help)                                                         \
    {                                                                                              \
        "epoch", 0, "N", help, OPTION_COUNT(type, field.epoch, 0, UINT32_MAX),                     \
            OPTION_GIVEN(type, field.epoch_given)                                                  \
    }
#define FEED_CALL_PRODUCER(type, field, help)                                                      \
    { "producer", 0, "ID", help, OPTION_TEXT(type, field.producer) }
#define FEED_CALL_OPTIONS(type, field)                                                             \
    {"socket", 0, "KIND",                                                                          \
     "push (default), or router: each example is numbered, acknowledged by the daemon, and "       \
     "resent until then",                                                                          \
     OPTION_CHOICE(type, field.to.kind, "push router")},                                           \
        KEY_OPTIONS(type, field.to.keys),                                                          \
        {"wait", 0, "SECONDS", "end if no daemon is connected by then (default: never)",           \
         OPTION_SECONDS(type, field.wait)},                                                        \
        {"linger", 0, "SECONDS", "seconds to wait for delivery at the end (default: no limit)",    \
         OPTION_SECONDS(type, field.linger)},                                                      \
        {"quiet", 'q', NULL, "print only errors", OPTION_FLAG(type, field.quiet)}, {               \
        "verbose", 'v', NULL, "print more messages", OPTION_FLAG(type, field.verbose)              \
    }

/* Call it after parsing: reads the client's keys, sets `to.producer`, counts signals in
   feed_signals, and begins messages in the name of `program`; `line` as for progress_start. Fails
   with EX_USAGE if the keys are invalid. */
int feed_call_start(struct feed_call *call, const char *program, bool line, struct error *error);

/* Prints the error, if any, and returns the program's exit status. */
int feed_call_end(const struct command_line *line, int status, const struct error *error);

#endif
