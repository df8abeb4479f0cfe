/* Feeding (runnel.h): one object for both ways of sending. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "monitor.h"
#include "peer.h"
#include "send.h"
#include "send_router.h"

/* ---- Push ----

   A PUSH socket for examples. If the daemon is slow or absent, a bounded queue fills up, and
   sending waits. Examples that have left the queue are lost if the daemon ends before it has read
   them. ZeroMQ does not report their number, so only the loss of the connection is reported. */

enum { CONNECTIONS_MAX = 64 }; /* connections whose delivery is checked at the end */

/* A daemon that has refused this client reads only data that it had already received. */
#define REFUSED_SECONDS 5.0

struct push {
    const struct peer *peer;
    void *context, *socket;
    struct monitor *monitor;
    const struct send_hooks *hooks;
    bool binds;
    bool refused; /* permanently, on the only connection: see monitor_reason */
    bool hindrance_reported;
    bool cut_off;  /* the newest message is incomplete: no other can follow */
    int peers;     /* connections with a completed handshake */
    bool underway; /* the current peers may not have read everything sent */
    struct {
        int descriptor; /* libzmq's own */
        int copy;       /* our copy while closing; -1: none */
        bool peer;
    } connections[CONNECTIONS_MAX]; /* ordered by their beginnings */
    size_t connection_count;
};

