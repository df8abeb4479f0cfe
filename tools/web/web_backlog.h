/* Predictions that wait to be read. A daemon may publish tens of thousands a second, more than
   anybody sees: they are parsed no faster than BACKLOG_RATE, whatever they are of, and of those
   that wait the newest BACKLOG_MESSAGES are kept. So when a daemon falls silent its last ones are
   all there. */
#ifndef RUNNEL_WEB_BACKLOG_H
#define RUNNEL_WEB_BACKLOG_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { BACKLOG_MESSAGES = 1000, BACKLOG_BYTES = 4 << 20 };
#define BACKLOG_RATE 1e6  /* bytes of JSON a second, */
#define BACKLOG_BURST 1e6 /* and as many at once after a rest */

/* Zero to begin with; times are clock_seconds(). */
struct backlog {
    char *texts[BACKLOG_MESSAGES]; /* a ring; owned */
    size_t sizes[BACKLOG_MESSAGES], first, count, bytes;
    double spent, since; /* bytes that the rate has not made up for at that time */
    uint64_t passed;     /* messages that were never read */
};

/* Takes the text. */
void backlog_add(struct backlog *backlog, char *text);

/* The oldest that waits, a new reference; NULL: there is none, or not yet. */
json_t *backlog_next(struct backlog *backlog, double now);

void backlog_clear(struct backlog *backlog);

#endif
