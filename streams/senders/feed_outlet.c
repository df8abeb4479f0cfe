#include "feed_outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "client/monitor.h"
#include "common/clock.h"
#include "common/error.h"
#include "streams/feed.h"

/* Examples that may wait here while the daemon is busy: enough to keep the network full, little
   enough to be taken again quickly. */
enum { QUEUE_EXAMPLES = 1000, KEEPALIVE_SECONDS = 60 };

enum { CONNECTIONS_MAX = 64 }; /* whose delivery is watched at the end */

struct outlet {
    const char *endpoint;
    void *context, *socket;
    struct monitor *monitor;
    struct outlet_waiter waiter;
    bool binds;
    bool refused; /* for good, this outlet's only connection: monitor_reason */
    bool hindrance_said;
    int peers;     /* whose handshake is done */
    bool underway; /* something was sent that the peers of now may not have read */
    struct {
        int descriptor; /* libzmq's own until closing */
        bool peer;
    } connections[CONNECTIONS_MAX]; /* in the order of their coming */
    size_t connection_count;
};

static int set(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

/* No heartbeats: a daemon that lets its feeders wait does not read, their answers neither, and the
   connection would be cut with examples in it. TCP notices by itself when a machine is gone.
   IPv6 only where the endpoint asks for it: a name such as localhost must not lead to ::1 when the
   daemon listens at 127.0.0.1. */
static int set_options(void *socket, const char *endpoint) {
    return set(socket, ZMQ_SNDHWM, QUEUE_EXAMPLES) || set(socket, ZMQ_LINGER, 0) ||
                   set(socket, ZMQ_TCP_KEEPALIVE, 1) ||
                   set(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_SECONDS) ||
                   set(socket, ZMQ_IPV6, strchr(endpoint, '[') != NULL)
               ? -1
               : 0;
}

static int attach(struct outlet *outlet, bool bind, struct error *error) {
    if ((bind ? zmq_bind : zmq_connect)(outlet->socket, outlet->endpoint) == 0)
        return 0;
    int reason = errno;
    if (reason == EINVAL || reason == EPROTONOSUPPORT || reason == ENOCOMPATPROTO)
        return error_set(error, EX_USAGE,
                         "--%s: '%s' is no endpoint; expected tcp://HOST:PORT or ipc://PATH",
                         bind ? "bind" : "connect", outlet->endpoint);
    return error_set(error, EX_UNAVAILABLE, "%s: cannot be %s: %s", outlet->endpoint,
                     bind ? "bound" : "connected", zmq_strerror(reason));
}

int outlet_open(struct outlet **result, const char *endpoint, bool bind,
                const struct key_client *keys, const struct outlet_waiter *waiter,
                struct error *error) {
    struct outlet *outlet = calloc(1, sizeof *outlet);
    *result = outlet;
    if (!outlet)
        return error_no_memory(error);
    outlet->endpoint = endpoint;
    outlet->binds = bind;
    outlet->waiter = *waiter;
    outlet->context = zmq_ctx_new();
    outlet->socket = outlet->context ? zmq_socket(outlet->context, ZMQ_PUSH) : NULL;
    struct error why;
    if (monitor_open(&outlet->monitor, endpoint, ZMQ_PUSH, bind, keys, &why) < 0)
        error_set(error, EX_OSERR, "%s", why.text);
    else if (!outlet->socket || set_options(outlet->socket, endpoint) < 0 ||
             keys_apply(keys, outlet->socket) < 0 ||
             monitor_attach(outlet->monitor, outlet->context, outlet->socket) < 0)
        error_set(error, EX_OSERR, "ZeroMQ cannot open a socket: %s", zmq_strerror(errno));
    else if (attach(outlet, bind, error) == 0)
        return 0;
    struct error ignored;
    outlet_close(result, 0, &ignored);
    return -1;
}

/* Whether it was a peer's; one that there was no place to keep was. */
static bool forget_connection(struct outlet *outlet, int descriptor) {
    for (size_t i = 0; i < outlet->connection_count; i++) {
        if (outlet->connections[i].descriptor != descriptor)
            continue;
        bool peer = outlet->connections[i].peer;
        outlet->connection_count--;
        memmove(&outlet->connections[i], &outlet->connections[i + 1],
                (outlet->connection_count - i) * sizeof outlet->connections[i]);
        return peer;
    }
    return true;
}

/* The monitor does not say whose handshake it was. One that is not done at once is seldom done at
   all: it was the newest connection's that waits for it. */
static void add_peer(struct outlet *outlet) {
    outlet->peers++;
    for (size_t i = outlet->connection_count; i > 0; i--)
        if (!outlet->connections[i - 1].peer) {
            outlet->connections[i - 1].peer = true;
            return;
        }
}

/* A peer is gone, and what it had not read is gone with it. */
static void lose(struct outlet *outlet) {
    if (outlet->underway)
        outlet->waiter.lost(outlet->waiter.context);
    outlet->underway = outlet->underway && outlet->peers > 0;
}

static void say_hindrance(struct outlet *outlet) {
    if (!outlet->hindrance_said)
        feed_say("%s: %s", outlet->endpoint, monitor_reason(outlet->monitor));
    outlet->hindrance_said = true;
}

static void add_connection(struct outlet *outlet, int descriptor) {
    forget_connection(outlet, descriptor);
    if (outlet->connection_count == CONNECTIONS_MAX)
        return;
    size_t last = outlet->connection_count++;
    outlet->connections[last].descriptor = descriptor;
    outlet->connections[last].peer = false;
}

static void end_connection(struct outlet *outlet, int descriptor) {
    if (!forget_connection(outlet, descriptor))
        return;
    outlet->peers -= outlet->peers > 0;
    lose(outlet);
}

/* Take in what the monitor has to say. A bound outlet goes on waiting for others. */
static void hear(struct outlet *outlet) {
    struct monitor_event event;
    while (monitor_next(outlet->monitor, &event))
        switch (event.kind) {
        case MONITOR_OPENED:
            add_connection(outlet, event.descriptor);
            break;
        case MONITOR_READY:
            add_peer(outlet);
            break;
        case MONITOR_CLOSED:
            end_connection(outlet, event.descriptor);
            break;
        case MONITOR_REFUSED:
            outlet->refused |= !outlet->binds;
            if (outlet->binds)
                say_hindrance(outlet);
            break;
        case MONITOR_HINDERED:
            say_hindrance(outlet);
            break;
        case MONITOR_MISSED:
            break;
        }
}

void outlet_listen(struct outlet *outlet) {
    hear(outlet);
}

/* Wait for one tick, or until the monitor or (`room`) the queue has something for us. */
static int tick(struct outlet *outlet, bool room, struct error *error) {
    zmq_pollitem_t items[MONITOR_ITEMS + 1] = {
        [MONITOR_ITEMS] = {.socket = outlet->socket, .events = ZMQ_POLLOUT}};
    monitor_items(outlet->monitor, items);
    if (zmq_poll(items, MONITOR_ITEMS + room, FEED_TICK_MS) < 0 && errno != EINTR)
        return error_set(error, EX_IOERR, "%s: waiting failed: %s", outlet->endpoint,
                         zmq_strerror(errno));
    hear(outlet);
    outlet->waiter.tick(outlet->waiter.context, outlet->peers > 0);
    if (outlet->refused)
        return error_set(error, EX_UNAVAILABLE, "%s: %s", outlet->endpoint,
                         monitor_reason(outlet->monitor));
    if (feed_signals)
        return error_set(error, FEED_INTERRUPTED, "interrupted");
    return 0;
}

int outlet_wait(struct outlet *outlet, double seconds, struct error *error) {
    double until = clock_seconds() + seconds;
    hear(outlet);
    while (outlet->peers == 0) {
        if (clock_seconds() >= until)
            return error_set(error, EX_UNAVAILABLE,
                             "%s: nobody was there within %g seconds; is runneld running?",
                             outlet->endpoint, seconds);
        if (tick(outlet, false, error) < 0)
            return -1;
    }
    return 0;
}

static int send_frame(struct outlet *outlet, const void *data, size_t size, int more,
                      struct error *error) {
    while (zmq_send(outlet->socket, data, size, more | ZMQ_DONTWAIT) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return error_set(error, EX_IOERR, "%s: sending failed: %s", outlet->endpoint,
                             zmq_strerror(errno));
        if (tick(outlet, true, error) < 0)
            return -1;
    }
    outlet->underway = true;
    return 0;
}

int outlet_send(struct outlet *outlet, const struct message *m, struct error *error) {
    if (m->json)
        return send_frame(outlet, m->json, m->json_size, 0, error);
    bool y = m->y || m->headed;
    unsigned char header[WIRE_HEADER_SIZE];
    if (send_frame(outlet, m->stream->key, m->stream->key_size, ZMQ_SNDMORE, error) < 0 ||
        send_frame(outlet, m->x, m->x_size, y ? ZMQ_SNDMORE : 0, error) < 0)
        return -1;
    if (y && send_frame(outlet, m->y ? m->y : "", m->y ? m->y_size : 0, m->headed ? ZMQ_SNDMORE : 0,
                        error) < 0)
        return -1;
    if (!m->headed)
        return 0;
    wire_header_pack(&m->header, header);
    return send_frame(outlet, header, sizeof header, 0, error);
}

/* Copies of the connections' descriptors, so that libzmq's close does not end them. A daemon whose
   queue is full does not read, and libzmq there throws away what it has not read of a connection
   that has been closed on both sides. */
static void keep_connections(struct outlet *outlet) {
    size_t kept = 0;
    for (size_t i = 0; i < outlet->connection_count; i++) {
        int copy = fcntl(outlet->connections[i].descriptor, F_DUPFD_CLOEXEC, 0);
        if (copy >= 0)
            outlet->connections[kept++].descriptor = copy;
    }
    outlet->connection_count = kept;
}

static int give_up(const struct outlet *outlet, struct error *error) {
    if (outlet->peers == 0)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: nobody is connected any more; the newest examples were not "
                         "delivered, and how many they are cannot be known",
                         outlet->endpoint);
    return error_set(error, EX_UNAVAILABLE, "%s: gave up before the newest examples were delivered",
                     outlet->endpoint);
}