static int set(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

/* Whether the connection had a peer. A connection that did not fit into the table had one. */
static bool forget_connection(struct push *push, int descriptor) {
    for (size_t i = 0; i < push->connection_count; i++) {
        if (push->connections[i].descriptor != descriptor)
            continue;
        bool peer = push->connections[i].peer;
        if (push->connections[i].copy >= 0)
            close(push->connections[i].copy);
        push->connection_count--;
        memmove(&push->connections[i], &push->connections[i + 1],
                (push->connection_count - i) * sizeof push->connections[i]);
        return peer;
    }
    return true;
}

/* The monitor does not report which connection completed its handshake. Handshakes that do not
   complete at once rarely complete at all, so it is the newest connection without one. */
static void add_peer(struct push *push) {
    push->peers++;
    for (size_t i = push->connection_count; i > 0; i--)
        if (!push->connections[i - 1].peer) {
            push->connections[i - 1].peer = true;
            return;
        }
}

/* A peer has disconnected; messages that it had not read are lost. */
static void lose(struct push *push) {
    if (push->underway)
        send_report(push->hooks, &(struct runnel_report){.kind = RUNNEL_REPORT_LOST});
    push->underway = push->underway && push->peers > 0;
}

static void report_hindrance(struct push *push) {
    if (!push->hindrance_reported)
        send_report(push->hooks, &(struct runnel_report){.kind = RUNNEL_REPORT_HINDERED,
                                                         .why = monitor_reason(push->monitor)});
    push->hindrance_reported = true;
}

static void add_connection(struct push *push, int descriptor) {
    forget_connection(push, descriptor);
    if (push->connection_count == CONNECTIONS_MAX)
        return;
    size_t last = push->connection_count++;
    push->connections[last].descriptor = descriptor;
    push->connections[last].copy = -1;
    push->connections[last].peer = false;
}

static void end_connection(struct push *push, int descriptor) {
    if (!forget_connection(push, descriptor))
        return;
    push->peers -= push->peers > 0;
    lose(push);
}

/* Process the monitor's events. A bound socket continues to wait for other peers. */
static void process_events(struct push *push) {
    struct monitor_event event;
    while (monitor_next(push->monitor, &event))
        switch (event.kind) {
        case MONITOR_OPENED:
            add_connection(push, event.descriptor);
            break;
        case MONITOR_READY:
            add_peer(push);
            break;
        case MONITOR_CLOSED:
            end_connection(push, event.descriptor);
            break;
        case MONITOR_REFUSED:
            push->refused |= !push->binds;
            if (push->binds)
                report_hindrance(push);
            break;
        case MONITOR_HINDERED:
            report_hindrance(push);
            break;
        case MONITOR_MISSED:
            break;
        }
}

/* Wait for the monitor, for room in the queue (`room`), or for `other`. */
static int await(struct push *push, double seconds, bool room, struct send_other *other,
                 struct error *error) {
    zmq_pollitem_t items[MONITOR_ITEMS + 2] = {
        [MONITOR_ITEMS] = {.socket = push->socket, .events = ZMQ_POLLOUT}};
    monitor_items(push->monitor, items);
    if (send_wait(items, MONITOR_ITEMS + room, other, seconds) < 0)
        return error_set(error, EX_IOERR, "%s: cannot wait: %s", push->peer->endpoint,
                         zmq_strerror(errno));
    process_events(push);
    return 0;
}

static int check(const struct push *push, struct error *error) {
    return push->refused ? error_set(error, EX_UNAVAILABLE, "%s: %s", push->peer->endpoint,
                                     monitor_reason(push->monitor))
                         : 0;
}

/* Process connections and disconnections, for at most `seconds`, or until `other` (NULL: none)
   is ready. EX_UNAVAILABLE: the daemon permanently refuses this client. */
static int push_poll(struct push *push, double seconds, struct send_other *other,
                     struct error *error) {
    process_events(push);
    return (seconds > 0 || other) && await(push, seconds, false, other, error) < 0
               ? -1
               : check(push, error);
}

static int tick(struct push *push, struct error *error) {
    if (await(push, SEND_TICK_SECONDS, true, NULL, error) < 0)
        return -1;
    int status = send_tick(push->hooks, push->peers > 0, error);
    return check(push, error) < 0 ? -1 : status;
}

/* Queue the example, waiting while the queue is full. RUNNEL_STOPPED if a tick ends the wait:
   then the example was not sent. */
static int push_send(struct push *push, const struct runnel_example *e, struct error *error) {
    unsigned char header[SEND_HEADER_SIZE];
    struct frames frames;
    int sent = -1;
    frames_make(&frames, e, e->headed, push->hooks->producer, header);
    errno = EPIPE;
    while (!push->cut_off && (sent = frames_send(&frames, push->socket)) == 0)
        if (tick(push, error) < 0)
            return -1;
    push->underway = true;
    push->cut_off = sent < 0;
    return sent < 0 ? error_set(error, EX_IOERR, "%s: cannot send: %s", push->peer->endpoint,
                                zmq_strerror(errno))
                    : 0;
}

/* Duplicate the descriptors of the connections, so that libzmq's close does not end them. A
   daemon whose queue is full does not read, and its libzmq discards unread data of a connection
   that is closed on both sides. libzmq reports the end of a connection before it closes the
   descriptor, so no descriptor here belongs to something else. */
static void keep_connections(struct push *push) {
    for (size_t i = 0; i < push->connection_count; i++)
        push->connections[i].copy = fcntl(push->connections[i].descriptor, F_DUPFD_CLOEXEC, 0);
    process_events(push);
}

static int give_up(const struct push *push, struct error *error) {
    if (push->peers == 0)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: no peer is connected; an unknown number of the newest examples "
                         "was lost",
                         push->peer->endpoint);
    return error_set(error, EX_UNAVAILABLE,
                     "%s: timed out before the newest examples were "
                     "delivered",
                     push->peer->endpoint);
}

static bool is_stopped(const struct push *push) {
    struct error ignored;
    return send_tick(push->hooks, push->peers > 0, &ignored) < 0;
}

/* Terminate the context, which hands queued messages to the network. A signal interrupts it. */
static int drain(struct push *push, double until, struct error *error) {
    while (zmq_ctx_term(push->context) < 0)
        if (is_stopped(push))
            return give_up(push, error);
    return clock_seconds() < until ? 0 : give_up(push, error);
}

/* Read data of the peer, for example a heartbeat. */
enum reading { OPEN, CLOSED, BROKEN };
static enum reading read_on(int connection) {
    enum { TRASH = 256 };
    char ignored[TRASH];
    ssize_t got;
    do
        got = recv(connection, ignored, sizeof ignored, MSG_DONTWAIT);
    while (got > 0 || (got < 0 && errno == EINTR));
    if (got == 0)
        return CLOSED;
    return errno == EAGAIN ? OPEN : BROKEN;
}

/* Shut down our side, and read until the peer closes the connection: it has then read
   everything. A peer that closed or broke the connection earlier has not read everything. A
   connection without a handshake carried no examples. */
