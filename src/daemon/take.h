/* Examples from their socket to the learner: one that came before is only answered, all others are
   appended to the journal, acknowledged once that is durable, and learned. */
#ifndef RUNNEL_TAKE_H
#define RUNNEL_TAKE_H

#include <stdbool.h>
#include <stddef.h>

struct daemon;
struct error;

/* Whether examples are to be taken now: not while paused, or while the journal has no room. */
bool take_is_wanted(const struct daemon *daemon);

/* Take examples until none waits or `*batch` have been taken, and have them learned. `*batch`, 1 at
   first, becomes the next: so large that the loop is soon back at its other sockets. -1: the daemon
   cannot continue. */
int take_examples(struct daemon *daemon, size_t *batch, struct error *error);

#endif
