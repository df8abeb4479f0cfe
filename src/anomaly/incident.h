/* Incidents: alarms of a stream that belong together. An incident begins with an alarm, and ends
   `rest` steps after the last abnormal step. Streams of a group share an incident: each has its own
   part of it, which may end and go on again, and it ends when no part is open. */
#ifndef RUNNEL_INCIDENT_H
#define RUNNEL_INCIDENT_H

#include <stdbool.h>
#include <stddef.h>

enum { INCIDENT_VALUES = 8 };

struct incident_at {
    double example, time; /* its number, and its data time: Unix time, 0 = unknown */
};

struct incident_peak {
    struct incident_at at;
    double score, excess; /* over the threshold; both -1 without a score */
    double reason;
};

/* A stream's part. Doubles only, so that a checkpoint can copy it; all zero: none so far. */
struct incident {
    double number; /* the example with which the incident began, perhaps in another stream */
    double open;
    double step; /* of the stream, the newest abnormal one */
    struct incident_at begin, end;
    struct incident_peak peak;
    double steps, alarms; /* numbers of abnormal steps and alarms */
    double newest;        /* data time of the stream's newest step, 0 = unknown */
    double silence;       /* Unix time until which the stream is silenced */
};

struct incident_column {
    double share;                          /* sum over the abnormal steps */
    double count, values[INCIDENT_VALUES]; /* before it, oldest first */
};

/* An alarm begins the part; then incident_add. */
void incident_begin(struct incident *incident, double number);

/* Adds an abnormal step of an open part. Returns false if another reason has added it before. */
bool incident_add(struct incident *incident, double step, const struct incident_peak *peak,
                  bool alarm);

/* Returns whether the part ends with this step of the stream. */
bool incident_ends(struct incident *incident, double step, double rest);

/* Adds another part of the same incident. */
void incident_join(struct incident *incident, const struct incident *part);

/* Whether a state from a checkpoint is valid. */
bool incident_valid(const struct incident *incident, const struct incident_column *columns,
                    size_t count);

#endif
