#include "feed_dealer.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/keys.h"
#include "streams/feed.h"

/* Examples that libzmq may hold of them: enough to keep the network full. */
enum { QUEUE_EXAMPLES = 1000, KEEPALIVE_SECONDS = 60, ENDPOINT_SIZE = 64 };

/* Seconds from a connection's end, or from a try, to the next try; each time twice as long. */
#define RETRY_FIRST 0.1
#define RETRY_MAX 2.0

/* libzmq is not to connect again by itself. -1 would say just that, but libzmq 4.3 may abort with
   it when a peer dies in the middle of a message. */
enum { NEVER_MS = INT_MAX, CONNECT_MS = 30000, BETWEEN_MS = 20, UNSHAKEN = 3 };

struct dealer {
    const char *endpoint;
    const struct key_client *keys;
    void *context, *socket, *monitor;
    uint64_t connections; /* so far */
    bool connected;
    bool explained;      /* why the handshake of this connection failed, as far as is known */
    int unshaken;        /* connections in a row that ended in the handshake, unexplained */
    int broken_off;      /* see keys_suspicion */
    const char *refusal; /* the daemon's, for good; or NULL */
    bool hindrance_said;
    double retry_at, retry; /* CLOCK_MONOTONIC; seconds */
};

static int set(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

/* No heartbeats: see feed_outlet.c. What comes back is read quickly, and must not be dropped. */
static int set_options(const struct dealer *dealer) {
    void *socket = dealer->socket;
    return set(socket, ZMQ_SNDHWM, QUEUE_EXAMPLES) || set(socket, ZMQ_RCVHWM, 0) ||
                   set(socket, ZMQ_LINGER, 0) || set(socket, ZMQ_RECONNECT_IVL, NEVER_MS) ||
                   set(socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS) ||
                   set(socket, ZMQ_TCP_KEEPALIVE, 1) ||
                   set(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_SECONDS) ||
                   set(socket, ZMQ_IPV6, strchr(dealer->endpoint, '[') != NULL)
               ? -1
               : 0;
}

/* The monitor's endpoint is the connection's own: libzmq lets go of one only after a while. */
static int open_monitor(struct dealer *dealer) {
    char name[ENDPOINT_SIZE];
    snprintf(name, sizeof name, "inproc://dealer-%llu", (unsigned long long)dealer->connections);
    if (zmq_socket_monitor(dealer->socket, name,
                           keys_events | ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                               ZMQ_EVENT_DISCONNECTED) < 0)
        return -1;
    dealer->monitor = zmq_socket(dealer->context, ZMQ_PAIR);
    if (!dealer->monitor || set(dealer->monitor, ZMQ_LINGER, 0) < 0)
        return -1;
    return zmq_connect(dealer->monitor, name);
}

static int begin(struct dealer *dealer, struct feed_error *error) {
    dealer->connections++;
    dealer->explained = false;
    dealer->socket = zmq_socket(dealer->context, ZMQ_DEALER);
    if (!dealer->socket || set_options(dealer) < 0 ||
        keys_apply(dealer->keys, dealer->socket) < 0 || open_monitor(dealer) < 0)
        return feed_fail(error, EX_OSERR, "ZeroMQ cannot open a socket: %s", zmq_strerror(errno));
    if (zmq_connect(dealer->socket, dealer->endpoint) == 0)
        return 0;
    int reason = errno;
    if (reason == EINVAL || reason == EPROTONOSUPPORT || reason == ENOCOMPATPROTO)
        return feed_fail(error, EX_USAGE,
                         "--connect: '%s' is no endpoint; expected tcp://HOST:PORT or ipc://PATH",
                         dealer->endpoint);
    return feed_fail(error, EX_UNAVAILABLE, "%s: cannot be connected: %s", dealer->endpoint,
                     zmq_strerror(reason));
}

static void end(struct dealer *dealer) {
    if (dealer->monitor) {
        zmq_socket_monitor(dealer->socket, NULL, 0);
        zmq_close(dealer->monitor);
    }
    if (dealer->socket)
        zmq_close(dealer->socket);
    dealer->socket = dealer->monitor = NULL;
    dealer->connected = false;
}

int dealer_open(struct dealer **result, const char *endpoint, const struct key_client *keys,
                struct feed_error *error) {
    struct dealer *dealer = *result = calloc(1, sizeof *dealer);
    if (!dealer)
        return feed_no_memory(error);
    dealer->endpoint = endpoint;
    dealer->keys = keys;
    dealer->retry = RETRY_FIRST;
    dealer->context = zmq_ctx_new();
    if (!dealer->context)
        feed_fail(error, EX_OSERR, "ZeroMQ cannot start: %s", zmq_strerror(errno));
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

static void say_hindrance(struct dealer *dealer, const char *why) {
    if (!dealer->hindrance_said)
        feed_say("%s: %s", dealer->endpoint, why);
    dealer->hindrance_said = true;
}

static void take_refusal(struct dealer *dealer, uint16_t event, int32_t value) {
    bool final;
    const char *refusal = keys_refusal(dealer->keys, event, value, &final);
    const char *suspicion = keys_suspicion(dealer->keys, event, &dealer->broken_off);
    dealer->explained = true;
    if (refusal && final)
        dealer->refusal = refusal;
    else if (suspicion && dealer->broken_off >= KEYS_GIVE_UP)
        dealer->refusal = suspicion;
    else if (refusal || suspicion)
        say_hindrance(dealer, refusal ? refusal : suspicion);
}

/* Sockets of kinds that do not match part without a word, for what breaks a connection there is
   one. It would be the same each time. */
static void take_end(struct dealer *dealer) {
    if (dealer->connected || dealer->explained || ++dealer->unshaken < UNSHAKEN)
        return;
    dealer->refusal = "what is there ends the connection in the handshake; it is no examples "
                      "socket, or in the daemon's configuration examples.socket is not router";
}

/* The monitor says [u16 event, u32 value][endpoint]. */
bool dealer_hear(struct dealer *dealer) {
    unsigned char frame[6];
    bool over = false;
    while (dealer->monitor &&
           zmq_recv(dealer->monitor, frame, sizeof frame, ZMQ_DONTWAIT) == (int)sizeof frame) {
        uint16_t event;
        int32_t value;
        char address[1];
        memcpy(&event, frame, sizeof event);
        memcpy(&value, frame + sizeof event, sizeof value);
        zmq_recv(dealer->monitor, address, sizeof address, ZMQ_DONTWAIT);
        if (event & keys_events)
            take_refusal(dealer, event, value);
        if (event == ZMQ_EVENT_DISCONNECTED)
            take_end(dealer);
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            dealer->connected = true;
            dealer->unshaken = dealer->broken_off = 0;
        } else {
            over = true;
        }
    }
    return over;
}

void dealer_drop(struct dealer *dealer) {
    end(dealer);
    bool asking = dealer->broken_off > 0 && dealer->broken_off < KEYS_GIVE_UP;
    dealer->retry_at = feed_now() + (asking ? RETRY_FIRST : dealer->retry);
    if (!asking)
        dealer->retry = fmin(2 * dealer->retry, RETRY_MAX);
}

void dealer_useful(struct dealer *dealer) {
    dealer->retry = RETRY_FIRST;
}

int dealer_renew(struct dealer *dealer, struct feed_error *error) {
    if (dealer->refusal)
        return feed_fail(error, EX_UNAVAILABLE, "%s: %s", dealer->endpoint, dealer->refusal);
    if (dealer->socket || feed_now() < dealer->retry_at)
        return 0;
    return begin(dealer, error) < 0 ? -1 : 1;
}

int dealer_wait(struct dealer *dealer, bool room, struct feed_error *error) {
    zmq_pollitem_t items[] = {
        {.socket = dealer->monitor, .events = ZMQ_POLLIN},
        {.socket = dealer->socket, .events = (short)(ZMQ_POLLIN | (room ? ZMQ_POLLOUT : 0))}};
    int count = dealer->socket ? 2 : 0;
    if (zmq_poll(items, count, count ? FEED_TICK_MS : BETWEEN_MS) < 0 && errno != EINTR)
        return feed_fail(error, EX_IOERR, "%s: waiting failed: %s", dealer->endpoint,
                         zmq_strerror(errno));
    return 0;
}
