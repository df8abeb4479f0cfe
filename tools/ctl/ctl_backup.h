/* Copies of a daemon's state: made from its directory, by its own user, on its own machine. */
#ifndef RUNNEL_CTL_BACKUP_H
#define RUNNEL_CTL_BACKUP_H

#include <jansson.h>
#include <stdbool.h>

/* Copy checkpoints and journal of the state directory, of a daemon that runs or of none, to a new
   directory that is there when all of it has been written, synced and checked. Prints what it has.
   Returns the exit status, after a complaint. */
int backup_make(const char *state, const char *directory);

/* The way back: `state` must not be there, or be empty. `rollback`, a request or NULL, is what the
   daemon does first when it starts. */
int backup_restore(const char *directory, const char *state, const json_t *rollback);

#endif
