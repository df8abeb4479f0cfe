/* Examples that were learned while nobody listened: a watcher that comes late, was away, or whose
   daemon learned from its journal before the connection was back. Numbers of messages do not show
   them, since a topic that nobody subscribes to does not count on; `examples` does, which grows by
   `every` from one `loss` to the next. */
#ifndef RUNNEL_WATCH_GAP_H
#define RUNNEL_WATCH_GAP_H

#include <math.h>
#include <stdbool.h>

#include <jansson.h>

enum { GAP_TEXT = 120 };

/* Of one daemon, through its restarts. Begins as GAP_BEGIN. */
struct gap {
    double every;  /* examples between two `loss` messages; NAN = not known yet: nothing is a gap */
    double newest; /* examples in the newest one; NAN = none yet */
    double said;   /* tool_now() */
};
#define GAP_BEGIN ((struct gap){NAN, NAN, -INFINITY})

/* Take in a `status`. */
void gap_status(struct gap *gap, const json_t *body);

/* The daemon was started again: what was missed meanwhile is said in any case. */
void gap_restart(struct gap *gap);

/* Take in the examples of a `loss`: whether there were some between it and the one before of which
   nothing was heard. Then `text` is a sentence about it, "" when the last is no second ago. */
bool gap_loss(struct gap *gap, double examples, char text[GAP_TEXT]);

#endif
