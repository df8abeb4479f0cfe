/* How abnormal each example is, and alarms (docs/explanation/anomalies.md). */
#ifndef RUNNEL_ANOMALIES_H
#define RUNNEL_ANOMALIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observer.h"

struct anomaly_kept;
struct error;
struct part_host;

/* The threshold of alarms of novelty in effect, and that of the configuration: 0 where nobody
   looks. What a score must reach without fatigue is more where there are several columns. */
struct learner_thresholds {
    double threshold, configured;
};
struct learner_thresholds anomalies_thresholds(const struct part_host *host);
void anomalies_set_thresholds(const struct part_host *host,
                              const struct learner_thresholds *thresholds);
double anomalies_limit(const struct part_host *host);

/* Memories that streams share: each is kept in a slot after those of streams. */
size_t anomalies_shared(const struct part_host *host);

/* An alarm of novelty of the stream that is kept: anomaly_find_alarm; mark it as normal:
   anomaly_mark_normal. No plan waits. Returns 1 with a sentence (EX_USAGE) where there is none. */
int anomalies_find(const struct part_host *host, const char *key, size_t key_size, double at,
                   struct anomaly_kept *found, struct error *error);
int anomalies_mark_normal(struct part_host *host, const char *key, size_t key_size, double at,
                          struct anomaly_kept *found, struct error *error);

const char *anomalies_alarm_name(enum learner_alarm_kind kind);

#endif
