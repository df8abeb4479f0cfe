#include "connections.h"

#include <inttypes.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/error.h"

enum {
    BURST_S = 2, /* capacity of a bucket, in seconds of its rate */
    /* time that a client without connections is kept, so that reconnecting does not refill its
       buckets */
    KEPT_S = 10,
    /* refused requests within a second, in multiples of the rate, that end a connection */
    PATIENCE = 10,
    /* A greeting and the shortest READY: with fewer bytes a handshake cannot be complete. */
    HANDSHAKE_BYTES = 91,
    /* A greeting, HELLO and the shortest INITIATE, which contains the key, with their frames:
       with fewer bytes a connection has not sent a key. */
    KEY_BYTES = 64 + (2 + 200) + (9 + 257),
    /* A subscriber sends subscriptions, and answers to heartbeats. */
    SUBSCRIBER_BYTES_PER_S = 1024,
    SUBSCRIBER_BURST_S = 4,
    /* Assumed bytes for each event on a Unix socket, where the kernel does not count bytes. */
    UNSEEN_BYTES = 128,
    /* Assumed bytes for each such event on other sockets than statistics, if more than a
       heartbeat is unread. It is a minimum: if the daemon's memory has grown more and the
       connection floods, its growth counts. */
    UNSEEN_PART_BYTES = 65536,
    /* A connection that sends as fast as it is read has at least this much unread data. Senders of
       small messages that wait for answers are therefore not held responsible for memory growth. */
    FLOOD_BYTES = 32768,
    /* Less than this is not checked. The limit grows with each second since nothing else waited,
       because nobody takes heartbeats. */
    SUSPECT_BYTES = 65536,
    HEARTBEAT_BYTES_PER_S = 100,
    UNENDING_ALL = 64 << 20, /* bytes of incomplete messages, of all connections */
    /* Waiting bytes of one connection, complete or not: twice the larger of 16 MiB of small
       messages and 100 large ones of at most half the message limit. */
    WAITING_SMALL = 32 << 20,
    WAITING_LARGE = 100,
    WAITING_MOST = 256 << 20,
    EMPTY_TURNS = 1 << 20, /* more than the number of connections */
    /* libzmq reads its connections in turn, and checks for new ones at least after so many
       messages. */
    TURNS = 256,
    FRAME_OVERHEAD = 9 + SECURITY_OVERHEAD, /* largest overhead in bytes on the wire */
    STATM_SIZE = 64,
    EVENTS = 64,
    SWEEP_MS = 1000, /* interval of the check of all connections, whatever epoll reports */
    ROUNDS = 64,     /* largest number of event rounds before the next check */
};

/* ---- Failures ---- */

/* The learning thread asks often and must not wait: it takes the lock only when an announcement
   is due. */
void security_set_due(struct security *security) {
    uint64_t due = UINT64_MAX;
    for (size_t n = 0; n < SOCKET_ROLES * SECURITY_FAILURES; n++) {
        const struct failures *f =
            &security->sockets[n / SECURITY_FAILURES].failures[n % SECURITY_FAILURES];
        if (f->count > f->announced && f->due < due)
            due = f->due;
    }
    security->due = due;
}

void security_fail(struct security *security, enum security_failure failure,
                   struct guarded *guarded, const char *address, const char *key) {
    struct failures *f = &guarded->failures[failure];
    bool known = f->count > f->announced;
    f->count++;
    snprintf(f->address, sizeof f->address, "%s", *address ? address : "an unknown address");
    memcpy(f->key, key, strlen(key) + 1);
    if (known)
        return;
    security_set_due(security);
    eventfd_write(security->news, 1);
}

/* ---- Clients: owners of keys ---- */

/* Take `amount` out of a bucket that fills at `rate` per second and holds `seconds` of it.
   False: it does not contain as much. */
static bool withdraw(struct bucket *bucket, double rate, double seconds, double amount,
                     uint64_t now) {
    double most = rate * seconds;
    bucket->left += bucket->at ? rate * (double)(now - bucket->at) / (double)NS_PER_SECOND : most;
    bucket->at = now;
    if (bucket->left > most)
        bucket->left = most;
    if (bucket->left < amount)
        return false;
    bucket->left -= amount;
    return true;
}

