/* The forecasts whose truth has not come: of each stream the newest prediction, printed once when
   no other has come for a moment. */
#ifndef RUNNEL_WATCH_NEXT_H
#define RUNNEL_WATCH_NEXT_H

#include <stddef.h>

#include <jansson.h>

#include "watch_table.h"

#define NEXT_QUIET 1.0 /* seconds without a prediction */
enum { NEXT_STREAMS = 32 /* the newest of more are printed */ };

/* Plain data, zero to begin with. */
struct next {
    json_t *open[NEXT_STREAMS]; /* messages, the oldest first; owned */
    size_t count;
    double came; /* the newest one: clock_seconds() */
};

void next_close(struct next *next);

/* Take in a message of the topic `prediction`. */
void next_take(struct next *next, json_t *body);

/* Print what is due. */
void next_print(struct next *next, struct table *table, struct lines *lines);

/* Seconds until something is; INFINITY when nothing waits. */
double next_due(const struct next *next);

#endif
