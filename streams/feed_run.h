/* The loop of a feeder: steps become examples, at their pace, until there are no more. */
#ifndef RUNNEL_FEED_RUN_H
#define RUNNEL_FEED_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "feed_call.h"

struct feed_settings {
    struct feed_call common;
    bool print;            /* instead of sending */
    bool numbered;         /* every example has a header, not only those that need one */
    bool schema;           /* say first what the examples are */
    bool learn;            /* false: every example has the flag "do not learn" */
    double rate;           /* examples per second, 0 = no limit */
    uint64_t repeat;       /* passes, 0 = forever */
    uint64_t count;        /* examples, 0 = no limit */
    uint64_t steps;        /* of one example, at most */
    struct stream *stream; /* of steps that name none */
};

/* Run the opened source to its end or to a signal, and say what has been done. */
int feed_run(struct source *source, const struct feed_settings *settings, struct error *error);

#endif
