/* Which streams have stopped against their habit, by the time of the data that the others send. The
   clock is the latest time that two examples in a row have reached; a stream is silent when more of
   it has passed than three times its longest pause. One wild time stamp moves nothing, a leap of
   the clock is nobody's pause, and where the data begin again earlier the clock follows. */
#ifndef RUNNEL_SILENCE_H
#define RUNNEL_SILENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "habit.h"

/* Of all streams; zero when nothing was heard. */
struct silence {
    double clock;    /* Unix time: the latest that two examples in a row have reached */
    double newest;   /* of the newest example */
    double leap;     /* how far the clock has come with it */
    double earliest; /* no stream is silent before */
    size_t lagging;  /* examples in a row that were before the clock */
};

/* Of one stream, doubles alone, so that a checkpoint takes it as it is; zero when it was never
 * heard. */
struct heard {
    double last;           /* the clock then, whatever its own time stamps say; 0 = never, or it has
                              begun ahead of the clock */
    struct habit silences; /* seconds of that clock */
};

/* An example of the stream has come; `time` is 0 where it says none, `slots` how many streams there
   can be. `begins`: what was kept is another stream's. */
void silence_heard(struct silence *silence, struct heard *heard, size_t slots, double time,
                   bool begins);

/* Whether any stream may be silent by now: then ask of each. */
bool silence_may_be(struct silence *silence);

/* Whether the stream is, which is told once. */
bool silence_is(struct silence *silence, struct heard *heard);

/* The clock goes on from a stream that a checkpoint has. */
void silence_go_on(struct silence *silence, const struct heard *heard);

/* A stream has come from another daemon, whose clock was another: its pause begins now. */
void silence_moved(struct silence *silence, struct heard *heard);

/* Whether what was read from a checkpoint can have been written by this. */
bool silence_valid(const struct heard *heard);

#endif
