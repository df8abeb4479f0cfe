/* Successive requests to a daemon's control socket (runnel.h, "asking and commanding"). */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/wire.h"
#include "monitor.h"
#include "peer.h"

#define LOST_SECONDS 0.5 /* answers sent before the end of the connection may still arrive */

/* Connect quickly to a daemon that is just starting, and rarely to one that refuses. */
enum { RECONNECT_MS = 20, RECONNECT_HINDERED_MS = 1000, FRAMES = 2 };

enum stage { STAGE_SEND, STAGE_AWAIT, STAGE_OVER };

struct runnel_request {
    struct peer peer;
    void *context, *socket;
    struct monitor *monitor;
    int descriptor; /* epoll descriptor of socket and monitor */
    bool refused;   /* permanently */
    bool hindered;  /* connects less often */
    bool lost;      /* the connection that carried the request has ended */
    enum stage stage;
    bool sent;
    char *text;
    double seconds, deadline; /* clock_seconds() of the deadline */
    zmq_msg_t frames[FRAMES]; /* frames of the reply */
    bool has_bytes;
    char *reply; /* the first frame, with a NUL */
    json_t *json;
};

/* ZMQ_IMMEDIATE sends a request only over a completed connection. */
static int set_options(struct runnel_request *r) {
    const int one = 1, again = RECONNECT_MS;
    return peer_set_options(&r->peer, r->socket) ||
           zmq_setsockopt(r->socket, ZMQ_IMMEDIATE, &one, sizeof one) ||
           zmq_setsockopt(r->socket, ZMQ_RECONNECT_IVL, &again, sizeof again);
}

static int gather(struct runnel_request *r) {
    int all[MONITOR_DESCRIPTORS + 1] = {peer_descriptor(r->socket)};
    monitor_descriptors(r->monitor, all + 1);
    r->descriptor = peer_gather(all, sizeof all / sizeof *all);
    return r->descriptor < 0 ? -1 : 0;
}

static int begin(struct runnel_request *r, struct runnel_error *error) {
    struct error why;
    r->context = zmq_ctx_new();
    r->socket = r->context ? zmq_socket(r->context, ZMQ_REQ) : NULL;
    if (!r->socket || set_options(r))
        return peer_fail(error, EX_UNAVAILABLE, "cannot open a socket: %s", zmq_strerror(errno));
    if (monitor_open(&r->monitor, r->peer.endpoint, ZMQ_REQ, false, &r->peer.keys, &why))
        return peer_fail(error, why.status, "%s", why.text);
    if (monitor_attach(r->monitor, r->context, r->socket) || gather(r))
        return peer_fail(error, EX_UNAVAILABLE, "cannot monitor the socket: %s",
                         zmq_strerror(errno));
    return peer_connect(&r->peer, r->socket, RUNNEL_CONTROL " or ipc:///run/runnel/control", error);
}

int runnel_request_open(struct runnel_request **request, const struct runnel_peer *peer,
                        const char *text, double seconds, struct runnel_error *error) {
    struct runnel_request *r = *request = calloc(1, sizeof *r);
    if (!r)
        return peer_fail(error, EX_UNAVAILABLE, "out of memory");
    r->descriptor = -1;
    for (int i = 0; i < FRAMES; i++)
        zmq_msg_init(&r->frames[i]);
    if (peer_open(&r->peer, peer, error) == 0 && begin(r, error) == 0 &&
        runnel_request_again(r, text, seconds, error) == 0)
        return 0;
    runnel_request_close(request);
    return -1;
}

static void drop_reply(struct runnel_request *r) {
    for (int i = 0; i < FRAMES; i++) {
        zmq_msg_close(&r->frames[i]);
        zmq_msg_init(&r->frames[i]);
    }
    json_decref(r->json);
    free(r->reply);
    r->json = NULL;
    r->reply = NULL;
    r->has_bytes = false;
}

/* Send the request once connected. */
static void send_text(struct runnel_request *r) {
    if (r->stage != STAGE_SEND || zmq_send(r->socket, r->text, strlen(r->text), ZMQ_DONTWAIT) < 0)
        return;
    r->sent = true;
    r->stage = STAGE_AWAIT;
}

/* libzmq reads the interval when it connects, and does not lengthen it if a connection succeeds
   and ends again. */
static void connect_less_often(struct runnel_request *r) {
    const int again = RECONNECT_HINDERED_MS;
    if (r->hindered || r->sent)
        return;
    r->hindered = true;
    zmq_disconnect(r->socket, r->peer.endpoint);
    zmq_setsockopt(r->socket, ZMQ_RECONNECT_IVL, &again, sizeof again);
    zmq_connect(r->socket, r->peer.endpoint);
}

static void process_events(struct runnel_request *r) {
    struct monitor_event event;
    while (monitor_next(r->monitor, &event)) {
        r->refused |= event.kind == MONITOR_REFUSED;
        if (event.kind == MONITOR_HINDERED)
            connect_less_often(r);
        if (event.kind == MONITOR_CLOSED && r->sent && !r->lost) {
            r->lost = true;
            r->deadline = fmin(r->deadline, clock_seconds() + LOST_SECONDS);
        }
    }
}

