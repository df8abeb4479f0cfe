/* When a checkpoint is written: after so many examples or seconds, when a client asks, and last of
   all. A checkpoint that fails breaks the daemon (run.h). */
#ifndef RUNNEL_CHECKPOINTS_H
#define RUNNEL_CHECKPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct error;
struct status_fields;

int checkpoints_open(struct daemon *daemon, struct error *error);
void checkpoints_close(struct daemon *daemon);

/* Somebody else's say in when one begins: not before `may_begin`; and then `begins`, once all that
   it will have is learned and durable. -1: the
   daemon cannot continue. NULL: nobody's. */
struct checkpoints_guard {
    bool (*may_begin)(const struct daemon *daemon);
    int (*begins)(struct daemon *daemon, struct error *error);
};
void checkpoints_guard(struct daemon *daemon, const struct checkpoints_guard *guard);

/* Something was learned or set that no checkpoint has yet. */
void checkpoints_changed(struct daemon *daemon);

/* Learning has started again, and the examples are counted from there. */
void checkpoints_begin_again(struct daemon *daemon);

/* One is due at once. */
void checkpoints_soon(struct daemon *daemon);

/* What has been learned is none that a checkpoint may have. */
void checkpoints_discard(struct daemon *daemon);

/* Wait for one that is being written. */
int checkpoints_settle(struct daemon *daemon, struct error *error);

/* A client asks for one: control_reply answers it. */
void checkpoints_ask(struct daemon *daemon);

/* Start one if it is due or asked for, and take the result of one that has ended. */
int checkpoints_turn(struct daemon *daemon, struct error *error);

/* Whether the files that all of it is written to are still there, at most once a second; without
   them the daemon is broken. */
int checkpoints_look(struct daemon *daemon, struct error *error);

/* The daemon is broken. If that is since the journal, and not the state directory, was removed,
   nothing need be lost: what is open is written again, or else a checkpoint of all that was
   learned. Adds to the sentence what has become of it. */
void checkpoints_rescue(struct daemon *daemon, struct error *failure);

/* When one is due by time; UINT64_MAX: not by time, nothing has changed, or one is being written.
 */
uint64_t checkpoints_due(const struct daemon *daemon);

/* Write one and wait for it: unless there is one on disk, and unless nothing has changed or the
   guard says no. */
int checkpoints_first(struct daemon *daemon, struct error *error);
int checkpoints_last(struct daemon *daemon, struct error *error);

/* What `status` says of the one on disk; false: there is none. */
bool checkpoints_report(const struct daemon *daemon, struct status_fields *status);

/* Whether the one on disk has all that was learned. */
bool checkpoints_have_all(const struct daemon *daemon);

/* Before states are written to a checkpoint or go elsewhere: of the streams that have changed after
   that entry of the journal, 0 = all, each with an invalid state is forgotten, and begins anew. -1:
   the device has failed, or out of memory. */
int checkpoints_check(struct daemon *daemon, uint64_t since, struct error *error);

/* The state of the stream was forgotten: the journal gets an entry, and there is an event. */
void checkpoints_forgot(struct daemon *daemon, const char *key, size_t key_size);

#endif
