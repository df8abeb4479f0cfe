/* Statistics for TensorBoard: a directory of event files for each run (see tools/history/history.h
   for what a run is). runnel-plot writes them; it gets the messages through a pipe. */
#ifndef RUNNEL_RECORD_BOARD_H
#define RUNNEL_RECORD_BOARD_H

#include "tools/shared/watch_link.h"

struct board;

/* Below `directory`, which is made. EX_OK, or complains and returns an exit status. */
int board_open(struct board **board, const char *directory);

/* The same of what was still to be written. */
int board_close(struct board **board);

/* Take a message of the daemon called `name` ("" = not known yet) that has the number `source`
   among those listened to. EX_OK, or complains. */
int board_take(struct board *board, size_t source, const char *name, const struct message *message);

/* Make everything visible to readers: EX_OK, or complains. */
int board_flush(struct board *board);

#endif