static int await_close(struct push *push, size_t which, double until, struct error *error) {
    int connection = push->connections[which].copy;
    bool peer = push->connections[which].peer;
    struct pollfd item = {.fd = connection, .events = POLLIN};
    enum reading reading = read_on(connection);
    if (reading != OPEN) {
        if (peer)
            lose(push);
        return 0;
    }
    shutdown(connection, SHUT_WR);
    while (clock_seconds() < until) {
        if (poll(&item, 1, clock_milliseconds(SEND_TICK_SECONDS)) > 0)
            reading = read_on(connection);
        if (reading == BROKEN && peer)
            lose(push);
        if (reading != OPEN)
            return 0;
        if (is_stopped(push))
            break;
    }
    return give_up(push, error);
}

/* Close the socket after everything was handed to the network and read, or after `linger` seconds,
   or when a tick ends the wait: then -1 (EX_UNAVAILABLE), and the newest examples may be lost. */
static int push_close(struct push **pointer, double linger, struct error *error) {
    struct push *push = *pointer;
    if (!push)
        return 0;
    int status = 0;
    if (push->monitor) {
        process_events(push);
        if (push->refused)
            linger = push->peers > 0 ? fmin(linger, REFUSED_SECONDS) : 0;
        keep_connections(push);
        monitor_close(&push->monitor);
    }
    if (push->socket) {
        set(push->socket, ZMQ_LINGER, isfinite(linger) ? clock_milliseconds(linger) : -1);
        zmq_close(push->socket);
    }
    double until = clock_seconds() + linger;
    if (push->context)
        status = drain(push, until, error);
    for (size_t i = 0; i < push->connection_count; i++) {
        int copy = push->connections[i].copy;
        if (copy < 0)
            continue;
        if (status == 0)
            status = await_close(push, i, until, error);
        close(copy);
    }
    free(push);
    *pointer = NULL;
    return status;
}

/* Open the socket and connect or bind it. Peer and hooks must outlive it. Errors: EX_USAGE for
   an invalid endpoint, EX_UNAVAILABLE for one that is not available. */
static int push_open(struct push **result, const struct peer *peer, bool bind,
                     const struct send_hooks *hooks, struct error *error) {
    struct push *push = calloc(1, sizeof *push);
    struct error why;
    *result = push;
    if (!push)
        return error_no_memory(error);
    push->peer = peer;
    push->hooks = hooks;
    push->binds = bind;
    if (monitor_open(&push->monitor, peer->endpoint, ZMQ_PUSH, bind, &peer->keys, &why) < 0)
        error_set(error, EX_OSERR, "%s", why.text);
    else if (!(push->context = zmq_ctx_new()) ||
             !(push->socket = zmq_socket(push->context, ZMQ_PUSH)) ||
             peer_set_sending(push->peer, push->socket) < 0 ||
             monitor_attach(push->monitor, push->context, push->socket) < 0)
        error_set(error, EX_OSERR, "cannot open a ZeroMQ socket: %s", zmq_strerror(errno));
    else if (send_attach(peer, push->socket, bind, error) == 0)
        return 0;
    push_close(result, 0, &why);
    return -1;
}

struct runnel_sender {
    struct peer peer;
    struct send_hooks hooks;
    struct push *push; /* one of push and router is set */
    struct router *router;
    struct runnel_counts counts;
};

static int fail(struct runnel_error *error, const struct error *why) {
    return peer_fail(error, why->status, "%s", why->text);
}

int runnel_sender_open(struct runnel_sender **sender, const struct runnel_peer *peer,
                       const struct runnel_sender_options *options, struct runnel_error *error) {
    static const struct runnel_sender_options preset = {.kind = RUNNEL_PUSH};
    const struct runnel_sender_options *o = options ? options : &preset;
    struct runnel_sender *s = *sender = calloc(1, sizeof *s);
    struct error why;
    if (!s)
        return peer_fail(error, EX_OSERR, "out of memory");
    s->hooks = (struct send_hooks){o->report, o->tick, o->context, 0};
    int status = -1;
    if (o->kind == RUNNEL_ROUTER && o->bind)
        peer_fail(error, EX_USAGE,
                  "--bind cannot be combined with --socket router, which connects to the daemon");
    else if (peer_open(&s->peer, peer, error) == 0) {
        status = o->kind == RUNNEL_ROUTER
                     ? router_open(&s->router, &s->peer, o->window, &s->hooks, &s->counts, &why)
                     : push_open(&s->push, &s->peer, o->bind, &s->hooks, &why);
        if (status < 0)
            fail(error, &why);
    }
    if (status < 0)
        runnel_sender_close(sender, 0, NULL);
    return status;
}

