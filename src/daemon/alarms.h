/* The event `anomaly`: what the learner found abnormal, for people and programs (docs/reference/protocol.md).
 */
#ifndef RUNNEL_ALARMS_H
#define RUNNEL_ALARMS_H

struct daemon;
struct error;
struct example;
struct learner_alarm;

int alarms_open(struct daemon *daemon, struct error *error);
void alarms_close(struct daemon *daemon);

/* The learner takes the example next: its note, if it has one, goes with its alarms. The newest
   1,024 are kept. */
void alarms_keep_note(struct daemon *daemon, const struct example *example);

/* Publish it, where anybody subscribes to events. */
void alarms_announce(struct daemon *daemon, const struct learner_alarm *alarm);

#endif
