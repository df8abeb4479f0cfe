#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <zmq.h>

#include "security_internal.h"

/* A request's frames (RFC 27). */
enum zap_frame {
    ZAP_VERSION,
    ZAP_REQUEST,
    ZAP_DOMAIN,
    ZAP_ADDRESS,
    ZAP_ROUTING,
    ZAP_MECHANISM,
    ZAP_KEY,
    ZAP_FRAMES,
};

enum { FRAME_SIZE = 256 }; /* libzmq's own names and addresses are shorter */

struct zap {
    size_t count; /* frames received */
    size_t sizes[ZAP_FRAMES];
    char frames[ZAP_FRAMES][FRAME_SIZE]; /* each followed by a 0 */
};

static const char version[] = "1.0";

static void fail(struct security *security, enum security_failure failure, struct guarded *guarded,
                 const char *address, const char *key) {
    struct failures *f = &guarded->failures[failure];
    f->count++;
    snprintf(f->address, sizeof f->address, "%s", *address ? address : "an unknown address");
    memcpy(f->key, key, strlen(key) + 1);
    eventfd_write(security->news, 1);
}

/* --- connections ------------------------------------------------------------------------------ */

/* Who is at the other end, as ZAP says it too; texts stay empty when that cannot be known. */
static void ask_peer(int descriptor, char address[SECURITY_ADDRESS_SIZE],
                     char match[SECURITY_MATCH_SIZE]) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    struct ucred process;
    *address = *match = '\0';
    if (getpeername(descriptor, (struct sockaddr *)&name, &size))
        return;
    if (name.ss_family != AF_UNIX) {
        if (getnameinfo((struct sockaddr *)&name, size, address, SECURITY_ADDRESS_SIZE, NULL, 0,
                        NI_NUMERICHOST))
            *address = '\0';
        snprintf(match, SECURITY_MATCH_SIZE, "%s", address);
        return;
    }
    size = sizeof process;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &process, &size))
        return;
    snprintf(address, SECURITY_ADDRESS_SIZE, "process %d of user %u", (int)process.pid,
             (unsigned)process.uid);
    snprintf(match, SECURITY_MATCH_SIZE, ":%u:%u:%d", (unsigned)process.uid, (unsigned)process.gid,
             (int)process.pid);
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return tail <= length && !strcmp(text + length - tail, end);
}

/* A connection for which there is no memory could not be closed later: it ends now. */
static void add_connection(struct guarded *guarded, int descriptor) {
    enum { ROOM_FIRST = 16 };
    if (guarded->count == guarded->room) {
        size_t room = guarded->room ? 2 * guarded->room : ROOM_FIRST;
        struct connection *larger =
            realloc(guarded->connections, room * sizeof *guarded->connections);
        if (!larger) {
            shutdown(descriptor, SHUT_RDWR);
            return;
        }
        guarded->connections = larger;
        guarded->room = room;
    }
    struct connection *c = &guarded->connections[guarded->count++];
    *c = (struct connection){.descriptor = descriptor};
    ask_peer(descriptor, c->address, c->match);
}

/* The connection is gone. When it was not settled, its descriptor may have been another's when its
   peer was asked for, and says nothing. */
static void end_connection(struct security *security, struct guarded *guarded, int descriptor) {
    char address[SECURITY_ADDRESS_SIZE] = "";
    for (size_t i = 0; i < guarded->count; i++) {
        struct connection *c = &guarded->connections[i];
        if (c->descriptor != descriptor)
            continue;
        if (c->settled)
            memcpy(address, c->address, sizeof address);
        guarded->count--;
        memmove(c, c + 1, (guarded->count - i) * sizeof *c);
        break;
    }
    if (guarded->failing != SECURITY_FAILURES)
        fail(security, (enum security_failure)guarded->failing, guarded, address, "");
    guarded->failing = SECURITY_FAILURES;
}

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
        add_connection(guarded, value);
        break;
    case ZMQ_EVENT_CLOSED: /* it listens no more, and libzmq ends its connections in silence */
        guarded->count = 0;
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
    for (size_t i = guarded->count; i > 0 && !guarded->connections[i - 1].settled; i--)
        guarded->connections[i - 1].settled = true;
}

static void take_events(struct security *security) {
    enum { EVENT_SIZE = sizeof(uint16_t) + sizeof(int32_t) };
    char frame[EVENT_SIZE], endpoint[1];
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        struct guarded *guarded = &security->sockets[i];
        while (zmq_recv(guarded->monitor, frame, sizeof frame, ZMQ_DONTWAIT) >= 0) {
            zmq_recv(guarded->monitor, endpoint, sizeof endpoint, ZMQ_DONTWAIT);
            take_event(security, guarded, frame);
        }
        settle(guarded);
    }
}

