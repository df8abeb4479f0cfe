/* The daemon: opens everything that a configuration names, and runs the one loop that takes
   examples, has them learned, publishes, answers control requests and writes checkpoints. */
#ifndef RUNNEL_DAEMON_H
#define RUNNEL_DAEMON_H

struct config;
struct error;

/* Run until SIGTERM, SIGINT, SIGHUP or the control command `shutdown`: then learn what has already
   been received (for DRAIN_SECONDS at most), write a checkpoint and return 0. A second signal ends
   the process at once. -1: it could not start or go on; `error` says why and has the exit status.

   Blocks those signals in the calling thread, which must not have started others. */
int daemon_run(const struct config *config, struct error *error);

#endif
