#include "security.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/text.h"
#include "common/threads.h"
#include "connections.h"

#define ZAP_ENDPOINT "inproc://zeromq.zap.01" /* RFC 27 */

enum {
    NAME_SIZE = 32,
    MONITOR_SIZE = 64,
    DESCRIPTORS_OWN = 64,        /* descriptors that the daemon needs beside connections */
    DESCRIPTORS_COUNTED = 65536, /* more than the possible number of connections and files */
    STRANGERS_SHARE = 4,         /* largest share of a socket's connections without a handshake */
};

static const char *const socket_names[SOCKET_ROLES] = {
    [SOCKET_EXAMPLES] = "examples",
    [SOCKET_STATISTICS] = "statistics",
    [SOCKET_CONTROL] = "control",
};

/* Largest number of connections of a socket if there are enough descriptors: each needs about 20
   KB in libzmq. */
static const size_t connections_most[SOCKET_ROLES] = {
    [SOCKET_EXAMPLES] = 1024,
    [SOCKET_STATISTICS] = 512,
    [SOCKET_CONTROL] = 128,
};

static void monitor_endpoint(char endpoint[MONITOR_SIZE], const char *name) {
    snprintf(endpoint, MONITOR_SIZE, "inproc://runnel-security-%s", name);
}

/* The frames of a request (RFC 27). */
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
    TRIMS = 16,       /* number of times that memory is returned after the end of a connection */
    TRIM_MS = 250,    /* interval between them */
    LOOK_MS = 10,     /* shortest interval between measurements of connections */
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

/* ---- Answers to libzmq ---- */

static bool receive_zap(void *socket, struct zap *zap) {
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

/* Assign the key to a connection of that address without a key that has sent enough. If there
   are several, choose any, and mark all as uncertain; an ended one may be the owner, too. NULL:
   the connection is gone. */
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

/* Whether the client is admitted, else `why` not; the lock is held. */
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
    if (known && (!c || security_admit(security, c, key)))
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
    zmq_send(socket, key, admitted ? strlen(key) : 0, ZMQ_SNDMORE); /* the user id */
    zmq_send(socket, "", 0, 0);
}

/* Process events of connections before decisions about them. */
static void answer(struct security *security) {
    struct zap zap;
    while (receive_zap(security->zap, &zap)) {
        key_text key = "";
        pthread_mutex_lock(&security->lock);
        security_process_events(security, SECURITY_ALL);
        const char *why = "no key";
        bool admitted = admit(security, &zap, key, &why);
        pthread_mutex_unlock(&security->lock);
        reply(security->zap, &zap, admitted, why, key);
    }
}

/* ---- The thread ---- */

enum { ITEM_STOP = SOCKET_ROLES, ITEM_ACTIVITY, ITEM_ZAP, ITEMS };

/* Wait for events, or for the next measurement of connections, which must not be too frequent.
   Other threads also use the monitors, with the lock held: without it, only wait for their
   descriptors. */
static bool wait_for_news(struct security *security, zmq_pollitem_t items[ITEMS], uint64_t next,
                          bool more, long most) {
    uint64_t now = clock_ns();
    long timeout = more ? 0 : now < next ? (long)((next - now) / NS_PER_MS) + 1 : most;
    items[ITEM_ACTIVITY].events = now >= next ? ZMQ_POLLIN : 0;
    int ready = zmq_poll(items, security->keys ? ITEMS : ITEM_ZAP, timeout);
    return (ready >= 0 || errno == EINTR) && !items[ITEM_STOP].revents;
}

/* The C library keeps memory that floods have used, unless it is trimmed: during floods, and for
   a while after them, because libzmq still processes their data. */
struct trimming {
    uint64_t ended, due;
    int left;
};

static void trim_memory(struct trimming *trimming, uint64_t ended) {
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

static void *serve(void *context) {
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
        more = !security_process_events(security, SECURITY_SOME);
        if (now >= next) {
            look = security_limit(security, now);
            next = now + LOOK_MS * NS_PER_MS;
        }
        uint64_t ended = security->ended;
        pthread_mutex_unlock(&security->lock);
        trim_memory(&trimming, ended);
        if (security->keys)
            answer(security);
    }
    return NULL;
}

/* ---- Opening and closing ---- */

/* Add the key `name` of the configuration to an error of keys_read_... */
static int explain(struct error *error, const char *name) {
    error->status = EX_CONFIG;
    return error_prefix(error, "security.%s", name);
}

