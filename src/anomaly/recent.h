/* How badly the newest symbols of a stream were foretold, together: the mean loss of the last
   RECENT_SPAN, and how unlikely a mean so large is (tail.h). One symbol may always be a surprise,
   and many in a row hardly ever are. */
#ifndef RUNNEL_RECENT_H
#define RUNNEL_RECENT_H

#include <stdbool.h>

#include "tail.h"

enum { RECENT_SPAN = 32 };

/* Doubles alone, so that a checkpoint takes it as it is. */
struct recent {
    double count;               /* losses so far */
    double losses[RECENT_SPAN]; /* number t is at t % RECENT_SPAN */
    struct tail tail;           /* of their mean */
};

void recent_begin(struct recent *recent);

/* The score >= 0 with the next loss, in nats; losses that are not finite take no part. NaN: too
   little has been seen to say. */
double recent_take(struct recent *recent, double loss, bool learn);

/* Whether what was read from a checkpoint can have been written by this. */
bool recent_valid(const struct recent *recent);

#endif
