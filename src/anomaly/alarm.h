/* When scores make an alarm. One is raised at a score >= threshold + tiredness, more than `rest`
   steps after the last one. Each alarm adds `fatigue` to the tiredness, which goes by exp(-steps /
   recovery): where alarms are frequent, the next one must be worth more. */
#ifndef RUNNEL_ALARM_H
#define RUNNEL_ALARM_H

#include <stdbool.h>
#include <stdint.h>

struct alarm_rule {
    double threshold, rest, fatigue;
    double recovery; /* > 0 */
};

/* Doubles alone, so that a checkpoint takes it as it is; zero is the state of a stream that begins.
 */
struct alarm {
    double tired; /* right after the last alarm */
    double last;  /* 1 + its step; 0: there was none */
};

/* Whether the score at that step of a stream is an alarm, which then is the last one. NaN never is.
 */
bool alarm_raised(struct alarm *alarm, const struct alarm_rule *rule, double score, uint64_t step);

/* Whether what was read from a checkpoint can have been written by this. */
bool alarm_valid(const struct alarm *alarm);

#endif
