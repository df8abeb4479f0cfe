/* Messages that are not about learning: events, and `status` when it changes and every ten seconds.
   Frequent incidents are counted and announced at most once a second, in the log as well. None is
   lost. */
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

/* Publishes an event and takes over `details` (may be NULL), whose members are added to the
   message. Its members examples, steps and time (seconds since 1970) replace the current values. */
void announce_event(struct daemon *daemon, const char *kind, json_t *details, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));

/* Publishes an event, and logs the text with log_info or log_warning. */
void announce_logged(struct daemon *daemon, void (*log)(const char *format, ...), const char *kind,
                     json_t *details, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Publish `status` now, or at the loop's next call of announce_counted. */
void announce_status(struct daemon *daemon);
void announce_status_soon(struct daemon *daemon);
bool announce_status_is_due(const struct daemon *daemon);

/* Incidents that are counted, with the stream and the data time (0 = unknown) of the newest one. */
enum announce_kind {
    ANNOUNCE_SKIPPED,      /* updates whose loss or gradient was not finite */
    ANNOUNCE_FORGOTTEN,    /* streams that were forgotten to make room */
    ANNOUNCE_GAP,          /* missing numbers in a producer's sequence */
    ANNOUNCE_OUT_OF_SCALE, /* numbers of inputs; see announce_out_of_scale */
    ANNOUNCE_SILENT,       /* alarms beyond announce_has_room: silent */
    ANNOUNCE_STUCK,        /* alarms beyond announce_has_room: stuck */
    ANNOUNCE_KINDS,
};
void announce_count(struct daemon *daemon, enum announce_kind kind, uint64_t count, const char *key,
                    size_t key_size, double time);

/* Counts numbers of inputs far outside the range of earlier ones (parts/range.h). */
void announce_out_of_scale(struct daemon *daemon, const struct out_of_scale *found,
                           const struct example *example);

/* Returns whether another alarm of a kind that can affect all streams at once may be an event of
   its own. A second has room for a few; count the rest. */
bool announce_has_room(struct daemon *daemon);

/* Announces the counts that are due, including rejected examples and refused connections; `all`:
   even those that are not due. */
void announce_counted(struct daemon *daemon, bool all);

/* Returns when the next announcement or `status` is due (CLOCK_MONOTONIC in ns). */
uint64_t announce_due(const struct daemon *daemon);

#endif
