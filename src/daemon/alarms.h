/* The event `anomaly`: what the learner found abnormal, for people and programs (docs/protocol.md).
 */
#ifndef RUNNEL_ALARMS_H
#define RUNNEL_ALARMS_H

struct daemon;
struct learner_alarm;

/* Publish it, where anybody subscribes to events. */
void alarms_announce(struct daemon *daemon, const struct learner_alarm *alarm);

#endif
