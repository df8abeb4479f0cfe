/* Messages from a recording: what `runnel-watch --json` has written, a line each. */
#ifndef RUNNEL_ALERT_REPLAY_H
#define RUNNEL_ALERT_REPLAY_H

#include "tools/shared/watch_link.h"

/* Call `take` with each message and its time, until it returns false; a line that is none is
   reported and skipped. "-" is standard input; a signal that interrupts the reading of it
   ends the recording. Returns EX_OK, or prints an error and returns EX_NOINPUT or EX_IOERR. */
int replay(const char *path, bool (*take)(void *context, const struct message *message, double now),
           void *context);

#endif
