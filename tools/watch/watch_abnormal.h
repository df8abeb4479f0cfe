/* Events `anomaly` as a table of their own: what was abnormal, by the time of its data, or else
   that of the message. */
#ifndef RUNNEL_WATCH_ABNORMAL_H
#define RUNNEL_WATCH_ABNORMAL_H

#include "tools/shared/watch_anomaly.h"
#include "watch_lines.h"

/* Zeros to begin with. */
struct abnormal {
    unsigned long header; /* lines when it was printed; 0 = never */
    int name;             /* columns of the widest name so far */
};

/* One line, after a header where that is due. */
void abnormal_print(struct abnormal *abnormal, struct lines *lines, const struct anomaly *anomaly);

#endif
