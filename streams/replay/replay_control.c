#include "replay_control.h"

#include <poll.h>
#include <sysexits.h>

#include "streams/feed.h"

#define ANSWER_SECONDS 60.0

static int await(struct runnel_request *request, struct runnel_error *why, struct error *error) {
    struct runnel_reply reply;
    struct pollfd item = {.fd = runnel_request_descriptor(request), .events = POLLIN};
    int status;
    while ((status = runnel_request_next(request, &reply, why)) == 0) {
        poll(&item, 1, FEED_TICK_MS);
        if (feed_signals)
            return error_set(error, FEED_INTERRUPTED, "interrupted");
    }
    return status;
}

int replay_command(const struct runnel_peer *peer, const char *command, struct error *error) {
    struct runnel_request *request = NULL;
    struct runnel_error why = {0};
    int status = runnel_request_open(&request, peer, command, ANSWER_SECONDS, &why);
    if (status == 0)
        status = await(request, &why, error);
    runnel_request_close(&request);
    if (status >= 0 || why.status == 0)
        return status < 0 ? -1 : 0;
    if (why.status == EX_SOFTWARE)
        return error_set(error, EX_UNAVAILABLE, "%s: the daemon does not carry out %s: %s",
                         peer->endpoint, command, why.text);
    return error_set(error, why.status, "--control: %s", why.text);
}
