#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

#include "security_internal.h"

/* ---- Who it is ---- */

/* Who is at the other end, as ZAP says it too; texts stay empty when that cannot be known. */
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

/* 0: it is no socket. */
static uint64_t cookie_of(int descriptor) {
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) ? 0 : cookie;
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

struct connection *security_find(struct security *security, const struct guarded *guarded,
                                 int descriptor) {
    if (descriptor < 0 || (size_t)descriptor >= security->descriptors)
        return NULL;
    struct connection *c = security->by_descriptor[descriptor];
    return c && c->guarded == guarded ? c : NULL;
}

/* It counts no more. */
static void discount(struct connection *c) {
    if (c->ended)
        return;
    c->ended = true;
    c->guarded->count--;
    security_quota_leave(c);
    if (c->stranger) {
        TAILQ_REMOVE(&c->guarded->strangers, c, strangers);
        c->guarded->stranger_count--;
    }
    c->stranger = false;
}

/* A connection has come, or gone. */
static void change_holder(struct security *security, int descriptor) {
    if ((size_t)descriptor < security->taken_size)
        security->holders[descriptor]++;
}

static void remove_connection(struct security *security, struct connection *c) {
    discount(c);
    change_holder(security, c->descriptor);
    security_limit_gone(security, c);
    TAILQ_REMOVE(&c->guarded->connections, c, all);
    security->by_descriptor[c->descriptor] = NULL;
    free(c);
}

void security_free_connections(struct security *security) {
    for (size_t i = 0; i < security->descriptors; i++)
        if (security->by_descriptor[i])
            remove_connection(security, security->by_descriptor[i]);
    free(security->by_descriptor);
    free(security->taken);
    free(security->holders);
}

/* A connection for which there is no memory could not be closed later: it ends now. One socket may
   report that it has a descriptor before the report of another, which had it, is read: so it may be
   this one that had it, and is gone. */
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
    security_limit_new(security, c);
}

/* The connection is gone. When it was not settled, its descriptor may have been another's when its
   peer was asked for, and says nothing. */
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

/* ---- What the monitors report ---- */

static enum security_failure failure_of(uint16_t event, int32_t value) {
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        return SECURITY_BROKEN_OFF;
    return value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? SECURITY_NO_KEY
           : value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC    ? SECURITY_WRONG_KEY
                                                               : SECURITY_PROTOCOL;
}

/* A monitor's message is [u16 event, i32 value][endpoint]. What failed is reported right before the
   end of its connection, by the same thread; keys that were refused are counted where that is done.
 */
static void take_event(struct security *security, struct guarded *guarded, const char *frame) {
    uint16_t event;
    int32_t value;
    memcpy(&event, frame, sizeof event);
    memcpy(&value, frame + sizeof event, sizeof value);
    switch (event) {
    case ZMQ_EVENT_ACCEPTED:
    case ZMQ_EVENT_CONNECTED:
        add_connection(security, guarded, value, event == ZMQ_EVENT_CONNECTED);
        break;
    case ZMQ_EVENT_CLOSED: /* it listens no more, and libzmq ends its connections in silence */
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

/* libzmq reports a connection's end before it closes the descriptor: where that has not been told
   by now, the descriptor was the connection's own when its peer was asked for. */
static void settle(struct guarded *guarded) {
    struct connection *c;
    TAILQ_FOREACH_REVERSE(c, &guarded->connections, connection_list, all) {
        if (c->settled)
            break;
        c->settled = true;
    }
}

bool security_take_events(struct security *security, int most) {
    enum { EVENT_SIZE = sizeof(uint16_t) + sizeof(int32_t) };
    char frame[EVENT_SIZE], endpoint[1];
    bool all = true;
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        struct guarded *guarded = &security->sockets[i];
        int taken = 0;
        while (taken != most &&
               zmq_recv(guarded->monitor, frame, sizeof frame, ZMQ_DONTWAIT) >= 0) {
            zmq_recv(guarded->monitor, endpoint, sizeof endpoint, ZMQ_DONTWAIT);
            take_event(security, guarded, frame);
            taken++;
        }
        if (taken == most)
            all = false;
        else
            settle(guarded);
    }
    return all;
}

/* ---- Ending ---- */

/* Where the descriptor has another cookie, it has ended, and the descriptor is another's. */
bool security_end(struct security *security, struct connection *connection) {
    if (connection->ended || cookie_of(connection->descriptor) != connection->cookie)
        return false;
    shutdown(connection->descriptor, SHUT_RDWR);
    discount(connection);
    security->ended++;
    return true;
}

void security_end_for(struct security *security, struct connection *connection,
                      enum security_failure why) {
    if (security_end(security, connection))
        security_fail(security, why, connection->guarded, connection->address, connection->key);
}

size_t security_cut_off(struct security *security, struct guarded *guarded) {
    size_t cut_off = 0;
    struct connection *c;
    TAILQ_FOREACH(c, &guarded->connections, all)
    if (guarded->listed &&
        ((c->unclear && guarded->revoked) || (*c->key && !key_find(&guarded->allowed, c->key))))
        cut_off += security_end(security, c);
    return cut_off;
}
