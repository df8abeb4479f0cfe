#include "build-config.h"

#include "watch_pace.h"

#include <jansson.h>
#include <math.h>

#include "common/clock.h"

#define PERIOD (1.0 / PACE_ROWS)

static bool makes_rows(enum topic topic) {
    return topic == TOPIC_LOSS || topic == TOPIC_STATE || topic == TOPIC_PREDICTION;
}

static void forget(struct pace *pace, enum topic topic) {
    json_decref(pace->waits[topic]);
    pace->waits[topic] = NULL;
}

void pace_close(struct pace *pace) {
    for (int topic = 0; topic < TOPICS; topic++)
        forget(pace, (enum topic)topic);
}

bool pace_holds(struct pace *pace, const struct message *message) {
    enum topic topic = message->topic;
    if (!pace->on || !makes_rows(topic))
        return false;
    double now = clock_seconds();
    pace->replaced = pace->replaced || pace->waits[topic];
    forget(pace, topic);
    if (now - pace->shown[topic] < PERIOD) {
        pace->waits[topic] = json_incref(message->body);
        return true;
    }
    pace->shown[topic] = now;
    return false;
}

bool pace_take(struct pace *pace, bool all, struct message *row) {
    double now = clock_seconds();
    for (int topic = 0; topic < TOPICS; topic++) {
        if (!pace->waits[topic] || (!all && now - pace->shown[topic] < PERIOD))
            continue;
        *row = (struct message){.topic = (enum topic)topic, .body = pace->waits[topic]};
        pace->waits[topic] = NULL;
        pace->shown[topic] = now;
        return true;
    }
    return false;
}

double pace_next(const struct pace *pace) {
    double next = INFINITY, now = clock_seconds();
    for (int topic = 0; topic < TOPICS; topic++)
        if (pace->waits[topic])
            next = fmin(next, fmax(pace->shown[topic] + PERIOD - now, 0));
    return next;
}
