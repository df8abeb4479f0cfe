/* The daemon: opens everything that a configuration names, and runs the one loop that takes
   examples, has them learned, publishes, answers control requests and writes checkpoints. */
#ifndef RUNNEL_DAEMON_H
#define RUNNEL_DAEMON_H

struct config;
struct config_source;
struct error;

/* Run until SIGTERM, SIGINT or the control command `shutdown`: then learn what has already been
   received (for 5 s at most), write a checkpoint and return 0. A second signal ends the
   process at once. SIGHUP: read the configuration again from its source, unless the terminal from
   which the daemon was started is gone: then it is as SIGTERM. -1: it could not start or continue;
   `error` says why and has the exit status.

   Blocks those signals in the calling thread, which must not have started others. */
int daemon_run(const struct config *config, const struct config_source *source,
               struct error *error);

#endif
