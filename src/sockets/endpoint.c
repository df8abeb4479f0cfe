#include "endpoint.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "common/error.h"
#include "config/config.h"
#include "security/security.h"

/* Bits of libzmq's I/O threads. */
enum { EXAMPLES_THREAD = 1, OTHERS_THREAD = 2 };

static const char ipc_scheme[] = "ipc://";

static bool somebody_listens(const char *endpoint) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = endpoint + sizeof ipc_scheme - 1;
    if (strncmp(endpoint, ipc_scheme, sizeof ipc_scheme - 1) ||
        strlen(path) >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return false;
    int result = connect(probe, (struct sockaddr *)&address, sizeof address);
    bool listens = result == 0 || errno == EAGAIN;
    close(probe);
    return listens;
}

/* Returns 0, or an errno. */
static int attach(void *socket, const struct socket_config *config) {
    if (config->connect)
        return zmq_connect(socket, config->endpoint) ? errno : 0;
    if (somebody_listens(config->endpoint))
        return EADDRINUSE;
    return zmq_bind(socket, config->endpoint) ? errno : 0;
}

static int explain(int why, const struct socket_config *config, const char *key,
                   struct error *error) {
    const char *endpoint = config->endpoint;
    if (config->connect)
        return error_set(error, EX_CONFIG, "%s: cannot connect to %s: %s", key, endpoint,
                         zmq_strerror(why));
    if (why == EINVAL || why == EPROTONOSUPPORT)
        return error_set(error, EX_CONFIG,
                         "%s: invalid endpoint '%s'; expected tcp://ADDRESS:PORT or ipc://PATH",
                         key, endpoint);
    if (why == EADDRINUSE)
        return error_set(error, EX_UNAVAILABLE,
                         "%s: cannot bind %s: already in use; stop the other program or choose "
                         "another endpoint",
                         key, endpoint);
    return error_set(error, EX_UNAVAILABLE,
                     "%s: cannot bind %s: %s; choose an address of this machine, or a writable "
                     "directory",
                     key, endpoint, zmq_strerror(why));
}

/* libzmq rejects an option of the wrong size. */
static void set(void *socket, const struct endpoint_option *option, bool encrypted) {
    int value = (int)option->value;
    bool limit = option->name == ZMQ_MAXMSGSIZE, wide = limit || option->name == ZMQ_AFFINITY;
    int64_t whole = option->value + (limit && encrypted ? SECURITY_OVERHEAD : 0);
    int refused = zmq_setsockopt(socket, option->name, wide ? (const void *)&whole : &value,
                                 wide ? sizeof whole : sizeof value);
    assert(refused == 0);
    (void)refused;
}

int endpoint_open(void **socket, void *zmq_context, struct security *security, int type,
                  const struct socket_config *config, const char *key,
                  const struct endpoint_option *options, size_t count, struct error *error) {
    static const struct endpoint_option shared[] = {
        {ZMQ_LINGER, ENDPOINT_LINGER_MS},
        {ZMQ_HANDSHAKE_IVL, ENDPOINT_HANDSHAKE_MS},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, ENDPOINT_KEEPALIVE_IDLE_S},
        {ZMQ_TCP_KEEPALIVE_INTVL, ENDPOINT_KEEPALIVE_INTERVAL_S},
        {ZMQ_TCP_KEEPALIVE_CNT, ENDPOINT_KEEPALIVE_PROBES},
    };
    *socket = zmq_socket(zmq_context, type);
    if (!*socket)
        return error_set(error, EX_SOFTWARE, "%s: cannot open a socket: %s", key,
                         zmq_strerror(errno));
    /* A flood on the other sockets does not delay examples. */
    const struct endpoint_option affinity = {
        ZMQ_AFFINITY, zmq_ctx_get(zmq_context, ZMQ_IO_THREADS) < ENDPOINT_IO_THREADS ? 0
                      : strncmp(key, "examples.", strlen("examples."))               ? OTHERS_THREAD
                                                                       : EXAMPLES_THREAD};
    const bool encrypted = security_has_keys(security);
    const struct endpoint_option ipv6 = {ZMQ_IPV6, strchr(config->endpoint, '[') != NULL};
    set(*socket, &ipv6, encrypted);
    set(*socket, &affinity, encrypted);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        set(*socket, &shared[i], encrypted);
    for (size_t i = 0; i < count; i++)
        set(*socket, &options[i], encrypted);
    int result = security_protect(security, *socket, key, error);
    int why = result == 0 ? attach(*socket, config) : 0;
    if (why)
        result = explain(why, config, key, error);
    if (result)
        endpoint_close(socket);
    return result;
}

/* Another thread closes the old endpoint: until then it is in use. Wait only for this, because
   the learning thread is waiting. The file of an ipc endpoint remains and is replaced. */
int endpoint_renew(void *socket, struct security *security, const struct socket_config *config,
                   const char *key, const char *name, struct error *error) {
    static const struct timespec pause = {.tv_nsec = 1000000};
    enum { TRIES = 2000 };
    struct socket_config same = {.connect = config->connect};
    snprintf(same.endpoint, sizeof same.endpoint, "%s", name);
    if (security_rekey(security, socket) ||
        (config->connect ? zmq_disconnect(socket, name) : zmq_unbind(socket, name)))
        return error_set(error, EX_SOFTWARE,
                         "%s: cannot change the key of %s: %s; restart the daemon", key, name,
                         zmq_strerror(errno));
    int why = attach(socket, &same);
    for (int n = 0; n < TRIES && why == EADDRINUSE; n++) {
        nanosleep(&pause, NULL);
        why = attach(socket, &same);
    }
    return why ? explain(why, &same, key, error) : 0;
}

/* Stop the monitor first: libzmq's thread would wait for a reader that may be gone, and lose the
   events with its memory. */
void endpoint_close(void **socket) {
    if (*socket) {
        zmq_socket_monitor(*socket, NULL, 0);
        zmq_close(*socket);
    }
    *socket = NULL;
}

void endpoint_name(void *socket, const struct socket_config *config, char *name) {
    size_t size = CONFIG_ENDPOINT_SIZE;
    if (config->connect || zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, name, &size))
        memcpy(name, config->endpoint, CONFIG_ENDPOINT_SIZE);
}
