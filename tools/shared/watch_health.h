/* The health of a daemon as its messages show it: whether it is there, sends, was restarted, and
   whether messages were lost. Remarks go to `note` as sentences, frequent ones at most once a
   second. */
#ifndef RUNNEL_WATCH_HEALTH_H
#define RUNNEL_WATCH_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "watch_link.h"

#define HEALTH_SILENCE 15.0 /* seconds; a daemon sends `status` every 10 */

enum presence {
    PRESENCE_EXPECTED, /* no connection yet */
    PRESENCE_SPEAKING,
    PRESENCE_SILENT, /* connected, but no message for `silence` seconds */
    PRESENCE_GONE,   /* the connection is lost */
};

/* Initialize with health_open. All times are clock_seconds(). */
struct health {
    const char *endpoint;
    double silence; /* seconds without a message until the daemon is silent; 0 = never */
    void (*note)(void *context, const char *text);
    void *context;

    enum presence presence;
    bool connected;
    double last_message; /* time of the last message, or of the start */
    bool has_message;    /* whether a message has arrived */
    double last_status;  /* time of the last `status` */
    bool wait_reported;  /* whether the wait for a daemon was reported */

    uint64_t missed[TOPICS]; /* lost messages that are not reported yet */
    uint64_t missed_total;   /* since the start */
    uint64_t not_understood; /* invalid messages that are not reported yet */
    const char *problem;     /* of the newest of them */
    double reported;         /* time of the last report of either */
    double restart_reported; /* time of the last report of a restart */
};

void health_open(struct health *health, const char *endpoint, double silence,
                 void (*note)(void *context, const char *text), void *context);

/* Handles news about the connection. */
void health_changed(struct health *health, enum runnel_kind change);

/* Handles a message. Returns true if it is of another run than the previous one: then everything
   known about the daemon is out of date. */
bool health_message(struct health *health, const struct message *message);

/* Call regularly; with `last` also makes pending reports. */
void health_tick(struct health *health, bool last);

/* Seconds until health_tick is due. */
double health_next(const struct health *health);

/* Seconds since the last message, or since the start. */
double health_quiet(const struct health *health);

/* Age of the last `status`; without contact to the daemon, its age at the last message. For numbers
   that grow with the clock, such as `uptime`. */
double health_status_age(const struct health *health);

/* ---- Gap ----

   The report about examples whose messages were not received (runnel.h: `unheard`), at most once a
   second. */

enum { GAP_TEXT = 120 };

/* `*reported` is the time of the last report (clock_seconds), -INFINITY = never. Returns true with
   `text`, or false if the last report is less than a second ago. */
bool gap_report(double *reported, const double unheard[2], char text[GAP_TEXT]);

#endif
