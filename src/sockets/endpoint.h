/* Opens ZeroMQ sockets on configured endpoints; errors name the socket and its key. */
#ifndef RUNNEL_ENDPOINT_H
#define RUNNEL_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct security;
struct socket_config;

/* Settings of all sockets of the daemon. Linger is the time to send after zmq_close: the answer
   to a shutdown, and the last events, also on a busy machine. */
enum {
    ENDPOINT_LINGER_MS = 2000,
    ENDPOINT_IO_THREADS = 2, /* threads of the context: one for examples, one for the others */
    ENDPOINT_HANDSHAKE_MS = 10000, /* time for a whole handshake */
    /* libzmq 4.3.4 aborts if its own heartbeat to a lost peer is due while data of that peer
       waits, and disconnects peers whose answers wait. Keepalives of the system
       detect lost peers instead. */
    ENDPOINT_KEEPALIVE_IDLE_S = 30,
    ENDPOINT_KEEPALIVE_INTERVAL_S = 10,
    ENDPOINT_KEEPALIVE_PROBES = 3,
    ENDPOINT_SMALL_BUFFER = 1024, /* the system's receive buffer: it slows floods down */
    ENDPOINT_UNREAD_MS = 30000,   /* limit for peers that do not read, where set */
};

struct endpoint_option {
    int name;
    int64_t value; /* most options are an int; ZMQ_MAXMSGSIZE is 64 bits */
};

/* Open a socket of `type` (ZMQ_XPUB, ...), set `count` integer options, then bind or connect it
   as configured; addresses in brackets are IPv6. `key` is the configuration's, such as
   "statistics.bind". With `security` (may be NULL) only allowed clients connect, and a limit on
   messages counts their content. An ipc path with a listening process is an error (libzmq would
   silently replace it). Errors: EX_UNAVAILABLE if the endpoint is not available, EX_CONFIG if it
   is invalid. */
int endpoint_open(void **socket, void *zmq_context, struct security *security, int type,
                  const struct socket_config *config, const char *key,
                  const struct endpoint_option *options, size_t count, struct error *error);

/* Bind or connect again with the current keys. All connections end, and no new one uses the old
   keys; received messages stay. `name` is from endpoint_name. Waits some ms until libzmq has
   closed the old endpoint. Errors as endpoint_open: the socket then has no endpoint. */
int endpoint_renew(void *socket, struct security *security, const struct socket_config *config,
                   const char *key, const char *name, struct error *error);
void endpoint_close(void **socket);

/* The endpoint as bound, with the actual port for '*': `name` (CONFIG_ENDPOINT_SIZE,). */
void endpoint_name(void *socket, const struct socket_config *config, char *name);

#endif
