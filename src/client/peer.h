/* The common part of all objects of the library: endpoint, keys, and errors. */
#ifndef RUNNEL_PEER_H
#define RUNNEL_PEER_H

#include "common/keys.h"
#include "runnel.h"

struct peer {
    char *endpoint;
    struct key_client keys;
};

/* Copy the endpoint and read the keys. EX_USAGE, EX_UNAVAILABLE. */
int peer_open(struct peer *peer, const struct runnel_peer *from, struct runnel_error *error);
void peer_close(struct peer *peer);

/* Set the options of every connecting socket: no linger, the keys, and IPv6 only for IPv6
   endpoints: a name such as localhost must not lead to ::1 when the daemon listens at 127.0.0.1.
   Returns 0, or -1 with errno. */
int peer_set_options(const struct peer *peer, void *socket);

/* Set the options of a socket that sends examples: a queue that keeps the network busy but can
   be drained quickly, and keepalives. */
int peer_set_sending(const struct peer *peer, void *socket);

/* Connect. EX_USAGE for an invalid endpoint; the message shows `example`. */
int peer_connect(const struct peer *peer, void *socket, const char *example,
                 struct runnel_error *error);

/* Fill the error (may be NULL) and return -1. */
int peer_fail(struct runnel_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return a descriptor that is readable if one of the (count,) descriptors is; -1 with errno. */
int peer_gather(const int *descriptors, int count);

/* Return libzmq's descriptor of a socket. */
int peer_descriptor(void *socket);

#endif
