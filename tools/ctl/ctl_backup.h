/* Copies of a daemon's state, made from its directory by its own user on its own machine. */
#ifndef RUNNEL_CTL_BACKUP_H
#define RUNNEL_CTL_BACKUP_H

#include <jansson.h>

/* Copies checkpoints and journal of the state directory, of a running or stopped daemon, to a new
   directory. That directory appears when everything is written, synced and checked. Prints its
   contents. Returns the exit status after printing an error. */
int backup_make(const char *state, const char *directory);

/* Restores a backup: `state` must not exist or must be empty. `rollback` is a request that the
   daemon executes first when it starts, or NULL. */
int backup_restore(const char *directory, const char *state, const json_t *rollback);

#endif
