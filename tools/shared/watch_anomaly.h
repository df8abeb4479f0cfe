/* The parts of an event `anomaly`. Messages are not trusted: a value that does not follow
   docs/reference/protocol.md is "" or NaN. */
#ifndef RUNNEL_WATCH_ANOMALY_H
#define RUNNEL_WATCH_ANOMALY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct anomaly {
    const char *stream, *reason, *text; /* of the message */
    const char *note;                   /* of the example, unchanged; "" = none */
    double example, data_time;          /* of the abnormal example; NaN = unknown */
    double time;                        /* of the message */
    double score, threshold;
    const json_t *columns; /* columns at or above the threshold, the most abnormal first */
};

struct anomaly_column {
    double column;          /* from 0; NaN = no single column */
    const char *name;       /* of the message; "" = no name */
    double score;           /* of this column; of level its share */
    double forecast, truth; /* in original units; NaN = none */
};

/* Whether the body of an event is an anomaly; fills `anomaly`. */
bool anomaly_of(const json_t *body, struct anomaly *anomaly);

/* Column i of the list; all NaN if there are fewer. */
struct anomaly_column anomaly_column(const struct anomaly *anomaly, size_t i);

#endif
