/* What people say of alarms: which are false, and how rare they shall be. */
#include <math.h>
#include <sysexits.h>

#include "anomaly/kept.h"
#include "common/error.h"
#include "common/text.h"
#include "learner_internal.h"

int learner_set_threshold(struct learner *learner, double threshold, struct error *error) {
    if (learner_flush(learner, error))
        return -1;
    learner->watch.rule.threshold = threshold;
    return 0;
}

int learner_configure_threshold(struct learner *learner, double threshold, struct error *error) {
    if (learner_set_threshold(learner, threshold, error))
        return -1;
    learner->watch.configured_threshold = threshold;
    return 0;
}

#define WAY_OUT "runnel-watch -t anomaly shows alarms as they come"

static int no_alarm(const char *stream, double at, const struct anomaly_kept *newest,
                    struct error *error) {
    if (isnan(newest->score))
        return error_set(error, EX_USAGE, "no alarm of novelty of stream %s is kept; " WAY_OUT,
                         stream);
    if (newest->time == 0)
        return error_set(error, EX_USAGE,
                         "stream %s has no alarm of novelty at @%.3f: its data have no time; leave "
                         "the time out, and it is the newest",
                         stream, at);
    return error_set(error, EX_USAGE,
                     "stream %s has no alarm of novelty at @%.3f among its last %d; the newest "
                     "is at @%.3f (seconds since 1970); " WAY_OUT,
                     stream, at, (int)KEPT_ALARMS, newest->time);
}

/* The slot of a stream whose alarms are kept. 0, 1 with a sentence, or -1. */
static int find_watched(struct learner *learner, const char *key, size_t key_size, uint32_t *slot,
                        struct error *error) {
    char quoted[TEXT_QUOTE_SIZE];
    if (learner_flush(learner, error))
        return -1;
    *slot = streams_find(learner->streams, key, key_size);
    if (!learner->watch.anomaly)
        error_set(error, EX_USAGE, "there are no alarms: anomaly.enabled: true looks for them");
    else if (!learner->watch.columns)
        error_set(error, EX_USAGE,
                  "alarms of symbols cannot be marked: there is no memory of them, and what comes "
                  "again the network learns; runnel-ctl set anomaly.threshold makes them rarer");
    else if (*slot == STREAMS_NONE)
        error_set(error, EX_USAGE, "stream %s is not in memory; " WAY_OUT,
                  text_quote(quoted, key, key_size));
    else
        return 0;
    return 1;
}

int learner_find_alarm(struct learner *learner, const char *key, size_t key_size, double at,
                       struct anomaly_kept *found, struct error *error) {
    char quoted[TEXT_QUOTE_SIZE];
    uint32_t slot;
    int result = find_watched(learner, key, key_size, &slot, error);
    if (result || anomaly_find_alarm(learner->watch.anomaly, slot, at, found))
        return result;
    no_alarm(text_quote(quoted, key, key_size), at, found, error);
    return 1;
}

int learner_mark_normal(struct learner *learner, const char *key, size_t key_size, double at,
                        struct anomaly_kept *found, struct error *error) {
    char quoted[TEXT_QUOTE_SIZE];
    uint32_t slot;
    int result = find_watched(learner, key, key_size, &slot, error);
    if (result == 0 && anomaly_mark_normal(learner->watch.anomaly, slot, at, found)) {
        learner_mark(learner, slot);
        return 0;
    }
    if (result)
        return result;
    no_alarm(text_quote(quoted, key, key_size), at, found, error);
    return 1;
}
