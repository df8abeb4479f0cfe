#include "feed.h"

#include <math.h>
#include <time.h>

#include "common/clock.h"

#define PAUSE_FIRST 0.25 /* seconds */
#define PAUSE_MAX 30.0

int feed_tick(struct error *error) {
    if (feed_signals)
        return error_set(error, FEED_INTERRUPTED, "interrupted");
    if (feed_meanwhile)
        feed_meanwhile(feed_meanwhile_context);
    return 0;
}

int feed_wait(double seconds, struct error *error) {
    double end = clock_seconds() + seconds;
    for (double left = seconds; left > 0; left = end - clock_seconds()) {
        if (feed_tick(error) < 0)
            return -1;
        double part = fmin(left, (double)FEED_TICK_MS / 1000);
        struct timespec pause = {.tv_nsec = (long)(part * (double)NS_PER_SECOND)};
        nanosleep(&pause, NULL); /* a signal ends it */
    }
    return feed_tick(error);
}

void retry_failed(struct retry *retry, const char *why) {
    if (retry->since > 0)
        return;
    retry->since = clock_seconds();
    retry->pause = PAUSE_FIRST;
    feed_print("%s: %s; trying again until it answers", retry->server, why);
}

int retry_wait(struct retry *retry, const char *why, struct error *error) {
    retry_failed(retry, why);
    double pause = retry->pause;
    retry->pause = fmin(2 * pause, PAUSE_MAX);
    return feed_wait(pause, error);
}

void retry_back(struct retry *retry) {
    if (retry->since > 0)
        feed_print("%s: available again after %.1f s", retry->server,
                   clock_seconds() - retry->since);
    retry->since = 0;
}