int runnel_request_again(struct runnel_request *r, const char *text, double seconds,
                         struct runnel_error *error) {
    char *copy = strdup(text);
    if (!copy)
        return peer_fail(error, EX_UNAVAILABLE, "out of memory");
    drop_reply(r);
    process_events(r);
    free(r->text);
    r->text = copy;
    r->stage = STAGE_SEND;
    r->sent = r->lost = false;
    r->seconds = seconds;
    r->deadline = clock_seconds() + seconds;
    send_text(r);
    return 0;
}

void runnel_request_close(struct runnel_request **request) {
    struct runnel_request *r = *request;
    if (!r)
        return;
    if (r->descriptor >= 0)
        close(r->descriptor);
    drop_reply(r);
    monitor_close(&r->monitor);
    if (r->socket)
        zmq_close(r->socket);
    if (r->context)
        while (zmq_ctx_term(r->context) < 0 && errno == EINTR)
            ;
    free(r->text);
    peer_close(&r->peer);
    free(r);
    *request = NULL;
}

int runnel_request_descriptor(const struct runnel_request *r) {
    return r->descriptor;
}

double runnel_request_left(const struct runnel_request *r) {
    return r->deadline - clock_seconds();
}

bool runnel_request_sent(const struct runnel_request *r) {
    return r->sent;
}

/* Receive all frames of the reply, if it has arrived. Frames after the second are dropped. */
static bool receive(struct runnel_request *r) {
    zmq_msg_t surplus;
    zmq_msg_init(&surplus);
    int count = 0;
    for (bool more = true; more; count++) {
        zmq_msg_t *frame = count < FRAMES ? &r->frames[count] : &surplus;
        if (zmq_msg_recv(frame, r->socket, ZMQ_DONTWAIT) < 0)
            break;
        more = zmq_msg_more(frame);
    }
    zmq_msg_close(&surplus);
    r->has_bytes = count > 1;
    return count > 0;
}

/* A valid reply is an object that contains the outcome, and the reason of a failure. */
static int check(struct runnel_request *r, struct runnel_reply *reply, struct runnel_error *error) {
    size_t size = zmq_msg_size(&r->frames[0]);
    r->reply = malloc(size + 1);
    if (!r->reply)
        return peer_fail(error, EX_UNAVAILABLE, "out of memory");
    memcpy(r->reply, zmq_msg_data(&r->frames[0]), size);
    r->reply[size] = '\0';
    r->json = json_loadb(r->reply, size, 0, NULL);
    if (json_is_object(r->json)) {
        *reply = (struct runnel_reply){.text = r->reply, .size = size, .json = r->json};
        reply->bytes = r->has_bytes ? zmq_msg_data(&r->frames[1]) : NULL;
        reply->bytes_size = zmq_msg_size(&r->frames[1]);
    }
    const json_t *ok = json_object_get(r->json, "ok");
    if (!json_is_boolean(ok))
        return peer_fail(error, EX_UNAVAILABLE,
                         "the peer at %s is not runneld's control socket, by default "
                         "tcp://127.0.0.1:5572",
                         r->peer.endpoint);
    if (json_is_true(ok))
        return 1;
    const char *why = json_string_value(json_object_get(r->json, "error"));
    return peer_fail(error, EX_SOFTWARE, "%s",
                     why ? why : "the daemon rejected the request without a reason");
}

/* The request has timed out or was refused. */
static int give_up(struct runnel_request *r, struct runnel_error *error) {
    const char *endpoint = r->peer.endpoint, *reason = monitor_reason(r->monitor);
    if (r->lost)
        return peer_fail(error, EX_UNAVAILABLE,
                         "%s: connection closed before the answer; the request may have been "
                         "executed",
                         endpoint);
    if (r->sent)
        return peer_fail(error, EX_UNAVAILABLE,
                         "%s: no answer within %g s; the daemon may be busy (use a longer "
                         "--timeout), or the peer is not runneld",
                         endpoint, r->seconds);
    if (reason)
        return peer_fail(error, EX_UNAVAILABLE, "%s: %s", endpoint, reason);
    reason = wire_unreachable(endpoint);
    return peer_fail(
        error, EX_UNAVAILABLE,
        "no daemon answers at %s (%s%stimed out after %g s); start runneld, or use --connect "
        "with its control socket",
        endpoint, reason ? reason : "", reason ? "; " : "", r->seconds);
}

int runnel_request_next(struct runnel_request *r, struct runnel_reply *reply,
                        struct runnel_error *error) {
    *reply = (struct runnel_reply){0};
    process_events(r);
    send_text(r);
    int status = 0;
    if (r->stage == STAGE_AWAIT && receive(r))
        status = check(r, reply, error);
    else if (r->stage != STAGE_OVER && (r->refused || runnel_request_left(r) <= 0))
        status = give_up(r, error);
    if (status)
        r->stage = STAGE_OVER;
    return status;
}

int runnel_request_wait(struct runnel_request *r, struct runnel_reply *reply,
                        struct runnel_error *error) {
    int status;
    while ((status = runnel_request_next(r, reply, error)) == 0) {
        struct pollfd item = {.fd = r->descriptor, .events = POLLIN};
        poll(&item, 1, clock_milliseconds(runnel_request_left(r)));
    }
    return status < 0 ? -1 : 0;
}