static int read_lists(const struct config *config, struct key_list lists[SOCKET_ROLES],
                      struct error *error) {
    char name[sizeof "allow." + NAME_SIZE];
    memset(lists, 0, SOCKET_ROLES * sizeof *lists);
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        const char *path = config->security.allow[i];
        if (!*path || keys_read_list(path, &lists[i], error) == 0)
            continue;
        for (size_t n = 0; n < i; n++)
            keys_clear(&lists[n]);
        snprintf(name, sizeof name, "allow.%s", socket_names[i]);
        return explain(error, name);
    }
    return 0;
}

/* The caller clears the lists on success. */
static int read_keys(const struct config *config, struct key_pair *pair,
                     struct key_list lists[SOCKET_ROLES], struct error *error) {
    if (!zmq_has("curve"))
        return error_set(error, EX_CONFIG,
                         "security.secret: this libzmq does not support CURVE; install another "
                         "build");
    keys_conceal_process();
    if (keys_read_pair(config->security.secret, pair, error))
        return explain(error, "secret");
    return read_lists(config, lists, error);
}

static bool has_all(const struct key_list *list, const struct key_list *keys) {
    for (size_t i = 0; i < keys->count; i++)
        if (!key_find(list, keys->entries[i].key))
            return false;
    return true;
}

static void replace_lists(struct security *security, const struct config *config,
                          struct key_list lists[SOCKET_ROLES]) {
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        struct guarded *guarded = &security->sockets[i];
        guarded->revoked =
            security->running && (!guarded->listed || !has_all(&lists[i], &guarded->allowed));
        keys_clear(&guarded->allowed);
        guarded->allowed = lists[i];
        guarded->listed = *config->security.allow[i] != '\0';
    }
}

int security_check(const struct config *config, struct error *error) {
    struct key_pair pair;
    struct key_list lists[SOCKET_ROLES];
    if (!*config->security.secret)
        return 0;
    int result = read_keys(config, &pair, lists, error);
    explicit_bzero(&pair, sizeof pair);
    for (size_t i = 0; result == 0 && i < SOCKET_ROLES; i++)
        keys_clear(&lists[i]);
    return result;
}

/* The monitor pairs have no limit: a full pair would block libzmq's own thread. */
static int open_pairs(struct security *security, void *zmq_context) {
    const int zero = 0;
    char endpoint[MONITOR_SIZE];
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        struct guarded *guarded = &security->sockets[i];
        size_t size = sizeof guarded->events;
        monitor_endpoint(endpoint, guarded->name);
        guarded->monitor = zmq_socket(zmq_context, ZMQ_PAIR);
        if (!guarded->monitor || zmq_setsockopt(guarded->monitor, ZMQ_RCVHWM, &zero, sizeof zero) ||
            zmq_setsockopt(guarded->monitor, ZMQ_LINGER, &zero, sizeof zero) ||
            zmq_connect(guarded->monitor, endpoint) ||
            zmq_getsockopt(guarded->monitor, ZMQ_FD, &guarded->events, &size))
            return -1;
    }
    if (!security->keys)
        return 0;
    security->zap = zmq_socket(zmq_context, ZMQ_REP);
    return security->zap && !zmq_setsockopt(security->zap, ZMQ_LINGER, &zero, sizeof zero)
               ? zmq_bind(security->zap, ZAP_ENDPOINT)
               : -1;
}

static int start_thread(struct security *security) {
    errno = threads_start(&security->thread, serve, security);
    security->running = errno == 0;
    return errno ? -1 : 0;
}

/* Some descriptors are always reserved for checkpoint and journal. */
static int set_limits(struct security *security) {
    struct rlimit limit;
    size_t share = SIZE_MAX;
    security->taken_size = DESCRIPTORS_COUNTED;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        share = limit.rlim_cur > 2 * DESCRIPTORS_OWN
                    ? (limit.rlim_cur - DESCRIPTORS_OWN) / (SOCKET_ROLES + 1)
                    : DESCRIPTORS_OWN / (SOCKET_ROLES + 1);
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        struct guarded *guarded = &security->sockets[i];
        guarded->most = connections_most[i] < share ? connections_most[i] : share;
        guarded->most_strangers = guarded->most / STRANGERS_SHARE;
    }
    security->taken = calloc(security->taken_size, sizeof *security->taken);
    security->holders = calloc(security->taken_size, sizeof *security->holders);
    return security->taken && security->holders ? 0 : -1;
}

static int start(struct security *security, void *zmq_context, struct error *error) {
    security->stop = eventfd(0, EFD_CLOEXEC);
    security->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    security->activity = epoll_create1(EPOLL_CLOEXEC);
    security->memory = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (security->stop >= 0 && security->news >= 0 && security->activity >= 0 &&
        open_pairs(security, zmq_context) == 0 && start_thread(security) == 0)
        return 0;
    return error_set(error, EX_OSERR, "cannot start monitoring connections: %s",
                     zmq_strerror(errno));
}

