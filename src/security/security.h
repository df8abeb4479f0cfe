/* Who may talk to the daemon, and how much: a thread that knows the connections of its sockets and
   ends those that take too much, keys or not; and, where the configuration has security.secret,
   CURVE on the sockets, and the answers to libzmq's question whether a client may come in (ZAP,
   ZeroMQ RFC 27), one domain for each socket.

   libzmq accepts whoever comes, reads what they send, and keeps all of it; it has no bound for the
   number of connections, for subscriptions, or for a message whose last part never comes. Its
   monitors say which descriptor is a connection's, the kernel what has come over it, and
   shutdown(2) ends it.

   With keys the daemon is the CURVE server on all its sockets, also on those that connect. A client
   must know the daemon's public key and, where the socket has a list (security.allow.*), have its
   own on it. libzmq asks once, in the handshake: so a client whose key is taken off a list is cut
   off by ending its connection. Which connection is whose is known but for clients of one address
   that shake hands at the same moment; of those, all are ended, and admitted ones come back by
   themselves.

   A failed handshake, and a connection that is ended, is counted by reason and announced with the
   peer's address. */
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
    SECURITY_WRONG_KEY,         /* it does not know the daemon's key, or not its own secret */
    SECURITY_PROTOCOL,          /* what it says is no handshake */
    SECURITY_BROKEN_OFF,        /* it left, or fell silent */
    SECURITY_QUOTA_CONNECTIONS, /* its key has too many (struct security_quota), */
    SECURITY_QUOTA_REQUESTS,    /* or makes too many requests: they are answered with an error */
    SECURITY_REFUSALS, /* those before are refused, and counted where there are keys; the others are
                          connections that were ended, with keys and without: */
    SECURITY_CONNECTIONS = SECURITY_REFUSALS, /* there were too many */
    SECURITY_SUBSCRIPTIONS, /* it sent more to the statistics socket than subscriptions need */
    SECURITY_ENDLESS,       /* a message grew larger than any that could be meant */
    SECURITY_QUOTA_BYTES,   /* its key sent more than one may, */
    SECURITY_QUOTA_WAITING, /* more of it waits, */
    SECURITY_QUOTA_SUBSCRIPTIONS, /* or subscribed to more */
    SECURITY_FAILURES,
};

enum { SECURITY_ADDRESS_SIZE = 64, SECURITY_TEXT_SIZE = 2 * ERROR_TEXT_SIZE };

/* CURVE's share of an encrypted frame, bytes: command name, nonce, authenticator, flags. */
enum { SECURITY_OVERHEAD = 33 };

/* Start watching; where the configuration has security.secret, read it and the lists, and start
   answering. Every function here also takes NULL, for sockets that nobody watches. Errors:
   EX_CONFIG, with the key of the configuration. */
int security_open(struct security **security, void *zmq_context, const struct config *config,
                  struct error *error);

/* Whether the files that a configuration names could be opened: as security_open. */
int security_check(const struct config *config, struct error *error);

/* Once all sockets are closed, and before the context is. */
void security_close(struct security **security);

/* Whether the sockets speak CURVE. */
bool security_has_keys(const struct security *security);

/* Protect and watch a socket that is not yet bound or connected; `key` is the configuration's, e.g.
   "statistics.bind". Once for each of the sockets examples, statistics and control. */
int security_protect(struct security *security, void *socket, const char *key, struct error *error);

/* Read the secret and the lists that `config` names. When one of them is bad nothing is taken: -1.
   Else *cut_off says how many connections have been ended since their key, or possibly their key,
   may no longer be there; *key_changed: the secret is another one, which the sockets must be given
   with endpoint_renew, and all connections are counted as ended. */
int security_reload(struct security *security, const struct config *config, size_t *cut_off,
                    bool *key_changed, struct error *error);

/* The daemon's public key; NULL without security. */
const char *security_key(const struct security *security);

/* Give a protected socket the secret of now: what it binds or connects from now on has it. 0, or -1
   with errno. */
int security_rekey(const struct security *security, void *socket);

/* Whether the client that sent a message to the examples socket may send the stream: else `why` is
   a clause for people. Whose key was taken off the list may send nothing, not even what was
   received before. Called by the thread that also calls security_reload. */
bool security_may_send(const struct security *security, zmq_msg_t *message, const char *stream,
                       size_t size, char *why, size_t why_size);

/* Whether the client that sent a message to the control socket may make a request now: else an
   error for it. */
bool security_may_ask(struct security *security, zmq_msg_t *message, struct error *error);

/* From any thread: a number for the socket's connection (enum socket_role) that has the descriptor,
   another one for each connection; 0 when it has ended. The connection over which a message came is
   found. */
uint64_t security_connection(struct security *security, int role, int descriptor);

/* Connections that there are, to one of the sockets (enum socket_role). */
size_t security_connections(struct security *security, int role);

/* How much the connection over which a message came subscribes to now: its key may take too much.
 */
void security_subscribed(struct security *security, zmq_msg_t *message, size_t subscriptions);

/* End a subscriber's connection, unless that has ended: its subscriptions are for nothing here. */
void security_end_subscriber(struct security *security, int descriptor, uint64_t number);

/* libzmq keeps the parts of a message until the last one has come, without a bound. What has come
   over a connection and was not taken from the socket is such a message, once messages that wait
   have had their turn. A connection ends when it has more than `most` bytes of one, the largest
   that could be meant; `turns`: messages that wait may be many, and are taken when there is time.
 */
void security_limit_messages(struct security *security, int role, size_t most, bool turns);

/* The owner of the socket has taken a message of so many bytes and frames, which came over that
   descriptor, -1 = unknown. No frames: no message waits. */
void security_taken(struct security *security, int role, int descriptor, size_t bytes,
                    size_t frames);

/* Another number once the connection that has the descriptor is gone, or another one has it. Cheap:
   each message may ask. */
uint32_t security_holder(const struct security *security, int descriptor);

/* Becomes readable when there may be something to announce; -1 without security. */
int security_descriptor(const struct security *security);

/* An announcement: one sentence for people in printable UTF-8, and its parts. */
struct security_notice {
    char text[SECURITY_TEXT_SIZE];
    const char *reason, *socket; /* "unknown_key", "control" */
    char address[SECURITY_ADDRESS_SIZE];
    key_text key;   /* of SECURITY_UNKNOWN_KEY, else "" */
    uint64_t count; /* of this reason at this socket since the announcement before */
};

/* What is to be announced at `now` (CLOCK_MONOTONIC in ns), one notice at a time; false when
   nothing is. A reason is due at most once a second for each socket. UINT64_MAX makes all due: call
   until false before closing. */
bool security_announce(struct security *security, uint64_t now, struct security_notice *notice);
uint64_t security_announcement_due(struct security *security);

/* For `status`: the connections that there are, and what was counted, which is put into `counts`;
   with keys the daemon's public key too. */
void security_report(struct security *security, struct status_fields *status,
                     struct field_count counts[SECURITY_FAILURES]);

#endif