static struct client *find_client(struct security *security, const char *key) {
    struct client *client;
    TAILQ_FOREACH(client, &security->clients, all)
    if (!strcmp(client->key, key))
        break;
    return client;
}

static void drop_old(struct security *security, uint64_t now) {
    struct client *client = TAILQ_FIRST(&security->clients), *next;
    for (; client; client = next) {
        next = TAILQ_NEXT(client, all);
        if (client->connections > 0 || now < client->left + KEPT_S * NS_PER_SECOND)
            continue;
        TAILQ_REMOVE(&security->clients, client, all);
        free(client);
    }
}

static struct client *add(struct security *security, const char *key, uint64_t now) {
    struct client *client = calloc(1, sizeof *client);
    drop_old(security, now);
    if (!client)
        return NULL;
    memcpy(client->key, key, sizeof client->key);
    TAILQ_INSERT_HEAD(&security->clients, client, all);
    return client;
}

bool security_admit(struct security *security, struct connection *c, const char *key) {
    uint64_t most = security->quota.connections, now = clock_ns();
    struct client *client = find_client(security, key);
    if (!client && !(client = add(security, key, now)))
        return false;
    client->left = now;
    if (most && client->connections >= most)
        return false;
    client->connections++;
    c->client = client;
    return true;
}

/* Remove an ended connection from its client. */
static void leave(struct connection *c) {
    struct client *client = c->client;
    if (!client)
        return;
    client->connections--;
    client->subscriptions -= c->subscriptions;
    client->left = clock_ns();
    c->client = NULL;
}

/* ---- Ending ---- */

/* 0: not a socket. */
static uint64_t cookie_of(int descriptor) {
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) ? 0 : cookie;
}

struct connection *security_find(struct security *security, const struct guarded *guarded,
                                 int descriptor) {
    if (descriptor < 0 || (size_t)descriptor >= security->descriptors)
        return NULL;
    struct connection *c = security->by_descriptor[descriptor];
    return c && c->guarded == guarded ? c : NULL;
}

static void no_stranger(struct connection *c) {
    if (c->stranger) {
        TAILQ_REMOVE(&c->guarded->strangers, c, strangers);
        c->guarded->stranger_count--;
    }
    c->stranger = false;
}

/* Remove the connection from all counts. */
static void discount(struct connection *c) {
    if (c->ended)
        return;
    c->ended = true;
    c->guarded->count--;
    leave(c);
    no_stranger(c);
}

/* End a connection: shut down its descriptor, which libzmq then closes, and remove it from all
   counts. False: it had already ended. If the descriptor has another cookie, the connection has
   ended, and the descriptor belongs to another one. */
static bool end(struct security *security, struct connection *connection) {
    if (connection->ended || cookie_of(connection->descriptor) != connection->cookie)
        return false;
    shutdown(connection->descriptor, SHUT_RDWR);
    discount(connection);
    security->ended++;
    return true;
}

void security_end_for(struct security *security, struct connection *connection,
                      enum security_failure why) {
    if (end(security, connection))
        security_fail(security, why, connection->guarded, connection->address, connection->key);
}

size_t security_cut_off(struct security *security, struct guarded *guarded) {
    size_t cut_off = 0;
    struct connection *c;
    TAILQ_FOREACH(c, &guarded->connections, all)
    if (guarded->listed &&
        ((c->unclear && guarded->revoked) || (*c->key && !key_find(&guarded->allowed, c->key))))
        cut_off += end(security, c);
    return cut_off;
}

/* ---- Usage of clients ---- */

/* A connection with an uncertain key has its own bucket: no client is punished for the data of
   others, or for an estimate. */
static void limit_bytes(struct security *security, struct connection *c, uint64_t came,
                        uint64_t now) {
    double rate = (double)security->quota.bytes;
    if (rate > 0 && c->client && c->counted &&
        !withdraw(c->unclear ? &c->bytes : &c->client->bytes, rate, BURST_S, (double)came, now))
        security_end_for(security, c, SECURITY_QUOTA_BYTES);
}

/* The connection of a message; NULL: it has ended. Messages may outlive their connection, whose
   descriptor may already belong to another one. */
