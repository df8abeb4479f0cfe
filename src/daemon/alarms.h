/* The event `anomaly`, for each alarm of the learner (docs/reference/protocol.md). */
#ifndef RUNNEL_ALARMS_H
#define RUNNEL_ALARMS_H

struct daemon;
struct error;
struct example;
struct learner_alarm;

int alarms_open(struct daemon *daemon, struct error *error);
void alarms_close(struct daemon *daemon);

/* Keeps the note of the example that the learner takes next, for its alarms. The newest 1,024 notes
   are kept. */
void alarms_keep_note(struct daemon *daemon, const struct example *example);

/* Publishes the alarm if events have a subscriber. */
void alarms_announce(struct daemon *daemon, const struct learner_alarm *alarm);

#endif
