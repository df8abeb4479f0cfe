/* The commands adopt and import: a file goes to the daemon, in pieces. */
#ifndef RUNNEL_CTL_MOVE_H
#define RUNNEL_CTL_MOVE_H

#include "ctl_rollback.h"

/* As `act` of struct command. */
int move_adopt(const struct options *options, char **arguments);
int move_import(const struct options *options, char **arguments);

/* Whether bytes that came are the state of a stream. */
bool move_is_state(const unsigned char *bytes, size_t size);

#endif