static struct connection *sender(struct security *security, enum socket_role role,
                                 zmq_msg_t *message) {
    const char *key = zmq_msg_gets(message, "User-Id");
    struct connection *c =
        security_find(security, &security->sockets[role], zmq_msg_get(message, ZMQ_SRCFD));
    return c && key && !strcmp(c->key, key) ? c : NULL;
}

void security_subscribed(struct security *security, zmq_msg_t *message, size_t subscriptions) {
    if (!security || !security->keys)
        return;
    pthread_mutex_lock(&security->lock);
    struct connection *c = sender(security, SOCKET_STATISTICS, message);
    if (c && c->client) {
        uint64_t most = security->quota.subscriptions;
        c->client->subscriptions += subscriptions - c->subscriptions;
        c->subscriptions = subscriptions;
        if (most && (c->unclear ? subscriptions : c->client->subscriptions) > most)
            security_end_for(security, c, SECURITY_QUOTA_SUBSCRIPTIONS);
    }
    pthread_mutex_unlock(&security->lock);
}

/* A client with far too many requests does not even get an error. */
static bool lose_patience(struct client *client, uint64_t rate, uint64_t now) {
    if (now >= client->refused_at + NS_PER_SECOND) {
        client->refused_at = now;
        client->refused = 0;
    }
    return ++client->refused > PATIENCE * rate;
}

bool security_may_ask(struct security *security, zmq_msg_t *message, struct error *error) {
    if (!security || !security->keys)
        return true;
    uint64_t now = clock_ns();
    const char *key = zmq_msg_gets(message, "User-Id");
    pthread_mutex_lock(&security->lock);
    uint64_t rate = security->quota.requests;
    struct client *client = key ? find_client(security, key) : NULL;
    bool may = !rate || !client || withdraw(&client->requests, (double)rate, BURST_S, 1, now);
    if (!may) {
        struct connection *c = sender(security, SOCKET_CONTROL, message);
        security_fail(security, SECURITY_QUOTA_REQUESTS, &security->sockets[SOCKET_CONTROL],
                      c ? c->address : "", key);
        if (lose_patience(client, rate, now) && c)
            end(security, c);
        error_set(error, EX_TEMPFAIL,
                  "rate limit exceeded (%" PRIu64 " requests per second for this key, "
                  "security.quota.requests); retry later",
                  rate);
    }
    pthread_mutex_unlock(&security->lock);
    return may;
}

/* ---- Received data ---- */

static void forget_suspect(struct security *security, struct connection *connection) {
    if (connection->suspect)
        TAILQ_REMOVE(&security->suspects, connection, suspects);
    connection->suspect = false;
}

/* Bytes received over a connection since its beginning. False: unknown. */
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

/* An estimate for a connection whose bytes are not counted. A subscriber has sent at least the
   unread bytes. */
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