/* Let go of the context: it hands what is queued to the network. */
static int drain(struct outlet *outlet, double until, sig_atomic_t signals, struct error *error) {
    while (zmq_ctx_term(outlet->context) < 0)
        if (feed_signals != signals)
            return give_up(outlet, error);
    return clock_seconds() < until ? 0 : give_up(outlet, error);
}

/* Read what the other side sends, a heartbeat perhaps. */
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

/* Say that there is no more, and read until the other side, which has then read everything, closes
   the connection. One that was closed before, or is broken, has not waited for everything. */
static int await_close(struct outlet *outlet, int connection, double until, sig_atomic_t signals,
                       struct error *error) {
    struct pollfd item = {.fd = connection, .events = POLLIN};
    enum reading reading = read_on(connection);
    if (reading != OPEN) {
        lose(outlet);
        return 0;
    }
    shutdown(connection, SHUT_WR);
    while (feed_signals == signals && clock_seconds() < until) {
        if (poll(&item, 1, FEED_TICK_MS) > 0)
            reading = read_on(connection);
        if (reading == BROKEN)
            lose(outlet);
        if (reading != OPEN)
            return 0;
        outlet->waiter.tick(outlet->waiter.context, true);
    }
    return give_up(outlet, error);
}

int outlet_close(struct outlet **pointer, double linger, struct error *error) {
    struct outlet *outlet = *pointer;
    if (!outlet)
        return 0;
    sig_atomic_t signals = feed_signals;
    int status = 0;
    if (outlet->monitor) {
        hear(outlet);
        if (signals || outlet->refused)
            linger = outlet->peers > 0 ? fmin(linger, OUTLET_STOP_SECONDS) : 0;
        keep_connections(outlet);
        monitor_close(&outlet->monitor);
    }
    if (outlet->socket) {
        set(outlet->socket, ZMQ_LINGER, isfinite(linger) ? (int)(1000 * linger) : -1);
        zmq_close(outlet->socket);
    }
    double until = clock_seconds() + linger;
    if (outlet->context)
        status = drain(outlet, until, signals, error);
    for (size_t i = 0; i < outlet->connection_count; i++) {
        if (status == 0)
            status = await_close(outlet, outlet->connections[i].descriptor, until, signals, error);
        close(outlet->connections[i].descriptor);
    }
    free(outlet);
    *pointer = NULL;
    return status;
}
