/* How the daemon is, as far as one can tell from outside: whether it is there, speaks, has been
   restarted, and whether messages were lost on the way. What people should know is said in
   sentences through `note`, at most once a second where it could come often. */
#ifndef RUNNEL_WATCH_HEALTH_H
#define RUNNEL_WATCH_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "watch_link.h"

#define HEALTH_SILENCE 15.0 /* usual seconds of `silence`: a daemon sends `status` every 10 */

enum presence {
    PRESENCE_EXPECTED, /* no connection yet */
    PRESENCE_SPEAKING,
    PRESENCE_SILENT, /* connected, but no message for `silence` seconds */
    PRESENCE_GONE,   /* the connection was lost */
};

/* Fill with health_open. All times are clock_seconds(). */
struct health {
    const char *endpoint;
    double silence; /* seconds without a message that make it silent; 0 = never */
    void (*note)(void *context, const char *text);
    void *context;

    enum presence presence;
    bool connected;
    double heard;        /* when the last message came, or the start */
    bool heard_ever;     /* whether one came */
    double status_heard; /* when the last `status` came */
    bool waiting_said;   /* that there is no daemon */

    uint64_t missed[TOPICS]; /* messages that did not come, not yet said */
    uint64_t missed_total;   /* since the start */
    uint64_t not_understood; /* messages, not yet said */
    const char *problem;     /* of the newest of them */
    double said;             /* when either was said last */
    double restart_said;     /* and that it was started again */
};

void health_open(struct health *health, const char *endpoint, double silence,
                 void (*note)(void *context, const char *text), void *context);

/* What has become of the connection: a kind of news that is no message. */
void health_changed(struct health *health, enum runnel_kind change);

/* A message has come. True when it is of another run than the one before: whatever was learned
   about the daemon counts no more. */
bool health_message(struct health *health, const struct message *message);

/* Call when time has passed; with `last` everything that is held back is said now. */
void health_tick(struct health *health, bool last);

/* Seconds until health_tick has something to do. */
double health_next(const struct health *health);

/* Seconds since the last message, or since the start. */
double health_quiet(const struct health *health);

/* How much older what the last `status` says has become since it came: while the daemon does not
   speak, until its last message. For numbers that grow with the clock, as `uptime` does. */
double health_status_age(const struct health *health);

/* ---- Gap ----

   The sentence about examples that were learned while nobody listened (runnel.h: `unheard`), at
   most once a second. */

enum { GAP_TEXT = 120 };

/* `*said`: when it was said last (clock_seconds), -INFINITY = never; the daemon was started again:
   then what was missed meanwhile is said in any case. True with `text`, or when the last is no
   second ago false. */
bool gap_say(double *said, const double unheard[2], char text[GAP_TEXT]);

#endif
