/* The sentence about examples that were learned while nobody listened (runnel.h: `unheard`), at
   most once a second. */
#ifndef RUNNEL_WATCH_GAP_H
#define RUNNEL_WATCH_GAP_H

#include <stdbool.h>

enum { GAP_TEXT = 120 };

/* `*said`: when it was said last (clock_seconds), -INFINITY = never; the daemon was started again:
   then what was missed meanwhile is said in any case. True with `text`, or when the last is no
   second ago false. */
bool gap_say(double *said, const double unheard[2], char text[GAP_TEXT]);

#endif
