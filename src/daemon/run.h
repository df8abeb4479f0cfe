/* Whether the daemon continues, and in which state: signals, pausing, replaying, stopping, and what
   has failed. A service manager gets the same (notify.h). */
#ifndef RUNNEL_RUN_H
#define RUNNEL_RUN_H

#include <stdbool.h>

struct daemon;
struct error;

/* Blocks SIGTERM, SIGINT and, unless somebody ignores it, SIGHUP in the calling thread, to take
   them from run_descriptor. */
int run_open(struct daemon *daemon, struct error *error);
void run_close(struct daemon *daemon);

/* Readable when a signal waits. */
int run_descriptor(const struct daemon *daemon);

/* Take the signals that wait. A second one to stop ends the process, as any process's. */
void run_take_signals(struct daemon *daemon);

/* From now on a signal does what it does to any process; but one that means to have the
   configuration read again does not end this one. */
void run_release_signals(struct daemon *daemon);

/* Whether a signal has asked to have the configuration read again; taking it is the answer. */
bool run_wants_reload(const struct daemon *daemon);
bool run_take_reload(struct daemon *daemon);

/* What is not in use of the configuration that was read again, and why, as "; CLAUSE"; "": all of
   it is in use. The manager is notified. */
void run_refused_reload(struct daemon *daemon, const char *why);
void run_tell_manager(const struct daemon *daemon);

/* Stop taking examples, and end the loop once those that wait are learned. */
void run_stop(struct daemon *daemon, const char *reason);
bool run_is_stopping(const struct daemon *daemon);
const char *run_stop_reason(const struct daemon *daemon);

/* Whether a daemon that stops has learned what it can; `idle`: nothing has come for a while. */
bool run_is_drained(const struct daemon *daemon, bool idle);

/* Returns whether that was a change. */
bool run_pause(struct daemon *daemon, bool paused);
bool run_is_paused(const struct daemon *daemon);

/* Learning again from the journal: messages say so. */
void run_replay(struct daemon *daemon, bool replaying);
bool run_is_replaying(const struct daemon *daemon);

/* Learner or disk has failed: nothing more can be saved. Returns -1. */
int run_break(struct daemon *daemon);
bool run_is_broken(const struct daemon *daemon);

/* A command has failed so that the loop must end, for `error`. Returns -1; run_failure returns that
   and the error from then on, 0 before. */
int run_fail(struct daemon *daemon, const struct error *error);
int run_failure(const struct daemon *daemon, struct error *error);

/* Both: the device, or the journal, has failed in a command. Returns -1. */
int run_lose(struct daemon *daemon, const struct error *error);

/* "learning", "paused", "replaying" or "draining". */
const char *run_state(const struct daemon *daemon);

/* Seconds since run_open. */
double run_uptime(const struct daemon *daemon);

#endif
