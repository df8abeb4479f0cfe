/* Turns scores into alarms (docs/explanation/anomalies.md): by threshold, fatigue and rest. */
#ifndef RUNNEL_ALARM_H
#define RUNNEL_ALARM_H

#include <stdbool.h>
#include <stdint.h>

struct alarm_rule {
    double threshold, rest, fatigue;
    double recovery; /* > 0 */
};

/* Doubles only, so that a checkpoint can copy it; all zero is a new stream. */
struct alarm {
    double tired; /* right after the last alarm */
    double last;  /* 1 + its step; 0: no alarm yet */
};

/* Whether the score at that step of a stream raises an alarm, which becomes the last one. NaN
   never does. */
bool alarm_raised(struct alarm *alarm, const struct alarm_rule *rule, double score, uint64_t step);

/* Whether a state from a checkpoint is valid. */
bool alarm_valid(const struct alarm *alarm);

#endif
