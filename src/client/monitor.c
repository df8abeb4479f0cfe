#include "monitor.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/keys.h"
#include "inquiry.h"

/* Shortest time between two inquiries about a peer, in seconds. */
#define ASK_AGAIN 5.0

enum {
    NAME_SIZE = 48,
    EVENTS = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
             ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
             ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
             ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL,
};

struct monitor {
    const char *endpoint;
    const struct key_client *keys;
    int type;
    bool binds;
    void *socket, *events;     /* NULL: no socket is watched */
    unsigned long long number; /* number of the socket: libzmq frees a monitor's name late */
    bool ready;                /* the newest connection has completed its handshake */
    bool explained;            /* the reason of its failed handshake is known or requested */
    bool unasked;              /* the inquiry could not start; inquire_again() retries it */
    bool dead;                 /* libzmq does not connect again */
    bool retried;              /* one more attempt was made since the last handshake */
    bool holds;
    struct monitor_event held; /* the next event to return */
    struct inquiry *inquiry;
    int over;     /* eventfd that signals the end of the inquiry */
    double asked; /* time of the last reason, CLOCK_MONOTONIC */
    struct finding reason;
};

int monitor_open(struct monitor **result, const char *endpoint, int type, bool binds,
                 const struct key_client *keys, struct error *error) {
    struct monitor *monitor = *result = calloc(1, sizeof *monitor);
    if (!monitor)
        return error_set(error, EX_UNAVAILABLE, "out of memory");
    monitor->endpoint = endpoint;
    monitor->keys = keys;
    monitor->type = type;
    monitor->binds = binds;
    monitor->asked = -ASK_AGAIN;
    monitor->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (monitor->over >= 0)
        return 0;
    int reason = errno;
    monitor_close(result);
    return error_set(error, EX_UNAVAILABLE, "cannot monitor the connection: %s", strerror(reason));
}

void monitor_close(struct monitor **pointer) {
    struct monitor *monitor = *pointer;
    if (!monitor)
        return;
    monitor_detach(monitor);
    inquiry_close(&monitor->inquiry);
    if (monitor->over >= 0)
        close(monitor->over);
    free(monitor);
    *pointer = NULL;
}

int monitor_attach(struct monitor *monitor, void *context, void *socket) {
    const int zero = 0;
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "inproc://monitor-%p-%llu", (void *)monitor, monitor->number++);
    if (zmq_socket_monitor(socket, name, EVENTS) < 0)
        return -1;
    monitor->socket = socket;
    monitor->ready = monitor->explained = monitor->dead = false;
    monitor->events = zmq_socket(context, ZMQ_PAIR);
    if (monitor->events && zmq_setsockopt(monitor->events, ZMQ_LINGER, &zero, sizeof zero) == 0 &&
        zmq_connect(monitor->events, name) == 0)
        return 0;
    int reason = errno;
    monitor_detach(monitor);
    errno = reason;
    return -1;
}

/* The events socket is closed second: otherwise libzmq's last events would have no reader. */
void monitor_detach(struct monitor *monitor) {
    if (monitor->socket)
        zmq_socket_monitor(monitor->socket, NULL, 0);
    if (monitor->events)
        zmq_close(monitor->events);
    monitor->socket = monitor->events = NULL;
}

void monitor_items(const struct monitor *monitor, zmq_pollitem_t items[MONITOR_ITEMS]) {
    items[0] = items[1] = (zmq_pollitem_t){.fd = monitor->over, .events = ZMQ_POLLIN};
    if (monitor->events)
        items[1] = (zmq_pollitem_t){.socket = monitor->events, .events = ZMQ_POLLIN};
}

void monitor_descriptors(const struct monitor *monitor, int descriptors[MONITOR_DESCRIPTORS]) {
    size_t size = sizeof *descriptors;
    descriptors[0] = monitor->over;
    zmq_getsockopt(monitor->events, ZMQ_FD, &descriptors[1], &size);
}

static bool report(struct monitor *monitor, struct monitor_event *event, bool final,
                   const char *why) {
    monitor->reason.kind = final ? FINDING_REFUSED : FINDING_HINDERED;
    snprintf(monitor->reason.why, sizeof monitor->reason.why, "%s", why);
    monitor->explained = true;
    monitor->asked = clock_seconds();
    event->kind = final ? MONITOR_REFUSED : MONITOR_HINDERED;
    return true;
}

/* A handshake failed without a reason. An inquiry cannot connect to the peers of a bound socket,
   so their reason is guessed from the configuration. */
