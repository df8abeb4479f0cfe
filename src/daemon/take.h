/* Examples from their socket to the learner: one that came before is only answered, all others are
   appended to the journal, acknowledged once that is durable, and learned. */
#ifndef RUNNEL_TAKE_H
#define RUNNEL_TAKE_H

#include <stdbool.h>

struct daemon;
struct error;

enum { TAKE_BATCH_MAX = 256 }; /* examples in a batch */

int take_open(struct daemon *daemon, struct error *error);
void take_close(struct daemon *daemon);

/* Whether examples are to be taken now: not while paused, or while the journal has no room. */
bool take_is_wanted(const struct daemon *daemon);

/* Take examples until none waits or the batch is full, and have them learned. -1: the daemon is
   broken. */
int take_examples(struct daemon *daemon, struct error *error);

#endif
