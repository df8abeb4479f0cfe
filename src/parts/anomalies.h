/* Anomaly scores of examples, and alarms (docs/explanation/anomalies.md). */
#ifndef RUNNEL_ANOMALIES_H
#define RUNNEL_ANOMALIES_H

#include <stddef.h>

#include "observer.h"

struct error;
struct part_host;

/* Memories of earlier versions: a stream that has some loses all memories. */
#define ANOMALY_HELD "streams.anomaly_held"

/* The threshold of alarms of novelty in effect, and that of the configuration: 0 without anomaly
   detection. anomalies_limit adds the margin for several columns, without fatigue. */
struct learner_thresholds {
    double threshold, configured;
};
struct learner_thresholds anomalies_thresholds(const struct part_host *host);
void anomalies_set_thresholds(const struct part_host *host,
                              const struct learner_thresholds *thresholds);
double anomalies_limit(const struct part_host *host);

/* anomaly.rate, "" without it; and the numbers of alarms since the start of learning that follow
   from it, and that were raised. */
struct anomalies_rates {
    double nominal, observed;
};
const char *anomalies_rate(const struct part_host *host);
struct anomalies_rates anomalies_rates(const struct part_host *host);

/* The number of open incidents that are not silenced. */
size_t anomalies_open_incidents(const struct part_host *host);

/* The number of memories that streams share: their slots follow those of streams. */
size_t anomalies_shared(const struct part_host *host);

/* Find a kept alarm of the stream (anomaly_find_alarm), and mark it as normal
   (anomaly_mark_normal). The plan must be empty. Return 1 with an error (EX_USAGE) if no such alarm
   is kept. */
int anomalies_find(const struct part_host *host, const char *key, size_t key_size, double at,
                   struct anomaly_kept *found, struct error *error);
int anomalies_mark_normal(struct part_host *host, const char *key, size_t key_size,
                          enum anomaly_reason reason, double at, struct anomaly_kept *found,
                          struct error *error);

/* Silences the incidents of the stream for so long, or ends a silence with 0: incidents_silence.
   The plan must be empty. Returns 1 with an error (EX_USAGE) if the stream is unknown. */
int anomalies_silence(struct part_host *host, const char *key, size_t key_size, double seconds,
                      double now, double *until, struct error *error);

const char *anomalies_alarm_name(enum learner_alarm_kind kind);

/* (columns,) of an alarm with a score: the scores of its kind by column; shares with level. */
const double *anomalies_alarm_scores(const struct learner_alarm *alarm);

#endif
