#include "build-config.h"

#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sysexits.h>
#include <unistd.h>
#include <zmq.h>

#include "common/text.h"

const char *runnel_version(void) {
    return PACKAGE_VERSION;
}

int peer_fail(struct runnel_error *error, int status, const char *format, ...) {
    if (!error)
        return -1;
    error->status = status;
    TEXT_FORMAT(error->text, sizeof error->text, format);
    text_clean(error->text);
    return -1;
}

static int read_keys(struct key_client *keys, const struct runnel_peer *from,
                     struct runnel_error *error) {
    struct error why;
    return keys_client(keys, from->key, from->server_key, &why) == 0
               ? 0
               : peer_fail(error, why.status, "%s", why.text);
}

int peer_open(struct peer *peer, const struct runnel_peer *from, struct runnel_error *error) {
    *peer = (struct peer){0};
    if (!from->endpoint)
        return peer_fail(error, EX_USAGE, "missing endpoint");
    if (read_keys(&peer->keys, from, error))
        return -1;
    peer->endpoint = strdup(from->endpoint);
    return peer->endpoint ? 0 : peer_fail(error, EX_UNAVAILABLE, "out of memory");
}

void peer_close(struct peer *peer) {
    free(peer->endpoint);
    explicit_bzero(&peer->keys, sizeof peer->keys);
    peer->endpoint = NULL;
}

int runnel_keys(void *zmq_socket, const struct runnel_peer *peer, struct runnel_error *error) {
    struct key_client keys;
    if (read_keys(&keys, peer, error))
        return -1;
    int status = keys_apply(&keys, zmq_socket);
    if (status)
        peer_fail(error, EX_UNAVAILABLE, "this libzmq does not support keys: %s",
                  zmq_strerror(errno));
    explicit_bzero(&keys, sizeof keys);
    return status;
}

int peer_set_options(const struct peer *peer, void *socket) {
    const int zero = 0, ipv6 = strchr(peer->endpoint, '[') != NULL;
    return zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero) ||
                   zmq_setsockopt(socket, ZMQ_IPV6, &ipv6, sizeof ipv6) ||
                   keys_apply(&peer->keys, socket)
               ? -1
               : 0;
}

/* No heartbeats: a daemon that lets its feeders wait does not read their heartbeats either, and
   the connection would end with examples in transit. TCP keepalives detect lost machines. */
int peer_set_sending(const struct peer *peer, void *socket) {
    const int examples = 1000, keepalive = 1, seconds = 60;
    return peer_set_options(peer, socket) ||
                   zmq_setsockopt(socket, ZMQ_SNDHWM, &examples, sizeof examples) ||
                   zmq_setsockopt(socket, ZMQ_TCP_KEEPALIVE, &keepalive, sizeof keepalive) ||
                   zmq_setsockopt(socket, ZMQ_TCP_KEEPALIVE_IDLE, &seconds, sizeof seconds)
               ? -1
               : 0;
}

int peer_connect(const struct peer *peer, void *socket, const char *example,
                 struct runnel_error *error) {
    return zmq_connect(socket, peer->endpoint) == 0
               ? 0
               : peer_fail(error, EX_USAGE, "expected an endpoint such as %s, got '%s' (%s)",
                           example, peer->endpoint, zmq_strerror(errno));
}

int peer_descriptor(void *socket) {
    int descriptor = -1;
    size_t size = sizeof descriptor;
    zmq_getsockopt(socket, ZMQ_FD, &descriptor, &size);
    return descriptor;
}

int peer_gather(const int *descriptors, int count) {
    int gathered = epoll_create1(EPOLL_CLOEXEC), reason;
    for (int i = 0; i < count && gathered >= 0; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (epoll_ctl(gathered, EPOLL_CTL_ADD, descriptors[i], &event) == 0)
            continue;
        reason = errno;
        close(gathered);
        errno = reason;
        return -1;
    }
    return gathered;
}
