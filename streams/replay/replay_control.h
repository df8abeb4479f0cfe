/* Commands to a daemon's control socket. */
#ifndef RUNNEL_REPLAY_CONTROL_H
#define RUNNEL_REPLAY_CONTROL_H

struct error;
struct key_client;

/* Send the command, one JSON object, and wait until the daemon has carried it out. Errors:
   EX_UNAVAILABLE when no answer comes within a minute or the daemon refuses; FEED_INTERRUPTED after
   a signal. */
int replay_command(const char *endpoint, const struct key_client *keys, const char *command,
                   struct error *error);

#endif
