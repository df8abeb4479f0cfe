#include "build-config.h"

#include "track.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCE_MAX 9007199254740992.0 /* 2^53 */

/* A smaller interval begins to count where it was set. */
void runnel_gap_status(struct runnel_gap *gap, double every, double examples) {
    if (every < gap->every && examples > gap->newest && examples - gap->newest <= gap->every)
        gap->newest = examples;
    gap->every = every;
}

bool runnel_gap_loss(struct runnel_gap *gap, double examples, double unheard[2]) {
    double last = gap->newest;
    gap->newest = examples;
    if (!(examples - last > gap->every))
        return false;
    unheard[0] = last;
    unheard[1] = examples;
    return true;
}

static double number(const json_t *body, const char *key) {
    const json_t *member = json_object_get(body, key);
    return json_is_number(member) ? json_number_value(member) : NAN;
}

static void write_run(char text[TRACK_RUN_SIZE], const json_t *run) {
    char *dumped = json_dumps(run, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, TRACK_RUN_SIZE, "%s",
             json_is_string(run) ? json_string_value(run)
             : dumped            ? dumped
                                 : "");
    free(dumped);
}

static void take_run(struct track *track, const json_t *body, struct runnel_news *news) {
    json_t *run = json_object_get(body, "run");
    if (!run || json_equal(run, track->run))
        return;
    memcpy(track->run_before, track->run_text, sizeof track->run_before);
    write_run(track->run_text, run);
    news->restarted = track->run != NULL;
    if (news->restarted) {
        news->run = track->run_text;
        news->run_before = track->run_before;
        memset(track->topics, 0, sizeof track->topics);
    }
    json_decref(track->run);
    track->run = json_incref(run);
}

/* A number that is not greater than the last is a repetition: the daemon sends its newest `status`
   again to each new subscriber. */
static void take_sequence(struct track *track, enum topic topic, const json_t *body,
                          struct runnel_news *news) {
    double value = number(body, "sequence");
    if (!(value >= 0 && value <= SEQUENCE_MAX))
        return;
    uint64_t sequence = (uint64_t)value, last = track->topics[topic].sequence;
    bool counted = track->topics[topic].counted;
    if (counted && sequence > last + 1)
        news->missed = sequence - last - 1;
    if (!counted || sequence > last)
        track->topics[topic].sequence = sequence;
    track->topics[topic].counted = true;
}

static void take_status(struct track *track, const json_t *body) {
    double every = number(body, "every"), examples = number(body, "examples");
    if (!isnan(every) && !isnan(examples))
        runnel_gap_status(&track->gap, every, examples);
}

static void take_loss(struct track *track, const json_t *body, struct runnel_news *news) {
    double examples = number(body, "examples");
    if (!isnan(examples))
        runnel_gap_loss(&track->gap, examples, news->unheard);
}

void track_message(struct track *track, enum topic topic, const json_t *body,
                   struct runnel_news *news) {
    take_run(track, body, news);
    take_sequence(track, topic, body, news);
    if (topic == TOPIC_STATUS)
        take_status(track, body);
    if (topic == TOPIC_LOSS)
        take_loss(track, body, news);
}

void track_close(struct track *track) {
    json_decref(track->run);
    track->run = NULL;
}
