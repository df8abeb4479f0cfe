/* The daemon opens everything that a configuration names and runs the loop, which takes examples,
   learns them, publishes results, answers control requests and writes checkpoints. */
#ifndef RUNNEL_DAEMON_H
#define RUNNEL_DAEMON_H

struct config;
struct config_source;
struct error;

/* Runs until SIGTERM, SIGINT or the control command `shutdown`: then learns examples already
   received (for 5 s at most), writes a checkpoint and returns 0. A second signal ends the process
   at once. SIGHUP reads the configuration again, or acts as SIGTERM if the daemon's terminal was
   closed. -1: the daemon cannot start or continue; `error` has the reason and the exit status.

   Blocks these signals in the calling thread, which must not have started other threads. */
int daemon_run(const struct config *config, const struct config_source *source,
               struct error *error);

#endif
