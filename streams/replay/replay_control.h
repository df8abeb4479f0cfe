/* Commands to a daemon's control socket. */
#ifndef RUNNEL_REPLAY_CONTROL_H
#define RUNNEL_REPLAY_CONTROL_H

#include "runnel.h"

struct error;

/* Send the command, one JSON object, and wait until the daemon has carried it out. Errors:
   EX_UNAVAILABLE when no answer comes within a minute or the daemon refuses; FEED_INTERRUPTED after
   a signal. */
int replay_command(const struct runnel_peer *peer, const char *command, struct error *error);

#endif
