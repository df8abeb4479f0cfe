/* The incidents of all streams (anomaly/incident.h), for the part `anomalies`. */
#ifndef RUNNEL_INCIDENTS_H
#define RUNNEL_INCIDENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observer.h"

struct config;
struct incidents;
struct part_host;
struct planned;

/* NULL: out of memory. `at`: as in struct learner_alarm. */
struct incidents *incidents_open(struct part_host *host, const struct config *config,
                                 struct anomaly *anomaly, size_t columns, const uint16_t *at);
void incidents_close(struct incidents *incidents);
void incidents_reset(struct incidents *incidents);

/* A score of the newest step is abnormal, or a habit is broken. Returns whether its incident is
   silenced. */
bool incidents_take(struct incidents *incidents, const struct planned *example,
                    const struct learner_alarm *step, bool alarm);

/* The step of the example has no more scores. */
void incidents_played(struct incidents *incidents, const struct planned *example);

/* The slot's stream ends with that example, or was forgotten after it: ends its part. */
void incidents_drop(struct incidents *incidents, uint32_t slot, uint64_t example);

/* The slot's state is about to be written with a stream from another daemon; it has arrived: an
   open incident is announced here, too, with its next abnormal step. */
void incidents_expect(struct incidents *incidents, uint32_t slot);
void incidents_arrived(struct incidents *incidents, uint32_t slot);

/* Starts or ends a silence, and returns its end. Without data times it begins `now`. */
double incidents_silence(struct incidents *incidents, uint32_t slot, double seconds, double now);
bool incidents_are_silenced(const struct incidents *incidents, uint32_t slot, double time);

/* The number of open incidents that are not silenced. */
size_t incidents_count(struct incidents *incidents);

/* State of a slot, doubles; whether it is valid after it was written. */
size_t incidents_size(const struct incidents *incidents);
double *incidents_state(const struct incidents *incidents, uint32_t slot);
bool incidents_valid(const struct incidents *incidents, uint32_t slot);
void incidents_filled(struct incidents *incidents, uint32_t slot);

#endif
