/* The connections of the daemon's sockets, from libzmq's monitors and the kernel: the usage of
   each connection and each key, and the end of connections that exceed a limit. security.c above
   it contains keys, ZAP and the thread. */
#ifndef RUNNEL_CONNECTIONS_H
#define RUNNEL_CONNECTIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/clock.h"
#include "config/config.h"
#include "security.h"

enum { SECURITY_MATCH_SIZE = 64 };

#define NS_PER_MS (NS_PER_SECOND / 1000)

struct guarded;

/* An allowance that is refilled continuously. */
struct bucket {
    double left;
    uint64_t at; /* CLOCK_MONOTONIC in ns; 0 = full */
};

/* The owner of a key, with all its connections. */
struct client {
    TAILQ_ENTRY(client) all;
    key_text key;
    size_t connections, subscriptions;
    uint64_t waiting; /* bytes of its suspects during the check */
    struct bucket bytes, requests;
    uint64_t refused, refused_at; /* refused requests in the second that began at refused_at */
    uint64_t left;                /* time when a connection last began or ended */
};

TAILQ_HEAD(client_list, client);

/* A connection, from its beginning to its end. */
struct connection {
    TAILQ_ENTRY(connection) all, strangers; /* lists of its socket, the newest last */
    struct guarded *guarded;
    int descriptor;  /* owned by libzmq */
    uint64_t cookie; /* the kernel's number of the socket behind the descriptor */
    uint64_t serial; /* unique number, from 1 */
    char address[SECURITY_ADDRESS_SIZE]; /* address for messages */
    char match[SECURITY_MATCH_SIZE];     /* end of the address as given by ZAP, "" = unknown */
    key_text key;                        /* key of the client, "" = not known yet */
    bool unclear;          /* the key may belong to another connection of the same address */
    bool settled;          /* the descriptor was still its own when its peer was determined */
    bool made;             /* the daemon connected: the configuration contains the peer */
    bool stranger;         /* it has not sent enough for a handshake */
    bool ended;            /* ended by security_end_for: removed from all counts */
    uint64_t received;     /* bytes received at the last measurement */
    struct client *client; /* owner of its key; NULL = not admitted, or ended */
    struct bucket bytes;   /* used if the key is uncertain */
    size_t subscriptions;
    bool counted;            /* the kernel counts its bytes; else they are estimated */
    struct bucket allowance; /* statistics: bytes that it may still send */

    /* The potentially endless message: see connections.c. */
    TAILQ_ENTRY(connection) suspects;
    bool suspect;
    uint64_t credited;   /* time until which nothing waited: CLOCK_MONOTONIC in ns */
    uint64_t heartbeats; /* bytes received by then that nobody took */
    uint64_t waiting;    /* bytes received but not taken at the snapshot */
    uint64_t taken;      /* bytes taken at the snapshot */
    uint64_t turn;       /* messages taken from all connections at the snapshot */
    uint64_t untaken;    /* value at the last check */
    uint64_t unending;   /* bytes of an incomplete message among `waiting` */
};

TAILQ_HEAD(connection_list, connection);

/* Counts of one kind of failure at one socket, and its next announcement. */
struct failures {
    uint64_t count, announced, due;
    char address[SECURITY_ADDRESS_SIZE]; /* address of the last failure */
    key_text key;
};

struct guarded {
    const char *name; /* "examples": section of the configuration, and ZAP's domain */
    void *monitor;    /* PAIR, used with the lock held */
    int events;       /* its descriptor: readable after new events once it was empty */
    bool listed;      /* only keys of the list are allowed */
    bool revoked;     /* the last reload removed a key */
    struct key_list allowed;
    struct connection_list connections, strangers;
    size_t count, stranger_count; /* without ended connections */
    size_t most, most_strangers;  /* limits */
    size_t most_message;          /* bytes; 0 = no limit */
    size_t most_waiting;          /* bytes of messages, including complete ones */
    bool turns;                   /* many messages may wait */
    /* Messages taken, plus a large number for each time that none waited. */
    _Atomic uint64_t turn;
    /* Failure of the connection that is reported next, or SECURITY_FAILURES. */
    int failing;
    struct failures failures[SECURITY_FAILURES];
};

struct security {
    bool keys; /* security.secret is set: CURVE and ZAP are on */
    struct key_pair pair;
    void *zap;            /* REP; NULL without keys */
    int stop, news;       /* eventfds: to the thread, and from it */
    int activity;         /* epoll: connections with new data */
    _Atomic uint64_t due; /* time of the next announcement */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* protects the fields below */
    struct guarded sockets[SOCKET_ROLES];
    struct connection_list suspects;
    int memory;               /* /proc/self/statm; -1: not available */
    uint64_t resident, grown; /* bytes; 0: no connection is suspected */
    uint64_t sweep;           /* time of the next check of all connections: CLOCK_MONOTONIC in ns */
    _Atomic uint64_t *taken;  /* (taken_size,) bytes taken from the connection, by descriptor */
    /* (taken_size,) number of beginnings and ends of connections, by descriptor */
    _Atomic uint32_t *holders;
    size_t taken_size;
    struct connection **by_descriptor; /* (descriptors,) NULL = no connection */
    size_t descriptors;
    uint64_t serials, ended; /* number of connections so far, and of ended ones */
    struct security_quota quota;
    struct client_list clients; /* the newest first */
};

/* Call the functions below with the lock held. */

/* Update the time of the next announcement. */
void security_set_due(struct security *security);

/* Count a failure for the announcement. */
void security_fail(struct security *security, enum security_failure failure,
                   struct guarded *guarded, const char *address, const char *key);

/* Process events of the monitors: SECURITY_ALL, or some, so that others can take the lock.
   False: there may be more. */
enum { SECURITY_SOME = 64, SECURITY_ALL = -1 };
bool security_process_events(struct security *security, int most);

/* Free connections and keys, after the thread has ended. */
void security_free_connections(struct security *security);

/* The connection with that descriptor at this socket, or NULL. */
struct connection *security_find(struct security *security, const struct guarded *guarded,
                                 int descriptor);

/* End a connection, and count the reason: its descriptor is shut down, and libzmq closes it. */
void security_end_for(struct security *security, struct connection *connection,
                      enum security_failure why);

/* End the connections whose certain or possible keys are not on the socket's list; returns their
   number. */
size_t security_cut_off(struct security *security, struct guarded *guarded);

/* Whether the connection has sent enough for a handshake with a key; true if the system does not
   count bytes. */
bool security_may_have_key(const struct connection *connection);

/* Measure the data received since the previous call, and end connections that send too much.
   Returns the time until the next call in ms; -1: no limit. */
long security_limit(struct security *security, uint64_t now);

/* Admit a connection with that key. False: the key has too many, or out of memory. */
bool security_admit(struct security *security, struct connection *connection, const char *key);

#endif