uint64_t runnel_producer(void) {
    uint64_t producer = 0;
    while (producer == 0)
        if (getrandom(&producer, sizeof producer, 0) != sizeof producer)
            producer = 0;
    return producer;
}

void runnel_sender_identify(struct runnel_sender *s, uint64_t producer) {
    s->hooks.producer = producer;
}

bool runnel_sender_connected(const struct runnel_sender *s) {
    return s->router ? router_connected(s->router) : s->push->peers > 0;
}

int runnel_sender_poll(struct runnel_sender *s, double seconds, struct runnel_error *error) {
    struct error why;
    int status = s->router ? router_poll(s->router, seconds, NULL, &why)
                           : push_poll(s->push, seconds, NULL, &why);
    return status < 0 ? fail(error, &why) : 0;
}

int runnel_sender_poll_with(struct runnel_sender *s, int descriptor, bool writable, double seconds,
                            struct runnel_error *error) {
    struct send_other other = {.descriptor = descriptor, .writable = writable};
    struct error why;
    int status = s->router ? router_poll(s->router, seconds, &other, &why)
                           : push_poll(s->push, seconds, &other, &why);
    return status < 0 ? fail(error, &why) : other.ready;
}

uint64_t runnel_sender_settled(const struct runnel_sender *s) {
    return s->router ? router_settled(s->router) : s->counts.sent;
}

int runnel_sender_wait(struct runnel_sender *s, double seconds, struct runnel_error *error) {
    double until = clock_seconds() + seconds, left = seconds;
    struct error why;
    if (runnel_sender_poll(s, 0, error))
        return -1;
    for (; !runnel_sender_connected(s); left = until - clock_seconds()) {
        if (left <= 0)
            return peer_fail(error, EX_UNAVAILABLE,
                             "no daemon answers at %s (timed out after %g s); start runneld, or "
                             "use --connect with its examples socket",
                             s->peer.endpoint, seconds);
        if (runnel_sender_poll(s, fmin(left, SEND_TICK_SECONDS), error))
            return -1;
        if (send_tick(&s->hooks, runnel_sender_connected(s), &why))
            return fail(error, &why);
    }
    return 0;
}

int runnel_send(struct runnel_sender *s, const struct runnel_example *example,
                struct runnel_error *error) {
    struct error why;
    int status =
        s->router ? router_send(s->router, example, &why) : push_send(s->push, example, &why);
    if (status < 0)
        return fail(error, &why);
    s->counts.sent++;
    return 0;
}

int runnel_sender_schema(struct runnel_sender *s, const char *text, struct runnel_error *error) {
    const struct runnel_example example = {.json = text, .json_size = strlen(text)};
    struct error why;
    int status =
        s->router ? router_schema(s->router, text, &why) : push_send(s->push, &example, &why);
    return status < 0 ? fail(error, &why) : 0;
}

const struct runnel_counts *runnel_sender_counts(const struct runnel_sender *s) {
    return &s->counts;
}

int runnel_sender_flush(struct runnel_sender *s, double seconds, struct runnel_error *error) {
    struct error why;
    return s->router && router_flush(s->router, seconds, &why) < 0 ? fail(error, &why) : 0;
}

int runnel_sender_close(struct runnel_sender **sender, double linger, struct runnel_error *error) {
    struct runnel_sender *s = *sender;
    struct error why;
    int status = 0;
    if (!s)
        return 0;
    if (s->router)
        status = router_flush(s->router, linger, &why);
    if (status < 0 && why.status == RUNNEL_STOPPED)
        status = router_flush(s->router, 0, &why); /* the error contains their number */
    if (s->push)
        status = push_close(&s->push, linger, &why);
    router_close(&s->router);
    if (status < 0)
        fail(error, &why);
    peer_close(&s->peer);
    free(s);
    *sender = NULL;
    return status;
}