/* Resident memory of the daemon; 0 = unknown. */
static uint64_t resident_bytes(const struct security *security) {
    char text[STATM_SIZE] = "";
    if (pread(security->memory, text, sizeof text - 1, 0) <= 0)
        return 0;
    /* "SIZE RESIDENT ...", in pages */
    return strtoull(text + strcspn(text, " "), NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Growth of the daemon's memory while a connection, the possible cause, was suspected. */
static uint64_t measure_growth(struct security *security) {
    uint64_t before = security->resident;
    security->resident = TAILQ_EMPTY(&security->suspects) ? 0 : resident_bytes(security);
    return before && security->resident > before ? security->resident - before : 0;
}

/* Returns the bytes received since the previous call. */
static uint64_t measure(struct connection *c, uint64_t grown) {
    uint64_t before = c->received;
    c->counted = bytes_received(c->descriptor, &c->received);
    if (!c->counted)
        c->received = before + guess(c, grown);
    if (!c->counted || c->received >= HANDSHAKE_BYTES)
        no_stranger(c);
    return c->received > before ? c->received - before : 0;
}

/* ---- Number of connections ---- */

static bool too_many(const struct guarded *guarded) {
    return guarded->count > guarded->most || guarded->stranger_count > guarded->most_strangers;
}

/* Whether the connection has a key, or a message was received over it. With ipc, epoll may have
   missed the events: see look_again. */
static bool is_through(const struct security *security, const struct connection *c) {
    uint64_t bytes;
    return *c->key || c->subscriptions > 0 ||
           ((size_t)c->descriptor < security->taken_size && security->taken[c->descriptor] > 0) ||
           (bytes_received(c->descriptor, &bytes) && bytes >= HANDSHAKE_BYTES);
}

/* The connection that has waited longest without a handshake, so that others can complete
   theirs; else the newest. NULL: there are not too many after counting completed handshakes. */
static struct connection *surplus(const struct security *security, struct connection *newest) {
    struct connection *c;
    while (too_many(newest->guarded) && (c = TAILQ_FIRST(&newest->guarded->strangers))) {
        if (!is_through(security, c))
            return c;
        no_stranger(c);
    }
    return too_many(newest->guarded) ? newest : NULL;
}

/* Begin to watch a new connection, and end one if there are too many. */
static void limit_new(struct security *security, struct connection *connection) {
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
            break; /* it has just closed, as the monitor will report */
    }
}

/* ---- Amount of data ---- */

/* A daemon that connects to a broker has the subscriptions of all clients behind it. */
static void limit_subscriber(struct security *security, struct connection *c, uint64_t came,
                             uint64_t now) {
    if (!withdraw(&c->allowance, SUBSCRIBER_BYTES_PER_S, SUBSCRIBER_BURST_S, (double)came, now) &&
        !c->made)
        security_end_for(security, c, SECURITY_SUBSCRIPTIONS);
}

/* ---- Endless messages ---- */

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

static uint64_t heartbeats(const struct connection *c, uint64_t now) {
    return c->heartbeats + (now - c->credited) / NS_PER_SECOND * HEARTBEAT_BYTES_PER_S;
}

/* Renew the credit before measuring the new data. If nothing else waited, the time until now
   gives no credit, because an endless message could use it after years of silence. */
static void renew_credit(struct security *security, struct connection *c, uint64_t now) {
    if ((size_t)c->descriptor >= security->taken_size)
        return;
    uint64_t taken = security->taken[c->descriptor], received = c->received;
    if (received > taken + heartbeats(c, now))
        return;
    c->heartbeats = received > taken ? received - taken : 0;
    c->credited = now;
}

/* Bytes that libzmq has read from the connection and that were not received from the socket.
   Received messages are counted generously; the surplus is not a credit. */
static uint64_t waiting(struct security *security, struct connection *c, uint64_t now) {
    int unread = 0;
    uint64_t taken = security->taken[c->descriptor], received = c->received;
    uint64_t others = heartbeats(c, now);
    if (c->counted && received > taken + others + SUSPECT_BYTES &&
        ioctl(c->descriptor, SIOCINQ, &unread) == 0 && (uint64_t)unread < received)
        received -= (uint64_t)unread;
    if (taken > received || (!c->counted && taken != c->taken)) {
        /* A message received concurrently counts slightly less: harmless. */
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
        limit_bytes(security, c, came, now);
}

/* epoll does not report data that libzmq has read before it was added. */
static void look_again(struct security *security, struct connection *c, uint64_t now) {
    uint64_t bytes;
    if (!c->ended && bytes_received(c->descriptor, &bytes) && bytes > c->received)
        look_at(security, c, now);
}

/* Whether all connections had their turn since the snapshot. A single empty read proves little:
   the owner may have read before the snapshot and report it only now. */
static bool others_had_turns(const struct guarded *guarded, const struct connection *c) {
    uint64_t turns = guarded->turn - c->turn;
    return turns >= 2 * EMPTY_TURNS || turns % EMPTY_TURNS > guarded->count + TURNS;
}

/* Data that was waiting at the snapshot is not a complete message if none of this connection was
   received since, while all connections had their turn. */
static void check_waiting(struct security *security, struct connection *c, uint64_t now) {
    struct guarded *guarded = c->guarded;
    uint64_t bytes = c->untaken = waiting(security, c, now);
    if (bytes < SUSPECT_BYTES) {
        forget_suspect(security, c);
        return;
    }
    if (security->taken[c->descriptor] != c->taken) {
        c->unending = 0;
        snapshot(security, c, bytes);
    } else if (others_had_turns(guarded, c) || !guarded->turns) {
        c->unending = c->waiting;
        snapshot(security, c, bytes);
    } else {
        /* the owner may sleep, because it has no complete message */
        eventfd_write(security->news, 1);
    }
    if (c->unending > guarded->most_message || bytes > guarded->most_waiting)
        security_end_for(security, c, SECURITY_ENDLESS);
    if (c->ended)
        forget_suspect(security, c);
}

/* Clients are not responsible for estimates, or for connections that may belong to others. */
static bool counts_for_client(const struct connection *c) {
    return c->client && c->counted && !c->unclear;
}

/* Sum up all connections of a key. If a key exceeds its limit, end the connection with the most
   data. */
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
        forget_suspect(security, largest);
    } while (true);
}

