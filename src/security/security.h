/* Access control and limits for the daemon's sockets (docs/explanation/security.md): a thread that
   tracks connections and ends those that exceed a limit, with and without keys. With
   security.secret it also provides CURVE and answers libzmq's ZAP requests (ZeroMQ RFC 27), with
   one domain per socket.

   libzmq accepts all connections, and reads and stores all their data. It does not limit the
   number of connections, subscriptions, or the size of messages whose last part never arrives.
   Its monitors report the descriptors of connections, the kernel counts their bytes, and
   shutdown(2) ends them.

   libzmq asks for a key only once, in the handshake: so the connections of a removed key are ended.
   The key of a connection is certain, except for simultaneous handshakes from one address. Of
   these all are ended, and admitted clients connect again by themselves. */
#ifndef RUNNEL_SECURITY_H
#define RUNNEL_SECURITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

#include "common/fields.h"
#include "common/keys.h"

struct config;
struct error;
struct security;

enum security_failure {
    SECURITY_UNKNOWN_KEY,       /* not on the socket's list */
    SECURITY_NO_KEY,            /* the peer does not use CURVE */
    SECURITY_WRONG_KEY,         /* the peer lacks the daemon's public key, or its own secret key */
    SECURITY_PROTOCOL,          /* the peer does not send a handshake */
    SECURITY_BROKEN_OFF,        /* the peer disconnected or timed out */
    SECURITY_QUOTA_CONNECTIONS, /* its key has too many (struct security_quota) */
    SECURITY_QUOTA_REQUESTS,    /* its key makes too many requests: they get an error */
    /* The failures above are refusals, counted if there are keys. Those below end connections,
       with and without keys. */
    SECURITY_REFUSALS,
    SECURITY_CONNECTIONS = SECURITY_REFUSALS, /* too many connections */
    SECURITY_SUBSCRIPTIONS,       /* more data to the statistics socket than subscriptions need */
    SECURITY_ENDLESS,             /* a message larger than any valid one */
    SECURITY_QUOTA_BYTES,         /* its key sends too many bytes */
    SECURITY_QUOTA_WAITING,       /* too many bytes of its key wait */
    SECURITY_QUOTA_SUBSCRIPTIONS, /* its key has too many subscriptions */
    SECURITY_FAILURES,
};

enum { SECURITY_ADDRESS_SIZE = 64, SECURITY_TEXT_SIZE = 2 * ERROR_TEXT_SIZE };

/* CURVE's overhead for an encrypted frame in bytes: command name, nonce, authenticator, flags. */
enum { SECURITY_OVERHEAD = 33 };

/* Start tracking connections. With security.secret, read it and the lists, and start answering
   ZAP. All functions here accept NULL, for sockets without security. Errors: EX_CONFIG, with the
   key of the configuration. */
int security_open(struct security **security, void *zmq_context, const struct config *config,
                  struct error *error);

/* Check that the files of a configuration are valid, as security_open. */
int security_check(const struct config *config, struct error *error);

/* Call it after closing all sockets, and before terminating the context. */
void security_close(struct security **security);

/* Whether the sockets use CURVE. */
bool security_has_keys(const struct security *security);

/* Protect and track a socket that is not bound or connected yet; `key` is the configuration's, such
   as "statistics.bind". Call it once for each of the sockets examples, statistics and control. */
int security_protect(struct security *security, void *socket, const char *key, struct error *error);

/* Read the secret and the lists of `config`. If a file is invalid, nothing changes: -1. Else
   *cut_off is the number of ended connections whose certain or possible key is no longer
   allowed. *key_changed: the secret has changed. The sockets need endpoint_renew, and all
   connections count as ended. */
int security_reload(struct security *security, const struct config *config, size_t *cut_off,
                    bool *key_changed, struct error *error);

/* The daemon's public key; NULL without keys. */
const char *security_key(const struct security *security);

/* Set the current secret on a protected socket, for its next bind or connect. 0, or -1 with
   errno. */
int security_rekey(const struct security *security, void *socket);

/* Whether the client of a message to the examples socket may send the stream: else `why` is a
   clause for people. A client whose key was removed may not send anything, including messages
   received earlier. Call it from the thread that calls security_reload. */
bool security_may_send(const struct security *security, zmq_msg_t *message, const char *stream,
                       size_t size, char *why, size_t why_size);

/* Whether the client of a message to the control socket may make a request now: else an error
   for it. */
bool security_may_ask(struct security *security, zmq_msg_t *message, struct error *error);

/* A unique number of the socket's connection (enum socket_role) with that descriptor; 0 if it
   has ended. Any thread may call it. It finds the connection of every message. */
uint64_t security_connection(struct security *security, int role, int descriptor);

/* Number of connections of a socket (enum socket_role). */
size_t security_connections(struct security *security, int role);

/* Set the number of subscriptions of a message's connection: its key may exceed its limit. */
void security_subscribed(struct security *security, zmq_msg_t *message, size_t subscriptions);

/* End a subscriber's connection because of useless subscriptions, unless it has ended. */
void security_end_subscriber(struct security *security, int descriptor, uint64_t number);

/* libzmq stores the parts of a message until the last one arrives, without a limit. Data of a
   connection that was not taken from the socket is such a message, once waiting messages have
   had their turn. A connection ends if it has more than `most` bytes of one message, the size of
   the largest valid one. `turns`: many messages may wait, and are taken later. */
void security_limit_messages(struct security *security, int role, size_t most, bool turns);

/* The owner of the socket has received a message of this size and number of frames from that
   descriptor, -1 = unknown. 0 frames: the queue is empty. */
void security_taken(struct security *security, int role, int descriptor, size_t bytes,
                    size_t frames);

/* A number that changes when the connection of the descriptor ends or is replaced. Cheap enough
   for each message. */
uint32_t security_holder(const struct security *security, int descriptor);

/* Becomes readable if there may be an announcement; -1 without security. */
int security_descriptor(const struct security *security);

/* An announcement: one sentence in printable UTF-8, and its parts. */
struct security_notice {
    char text[SECURITY_TEXT_SIZE];
    const char *reason, *socket; /* "unknown_key", "control" */
    char address[SECURITY_ADDRESS_SIZE];
    key_text key;   /* the key for SECURITY_UNKNOWN_KEY, else "" */
    uint64_t count; /* failures of this reason and socket since the previous announcement */
};

/* The next announcement at `now` (CLOCK_MONOTONIC in ns); false if none is due. A reason is due at
   most once a second for each socket. UINT64_MAX makes all due: call until false before closing. */
bool security_announce(struct security *security, uint64_t now, struct security_notice *notice);
uint64_t security_announcement_due(struct security *security);

/* Report to `status`: the number of connections, the counts of failures in `counts`, and with
   keys the daemon's public key. */
void security_report(struct security *security, struct status_fields *status,
                     struct field_count counts[SECURITY_FAILURES]);

#endif
