/* The connections of the daemon's sockets: who is there, as libzmq's monitors and the kernel have
   it; what each of them, and each key, takes; and the end of those that take too much. security.c
   stands above it: keys, libzmq's questions about them, and the thread. */
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

/* What may still come; something is added all the time. */
struct bucket {
    double left;
    uint64_t at; /* CLOCK_MONOTONIC in ns; 0 = it is full */
};

/* Who has a key, with all connections that do. */
struct client {
    TAILQ_ENTRY(client) all;
    key_text key;
    size_t connections, subscriptions;
    uint64_t waiting; /* bytes of its suspects, while they are judged */
    struct bucket bytes, requests;
    uint64_t refused, refused_at; /* requests, in the second that began then */
    uint64_t left;                /* when the last connection came or went */
};

TAILQ_HEAD(client_list, client);

/* A connection between its coming and its end. */
struct connection {
    TAILQ_ENTRY(connection) all, strangers; /* of its socket, the newest last */
    struct guarded *guarded;
    int descriptor;                      /* libzmq's own */
    uint64_t cookie;                     /* the kernel's number of what the descriptor is */
    uint64_t serial;                     /* another one for each connection, from 1 */
    char address[SECURITY_ADDRESS_SIZE]; /* for people */
    char match[SECURITY_MATCH_SIZE];     /* how the address ends that ZAP gives, "" = unknown */
    key_text key;                        /* whose it is, "" = not yet known */
    bool unclear;                        /* it may be another's, of the same address */
    bool settled;                        /* the descriptor was still its own when asked */
    bool made;                           /* by connecting: the configuration names its peer */
    bool stranger;                       /* it has not said enough for a handshake */
    bool ended;                          /* by security_end: nothing more is counted */
    uint64_t received;                   /* bytes that had come when it was measured */
    struct client *client;               /* who has its key; NULL = not admitted, or ended */
    struct bucket bytes;                 /* where it is unclear whose it is */
    size_t subscriptions;
    bool counted;            /* by the kernel; else it is guessed */
    struct bucket allowance; /* statistics: bytes that may come */

    /* The message that may have no end: see connections.c. */
    TAILQ_ENTRY(connection) suspects;
    bool suspect;
    uint64_t credited;   /* until then nothing waited: CLOCK_MONOTONIC in ns */
    uint64_t heartbeats; /* bytes that had come by then and nobody took */
    uint64_t waiting;    /* bytes that had come and were not taken when it was looked at, */
    uint64_t taken;      /* bytes taken, */
    uint64_t turn;       /* and messages taken of all connections */
    uint64_t untaken;    /* as it was last judged */
    uint64_t unending;   /* of `waiting`, bytes of a message that is not complete */
};

TAILQ_HEAD(connection_list, connection);

/* What has been counted, and what is to be announced, of one kind of failure at one socket. */
struct failures {
    uint64_t count, announced, due;
    char address[SECURITY_ADDRESS_SIZE]; /* of the last */
    key_text key;
};

struct guarded {
    const char *name; /* "examples": section of the configuration, and ZAP's domain */
    void *monitor;    /* PAIR, used with the lock held */
    int events;   /* its descriptor: readable when something has been reported since it was empty */
    bool listed;  /* only keys of the list may come in */
    bool revoked; /* a key that could come in before the lists were read again no longer may */
    struct key_list allowed;
    struct connection_list connections, strangers;
    size_t count, stranger_count; /* without those that have been ended, */
    size_t most, most_strangers;  /* and how many there may be */
    size_t most_message;          /* bytes; 0 = not limited */
    size_t most_waiting;          /* bytes of messages, whole ones among them */
    bool turns;                   /* many messages may wait */
    _Atomic uint64_t turn;        /* messages taken, and much more for each time that none waited */
    int failing; /* the failure of the connection that is reported next, or SECURITY_FAILURES */
    struct failures failures[SECURITY_FAILURES];
};

struct security {
    bool keys; /* security.secret is set: CURVE, and ZAP */
    struct key_pair pair;
    void *zap;            /* REP; NULL without keys */
    int stop, news;       /* eventfds: to the thread, from it */
    int activity;         /* epoll: connections to which something has come */
    _Atomic uint64_t due; /* when something is to be announced */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of all that follows */
    struct guarded sockets[SOCKET_ROLES];
    struct connection_list suspects;
    int memory;                /* /proc/self/statm; -1: not there */
    uint64_t resident, grown;  /* bytes; 0: nobody was suspected */
    uint64_t sweep;            /* when all are looked at: CLOCK_MONOTONIC in ns */
    _Atomic uint64_t *taken;   /* (taken_size,) bytes taken of the connection with a descriptor */
    _Atomic uint32_t *holders; /* (taken_size,) connections that came and went, of each */
    size_t taken_size;
    struct connection **by_descriptor; /* (descriptors,) NULL = none */
    size_t descriptors;
    uint64_t serials, ended; /* connections so far, and those of them that were ended */
    struct security_quota quota;
    struct client_list clients; /* the newest first */
};

/* What follows is called with the lock held. */

/* Note when something is to be announced next. */
void security_set_due(struct security *security);

/* Count a failure, for the announcement. */
void security_fail(struct security *security, enum security_failure failure,
                   struct guarded *guarded, const char *address, const char *key);

/* Take what the monitors have reported: SECURITY_ALL, or some of it, so that others come to the
   lock. False: there may be more. */
enum { SECURITY_SOME = 64, SECURITY_ALL = -1 };
bool security_take_events(struct security *security, int most);

/* Once the thread has ended, of connections and keys. */
void security_free_connections(struct security *security);

/* The connection that has the descriptor at this socket, or NULL. */
struct connection *security_find(struct security *security, const struct guarded *guarded,
                                 int descriptor);

/* End it, and count why: its descriptor is shut down, and libzmq closes it. */
void security_end_for(struct security *security, struct connection *connection,
                      enum security_failure why);

/* End the connections whose keys are not on the socket's list, or may not be; returns how many. */
size_t security_cut_off(struct security *security, struct guarded *guarded);

/* Whether it has said enough for a handshake with a key; true where the system does not count. */
bool security_may_have_key(const struct connection *connection);

/* Look what has come since the call before, and end the connections that send too much. Returns
   after how many ms to look again at the latest, whether something comes or not; -1: never. */
long security_limit(struct security *security, uint64_t now);

/* A connection of that key comes in: false when it may have no more, or there is no memory. */
bool security_admit(struct security *security, struct connection *connection, const char *key);

#endif