static void limit_messages(struct security *security, uint64_t now) {
    struct connection *c, *next, *largest;
    uint64_t all = 0;
    for (c = TAILQ_FIRST(&security->suspects); c; c = next) {
        next = TAILQ_NEXT(c, suspects);
        look_again(security, c, now);
        check_waiting(security, c, now);
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
        forget_suspect(security, largest);
    }
}

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

/* ---- Identity of peers ---- */

/* Find the peer of a connection in the format of ZAP; the texts stay empty if it is unknown. */
static void ask_peer(struct connection *connection) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    struct ucred process;
    char *address = connection->address, *match = connection->match;
    if (getpeername(connection->descriptor, (struct sockaddr *)&name, &size))
        return;
    if (name.ss_family != AF_UNIX) {
        if (getnameinfo((struct sockaddr *)&name, size, address, SECURITY_ADDRESS_SIZE, NULL, 0,
                        NI_NUMERICHOST))
            *address = '\0';
        snprintf(match, SECURITY_MATCH_SIZE, "%s", address);
        return;
    }
    size = sizeof process;
    if (getsockopt(connection->descriptor, SOL_SOCKET, SO_PEERCRED, &process, &size))
        return;
    snprintf(address, SECURITY_ADDRESS_SIZE, "process %d of user %u", (int)process.pid,
             (unsigned)process.uid);
    snprintf(match, SECURITY_MATCH_SIZE, ":%u:%u:%d", (unsigned)process.uid, (unsigned)process.gid,
             (int)process.pid);
}

/* ---- The table ---- */

static struct connection **place_of(struct security *security, int descriptor) {
    enum { ROOM_FIRST = 64 };
    size_t index = (size_t)descriptor, room = security->descriptors;
    if (index >= room) {
        for (room = room ? room : ROOM_FIRST; room <= index; room *= 2)
            continue;
        struct connection **larger =
            realloc(security->by_descriptor, room * sizeof *security->by_descriptor);
        if (!larger)
            return NULL;
        memset(larger + security->descriptors, 0, (room - security->descriptors) * sizeof *larger);
        security->by_descriptor = larger;
        security->descriptors = room;
    }
    return &security->by_descriptor[index];
}

/* A connection began or ended. */
static void change_holder(struct security *security, int descriptor) {
    if ((size_t)descriptor < security->taken_size)
        security->holders[descriptor]++;
}

static void remove_connection(struct security *security, struct connection *c) {
    discount(c);
    change_holder(security, c->descriptor);
    forget_suspect(security, c);
    TAILQ_REMOVE(&c->guarded->connections, c, all);
    security->by_descriptor[c->descriptor] = NULL;
    free(c);
}

void security_free_connections(struct security *security) {
    struct client *client;
    for (size_t i = 0; i < security->descriptors; i++)
        if (security->by_descriptor[i])
            remove_connection(security, security->by_descriptor[i]);
    while ((client = TAILQ_FIRST(&security->clients))) {
        TAILQ_REMOVE(&security->clients, client, all);
        free(client);
    }
    free(security->by_descriptor);
    free(security->taken);
    free(security->holders);
}

/* A connection without memory for its record could not be closed later: end it now. One socket
   may report a new connection before another socket's report about the previous connection with
   this descriptor is read. The descriptor may therefore belong to a closed connection. */
