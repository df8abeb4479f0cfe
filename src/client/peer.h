/* What every object of the library begins with: where to, with which keys, and how it fails. */
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

/* What every connecting socket has: nothing lingers, the keys, and IPv6 only where the endpoint
   asks for it: a name such as localhost must not lead to ::1 when the daemon listens at 127.0.0.1.
   0, or -1 with errno. */
int peer_set_options(const struct peer *peer, void *socket);

/* Likewise of a socket that sends examples: room for those that keep the network full, few enough
   to be taken back quickly, and keepalives. */
int peer_set_sending(const struct peer *peer, void *socket);

/* Connect; EX_USAGE when it is no endpoint, with `example` of one. */
int peer_connect(const struct peer *peer, void *socket, const char *example,
                 struct runnel_error *error);

/* Fill the error (may be NULL) and return -1. */
int peer_fail(struct runnel_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A descriptor that is readable when one of the (count,) others is; -1 with errno. */
int peer_gather(const int *descriptors, int count);

/* The descriptor that libzmq gives of a socket. */
int peer_descriptor(void *socket);

#endif
