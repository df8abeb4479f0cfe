#include "send_dealer.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/error.h"
#include "monitor.h"
#include "peer.h"
#include "send.h"

/* Seconds from a connection's end, or from a try, to the next try; each time twice as long. */
#define RETRY_FIRST 0.1
#define RETRY_MAX 2.0
#define BETWEEN_SECONDS 0.02 /* the longest wait without a socket */

/* libzmq is not to connect again by itself. -1 would say just that, but libzmq 4.3 may abort with
   it when a peer dies in the middle of a message. */
enum { NEVER_MS = INT_MAX, CONNECT_MS = 30000 };

struct dealer {
    const struct peer *peer;
    const struct send_hooks *hooks;
    void *context, *socket;
    struct monitor *monitor;
    bool connected;
    bool refused; /* for good: monitor_reason */
    bool hindrance_said;
    double retry_at, retry; /* CLOCK_MONOTONIC; seconds */
};

static int set(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

/* What comes back is read quickly, and must not be dropped. */
static int set_options(const struct dealer *dealer) {
    void *socket = dealer->socket;
    return peer_set_sending(dealer->peer, socket) || set(socket, ZMQ_RCVHWM, 0) ||
                   set(socket, ZMQ_RECONNECT_IVL, NEVER_MS) ||
                   set(socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS)
               ? -1
               : 0;
}

static int begin(struct dealer *dealer, struct error *error) {
    dealer->socket = zmq_socket(dealer->context, ZMQ_DEALER);
    if (!dealer->socket || set_options(dealer) < 0 ||
        monitor_attach(dealer->monitor, dealer->context, dealer->socket) < 0)
        return error_set(error, EX_OSERR, "ZeroMQ cannot open a socket: %s", zmq_strerror(errno));
    return send_attach(dealer->peer, dealer->socket, false, error);
}

static void end(struct dealer *dealer) {
    if (dealer->monitor)
        monitor_detach(dealer->monitor);
    if (dealer->socket)
        zmq_close(dealer->socket);
    dealer->socket = NULL;
    dealer->connected = false;
}

int dealer_open(struct dealer **result, const struct peer *peer, const struct send_hooks *hooks,
                struct error *error) {
    struct dealer *dealer = *result = calloc(1, sizeof *dealer);
    if (!dealer)
        return error_no_memory(error);
    dealer->peer = peer;
    dealer->hooks = hooks;
    dealer->retry = RETRY_FIRST;
    dealer->context = zmq_ctx_new();
    struct error why;
    if (!dealer->context)
        error_set(error, EX_OSERR, "ZeroMQ cannot start: %s", zmq_strerror(errno));
    else if (monitor_open(&dealer->monitor, peer->endpoint, ZMQ_DEALER, false, &peer->keys, &why) <
             0)
        error_set(error, EX_OSERR, "%s", why.text);
    else if (begin(dealer, error) == 0)
        return 0;
    dealer_close(result);
    return -1;
}

void dealer_close(struct dealer **pointer) {
    struct dealer *dealer = *pointer;
    if (!dealer)
        return;
    end(dealer);
    monitor_close(&dealer->monitor);
    if (dealer->context)
        while (zmq_ctx_term(dealer->context) < 0 && errno == EINTR)
            ;
    free(dealer);
    *pointer = NULL;
}

void *dealer_socket(const struct dealer *dealer) {
    return dealer->socket;
}

bool dealer_connected(const struct dealer *dealer) {
    return dealer->connected;
}

bool dealer_hear(struct dealer *dealer) {
    struct monitor_event event;
    bool over = false;
    while (monitor_next(dealer->monitor, &event))
        switch (event.kind) {
        case MONITOR_READY:
            dealer->connected = true;
            break;
        case MONITOR_CLOSED:
        case MONITOR_MISSED:
            over = true;
            break;
        case MONITOR_REFUSED:
            dealer->refused = true;
            break;
        case MONITOR_HINDERED:
            if (!dealer->hindrance_said)
                send_tell(dealer->hooks,
                          &(struct runnel_report){.kind = RUNNEL_REPORT_HINDERED,
                                                  .why = monitor_reason(dealer->monitor)});
            dealer->hindrance_said = true;
            break;
        case MONITOR_OPENED:
            break;
        }
    return over;
}

void dealer_drop(struct dealer *dealer) {
    end(dealer);
    dealer->retry_at = clock_seconds() + dealer->retry;
    dealer->retry = fmin(2 * dealer->retry, RETRY_MAX);
}

void dealer_useful(struct dealer *dealer) {
    dealer->retry = RETRY_FIRST;
}

int dealer_renew(struct dealer *dealer, struct error *error) {
    if (dealer->refused)
        return error_set(error, EX_UNAVAILABLE, "%s: %s", dealer->peer->endpoint,
                         monitor_reason(dealer->monitor));
    if (dealer->socket || clock_seconds() < dealer->retry_at)
        return 0;
    if (begin(dealer, error) == 0)
        return 1;
    dealer_drop(dealer);
    return -1;
}

int dealer_wait(struct dealer *dealer, double seconds, bool room, struct send_other *other,
                struct error *error) {
    zmq_pollitem_t items[MONITOR_ITEMS + 2];
    monitor_items(dealer->monitor, items);
    int count = MONITOR_ITEMS;
    if (dealer->socket)
        items[count++] = (zmq_pollitem_t){.socket = dealer->socket,
                                          .events = (short)(ZMQ_POLLIN | (room ? ZMQ_POLLOUT : 0))};
    else
        seconds = fmin(seconds, BETWEEN_SECONDS);
    if (send_wait(items, count, other, seconds) < 0)
        return error_set(error, EX_IOERR, "%s: waiting failed: %s", dealer->peer->endpoint,
                         zmq_strerror(errno));
    return 0;
}
