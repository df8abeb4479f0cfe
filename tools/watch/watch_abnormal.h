/* Events `anomaly` as a table of their own: what was abnormal, by the time of its data, or else
   that of the message. */
#ifndef RUNNEL_WATCH_ABNORMAL_H
#define RUNNEL_WATCH_ABNORMAL_H

#include "tools/shared/watch_anomaly.h"
#include "watch_lines.h"

/* One line, after a header where that is due; `*header`: lines when it was printed, 0 = never. */
void abnormal_print(unsigned long *header, struct lines *lines, const struct anomaly *anomaly);

#endif