int security_open(struct security **opened, void *zmq_context, const struct config *config,
                  struct error *error) {
    struct key_list lists[SOCKET_ROLES];
    struct security *security = *opened = calloc(1, sizeof *security);
    if (!security)
        return error_set(error, EX_OSERR, "out of memory for the sockets");
    pthread_mutex_init(&security->lock, NULL);
    security->stop = security->news = security->activity = security->memory = -1;
    security->due = UINT64_MAX;
    security->quota = config->security.quota;
    TAILQ_INIT(&security->clients);
    security->keys = *config->security.secret != '\0';
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        struct guarded *guarded = &security->sockets[i];
        guarded->name = socket_names[i];
        guarded->failing = SECURITY_FAILURES;
        TAILQ_INIT(&guarded->connections);
        TAILQ_INIT(&guarded->strangers);
    }
    TAILQ_INIT(&security->suspects);
    if (set_limits(security)) {
        security_close(opened);
        return error_set(error, EX_OSERR, "out of memory for the sockets");
    }
    int result = security->keys ? read_keys(config, &security->pair, lists, error) : 0;
    if (security->keys && result == 0)
        replace_lists(security, config, lists);
    if (result == 0)
        result = start(security, zmq_context, error);
    if (result)
        security_close(opened);
    return result;
}

void security_close(struct security **opened) {
    struct security *security = *opened;
    if (!security)
        return;
    if (security->running) {
        eventfd_write(security->stop, 1);
        pthread_join(security->thread, NULL);
    }
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        struct guarded *guarded = &security->sockets[i];
        if (guarded->monitor)
            zmq_close(guarded->monitor);
        keys_clear(&guarded->allowed);
    }
    security_free_connections(security);
    if (security->zap)
        zmq_close(security->zap);
    if (security->stop >= 0)
        close(security->stop);
    if (security->news >= 0)
        close(security->news);
    if (security->activity >= 0)
        close(security->activity);
    if (security->memory >= 0)
        close(security->memory);
    pthread_mutex_destroy(&security->lock);
    explicit_bzero(&security->pair, sizeof security->pair);
    free(security);
    *opened = NULL;
}

bool security_has_keys(const struct security *security) {
    return security && security->keys;
}

static int set_keys(const struct security *security, void *socket, const char *name) {
    const int server = 1;
    return zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &server, sizeof server) ||
                   security_rekey(security, socket)
               ? -1
               : zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, name, strlen(name));
}

int security_protect(struct security *security, void *socket, const char *key,
                     struct error *error) {
    const int connections =
        ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED;
    const int handshakes =
        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    char name[NAME_SIZE], endpoint[MONITOR_SIZE];
    if (!security)
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(key, "."), key);
    monitor_endpoint(endpoint, name);
    if ((!security->keys || set_keys(security, socket, name) == 0) &&
        zmq_socket_monitor(socket, endpoint, connections | (security->keys ? handshakes : 0)) == 0)
        return 0;
    return error_set(error, EX_SOFTWARE, "%s: cannot protect the socket: %s", key,
                     zmq_strerror(errno));
}

/* A path chosen by libzmq, including its directory, disappears when it is unbound. */
static int check_names(const struct config *config, struct error *error) {
    const struct socket_config *sockets[SOCKET_ROLES] = {&config->examples, &config->statistics,
                                                         &config->control};
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        if (!sockets[i]->connect && !strcmp(sockets[i]->endpoint, "ipc://*"))
            return error_set(error, EX_CONFIG,
                             "security.secret: the key in %s has changed; restart the daemon, "
                             "because %s.bind is \"ipc://*\"",
                             config->security.secret, socket_names[i]);
    return 0;
}

int security_reload(struct security *security, const struct config *config, size_t *cut_off,
                    bool *key_changed, struct error *error) {
    struct key_pair pair;
    struct key_list lists[SOCKET_ROLES];
    *cut_off = 0;
    *key_changed = false;
    if (!security_has_keys(security))
        return 0;
    if (read_keys(config, &pair, lists, error))
        goto fail;
    *key_changed = memcmp(pair.secret, security->pair.secret, sizeof pair.secret) != 0;
    if (*key_changed && check_names(config, error)) {
        for (size_t i = 0; i < SOCKET_ROLES; i++)
            keys_clear(&lists[i]);
        goto fail;
    }
    pthread_mutex_lock(&security->lock);
    security->pair = pair;
    security->quota = config->security.quota;
    replace_lists(security, config, lists);
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        *cut_off += *key_changed ? security->sockets[i].count
                                 : security_cut_off(security, &security->sockets[i]);
    pthread_mutex_unlock(&security->lock);
    explicit_bzero(&pair, sizeof pair);
    return 0;
fail:
    explicit_bzero(&pair, sizeof pair);
    return -1;
}

