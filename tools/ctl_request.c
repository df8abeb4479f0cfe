#include "build-config.h"

#include "ctl_request.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "tool.h"

enum { ERROR_SIZE = 2048 };

/* IPv6 only where the endpoint asks for it: a name such as localhost must not lead to ::1 when the
   daemon listens at 127.0.0.1. IMMEDIATE: a request leaves only over a connection that stands. */
static int set_options(void *socket, const char *endpoint) {
    const int zero = 0, one = 1, ipv6 = strchr(endpoint, '[') != NULL;
    return zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero) ||
           zmq_setsockopt(socket, ZMQ_IMMEDIATE, &one, sizeof one) ||
           zmq_setsockopt(socket, ZMQ_IPV6, &ipv6, sizeof ipv6);
}

/* Whether the socket is ready for `events` before the deadline (tool_now). */
static bool wait_for(void *socket, short events, double deadline) {
    zmq_pollitem_t item = {.socket = socket, .events = events};
    for (;;) {
        double left = deadline - tool_now();
        int ready = zmq_poll(&item, 1, left > 0 ? (long)(left * 1e3) + 1 : 0);
        if (ready > 0 || (ready == 0 && left <= 0) || (ready < 0 && errno != EINTR))
            return ready > 0;
    }
}

/* Take all frames; those beyond the second are dropped. */
static bool receive(void *socket, struct reply *reply) {
    zmq_msg_t surplus;
    zmq_msg_init(&surplus);
    int count = 0;
    for (bool more = true; more; count++) {
        zmq_msg_t *frame = count == 0 ? &reply->text : count == 1 ? &reply->bytes : &surplus;
        if (zmq_msg_recv(frame, socket, ZMQ_DONTWAIT) < 0)
            break;
        more = zmq_msg_more(frame);
    }
    zmq_msg_close(&surplus);
    return count > 0;
}

static int exchange(void *socket, const char *endpoint, double timeout, const char *text,
                    struct reply *reply) {
    double deadline = tool_now() + timeout;
    char waited[TOOL_NUMBER_SIZE];
    tool_format_duration(waited, timeout);
    if (set_options(socket, endpoint))
        return tool_fail(EX_UNAVAILABLE, "cannot set up a socket: %s", zmq_strerror(zmq_errno()));
    if (zmq_connect(socket, endpoint))
        return tool_usage("cannot connect to '%s': %s (an endpoint looks like "
                          "tcp://127.0.0.1:5572 or ipc:///run/runnel/control)",
                          endpoint, zmq_strerror(zmq_errno()));
    if (!wait_for(socket, ZMQ_POLLOUT, deadline) ||
        zmq_send(socket, text, strlen(text), ZMQ_DONTWAIT) < 0)
        return tool_fail(EX_UNAVAILABLE,
                         "no daemon answers at %s (waited %s): start runneld, or name its control "
                         "socket with --connect",
                         endpoint, waited);
    if (!wait_for(socket, ZMQ_POLLIN, deadline) || !receive(socket, reply))
        return tool_fail(EX_UNAVAILABLE,
                         "%s has taken the request but not answered within %s: it may be busy "
                         "(--timeout waits longer), or no runneld",
                         endpoint, waited);
    return EX_OK;
}

/* What a daemon can have sent: an object that says whether it worked, and if not, why. */
static int check(const char *endpoint, struct reply *reply) {
    const char *text = zmq_msg_data(&reply->text);
    char clean[ERROR_SIZE];
    reply->body = json_loadb(text, zmq_msg_size(&reply->text), 0, NULL);
    const json_t *ok = json_object_get(reply->body, "ok");
    if (!json_is_boolean(ok))
        return tool_fail(EX_UNAVAILABLE, "what answers at %s is no runneld's control socket",
                         endpoint);
    if (json_is_true(ok))
        return EX_OK;
    const char *error = tool_string(reply->body, "error");
    return tool_fail(EX_SOFTWARE, "%s",
                     error ? tool_clean(clean, sizeof clean, error)
                           : "the daemon refused and did not say why");
}

static void write_raw(zmq_msg_t *text) {
    fwrite(zmq_msg_data(text), 1, zmq_msg_size(text), stdout);
    putchar('\n');
}

int request_send(const char *endpoint, double timeout, const json_t *request, bool raw,
                 struct reply *reply) {
    reply->body = NULL;
    zmq_msg_init(&reply->text);
    zmq_msg_init(&reply->bytes);
    char *text = json_dumps(request, JSON_COMPACT);
    void *context = zmq_ctx_new(), *socket = context ? zmq_socket(context, ZMQ_REQ) : NULL;
    int status;
    if (!text || !socket)
        status = tool_fail(EX_UNAVAILABLE, "cannot open a socket: %s", strerror(errno));
    else
        status = exchange(socket, endpoint, timeout, text, reply);
    if (status == EX_OK)
        status = check(endpoint, reply);
    if (raw && json_is_object(reply->body))
        write_raw(&reply->text);
    if (socket)
        zmq_close(socket);
    if (context)
        zmq_ctx_term(context);
    free(text);
    if (status != EX_OK)
        reply_clear(reply);
    return status;
}

void reply_clear(struct reply *reply) {
    json_decref(reply->body);
    reply->body = NULL;
    zmq_msg_close(&reply->text);
    zmq_msg_close(&reply->bytes);
}
