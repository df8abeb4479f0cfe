/* Takes examples from their socket to the learner: answers duplicates, and appends all others to
   the journal, acknowledges them once they are durable, and learns them. */
#ifndef RUNNEL_TAKE_H
#define RUNNEL_TAKE_H

#include <stdbool.h>
#include <stddef.h>

struct daemon;
struct error;

/* Returns whether examples may be taken: not while paused or while the journal is full. */
bool take_is_wanted(const struct daemon *daemon);

/* Takes and learns examples until none waits or `*batch` have been taken. Adapts `*batch`, 1 at
   first, so that the loop soon returns to its other sockets. -1: the daemon cannot continue. */
int take_examples(struct daemon *daemon, size_t *batch, struct error *error);

#endif
