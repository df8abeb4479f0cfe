#include "replay_control.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/keys.h"
#include "streams/feed.h"

enum { ANSWER_SECONDS = 60 };

static int await(void *socket, const char *endpoint, struct error *error) {
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
    double until = clock_seconds() + ANSWER_SECONDS;
    while (zmq_poll(&item, 1, FEED_TICK_MS) <= 0) {
        if (feed_signals)
            return error_set(error, FEED_INTERRUPTED, "interrupted");
        if (clock_seconds() > until)
            return error_set(error, EX_UNAVAILABLE, "%s: no answer within %d seconds", endpoint,
                             ANSWER_SECONDS);
    }
    return 0;
}

static int take_reply(void *socket, const char *endpoint, const char *command,
                      struct error *error) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    json_t *reply = NULL;
    if (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) >= 0)
        reply = json_loadb(zmq_msg_data(&frame), zmq_msg_size(&frame), 0, NULL);
    const char *why = json_string_value(json_object_get(reply, "error"));
    int status = 0;
    if (!json_is_true(json_object_get(reply, "ok")))
        status = error_set(error, EX_UNAVAILABLE, "%s: the daemon does not carry out %s: %s",
                           endpoint, command, why ? why : "its answer cannot be understood");
    json_decref(reply);
    zmq_msg_close(&frame);
    return status;
}

static int exchange(void *socket, const char *endpoint, const struct key_client *keys,
                    const char *command, struct error *error) {
    const int none = 0;
    if (zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none) < 0 || keys_apply(keys, socket) < 0)
        return error_set(error, EX_OSERR, "ZeroMQ cannot open a socket: %s", zmq_strerror(errno));
    if (zmq_connect(socket, endpoint) < 0)
        return error_set(error, EX_USAGE,
                         "--control: '%s' is no endpoint; expected tcp://HOST:PORT or ipc://PATH",
                         endpoint);
    if (zmq_send(socket, command, strlen(command), 0) < 0)
        return error_set(error, EX_UNAVAILABLE, "%s: sending failed: %s", endpoint,
                         zmq_strerror(errno));
    if (await(socket, endpoint, error) < 0)
        return -1;
    return take_reply(socket, endpoint, command, error);
}

int replay_command(const char *endpoint, const struct key_client *keys, const char *command,
                   struct error *error) {
    void *context = zmq_ctx_new(), *socket = context ? zmq_socket(context, ZMQ_REQ) : NULL;
    int status =
        socket ? exchange(socket, endpoint, keys, command, error)
               : error_set(error, EX_OSERR, "ZeroMQ cannot open a socket: %s", zmq_strerror(errno));
    if (socket)
        zmq_close(socket);
    if (context)
        while (zmq_ctx_term(context) < 0 && errno == EINTR)
            ;
    return status;
}
