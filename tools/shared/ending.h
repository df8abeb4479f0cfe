/* Signals that end a tool: the first SIGINT, SIGTERM or SIGHUP requests the end, the second ends
   the program at once. */
#ifndef RUNNEL_ENDING_H
#define RUNNEL_ENDING_H

#include <stdbool.h>
#include <stddef.h>

/* Catches these signals without SA_RESTART, so that a blocked write ends, and ignores SIGPIPE.
   Returns EX_OK, or prints an error and returns EX_UNAVAILABLE. */
int ending_catch_signals(void);

/* The same with SIGPIPE as it is, and with SIGWINCH: the terminal was resized since the last call.
 */
int ending_catch_resize(void);
bool ending_resized(void);

/* Whether a signal that ends the tool has arrived. */
bool ending_asked(void);

/* Readable after a signal, for polling beside sockets. */
int ending_descriptor(void);

/* Writes to a terminal without waiting, from a signal handler that ends the program: the output may
   be stopped or have no reader. */
void ending_write(const void *bytes, size_t size);

#endif