size_t security_cut_off(struct guarded *guarded) {
    size_t cut_off = 0;
    for (size_t i = 0; guarded->listed && i < guarded->count; i++) {
        struct connection *c = &guarded->connections[i];
        if (!(c->unclear && guarded->revoked) && (!*c->key || key_find(&guarded->allowed, c->key)))
            continue;
        char address[SECURITY_ADDRESS_SIZE], match[SECURITY_MATCH_SIZE];
        ask_peer(c->descriptor, address, match);
        if (strcmp(match, c->match))
            continue; /* it has ended, and the descriptor is another's */
        shutdown(c->descriptor, SHUT_RDWR);
        cut_off++;
    }
    return cut_off;
}

/* --- answers to libzmq ------------------------------------------------------------------------ */

static bool receive(void *socket, struct zap *zap) {
    int more = 1;
    for (zap->count = 0; more; zap->count++) {
        char surplus[FRAME_SIZE], *frame = surplus;
        if (zap->count < ZAP_FRAMES)
            frame = zap->frames[zap->count];
        int size = zmq_recv(socket, frame, FRAME_SIZE - 1, ZMQ_DONTWAIT);
        if (size < 0)
            return false;
        size = size < FRAME_SIZE ? size : FRAME_SIZE - 1;
        frame[size] = '\0';
        if (zap->count < ZAP_FRAMES)
            zap->sizes[zap->count] = (size_t)size;
        size_t width = sizeof more;
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &width);
    }
    return true;
}

static struct guarded *find_socket(struct security *security, const struct zap *zap) {
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        if (!strcmp(security->sockets[i].name, zap->frames[ZAP_DOMAIN]))
            return &security->sockets[i];
    return NULL;
}

/* Give the key to the connection that asks, which is one of that address that has none. Of several
   it is any, and each of them may be the key's. Returns the address for people. */
static const char *assign(struct guarded *guarded, const struct zap *zap, const char *key) {
    struct connection *first = NULL;
    for (size_t i = 0; i < guarded->count; i++) {
        struct connection *c = &guarded->connections[i];
        if (*c->key || (*c->match && !ends_with(zap->frames[ZAP_ADDRESS], c->match)))
            continue;
        if (first)
            first->unclear = c->unclear = true;
        else
            first = c;
    }
    if (!first)
        return zap->frames[ZAP_ADDRESS];
    memcpy(first->key, key, sizeof first->key);
    return *first->address ? first->address : zap->frames[ZAP_ADDRESS];
}

/* Whether the client may come in; the lock is held. */
static bool admit(struct security *security, const struct zap *zap, key_text key) {
    struct guarded *guarded = find_socket(security, zap);
    if (!guarded || zap->count != ZAP_FRAMES || strcmp(zap->frames[ZAP_VERSION], version) ||
        strcmp(zap->frames[ZAP_MECHANISM], "CURVE") || zap->sizes[ZAP_KEY] != KEYS_BYTES)
        return false;
    zmq_z85_encode(key, (const uint8_t *)zap->frames[ZAP_KEY], KEYS_BYTES);
    const char *address = assign(guarded, zap, key);
    if (!guarded->listed || key_find(&guarded->allowed, key))
        return true;
    fail(security, SECURITY_UNKNOWN_KEY, guarded, address, key);
    return false;
}

static void reply(void *socket, const struct zap *zap, bool admitted, const char *key) {
    const char *status = admitted ? "200" : "400", *text = admitted ? "OK" : "unknown key";
    zmq_send(socket, version, strlen(version), ZMQ_SNDMORE);
    zmq_send(socket, zap->frames[ZAP_REQUEST],
             zap->count > ZAP_REQUEST ? zap->sizes[ZAP_REQUEST] : 0, ZMQ_SNDMORE);
    zmq_send(socket, status, strlen(status), ZMQ_SNDMORE);
    zmq_send(socket, text, strlen(text), ZMQ_SNDMORE);
    zmq_send(socket, key, admitted ? strlen(key) : 0, ZMQ_SNDMORE); /* the user's id */
    zmq_send(socket, "", 0, 0);
}

/* What is known of connections comes before what is decided on them. */
static void answer(struct security *security) {
    struct zap zap;
    while (receive(security->zap, &zap)) {
        key_text key = "";
        pthread_mutex_lock(&security->lock);
        take_events(security);
        bool admitted = admit(security, &zap, key);
        pthread_mutex_unlock(&security->lock);
        reply(security->zap, &zap, admitted, key);
    }
}

void *security_serve(void *context) {
    struct security *security = context;
    enum { ITEM_STOP = SOCKET_ROLES, ITEM_ZAP, ITEMS };
    zmq_pollitem_t items[ITEMS] = {
        [ITEM_STOP] = {.fd = security->stop, .events = ZMQ_POLLIN},
        [ITEM_ZAP] = {.socket = security->zap, .events = ZMQ_POLLIN},
    };
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        items[i] = (zmq_pollitem_t){.socket = security->sockets[i].monitor, .events = ZMQ_POLLIN};
    while (zmq_poll(items, ITEMS, -1) >= 0 || errno == EINTR) {
        if (items[ITEM_STOP].revents)
            break;
        pthread_mutex_lock(&security->lock);
        take_events(security);
        pthread_mutex_unlock(&security->lock);
        answer(security);
    }
    return NULL;
}