const char *security_key(const struct security *security) {
    return security_has_keys(security) ? security->pair.public : NULL;
}

int security_rekey(const struct security *security, void *socket) {
    return zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, security->pair.secret,
                          sizeof security->pair.secret);
}

/* Only the caller's thread changes the lists. The user id is the key, from the answer to ZAP. */
bool security_may_send(const struct security *security, zmq_msg_t *message, const char *stream,
                       size_t size, char *why, size_t why_size) {
    if (!security)
        return true;
    const struct guarded *guarded = &security->sockets[SOCKET_EXAMPLES];
    if (!guarded->listed || !(guarded->allowed.limited || guarded->revoked))
        return true;
    const char *key = zmq_msg_gets(message, "User-Id");
    const struct key_entry *entry = key ? key_find(&guarded->allowed, key) : NULL;
    char name[TEXT_QUOTE_SIZE], streams[TEXT_QUOTE_SIZE];
    if (entry && key_may_send(entry, stream, size))
        return true;
    if (!entry)
        snprintf(why, why_size, "its client's key %s is no longer on the list", key ? key : "");
    else
        snprintf(why, why_size, "its client %s (%s) may send only %s",
                 text_quote(name, entry->name, strlen(entry->name)), key,
                 text_quote(streams, entry->streams, strlen(entry->streams)));
    return false;
}

/* ---- Subscribers ---- */

uint64_t security_connection(struct security *security, int role, int descriptor) {
    if (!security)
        return 0;
    pthread_mutex_lock(&security->lock);
    security_process_events(security, SECURITY_ALL);
    const struct connection *c = security_find(security, &security->sockets[role], descriptor);
    uint64_t number = c && !c->ended ? c->serial : 0;
    pthread_mutex_unlock(&security->lock);
    return number;
}

void security_end_subscriber(struct security *security, int descriptor, uint64_t number) {
    if (!security)
        return;
    pthread_mutex_lock(&security->lock);
    struct connection *c =
        security_find(security, &security->sockets[SOCKET_STATISTICS], descriptor);
    if (c && c->serial == number && !c->made)
        security_end_for(security, c, SECURITY_SUBSCRIPTIONS);
    pthread_mutex_unlock(&security->lock);
}

size_t security_connections(struct security *security, int role) {
    if (!security)
        return 0;
    pthread_mutex_lock(&security->lock);
    size_t count = security->sockets[role].count;
    pthread_mutex_unlock(&security->lock);
    return count;
}

/* ---- Events ---- */

enum { COUNTED_SIZE = 64 };

static const uint64_t announcement_interval = 1000000000; /* ns */

static const char *const failure_names[SECURITY_FAILURES] = {
    [SECURITY_UNKNOWN_KEY] = "unknown_key",
    [SECURITY_NO_KEY] = "no_key",
    [SECURITY_WRONG_KEY] = "wrong_key",
    [SECURITY_PROTOCOL] = "protocol",
    [SECURITY_BROKEN_OFF] = "broken_off",
    [SECURITY_CONNECTIONS] = "connections",
    [SECURITY_SUBSCRIPTIONS] = "subscriptions",
    [SECURITY_QUOTA_CONNECTIONS] = "quota_connections",
    [SECURITY_QUOTA_BYTES] = "quota_bytes",
    [SECURITY_QUOTA_WAITING] = "quota_waiting",
    [SECURITY_QUOTA_SUBSCRIPTIONS] = "quota_subscriptions",
    [SECURITY_QUOTA_REQUESTS] = "quota_requests",
    [SECURITY_ENDLESS] = "endless",
};

