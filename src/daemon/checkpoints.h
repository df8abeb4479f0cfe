/* Decides when checkpoints are written: after a number of examples or seconds, on request, and at
   the end. A checkpoint that fails breaks the daemon (run.h). */
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

/* Lets another module delay checkpoints: a checkpoint waits until `may_begin`, and calls `begins`
   once its contents are learned and durable (-1: the daemon cannot continue). NULL: no guard. */
struct checkpoints_guard {
    bool (*may_begin)(const struct daemon *daemon);
    int (*begins)(struct daemon *daemon, struct error *error);
};
void checkpoints_guard(struct daemon *daemon, const struct checkpoints_guard *guard);

/* Something was learned or set since the newest checkpoint. */
void checkpoints_changed(struct daemon *daemon);

/* Learning has started again; examples are counted from there. */
void checkpoints_begin_again(struct daemon *daemon);

/* A checkpoint is due at once. */
void checkpoints_soon(struct daemon *daemon);

/* The learner's state must not become a checkpoint. */
void checkpoints_discard(struct daemon *daemon);

/* Waits for the checkpoint that is being written. */
int checkpoints_settle(struct daemon *daemon, struct error *error);

/* A client has requested a checkpoint; control_reply answers it. */
void checkpoints_request(struct daemon *daemon);

/* Starts a checkpoint that is due or requested, and handles the result of one that has ended. */
int checkpoints_turn(struct daemon *daemon, struct error *error);

/* Checks at most once a second that the files of journal and checkpoint still exist. Without them
   the daemon is broken. */
int checkpoints_look(struct daemon *daemon, struct error *error);

/* Saves the data of a broken daemon if only the journal was removed, not the state directory:
   writes the journal again, or a checkpoint. Appends the outcome to the error text. */
void checkpoints_rescue(struct daemon *daemon, struct error *failure);

/* Returns when a checkpoint is due by time; UINT64_MAX: not by time, unchanged, or being
   written. */
uint64_t checkpoints_due(const struct daemon *daemon);

/* Write a checkpoint and wait for it. _first does nothing if one is on disk; _last does nothing if
   nothing has changed or the guard forbids it. */
int checkpoints_first(struct daemon *daemon, struct error *error);
int checkpoints_last(struct daemon *daemon, struct error *error);

/* Fills in the fields of `status` about the checkpoint on disk; false: none exists. */
bool checkpoints_report(const struct daemon *daemon, struct status_fields *status);

/* Returns whether the checkpoint on disk contains everything learned. */
bool checkpoints_have_all(const struct daemon *daemon);

/* Forgets each stream whose state is invalid, before states are written or sent. Checks only
   streams that changed after entry `since` of the journal, 0 = all. -1: the device has failed, or
   out of memory. */
int checkpoints_check(struct daemon *daemon, uint64_t since, struct error *error);

/* Records in the journal, and in an event, that the state of the stream was forgotten. */
void checkpoints_forgot(struct daemon *daemon, const char *key, size_t key_size);

#endif