static bool inquire_once(struct monitor *monitor, struct monitor_event *event) {
    bool asked_before = monitor->explained;
    monitor->explained = true;
    if (asked_before)
        return false;
    if (monitor->binds)
        return report(
            monitor, event, false,
            monitor->keys->on
                ? "the connecting peer aborts the handshake: --server-key is not its public "
                  "key, or it is not runneld"
                : "the connecting peer aborts the handshake: a daemon with keys requires "
                  "--server-key here");
    if (monitor->inquiry || (!monitor->dead && clock_seconds() - monitor->asked < ASK_AGAIN))
        return false;
    monitor->unasked = inquiry_open(&monitor->inquiry, monitor->endpoint, monitor->type,
                                    monitor->keys, monitor->over) < 0;
    return monitor->unasked && report(monitor, event, false,
                                      "the peer aborts the handshake, and the inquiry for the "
                                      "reason failed");
}

/* Retry an inquiry that could not start. */
static bool inquire_again(struct monitor *monitor, struct monitor_event *event) {
    if (!monitor->unasked || clock_seconds() - monitor->asked < ASK_AGAIN)
        return false;
    monitor->explained = false;
    return inquire_once(monitor, event);
}

static bool process(struct monitor *monitor, struct monitor_event *event, uint16_t what,
                    int32_t value) {
    *event = (struct monitor_event){.descriptor = value};
    switch (what) {
    case ZMQ_EVENT_CONNECTED:
    case ZMQ_EVENT_ACCEPTED:
        monitor->ready = monitor->explained = monitor->unasked = monitor->dead = false;
        event->kind = MONITOR_OPENED;
        return true;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        monitor->ready = true;
        monitor->retried = false;
        monitor->reason.kind = FINDING_NOTHING;
        event->kind = MONITOR_READY;
        return true;
    case ZMQ_EVENT_DISCONNECTED:
        event->kind = MONITOR_CLOSED;
        if (monitor->ready || monitor->explained || monitor->binds)
            return true;
        /* Sockets of kinds that do not match close silently, and libzmq does not connect again.
           Other reasons were reported before. */
        monitor->dead = true;
        monitor->held = *event;
        if (inquire_once(monitor, event))
            monitor->holds = true;
        return true;
    case ZMQ_EVENT_CLOSED:
    /* reported alone if no socket was created: no such host, or no descriptor left */
    case ZMQ_EVENT_CONNECT_RETRIED:
        event->kind = MONITOR_MISSED;
        return true;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return report(monitor, event, true, finding_denied);
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
            return report(monitor, event, true,
                          monitor->keys->on ? finding_without_keys : finding_wants_keys);
        monitor->dead = true;
        return inquire_once(monitor, event);
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        return inquire_once(monitor, event);
    default:
        return false;
    }
}

/* A monitor's message is [u16 event, i32 value][endpoint]. */
static bool receive(struct monitor *monitor, uint16_t *what, int32_t *value) {
    unsigned char frame[sizeof *what + sizeof *value], address[1];
    if (!monitor->events ||
        zmq_recv(monitor->events, frame, sizeof frame, ZMQ_DONTWAIT) != (int)sizeof frame)
        return false;
    memcpy(what, frame, sizeof *what);
    memcpy(value, frame + sizeof *what, sizeof *value);
    zmq_recv(monitor->events, address, sizeof address, ZMQ_DONTWAIT);
    return true;
}

/* libzmq has stopped connecting without a known reason. Connect once more: the peer may have
   changed. */
static bool connect_again(struct monitor *monitor, struct monitor_event *event) {
    if (monitor->retried)
        return report(monitor, event, true, "the peer aborts the handshake without a reason");
    monitor->retried = true;
    monitor->dead = false;
    zmq_disconnect(monitor->socket, monitor->endpoint);
    zmq_connect(monitor->socket, monitor->endpoint);
    return false;
}

/* The inquiry is complete. Its result is dropped if a handshake has succeeded in the meantime. */
static bool process_finding(struct monitor *monitor, struct monitor_event *event) {
    const struct finding *finding = monitor->inquiry ? inquiry_finding(monitor->inquiry) : NULL;
    bool reported = false;
    if (!finding)
        return false;
    if (!monitor->ready && finding->kind != FINDING_NOTHING)
        reported = report(monitor, event, finding->kind == FINDING_REFUSED, finding->why);
    bool renew = monitor->dead && monitor->socket && (!reported || event->kind == MONITOR_HINDERED);
    inquiry_close(&monitor->inquiry);
    return renew ? connect_again(monitor, event) || reported : reported;
}

bool monitor_next(struct monitor *monitor, struct monitor_event *event) {
    uint16_t what;
    int32_t value;
    if (monitor->holds) {
        *event = monitor->held;
        monitor->holds = false;
        return true;
    }
    while (receive(monitor, &what, &value))
        if (process(monitor, event, what, value))
            return true;
    return process_finding(monitor, event) || inquire_again(monitor, event);
}

const char *monitor_reason(const struct monitor *monitor) {
    return monitor->reason.kind == FINDING_NOTHING ? NULL : monitor->reason.why;
}
