/* What is missing between the messages of a daemon, as far as it can be seen in them: each topic
   counts its messages (`sequence`), and another run starts all counts again. A topic that
   nobody subscribes to does not count: what was learned meanwhile is a gap (runnel.h). */
#ifndef RUNNEL_TRACK_H
#define RUNNEL_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include <math.h>

#include <jansson.h>

#include "common/topics.h"
#include "runnel.h"

enum { TRACK_RUN_SIZE = 64 };

/* Begins as TRACK_BEGIN. */
struct track {
    json_t *run; /* of the newest message; owned */
    char run_text[TRACK_RUN_SIZE], run_before[TRACK_RUN_SIZE];
    struct {
        bool counted; /* whether `sequence` is known */
        uint64_t sequence;
    } topics[TOPICS];
    struct runnel_gap gap;
};
#define TRACK_BEGIN ((struct track){.gap = {NAN, NAN}})

/* Take in a message of that topic: fills in of the news what is missing before it. */
void track_message(struct track *track, enum topic topic, const json_t *body,
                   struct runnel_news *news);
void track_close(struct track *track);

#endif
