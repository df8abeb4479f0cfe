#include "feed.h"

#include <math.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"

#define PAUSE_FIRST 0.25 /* seconds */
#define PAUSE_MAX 30.0

volatile sig_atomic_t feed_signals;
void (*feed_meanwhile)(void *context);
void *feed_meanwhile_context;
int (*feed_awaiter)(void *context, int descriptor, bool writable, double seconds,
                    struct error *error);

int feed_await(int descriptor, bool writable, double seconds, struct error *error) {
    struct pollfd item = {.fd = descriptor, .events = (short)(POLLIN | (writable ? POLLOUT : 0))};
    double limit = fmin(seconds, (double)FEED_TICK_MS / 1000);
    if (feed_signals)
        return error_set(error, FEED_INTERRUPTED, "interrupted");
    int status = feed_awaiter
                     ? feed_awaiter(feed_meanwhile_context, descriptor, writable, limit, error)
                     : poll(&item, 1, (int)clock_milliseconds(limit)) > 0;
    return status >= 0 && feed_signals ? error_set(error, FEED_INTERRUPTED, "interrupted") : status;
}

const char *stream_name(struct stream *stream, const char *key, size_t size) {
    if (size > WIRE_KEY_MAX)
        return "it is longer than 255 bytes";
    if (!wire_is_utf8(key, size))
        return "it is not UTF-8 text";
    memcpy(stream->key, key, size);
    stream->key[size] = '\0';
    stream->key_size = size;
    stream->sequence = 0;
    return NULL;
}

/* ---- Servers that are not there ---- */

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
        nanosleep(&pause, NULL); /* a signal cuts it short */
    }
    return feed_tick(error);
}

void retry_failed(struct retry *retry, const char *why) {
    if (retry->since > 0)
        return;
    retry->since = clock_seconds();
    retry->pause = PAUSE_FIRST;
    feed_say("%s: %s; trying again until it answers", retry->server, why);
}

int retry_wait(struct retry *retry, const char *why, struct error *error) {
    retry_failed(retry, why);
    double pause = retry->pause;
    retry->pause = fmin(2 * pause, PAUSE_MAX);
    return feed_wait(pause, error);
}

void retry_back(struct retry *retry) {
    if (retry->since > 0)
        feed_say("%s: back after %.1f s", retry->server, clock_seconds() - retry->since);
    retry->since = 0;
}
