/* The daemon's state: signals, pausing, replaying, stopping, and failures. A service manager is
   notified of it (notify.h). */
#ifndef RUNNEL_RUN_H
#define RUNNEL_RUN_H

#include <stdbool.h>

struct daemon;
struct error;

/* Blocks SIGTERM, SIGINT and, unless ignored, SIGHUP in the calling thread, to read them from
   run_descriptor. */
int run_open(struct daemon *daemon, struct error *error);
void run_close(struct daemon *daemon);

/* Readable when a signal is pending. */
int run_descriptor(const struct daemon *daemon);

/* Handles the pending signals. A second one to stop ends the process by its default action. */
void run_handle_signals(struct daemon *daemon);

/* Restores the default actions of signals, but ignores a signal to read the configuration again. */
void run_release_signals(struct daemon *daemon);

/* Returns whether a signal has requested reading the configuration again; run_accept_reload also
   clears the request. */
bool run_wants_reload(const struct daemon *daemon);
bool run_accept_reload(struct daemon *daemon);

/* Notifies the manager which part of the reloaded configuration is not in use, and why, as ";
   CLAUSE"; "": all of it is in use. */
void run_refused_reload(struct daemon *daemon, const char *why);
void run_notify_manager(const struct daemon *daemon);

/* Stops taking examples, and ends the loop when the waiting ones are learned. */
void run_stop(struct daemon *daemon, const char *reason);
bool run_is_stopping(const struct daemon *daemon);
const char *run_stop_reason(const struct daemon *daemon);

/* Returns whether a daemon that stops has finished learning; `idle`: no recent example. */
bool run_is_drained(const struct daemon *daemon, bool idle);

/* Returns whether the state changed. */
bool run_pause(struct daemon *daemon, bool paused);
bool run_is_paused(const struct daemon *daemon);

/* Sets the state of replaying the journal, which messages report. */
void run_replay(struct daemon *daemon, bool replaying);
bool run_is_replaying(const struct daemon *daemon);

/* Learner or disk has failed: nothing can be saved any more. Returns -1. */
int run_break(struct daemon *daemon);
bool run_is_broken(const struct daemon *daemon);

/* A failed command must end the loop with `error`. Returns -1; later run_failure returns -1 and the
   error, 0 otherwise. */
int run_fail(struct daemon *daemon, const struct error *error);
int run_failure(const struct daemon *daemon, struct error *error);

/* Does both, when the device or the journal has failed in a command. Returns -1. */
int run_abort(struct daemon *daemon, const struct error *error);

/* Returns "learning", "paused", "replaying" or "draining". */
const char *run_state(const struct daemon *daemon);

/* Returns seconds since run_open. */
double run_uptime(const struct daemon *daemon);

#endif
