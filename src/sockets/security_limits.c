#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "security_internal.h"

enum {
    /* A greeting, and the shortest READY: what has said less cannot be through its handshake. */
    HANDSHAKE_BYTES = 91,
    /* A greeting, HELLO and the shortest INITIATE, which says the key, with their frames: what has
       said less has not said a key. */
    KEY_BYTES = 64 + (2 + 200) + (9 + 257),
    /* A subscriber says its subscriptions, and answers heartbeats. */
    SUBSCRIBER_BYTES_PER_S = 1024,
    SUBSCRIBER_BURST_S = 4,
    /* What a Unix socket is taken to have brought each time when something came: the kernel does
       not count there. */
    UNSEEN_BYTES = 128,
    /* Likewise, of what is no subscription, where more than a heartbeat waits to be read: at least;
       it is as much as the memory has grown meanwhile, where that is more and it floods. */
    UNSEEN_PART_BYTES = 65536,
    /* Who sends as fast as is read has at least this much waiting to be read: whoever sends small
       messages and waits for answers is not taken for the reason why the daemon grows. */
    FLOOD_BYTES = 32768,
    /* Less than this is not worth a look, and more for each second since nothing else waited, since
       heartbeats are messages that nobody takes. */
    SUSPECT_BYTES = 65536,
    HEARTBEAT_BYTES_PER_S = 100,
    UNENDING_ALL = 64 << 20, /* bytes of messages that are not complete, of all connections */
    /* Bytes of one connection that wait, complete or not: 16 MiB of small messages may, and 100
       large ones, which are no larger than half of what is limited; twice that. */
    WAITING_SMALL = 32 << 20,
    WAITING_LARGE = 100,
    WAITING_MOST = 256 << 20,
    EMPTY_TURNS = 1 << 20, /* more than there are connections */
    /* libzmq gives each connection its turn, and looks at new ones at least after so many messages.
     */
    TURNS = 256,
    FRAME_OVERHEAD = 9 + SECURITY_OVERHEAD, /* bytes on the wire, at most */
    STATM_SIZE = 64,
    EVENTS = 64,
    SWEEP_MS = 1000, /* so often all connections are looked at, whatever epoll says */
    ROUNDS = 64,     /* of events: what still comes then is looked at the next time */
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

bool security_may_have_key(const struct connection *connection) {
    uint64_t bytes;
    return !bytes_received(connection->descriptor, &bytes) || bytes >= KEY_BYTES;
}

/* What has come over a connection whose bytes nobody counts: a guess. A subscriber has at least
   sent what waits to be read. */
static uint64_t guess(const struct connection *c, uint64_t grown) {
    int unread = 0;
    bool known = ioctl(c->descriptor, SIOCINQ, &unread) == 0;
    if (c->guarded->most_message == 0)
        return known && unread > UNSEEN_BYTES ? (uint64_t)unread : UNSEEN_BYTES;
    if (known && unread <= UNSEEN_BYTES)
        return (uint64_t)unread;
    bool floods = known && unread >= FLOOD_BYTES;
    return floods && grown > UNSEEN_PART_BYTES ? grown : UNSEEN_PART_BYTES;
}

/* Of the daemon; 0 = not known. */
static uint64_t resident_bytes(const struct security *security) {
    char text[STATM_SIZE] = "";
    if (pread(security->memory, text, sizeof text - 1, 0) <= 0)
        return 0;
    /* "SIZE RESIDENT ...", in pages */
    return strtoull(text + strcspn(text, " "), NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* By how much the daemon has grown while somebody was suspected, who may be the reason. */
static uint64_t measure_growth(struct security *security) {
    uint64_t before = security->resident;
    security->resident = TAILQ_EMPTY(&security->suspects) ? 0 : resident_bytes(security);
    return before && security->resident > before ? security->resident - before : 0;
}

static void no_stranger(struct connection *c) {
    if (c->stranger) {
        TAILQ_REMOVE(&c->guarded->strangers, c, strangers);
        c->guarded->stranger_count--;
    }
    c->stranger = false;
}

/* Returns how much has come since the call before. */
static uint64_t measure(struct connection *c, uint64_t grown) {
    uint64_t before = c->received;
    c->counted = bytes_received(c->descriptor, &c->received);
    if (!c->counted)
        c->received = before + guess(c, grown);
    if (!c->counted || c->received >= HANDSHAKE_BYTES)
        no_stranger(c);
    return c->received > before ? c->received - before : 0;
}

/* ---- How many ---- */

static bool too_many(const struct guarded *guarded) {
    return guarded->count > guarded->most || guarded->stranger_count > guarded->most_strangers;
}

/* It has a key, or something was taken that came over it. Over ipc epoll may have been silent about
   all of that: see look_again. */
static bool is_through(const struct security *security, const struct connection *c) {
    uint64_t bytes;
    return *c->key || c->subscriptions > 0 ||
           ((size_t)c->descriptor < security->taken_size && security->taken[c->descriptor] > 0) ||
           (bytes_received(c->descriptor, &bytes) && bytes >= HANDSHAKE_BYTES);
}

/* The one that has waited longest without a handshake, so that who makes one gets through; else the
   newest. NULL: there are not too many, once those that are through theirs are counted. */
static struct connection *surplus(const struct security *security, struct connection *newest) {
    struct connection *c;
    while (too_many(newest->guarded) && (c = TAILQ_FIRST(&newest->guarded->strangers))) {
        if (!is_through(security, c))
            return c;
        no_stranger(c);
    }
    return too_many(newest->guarded) ? newest : NULL;
}

void security_limit_new(struct security *security, struct connection *connection) {
    struct guarded *guarded = connection->guarded;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = connection->descriptor};
    connection->credited = clock_ns();
    if ((size_t)connection->descriptor < security->taken_size)
        security->taken[connection->descriptor] = 0;
    epoll_ctl(security->activity, EPOLL_CTL_ADD, connection->descriptor, &event);
    struct connection *one;
    while (!connection->made && !connection->ended && (one = surplus(security, connection))) {
        size_t count = guarded->count;
        security_end_for(security, one, SECURITY_CONNECTIONS);
        if (guarded->count == count)
            break; /* it has gone by itself, as will be reported */
    }
}

/* ---- How much ---- */

/* A daemon that itself connects to a broker has the subscriptions of all behind it. */
static void limit_subscriber(struct security *security, struct connection *c, uint64_t came,
                             uint64_t now) {
    if (!security_take(&c->allowance, SUBSCRIBER_BYTES_PER_S, SUBSCRIBER_BURST_S, (double)came,
                       now) &&
        !c->made)
        security_end_for(security, c, SECURITY_SUBSCRIPTIONS);
}

/* ---- Messages without an end ---- */

void security_limit_messages(struct security *security, int role, size_t most, bool turns) {
    if (!security)
        return;
    pthread_mutex_lock(&security->lock);
    security->sockets[role].most_message = most;
    security->sockets[role].most_waiting = most > (WAITING_MOST - WAITING_SMALL) / WAITING_LARGE
                                               ? WAITING_MOST
                                               : WAITING_SMALL + WAITING_LARGE * most;
    security->sockets[role].turns = turns;
    pthread_mutex_unlock(&security->lock);
}

void security_taken(struct security *security, int role, int descriptor, size_t bytes,
                    size_t frames) {
    if (!security)
        return;
    security->sockets[role].turn += frames ? 1 : EMPTY_TURNS;
    if (descriptor >= 0 && (size_t)descriptor < security->taken_size)
        security->taken[descriptor] += bytes + frames * FRAME_OVERHEAD;
}

uint32_t security_holder(const struct security *security, int descriptor) {
    return security && descriptor >= 0 && (size_t)descriptor < security->taken_size
               ? security->holders[descriptor]
               : 0;
}

void security_limit_gone(struct security *security, struct connection *connection) {
    if (connection->suspect)
        TAILQ_REMOVE(&security->suspects, connection, suspects);
    connection->suspect = false;
}

static uint64_t heartbeats(const struct connection *c, uint64_t now) {
    return c->heartbeats + (now - c->credited) / NS_PER_SECOND * HEARTBEAT_BYTES_PER_S;
}

/* Before what has come now is measured: where nothing else waited, the time until now brings no
   credit, which a message without an end could use up after years of silence. */
static void renew_credit(struct security *security, struct connection *c, uint64_t now) {
    if ((size_t)c->descriptor >= security->taken_size)
        return;
    uint64_t taken = security->taken[c->descriptor], received = c->received;
    if (received > taken + heartbeats(c, now))
        return;
    c->heartbeats = received > taken ? received - taken : 0;
    c->credited = now;
}

/* Bytes that libzmq has read from the connection and nobody has taken from the socket. What was
   taken is counted generously; what is too much of that is no credit for later. */
static uint64_t waiting(struct security *security, struct connection *c, uint64_t now) {
    int unread = 0;
    uint64_t taken = security->taken[c->descriptor], received = c->received;
    uint64_t others = heartbeats(c, now);
    if (c->counted && received > taken + others + SUSPECT_BYTES &&
        ioctl(c->descriptor, SIOCINQ, &unread) == 0 && (uint64_t)unread < received)
        received -= (uint64_t)unread;
    if (taken > received || (!c->counted && taken != c->taken)) {
        /* A message that is taken meanwhile counts for a little less: harmless. */
        security->taken[c->descriptor] = taken = received;
        c->taken = taken;
    }
    return received > taken + others ? received - taken - others : 0;
}

static void snapshot(struct security *security, struct connection *c, uint64_t bytes) {
    c->waiting = bytes;
    c->taken = security->taken[c->descriptor];
    c->turn = c->guarded->turn;
}

static void suspect(struct security *security, struct connection *c, uint64_t now) {
    if (c->guarded->most_message == 0 || (size_t)c->descriptor >= security->taken_size)
        return;
    uint64_t bytes = waiting(security, c, now);
    if (c->suspect || bytes < SUSPECT_BYTES)
        return;
    if (security->resident == 0)
        security->resident = resident_bytes(security);
    c->suspect = true;
    c->unending = c->untaken = 0;
    TAILQ_INSERT_TAIL(&security->suspects, c, suspects);
    snapshot(security, c, bytes);
}

static void look_at(struct security *security, struct connection *c, uint64_t now) {
    renew_credit(security, c, now);
    uint64_t came = measure(c, security->grown);
    if (c->guarded == &security->sockets[SOCKET_STATISTICS])
        limit_subscriber(security, c, came, now);
    else
        suspect(security, c, now);
    if (!c->ended)
        security_quota_bytes(security, c, came, now);
}

/* epoll is silent about what libzmq has read before it was asked. */
static void look_again(struct security *security, struct connection *c, uint64_t now) {
    uint64_t bytes;
    if (!c->ended && bytes_received(c->descriptor, &bytes) && bytes > c->received)
        look_at(security, c, now);
}

/* Whether all connections had their turn since the snapshot. That nothing waited once says little:
   the owner may have looked before the snapshot, and say so only now. */
static bool others_had_turns(const struct guarded *guarded, const struct connection *c) {
    uint64_t turns = guarded->turn - c->turn;
    return turns >= 2 * EMPTY_TURNS || turns % EMPTY_TURNS > guarded->count + TURNS;
}

/* What waited when it was looked at before is no complete message when none of this connection was
   taken since, while all connections had their turn. */
static void judge(struct security *security, struct connection *c, uint64_t now) {
    struct guarded *guarded = c->guarded;
    uint64_t bytes = c->untaken = waiting(security, c, now);
    if (bytes < SUSPECT_BYTES) {
        security_limit_gone(security, c);
        return;
    }
    if (security->taken[c->descriptor] != c->taken) {
        c->unending = 0;
        snapshot(security, c, bytes);
    } else if (others_had_turns(guarded, c) || !guarded->turns) {
        c->unending = c->waiting;
        snapshot(security, c, bytes);
    } else {
        eventfd_write(security->news, 1); /* the owner may sleep, since it has no whole message */
    }
    if (c->unending > guarded->most_message || bytes > guarded->most_waiting)
        security_end_for(security, c, SECURITY_ENDLESS);
    if (c->ended)
        security_limit_gone(security, c);
}

/* Nobody is ended for what is only guessed, or may be another's. */
static bool counts_for_client(const struct connection *c) {
    return c->client && c->counted && !c->unclear;
}

/* All connections of a key together: of one that has too much the one with the most. */
static void limit_clients(struct security *security) {
    struct connection *c, *largest;
    uint64_t most = security->quota.waiting;
    TAILQ_FOREACH(c, &security->suspects, suspects)
    if (c->client)
        c->client->waiting = 0;
    TAILQ_FOREACH(c, &security->suspects, suspects)
    if (counts_for_client(c))
        c->client->waiting += c->untaken;
    do {
        largest = NULL;
        TAILQ_FOREACH(c, &security->suspects, suspects)
        if (counts_for_client(c) && c->client->waiting > most &&
            (!largest || c->untaken > largest->untaken))
            largest = c;
        if (!largest)
            return;
        largest->client->waiting -= largest->untaken;
        security_end_for(security, largest, SECURITY_QUOTA_WAITING);
        security_limit_gone(security, largest);
    } while (true);
}

static void limit_messages(struct security *security, uint64_t now) {
    struct connection *c, *next, *largest;
    uint64_t all = 0;
    for (c = TAILQ_FIRST(&security->suspects); c; c = next) {
        next = TAILQ_NEXT(c, suspects);
        look_again(security, c, now);
        judge(security, c, now);
    }
    if (security->quota.waiting)
        limit_clients(security);
    TAILQ_FOREACH(c, &security->suspects, suspects)
    all += c->unending;
    while (all > UNENDING_ALL) {
        largest = NULL;
        TAILQ_FOREACH(c, &security->suspects, suspects)
        largest = !largest || c->unending > largest->unending ? c : largest;
        all -= largest->unending;
        security_end_for(security, largest, SECURITY_ENDLESS);
        security_limit_gone(security, largest);
    }
}

/* ---- All of it ---- */

static void look(struct security *security, int descriptor, uint64_t now) {
    struct connection *c =
        (size_t)descriptor < security->descriptors ? security->by_descriptor[descriptor] : NULL;
    if (c && !c->ended)
        look_at(security, c, now);
}

static void look_at_all(struct security *security, uint64_t now) {
    struct connection *c;
    security->sweep = now + SWEEP_MS * NS_PER_MS;
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        TAILQ_FOREACH(c, &security->sockets[i].connections, all)
    look_again(security, c, now);
}

static bool any_connection(const struct security *security) {
    size_t count = 0;
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        count += security->sockets[i].count;
    return count > 0;
}

long security_limit(struct security *security, uint64_t now) {
    struct epoll_event events[EVENTS];
    int count = EVENTS;
    security->grown = measure_growth(security);
    for (int round = 0; round < ROUNDS && count == EVENTS; round++) {
        count = epoll_wait(security->activity, events, EVENTS, 0);
        for (int i = 0; i < count; i++)
            look(security, events[i].data.fd, now);
    }
    if (now >= security->sweep)
        look_at_all(security, now);
    limit_messages(security, now);
    if (!TAILQ_EMPTY(&security->suspects))
        return 0;
    return any_connection(security) ? SWEEP_MS : -1;
}
