/* The insides of security.h: security.c opens, reloads and announces, security_zap.c is the thread
   that answers libzmq and listens to what becomes of connections. */
#ifndef RUNNEL_SECURITY_INTERNAL_H
#define RUNNEL_SECURITY_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "security.h"

enum { SECURITY_MATCH_SIZE = 64 };

/* A connection between its coming and its end. */
struct connection {
    int descriptor;                      /* libzmq's own */
    char address[SECURITY_ADDRESS_SIZE]; /* for people */
    char match[SECURITY_MATCH_SIZE];     /* how the address ends that ZAP gives, "" = unknown */
    key_text key;                        /* whose it is, "" = not yet known */
    bool unclear;                        /* it may be another's, of the same address */
    bool settled;                        /* the descriptor was still its own when asked */
};

/* What has been counted, and what is to be announced, of one kind of failure at one socket. */
struct failures {
    uint64_t count, announced, due;
    char address[SECURITY_ADDRESS_SIZE]; /* of the last */
    key_text key;
};

struct guarded {
    const char *name; /* "examples": section of the configuration, and ZAP's domain */
    void *monitor;    /* PAIR */
    bool listed;      /* only keys of the list may come in */
    bool revoked;     /* a key that could come in before the lists were read again no longer may */
    struct key_list allowed;
    struct connection *connections; /* (room,), the newest last */
    size_t count, room;
    int failing; /* the failure of the connection that is reported next, or SECURITY_FAILURES */
    struct failures failures[SECURITY_FAILURES];
};

struct security {
    struct key_pair pair;
    void *zap;      /* REP */
    int stop, news; /* eventfds: to the thread, from it */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of all that follows */
    struct guarded sockets[SOCKET_ROLES];
};

/* The thread's function; `context` is the struct security. */
void *security_serve(void *context);

/* End the connections whose keys are not on the socket's list, or may not be; returns how many. The
   lock is held. */
size_t security_cut_off(struct guarded *guarded);

#endif
