#include <errno.h>
#include <malloc.h>
#include <string.h>
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

enum {
    FRAME_SIZE = 256, /* libzmq's own names and addresses are shorter */
    TRIMS = 16,       /* so often memory is given back after the last connection was ended, */
    TRIM_MS = 250,    /* and so far apart */
    LOOK_MS = 10,     /* at most so often it is looked what connections bring */
};

struct zap {
    size_t count; /* frames received */
    size_t sizes[ZAP_FRAMES];
    char frames[ZAP_FRAMES][FRAME_SIZE]; /* each followed by a 0 */
};

static const char version[] = "1.0";

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return tail <= length && !strcmp(text + length - tail, end);
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

/* Give the key to the connection that asks, which is one of that address that has none and has said
   enough. Of several it is any, and each of them may be the key's; one that was ended here may be
   it, too, but counts no more. NULL: it has gone. */
static struct connection *assign(struct guarded *guarded, const struct zap *zap, const char *key) {
    struct connection *first = NULL, *c;
    bool ended = false;
    TAILQ_FOREACH(c, &guarded->connections, all) {
        if (*c->key || (*c->match && !ends_with(zap->frames[ZAP_ADDRESS], c->match)))
            continue;
        ended |= c->ended;
        if (c->ended || !security_may_have_key(c))
            continue;
        c->unclear |= first != NULL;
        if (first)
            first->unclear = true;
        else
            first = c;
    }
    if (first)
        first->unclear |= ended;
    if (first)
        memcpy(first->key, key, sizeof first->key);
    return first;
}

/* Whether the client may come in, else `why` not; the lock is held. */
static bool admit(struct security *security, const struct zap *zap, key_text key,
                  const char **why) {
    struct guarded *guarded = find_socket(security, zap);
    if (!guarded || zap->count != ZAP_FRAMES || strcmp(zap->frames[ZAP_VERSION], version) ||
        strcmp(zap->frames[ZAP_MECHANISM], "CURVE") || zap->sizes[ZAP_KEY] != KEYS_BYTES)
        return false;
    zmq_z85_encode(key, (const uint8_t *)zap->frames[ZAP_KEY], KEYS_BYTES);
    struct connection *c = assign(guarded, zap, key);
    bool known = !guarded->listed || key_find(&guarded->allowed, key);
    *why = known ? "too many connections" : "unknown key";
    if (known && (!c || security_quota_join(security, c, key)))
        return true;
    security_fail(security, known ? SECURITY_QUOTA_CONNECTIONS : SECURITY_UNKNOWN_KEY, guarded,
                  c && *c->address ? c->address : zap->frames[ZAP_ADDRESS], key);
    return false;
}

static void reply(void *socket, const struct zap *zap, bool admitted, const char *why,
                  const char *key) {
    const char *status = admitted ? "200" : "400", *text = admitted ? "OK" : why;
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
        security_take_events(security, SECURITY_ALL);
        const char *why = "no key";
        bool admitted = admit(security, &zap, key, &why);
        pthread_mutex_unlock(&security->lock);
        reply(security->zap, &zap, admitted, why, key);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

enum { ITEM_STOP = SOCKET_ROLES, ITEM_ACTIVITY, ITEM_ZAP, ITEMS };

/* What connections bring is looked at when something comes, or after so many ms, but not all the
   time. Other threads use the monitors too, with the lock held: without it only their descriptors
   are waited for. */
static bool wait_for_news(struct security *security, zmq_pollitem_t items[ITEMS], uint64_t next,
                          bool more, long most) {
    uint64_t now = clock_ns();
    long timeout = more ? 0 : now < next ? (long)((next - now) / NS_PER_MS) + 1 : most;
    items[ITEM_ACTIVITY].events = now >= next ? ZMQ_POLLIN : 0;
    int ready = zmq_poll(items, security->keys ? ITEMS : ITEM_ZAP, timeout);
    return (ready >= 0 || errno == EINTR) && !items[ITEM_STOP].revents;
}

/* What floods have taken and given back stays with the C library, unless asked for: while they go
   on, and a while after, since what they have left is still looked through. */
struct trimming {
    uint64_t ended, due;
    int left;
};

static void give_back(struct trimming *trimming, uint64_t ended) {
    uint64_t now = clock_ns();
    if (ended != trimming->ended)
        trimming->left = TRIMS;
    trimming->ended = ended;
    if (trimming->left == 0 || now < trimming->due)
        return;
    malloc_trim(0);
    trimming->left--;
    trimming->due = now + TRIM_MS * NS_PER_MS;
}

void *security_serve(void *context) {
    struct security *security = context;
    uint64_t next = 0;
    struct trimming trimming = {0};
    bool more = false;
    long look = -1;
    zmq_pollitem_t items[ITEMS] = {
        [ITEM_STOP] = {.fd = security->stop, .events = ZMQ_POLLIN},
        [ITEM_ACTIVITY] = {.fd = security->activity},
        [ITEM_ZAP] = {.socket = security->zap, .events = ZMQ_POLLIN},
    };
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        items[i] = (zmq_pollitem_t){.fd = security->sockets[i].events, .events = ZMQ_POLLIN};
    while (wait_for_news(security, items, next, more, look && trimming.left ? TRIM_MS : look)) {
        uint64_t now = clock_ns();
        pthread_mutex_lock(&security->lock);
        more = !security_take_events(security, SECURITY_SOME);
        if (now >= next) {
            look = security_limit(security, now);
            next = now + LOOK_MS * NS_PER_MS;
        }
        uint64_t ended = security->ended;
        pthread_mutex_unlock(&security->lock);
        give_back(&trimming, ended);
        if (security->keys)
            answer(security);
    }
    return NULL;
}
