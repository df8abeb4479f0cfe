/* An event `anomaly` taken apart: what the daemon found abnormal. Messages are not trusted: what is
   not as docs/reference/protocol.md has it is "" or a NaN. */
#ifndef RUNNEL_WATCH_ANOMALY_H
#define RUNNEL_WATCH_ANOMALY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct anomaly {
    const char *stream, *reason, *text; /* of the message */
    const char *note;                   /* of the example, as it came; "" = it has none */
    double example, data_time;          /* that was abnormal; NaN = not known */
    double time;                        /* of the message */
    double score, threshold;
    const json_t *columns; /* those at or above the threshold, the most abnormal first */
};

struct anomaly_column {
    double column;          /* from 0; NaN = of none alone */
    const char *name;       /* of the message; "" = columns have none */
    double score;           /* of this column */
    double forecast, truth; /* in original units; NaN = there is none */
};

/* Whether the body of an event is one. */
bool anomaly_of(const json_t *body, struct anomaly *anomaly);

/* The column i of its list; all NaN when there is none. */
struct anomaly_column anomaly_column(const struct anomaly *anomaly, size_t i);

#endif
