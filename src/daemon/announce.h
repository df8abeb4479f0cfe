/* Messages that are not about learning: events as they happen, `status` when it
   changes and every ten seconds, and what happens too often for an event each: that is counted and
   announced at most once a second, to people (the log) as well. None is lost. */
#ifndef RUNNEL_ANNOUNCE_H
#define RUNNEL_ANNOUNCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct error;
struct example;
struct json_text;
struct out_of_scale;

/* Adds the fields of topic `status`. */
typedef void announce_fields(struct daemon *daemon, struct json_text *text);

int announce_open(struct daemon *daemon, announce_fields *status, struct error *error);
void announce_close(struct daemon *daemon);

/* Publish an event; `details` (may be NULL) is taken over, its members are added. Its members
   examples and steps, if it has them, replace those learned by now, and time (seconds since 1970)
   replaces now. */
void announce_event(struct daemon *daemon, const char *kind, json_t *details, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));

/* The same, and the text is logged by log_info or log_warning. */
void announce_logged(struct daemon *daemon, void (*log)(const char *format, ...), const char *kind,
                     json_t *details, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Publish `status`: now, or when the loop is next asked for what is due. */
void announce_status(struct daemon *daemon);
void announce_status_soon(struct daemon *daemon);
bool announce_status_is_due(const struct daemon *daemon);

/* What is counted, with the stream and the data time (0 = unknown) of the newest one. */
enum announce_kind {
    ANNOUNCE_SKIPPED,      /* updates: loss or gradient was not finite */
    ANNOUNCE_FORGOTTEN,    /* streams that made room for others */
    ANNOUNCE_GAP,          /* examples that a producer numbered and that never came */
    ANNOUNCE_OUT_OF_SCALE, /* numbers of inputs: announce_out_of_scale counts them */
    ANNOUNCE_SILENT,       /* alarms of streams and columns that are silent, */
    ANNOUNCE_STUCK,        /* of columns that are stuck: beyond those that announce_has_room told */
    ANNOUNCE_KINDS,
};
void announce_count(struct daemon *daemon, enum announce_kind kind, uint64_t count, const char *key,
                    size_t key_size, double time);

/* Likewise for numbers of inputs far out of the range of what was seen (parts/range.h). */
void announce_out_of_scale(struct daemon *daemon, const struct out_of_scale *found,
                           const struct example *example);

/* Whether one more of what may come of all streams at once is an event of its own: so many are in a
   second. The rest is to be counted. */
bool announce_has_room(struct daemon *daemon);

/* Announce what is due of it, of rejected examples and of refused connections; or `all`. */
void announce_counted(struct daemon *daemon, bool all);

/* When something is due next, `status` included. CLOCK_MONOTONIC in ns. */
uint64_t announce_due(const struct daemon *daemon);

#endif
