/* Statistics for TensorBoard: a directory of event files for each run (tools/history/history.h
   defines a run). runnel-plot writes them; it receives the messages through a pipe. */
#ifndef RUNNEL_RECORD_BOARD_H
#define RUNNEL_RECORD_BOARD_H

#include "tools/shared/watch_link.h"

struct board;

/* Creates `directory`. Returns EX_OK, or prints an error and returns an exit status. */
int board_open(struct board **board, const char *directory);

/* Writes the rest. Returns as board_open does. */
int board_close(struct board **board);

/* Adds a message of the daemon called `name` ("" = unknown), from the source with this number.
   Returns EX_OK, or prints an error. */
int board_take(struct board *board, size_t source, const char *name, const struct message *message);

/* Makes everything visible to readers. Returns EX_OK, or prints an error. */
int board_flush(struct board *board);

#endif
