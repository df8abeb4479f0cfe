#include "build-config.h"

#include "ctl_request.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/monitor.h"
#include "common/error.h"
#include "common/wire.h"
#include "tools/shared/tool.h"

enum { ERROR_SIZE = 2048, RECONNECT_MS = 20 };

/* The socket, and what tells of it. */
struct line {
    void *context, *socket;
    struct monitor *monitor;
    const struct key_client *keys;
    bool refused; /* for good */
};

/* IPv6 only where the endpoint asks for it: a name such as localhost must not lead to ::1 when the
   daemon listens at 127.0.0.1. IMMEDIATE: a request leaves only over a connection that stands. */
static int set_options(const struct line *line, const char *endpoint) {
    const int zero = 0, one = 1, again = RECONNECT_MS, ipv6 = strchr(endpoint, '[') != NULL;
    return zmq_setsockopt(line->socket, ZMQ_LINGER, &zero, sizeof zero) ||
           zmq_setsockopt(line->socket, ZMQ_IMMEDIATE, &one, sizeof one) ||
           zmq_setsockopt(line->socket, ZMQ_IPV6, &ipv6, sizeof ipv6) ||
           zmq_setsockopt(line->socket, ZMQ_RECONNECT_IVL, &again, sizeof again) ||
           keys_apply(line->keys, line->socket) ||
           monitor_attach(line->monitor, line->context, line->socket);
}

static void hear(struct line *line) {
    struct monitor_event event;
    while (monitor_next(line->monitor, &event))
        line->refused |= event.kind == MONITOR_REFUSED;
}

/* Whether the socket is ready for `events` before the deadline (tool_now). */
static bool wait_for(struct line *line, short events, double deadline) {
    zmq_pollitem_t items[1 + MONITOR_ITEMS] = {{.socket = line->socket, .events = events}};
    monitor_items(line->monitor, items + 1);
    while (!line->refused) {
        double left = deadline - tool_now();
        int ready =
            zmq_poll(items, sizeof items / sizeof *items, left > 0 ? (long)(left * 1e3) + 1 : 0);
        if (ready > 0 && items[0].revents)
            return true;
        if (ready < 0 ? errno != EINTR : left <= 0)
            return false;
        hear(line);
    }
    return false;
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

static int exchange(struct line *line, const char *endpoint, double timeout, const char *text,
                    struct reply *reply) {
    double deadline = tool_now() + timeout;
    char waited[TOOL_NUMBER_SIZE];
    tool_format_duration(waited, timeout);
    if (set_options(line, endpoint))
        return tool_fail(EX_UNAVAILABLE, "cannot set up a socket: %s", zmq_strerror(zmq_errno()));
    if (zmq_connect(line->socket, endpoint))
        return tool_usage("cannot connect to '%s': %s (an endpoint looks like "
                          "tcp://127.0.0.1:5572 or ipc:///run/runnel/control)",
                          endpoint, zmq_strerror(zmq_errno()));
    bool sent = wait_for(line, ZMQ_POLLOUT, deadline) &&
                zmq_send(line->socket, text, strlen(text), ZMQ_DONTWAIT) >= 0;
    if (!sent && monitor_reason(line->monitor))
        return tool_fail(EX_UNAVAILABLE, "%s: %s", endpoint, monitor_reason(line->monitor));
    const char *why = sent ? NULL : wire_unreachable(endpoint);
    if (!sent)
        return tool_fail(EX_UNAVAILABLE,
                         "no daemon answers at %s (%s%swaited %s): start runneld, or name its "
                         "control socket with --connect",
                         endpoint, why ? why : "", why ? "; " : "", waited);
    if (!wait_for(line, ZMQ_POLLIN, deadline) || !receive(line->socket, reply))
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

int request_send(const char *endpoint, const struct key_client *keys, double timeout,
                 const json_t *request, bool raw, struct reply *reply) {
    reply->body = NULL;
    zmq_msg_init(&reply->text);
    zmq_msg_init(&reply->bytes);
    char *text = json_dumps(request, JSON_COMPACT);
    struct line line = {.keys = keys, .context = zmq_ctx_new()};
    struct error error;
    int status;
    if (line.context)
        line.socket = zmq_socket(line.context, ZMQ_REQ);
    if (!text || !line.socket)
        status = tool_fail(EX_UNAVAILABLE, "cannot open a socket: %s", strerror(errno));
    else if (monitor_open(&line.monitor, endpoint, ZMQ_REQ, false, keys, &error))
        status = tool_fail(EX_UNAVAILABLE, "%s", error.text);
    else
        status = exchange(&line, endpoint, timeout, text, reply);
    if (status == EX_OK)
        status = check(endpoint, reply);
    if (raw && json_is_object(reply->body))
        write_raw(&reply->text);
    monitor_close(&line.monitor);
    if (line.socket)
        zmq_close(line.socket);
    if (line.context)
        zmq_ctx_term(line.context);
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
