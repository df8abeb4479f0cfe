/* Opening a ZeroMQ socket on a configured endpoint, with errors that name the socket and its key.
 */
#ifndef RUNNEL_ENDPOINT_H
#define RUNNEL_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct security;
struct socket_config;

/* What every socket of the daemon shares. Linger is what zmq_close may keep sending for: the answer
   to a shutdown, and the last events, also where the machine is so busy that libzmq's thread waits.
 */
enum {
    ENDPOINT_LINGER_MS = 2000,
    ENDPOINT_IO_THREADS = 2,       /* of the context: one for examples, one for the rest */
    ENDPOINT_HANDSHAKE_MS = 10000, /* for all of a handshake */
    /* libzmq 4.3.4 aborts when its own heartbeat is due to a peer that has left while what it sent
       waits, and gives up peers whose answers wait likewise. So the system finds out who is gone:
       who acknowledges nothing, */
    ENDPOINT_KEEPALIVE_IDLE_S = 30,
    ENDPOINT_KEEPALIVE_INTERVAL_S = 10,
    ENDPOINT_KEEPALIVE_PROBES = 3,
    ENDPOINT_SMALL_BUFFER =
        1024,                   /* the system's, for what is received: a flood is slow through it */
    ENDPOINT_UNREAD_MS = 30000, /* or, where set, takes nothing of what is sent to it */
};

struct endpoint_option {
    int name;
    int64_t value; /* most options are an int; ZMQ_MAXMSGSIZE takes all of it */
};

/* Open a socket of `type` (ZMQ_XPUB, ...), set `count` integer options, then bind or connect it as
   configured; an address in brackets is IPv6. `key` is the configuration's, e.g. "statistics.bind".
   With `security` (NULL: none) only admitted clients connect, and a limit on messages is one on
   what is in them. An ipc path on which another process listens is an error (libzmq would take it
   over in silence). Errors: EX_UNAVAILABLE when the endpoint cannot be had, EX_CONFIG when it is no
   endpoint. */
int endpoint_open(void **socket, void *zmq_context, struct security *security, int type,
                  const struct socket_config *config, const char *key,
                  const struct endpoint_option *options, size_t count, struct error *error);

/* Bind or connect again, with the keys of now: all its connections end, and none with the keys of
   before begins any more; what was received stays. `name` is endpoint_name's. Waits for libzmq to
   end what was, some ms. Errors as endpoint_open: then the socket reaches nobody. */
int endpoint_renew(void *socket, struct security *security, const struct socket_config *config,
                   const char *key, const char *name, struct error *error);
void endpoint_close(void **socket);

/* The endpoint as bound, a port asked for with '*' filled in: `name` (CONFIG_ENDPOINT_SIZE,). */
void endpoint_name(void *socket, const struct socket_config *config, char *name);

#endif
