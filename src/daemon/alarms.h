/* The events `anomaly` and `incident` (docs/reference/protocol.md). */
#ifndef RUNNEL_ALARMS_H
#define RUNNEL_ALARMS_H

struct daemon;
struct error;
struct example;
struct learner_alarm;
struct learner_incident;

int alarms_open(struct daemon *daemon, struct error *error);
void alarms_close(struct daemon *daemon);

/* Keeps the note of the example that the learner takes next, for its alarms. The newest 1,024 notes
   are kept. */
void alarms_keep_note(struct daemon *daemon, const struct example *example);

/* Publish it if events have a subscriber. */
void alarms_announce(struct daemon *daemon, const struct learner_alarm *alarm);
void alarms_announce_incident(struct daemon *daemon, const struct learner_incident *incident);

#endif
