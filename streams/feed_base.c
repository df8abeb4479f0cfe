#include "feed.h"

#include <math.h>
#include <poll.h>
#include <string.h>

#include "common/clock.h"

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
        return "longer than 255 bytes";
    if (!wire_is_utf8(key, size))
        return "not UTF-8 text";
    memcpy(stream->key, key, size);
    stream->key[size] = '\0';
    stream->key_size = size;
    stream->sequence = 0;
    return NULL;
}
