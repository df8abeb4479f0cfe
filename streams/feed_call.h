/* How a program that sends examples is called and ends: the options that all of them have, signals,
   the last sentence. */
#ifndef RUNNEL_FEED_CALL_H
#define RUNNEL_FEED_CALL_H

#include <math.h>

#include "common/keys.h"
#include "common/options.h"
#include "feed.h"
#include "feed_delivery.h"

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
