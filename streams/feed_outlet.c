#include "feed_outlet.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <zmq.h>

#include "feed.h"

#define MONITOR "inproc://runnel-feed-monitor"

/* Examples that may wait here while the daemon is busy: enough to keep the network full, little
   enough to be taken again quickly. */
enum { QUEUE_EXAMPLES = 1000, KEEPALIVE_SECONDS = 60 };

struct outlet {
    const char *endpoint;
    void *context, *socket, *monitor;
    struct outlet_waiter waiter;
    int peers; /* connected now */
};

static int set(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

/* No heartbeats: a daemon that lets its feeders wait does not read, their answers neither, and the
   connection would be cut with examples in it. TCP notices by itself when a machine is gone. */
static int set_options(void *socket) {
    return set(socket, ZMQ_SNDHWM, QUEUE_EXAMPLES) || set(socket, ZMQ_LINGER, 0) ||
                   set(socket, ZMQ_TCP_KEEPALIVE, 1) ||
                   set(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_SECONDS) ||
                   set(socket, ZMQ_IPV6, 1)
               ? -1
               : 0;
}

/* A second socket tells who comes and goes. */
static int open_monitor(struct outlet *outlet) {
    if (zmq_socket_monitor(outlet->socket, MONITOR,
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) < 0)
        return -1;
    outlet->monitor = zmq_socket(outlet->context, ZMQ_PAIR);
    if (!outlet->monitor || set(outlet->monitor, ZMQ_LINGER, 0) < 0)
        return -1;
    return zmq_connect(outlet->monitor, MONITOR);
}

static int attach(struct outlet *outlet, bool bind, struct feed_error *error) {
    if ((bind ? zmq_bind : zmq_connect)(outlet->socket, outlet->endpoint) == 0)
        return 0;
    int reason = errno;
    if (reason == EINVAL || reason == EPROTONOSUPPORT || reason == ENOCOMPATPROTO)
        return feed_fail(error, EX_USAGE,
                         "--%s: '%s' is no endpoint; expected tcp://HOST:PORT or ipc://PATH",
                         bind ? "bind" : "connect", outlet->endpoint);
    return feed_fail(error, EX_UNAVAILABLE, "%s: cannot be %s: %s", outlet->endpoint,
                     bind ? "bound" : "connected", zmq_strerror(reason));
}

int outlet_open(struct outlet **result, const char *endpoint, bool bind,
                const struct outlet_waiter *waiter, struct feed_error *error) {
    struct outlet *outlet = calloc(1, sizeof *outlet);
    *result = outlet;
    if (!outlet)
        return feed_no_memory(error);
    outlet->endpoint = endpoint;
    outlet->waiter = *waiter;
    outlet->context = zmq_ctx_new();
    outlet->socket = outlet->context ? zmq_socket(outlet->context, ZMQ_PUSH) : NULL;
    if (!outlet->socket || set_options(outlet->socket) < 0 || open_monitor(outlet) < 0)
        feed_fail(error, EX_OSERR, "ZeroMQ cannot open a socket: %s", zmq_strerror(errno));
    else if (attach(outlet, bind, error) == 0)
        return 0;
    struct feed_error ignored;
    outlet_close(result, 0, &ignored);
    return -1;
}

/* Take in what the monitor has to say: [u16 event, u32 value][endpoint]. */
static void hear(struct outlet *outlet) {
    unsigned char frame[6];
    while (zmq_recv(outlet->monitor, frame, sizeof frame, ZMQ_DONTWAIT) == (int)sizeof frame) {
        uint16_t event;
        memcpy(&event, frame, sizeof event);
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            outlet->peers++;
        else if (event == ZMQ_EVENT_DISCONNECTED && outlet->peers > 0)
            outlet->peers--;
        char address[1];
        zmq_recv(outlet->monitor, address, sizeof address, ZMQ_DONTWAIT);
    }
}

/* Wait for one tick, or until the monitor or (`room`) the queue has something for us. */
static int tick(struct outlet *outlet, bool room, struct feed_error *error) {
    zmq_pollitem_t items[] = {{.socket = outlet->monitor, .events = ZMQ_POLLIN},
                              {.socket = outlet->socket, .events = ZMQ_POLLOUT}};
    if (zmq_poll(items, room ? 2 : 1, FEED_TICK_MS) < 0 && errno != EINTR)
        return feed_fail(error, EX_IOERR, "%s: waiting failed: %s", outlet->endpoint,
                         zmq_strerror(errno));
    hear(outlet);
    outlet->waiter.tick(outlet->waiter.context, outlet->peers > 0);
    if (feed_signals)
        return feed_fail(error, FEED_INTERRUPTED, "interrupted");
    return 0;
}

int outlet_wait(struct outlet *outlet, double seconds, struct feed_error *error) {
    double until = feed_now() + seconds;
    hear(outlet);
    while (outlet->peers == 0) {
        if (feed_now() >= until)
            return feed_fail(error, EX_UNAVAILABLE,
                             "%s: nobody was there within %g seconds; is runneld running?",
                             outlet->endpoint, seconds);
        if (tick(outlet, false, error) < 0)
            return -1;
    }
    return 0;
}

static int send_frame(struct outlet *outlet, const void *data, size_t size, int more,
                      struct feed_error *error) {
    while (zmq_send(outlet->socket, data, size, more | ZMQ_DONTWAIT) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return feed_fail(error, EX_IOERR, "%s: sending failed: %s", outlet->endpoint,
                             zmq_strerror(errno));
        if (tick(outlet, true, error) < 0)
            return -1;
    }
    return 0;
}

int outlet_send(struct outlet *outlet, const struct message *m, struct feed_error *error) {
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

/* Let go of the context: it waits for what still has to leave. */
static int drain(struct outlet *outlet, double linger, struct feed_error *error) {
    sig_atomic_t signals = feed_signals;
    double until = feed_now() + linger;
    while (zmq_ctx_term(outlet->context) < 0)
        if (feed_signals != signals)
            return feed_fail(error, EX_UNAVAILABLE, "%s: gave up before everything was delivered",
                             outlet->endpoint);
    if (feed_now() < until)
        return 0;
    if (outlet->peers == 0)
        return feed_fail(error, EX_UNAVAILABLE,
                         "%s: nobody is connected any more; the newest examples, %d at most, were "
                         "not delivered",
                         outlet->endpoint, QUEUE_EXAMPLES);
    return feed_fail(error, EX_UNAVAILABLE,
                     "%s: after %g seconds the newest examples were still not delivered",
                     outlet->endpoint, linger);
}

int outlet_close(struct outlet **pointer, double linger, struct feed_error *error) {
    struct outlet *outlet = *pointer;
    if (!outlet)
        return 0;
    int status = 0;
    if (outlet->monitor) {
        hear(outlet);
        if (feed_signals)
            linger = outlet->peers > 0 ? fmin(linger, OUTLET_STOP_SECONDS) : 0;
        zmq_socket_monitor(outlet->socket, NULL, 0);
        zmq_close(outlet->monitor);
    }
    if (outlet->socket) {
        set(outlet->socket, ZMQ_LINGER, isfinite(linger) ? (int)(1000 * linger) : -1);
        zmq_close(outlet->socket);
    }
    if (outlet->context)
        status = drain(outlet, linger, error);
    free(outlet);
    *pointer = NULL;
    return status;
}
