/* How a tool that runs until it is ended gets to know it: the first SIGINT, SIGTERM or SIGHUP
   asks, the second ends the program the hard way, whatever it is waiting for. */
#ifndef RUNNEL_ENDING_H
#define RUNNEL_ENDING_H

#include <stdbool.h>
#include <stddef.h>

/* Catch these signals, without SA_RESTART, so that a write ends that waits for a reader; and ignore
   SIGPIPE. EX_OK, else complains and returns EX_UNAVAILABLE. */
int ending_catch_signals(void);

/* Whether one has come. */
bool ending_asked(void);

/* Readable from then on; for polling beside sockets. */
int ending_descriptor(void);

/* Write to a terminal as much as it takes at once, from a signal handler that ends the program:
   where output is stopped or has no reader, it is not waited for. */
void ending_write(const void *bytes, size_t size);

#endif