static const char *const failure_texts[SECURITY_FAILURES] = {
    [SECURITY_UNKNOWN_KEY] = "its key is not allowed (see security.allow)",
    [SECURITY_NO_KEY] = "it does not use CURVE; runnel's programs require --server-key",
    [SECURITY_WRONG_KEY] = "it does not have this daemon's public key",
    [SECURITY_PROTOCOL] = "it does not send a ZeroMQ handshake",
    [SECURITY_BROKEN_OFF] = "it disconnected or timed out in the handshake, as clients without "
                            "keys do",
    [SECURITY_CONNECTIONS] = "too many connections, or too many without a handshake",
    [SECURITY_SUBSCRIPTIONS] = "it sends messages other than subscriptions to topics",
    [SECURITY_QUOTA_CONNECTIONS] = "its key exceeds security.quota.connections",
    [SECURITY_QUOTA_BYTES] = "its key exceeds security.quota.bytes",
    [SECURITY_QUOTA_WAITING] = "its key exceeds security.quota.waiting",
    [SECURITY_QUOTA_SUBSCRIPTIONS] = "its key exceeds security.quota.subscriptions",
    [SECURITY_QUOTA_REQUESTS] = "its key exceeds security.quota.requests",
    [SECURITY_ENDLESS] = "it sends a message that is larger than any valid one, or too many "
                         "waiting messages",
};

int security_descriptor(const struct security *security) {
    return security ? security->news : -1;
}

static void write_notice(const struct guarded *guarded, enum security_failure failure,
                         struct security_notice *notice) {
    const struct failures *f = &guarded->failures[failure];
    const char *what = failure == SECURITY_QUOTA_REQUESTS ? "request" : "connection";
    char counted[COUNTED_SIZE];
    notice->count = f->count - f->announced;
    if (notice->count > 1)
        snprintf(counted, sizeof counted, "%" PRIu64 " %ss, the last", notice->count, what);
    else
        snprintf(counted, sizeof counted, "a %s", what);
    notice->reason = failure_names[failure];
    notice->socket = guarded->name;
    memcpy(notice->address, f->address, sizeof notice->address);
    memcpy(notice->key, f->key, sizeof notice->key);
    snprintf(notice->text, sizeof notice->text, "%s %s from %s to the %s socket (%s): %s%s%s",
             failure < SECURITY_REFUSALS ? "refused" : "ended", counted, f->address, guarded->name,
             notice->reason, failure_texts[failure], *f->key ? ": " : "", f->key);
}

/* The next unannounced failures of any socket, or NULL. */
static struct failures *next_failures(struct security *security, uint64_t now,
                                      struct guarded **guarded, enum security_failure *failure) {
    for (size_t n = 0; n < SOCKET_ROLES * SECURITY_FAILURES; n++) {
        *guarded = &security->sockets[n / SECURITY_FAILURES];
        *failure = (enum security_failure)(n % SECURITY_FAILURES);
        struct failures *f = &(*guarded)->failures[*failure];
        if (f->count > f->announced && now >= f->due)
            return f;
    }
    return NULL;
}

bool security_announce(struct security *security, uint64_t now, struct security_notice *notice) {
    eventfd_t news;
    struct guarded *guarded;
    enum security_failure failure;
    if (!security)
        return false;
    eventfd_read(security->news, &news);
    if (now < security->due)
        return false;
    pthread_mutex_lock(&security->lock);
    struct failures *f = next_failures(security, now, &guarded, &failure);
    if (f) {
        write_notice(guarded, failure, notice);
        f->announced = f->count;
        f->due = now < UINT64_MAX - announcement_interval ? now + announcement_interval : now;
    }
    security_set_due(security);
    pthread_mutex_unlock(&security->lock);
    return f != NULL;
}

uint64_t security_announcement_due(struct security *security) {
    return security ? security->due : UINT64_MAX;
}

static uint64_t count_failed(struct security *security, enum security_failure failure) {
    uint64_t count = 0;
    if (!security)
        return count;
    pthread_mutex_lock(&security->lock);
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        count += security->sockets[i].failures[failure].count;
    pthread_mutex_unlock(&security->lock);
    return count;
}

void security_report(struct security *security, struct status_fields *status,
                     struct field_count counts[SECURITY_FAILURES]) {
    for (size_t i = 0; i < SECURITY_FAILURES; i++) {
        uint64_t count = count_failed(security, (enum security_failure)i);
        counts[i] = (struct field_count){failure_names[i], count};
        *(i < SECURITY_REFUSALS ? &status->security_refused : &status->connections_ended) += count;
    }
    status->security_key = security ? security->pair.public : "";
    status->security_refused_by = (struct field_tally){counts, SECURITY_REFUSALS};
    status->connections_ended_by =
        (struct field_tally){counts + SECURITY_REFUSALS, SECURITY_FAILURES - SECURITY_REFUSALS};
    status->connections_examples = security_connections(security, SOCKET_EXAMPLES);
    status->connections_statistics = security_connections(security, SOCKET_STATISTICS);
    status->connections_control = security_connections(security, SOCKET_CONTROL);
}