static void add_connection(struct security *security, struct guarded *guarded, int descriptor,
                           bool made) {
    struct connection **place = place_of(security, descriptor);
    uint64_t cookie = cookie_of(descriptor);
    if (place && *place && (*place)->guarded != guarded && cookie && (*place)->cookie == cookie)
        return;
    if (place && *place)
        remove_connection(security, *place);
    struct connection *c = place ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        shutdown(descriptor, SHUT_RDWR);
        return;
    }
    *place = c;
    change_holder(security, descriptor);
    c->guarded = guarded;
    c->descriptor = descriptor;
    c->cookie = cookie;
    c->serial = ++security->serials;
    c->made = made;
    c->stranger = !made;
    ask_peer(c);
    TAILQ_INSERT_TAIL(&guarded->connections, c, all);
    guarded->count++;
    if (c->stranger) {
        TAILQ_INSERT_TAIL(&guarded->strangers, c, strangers);
        guarded->stranger_count++;
    }
    limit_new(security, c);
}

/* The connection has closed. If it was not settled, its descriptor may have belonged to another
   one when its peer was determined, so the result is not reliable. */
static void end_connection(struct security *security, struct guarded *guarded, int descriptor) {
    char address[SECURITY_ADDRESS_SIZE] = "";
    struct connection *c = security_find(security, guarded, descriptor);
    bool ended = c && c->ended;
    if (c && c->settled)
        memcpy(address, c->address, sizeof address);
    if (c)
        remove_connection(security, c);
    if (guarded->failing != SECURITY_FAILURES && !ended)
        security_fail(security, (enum security_failure)guarded->failing, guarded, address, "");
    guarded->failing = SECURITY_FAILURES;
}

/* ---- Events of the monitors ---- */

static enum security_failure failure_of(uint16_t event, int32_t value) {
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        return SECURITY_BROKEN_OFF;
    return value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? SECURITY_NO_KEY
           : value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC    ? SECURITY_WRONG_KEY
                                                               : SECURITY_PROTOCOL;
}

/* A monitor's message is [u16 event, i32 value][endpoint]. The same thread reports a failure
   immediately before the end of its connection. Rejected keys are counted where they are
   rejected. */
static void process_event(struct security *security, struct guarded *guarded, const char *frame) {
    uint16_t event;
    int32_t value;
    memcpy(&event, frame, sizeof event);
    memcpy(&value, frame + sizeof event, sizeof value);
    switch (event) {
    case ZMQ_EVENT_ACCEPTED:
    case ZMQ_EVENT_CONNECTED:
        add_connection(security, guarded, value, event == ZMQ_EVENT_CONNECTED);
        break;
    /* the socket stops listening, and libzmq closes its connections silently */
    case ZMQ_EVENT_CLOSED:
        while (!TAILQ_EMPTY(&guarded->connections))
            remove_connection(security, TAILQ_FIRST(&guarded->connections));
        break;
    case ZMQ_EVENT_DISCONNECTED:
        end_connection(security, guarded, value);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        guarded->failing = (int)failure_of(event, value);
        break;
    }
}

/* libzmq reports the end of a connection before it closes the descriptor. Without such a report
   the descriptor was the connection's own when its peer was determined. */
static void settle(struct guarded *guarded) {
    struct connection *c;
    TAILQ_FOREACH_REVERSE(c, &guarded->connections, connection_list, all) {
        if (c->settled)
            break;
        c->settled = true;
    }
}

bool security_process_events(struct security *security, int most) {
    enum { EVENT_SIZE = sizeof(uint16_t) + sizeof(int32_t) };
    char frame[EVENT_SIZE], endpoint[1];
    bool all = true;
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        struct guarded *guarded = &security->sockets[i];
        int taken = 0;
        while (taken != most &&
               zmq_recv(guarded->monitor, frame, sizeof frame, ZMQ_DONTWAIT) >= 0) {
            zmq_recv(guarded->monitor, endpoint, sizeof endpoint, ZMQ_DONTWAIT);
            process_event(security, guarded, frame);
            taken++;
        }
        if (taken == most)
            all = false;
        else
            settle(guarded);
    }
    return all;
}
