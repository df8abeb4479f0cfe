/* A server that a source reads from and that is not there: said once, tried again after pauses that
   grow, and said when it is back. */
#ifndef RUNNEL_FEED_RETRY_H
#define RUNNEL_FEED_RETRY_H

struct error;

struct retry {
    const char *server; /* as sentences name it: without a password; set it before the rest */
    double since;       /* clock_seconds of the first failure; 0 = it answers */
    double pause;       /* the next one, seconds */
};

/* A source waits: look after what was sent. -1: a signal has come (FEED_INTERRUPTED). For loops of
   a source's own, at least once in FEED_TICK_MS. */
int feed_tick(struct error *error);

/* The same for so many seconds. */
int feed_wait(double seconds, struct error *error);

/* It does not answer, and `why`, a clause ("connection refused"): say so unless that was said, then
   wait, longer each time. -1: FEED_INTERRUPTED. */
int retry_wait(struct retry *retry, const char *why, struct error *error);

/* The same for a library that tries again by itself: no wait. */
void retry_failed(struct retry *retry, const char *why);

/* It answers: say so if it did not before. */
void retry_back(struct retry *retry);

#endif
