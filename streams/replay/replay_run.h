/* The loop of runnel-replay: entries of a journal become examples again, in their order. */
#ifndef RUNNEL_REPLAY_RUN_H
#define RUNNEL_REPLAY_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "streams/feed_call.h"

/* Where --epoch was given, examples get new numbers of that epoch. */
struct replay_settings {
    struct feed_call common;
    const char *path;     /* of the journal */
    const char *control;  /* endpoint that commands go to; NULL: they are only reported */
    double speed;         /* times that of the journal; INFINITY = as fast as it goes */
    uint64_t first, last; /* positions */
};

int replay_run(const struct replay_settings *settings, struct error *error);

#endif
