/* Rows for a reader: of each topic that makes rows at most PACE_ROWS a second. What comes faster
   waits and is replaced by what is newer, so that the row shown last is always the newest one. */
#ifndef RUNNEL_WATCH_PACE_H
#define RUNNEL_WATCH_PACE_H

#include <stdbool.h>

#include "tools/shared/watch_link.h"

enum { PACE_ROWS = 10 };

/* Fill with zeros; without `on` no row ever waits. */
struct pace {
    bool on;
    bool replaced;         /* a row was, and will not be shown */
    double shown[TOPICS];  /* when the last row was let through (clock_seconds) */
    json_t *waits[TOPICS]; /* the newest row not shown yet, or NULL; owned */
};

void pace_close(struct pace *pace);

/* Whether the message has to wait; then the pace keeps its body. */
bool pace_holds(struct pace *pace, const struct message *message);

/* Take a row that has waited long enough, or with `all` any: true with `row` filled, which
   message_clear empties. */
bool pace_take(struct pace *pace, bool all, struct message *row);

/* Seconds until pace_take has a row; INFINITY when none waits. */
double pace_next(const struct pace *pace);

#endif
