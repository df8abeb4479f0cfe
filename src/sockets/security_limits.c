#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "security_internal.h"

enum {
    /* A greeting, and the shortest READY: what has said less cannot be through its handshake. */
    HANDSHAKE_BYTES = 91,
    /* A subscriber says its subscriptions, and answers heartbeats. */
    SUBSCRIBER_BYTES = 16384,
    SUBSCRIBER_BYTES_PER_S = 1024,
    /* What a Unix socket is taken to have brought each time when something came: the kernel does
       not count there. */
    UNSEEN_BYTES = 512,
    EVENTS = 64,
    ROUNDS = 64, /* of events: what still comes then is looked at the next time */
};

/* Bytes that have come over a connection since it began; false: not known. */
static bool bytes_received(int descriptor, uint64_t *bytes) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) ||
        size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return false;
    *bytes = info.tcpi_bytes_received;
    return true;
}

/* Returns how much has come since the call before. */
static uint64_t measure(struct connection *c) {
    uint64_t before = c->received;
    if (!bytes_received(c->descriptor, &c->received))
        c->received = before + UNSEEN_BYTES;
    if (c->stranger && c->received >= HANDSHAKE_BYTES) {
        TAILQ_REMOVE(&c->guarded->strangers, c, strangers);
        c->guarded->stranger_count--;
        c->stranger = false;
    }
    return c->received > before ? c->received - before : 0;
}

/* ---- How many ---- */

/* The one that has waited longest without a handshake, so that who makes one gets through; else the
   newest. */
static struct connection *surplus(struct connection *newest) {
    struct connection *c;
    while ((c = TAILQ_FIRST(&newest->guarded->strangers))) {
        uint64_t bytes;
        if (!bytes_received(c->descriptor, &bytes) || bytes < HANDSHAKE_BYTES)
            return c;
        measure(c);
    }
    return newest;
}

void security_limit_new(struct security *security, struct connection *connection) {
    struct guarded *guarded = connection->guarded;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = connection->descriptor};
    connection->allowance = SUBSCRIBER_BYTES;
    connection->measured = clock_ns();
    epoll_ctl(security->activity, EPOLL_CTL_ADD, connection->descriptor, &event);
    while (!connection->made && !connection->ended &&
           (guarded->count > guarded->most || guarded->stranger_count > guarded->most_strangers)) {
        size_t count = guarded->count;
        security_end_for(security, surplus(connection), SECURITY_CONNECTIONS);
        if (guarded->count == count)
            break; /* it has gone by itself, as will be reported */
    }
}

/* ---- How much ---- */

/* A daemon that itself connects to a broker has the subscriptions of all behind it. */
static void limit_subscriber(struct security *security, struct connection *c, uint64_t came,
                             uint64_t now) {
    double seconds = (double)(now - c->measured) / (double)NS_PER_SECOND;
    c->measured = now;
    c->allowance += seconds * SUBSCRIBER_BYTES_PER_S;
    if (c->allowance > SUBSCRIBER_BYTES)
        c->allowance = SUBSCRIBER_BYTES;
    c->allowance -= (double)came;
    if (c->allowance < 0 && !c->made)
        security_end_for(security, c, SECURITY_SUBSCRIPTIONS);
}

static void look(struct security *security, int descriptor, uint64_t now) {
    struct connection *c =
        (size_t)descriptor < security->descriptors ? security->by_descriptor[descriptor] : NULL;
    if (!c || c->ended)
        return;
    uint64_t came = measure(c);
    if (c->guarded == &security->sockets[SOCKET_STATISTICS])
        limit_subscriber(security, c, came, now);
    if (!c->ended)
        security_quota_bytes(security, c, came, now);
}

void security_limit(struct security *security, uint64_t now) {
    struct epoll_event events[EVENTS];
    int count = EVENTS;
    for (int round = 0; round < ROUNDS && count == EVENTS; round++) {
        count = epoll_wait(security->activity, events, EVENTS, 0);
        for (int i = 0; i < count; i++)
            look(security, events[i].data.fd, now);
    }
}
