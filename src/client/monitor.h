/* The connections of one ZeroMQ socket: which peers come and go, and why there is none. libzmq
   reports it through a monitor; where it reports an end in the handshake
   without its reason, which happens by chance, the peer is asked (inquiry.h). Every program of ours
   that connects to a daemon has its reasons from here. */
#ifndef RUNNEL_MONITOR_H
#define RUNNEL_MONITOR_H

#include <stdbool.h>

#include <zmq.h>

struct error;
struct key_client;
struct monitor;

enum monitor_kind {
    MONITOR_OPENED,   /* a connection was made or taken; its handshake begins */
    MONITOR_READY,    /* a handshake is done (libzmq does not say whose): there is a peer */
    MONITOR_CLOSED,   /* a connection has ended */
    MONITOR_MISSED,   /* a try to connect came to nothing */
    MONITOR_HINDERED, /* monitor_reason says why there is no peer; it may pass */
    MONITOR_REFUSED,  /* likewise, and it stays: libzmq may not even try again */
};

struct monitor_event {
    enum monitor_kind kind;
    int descriptor; /* of OPENED and CLOSED: the connection's, libzmq's own */
};

/* For sockets of that type (ZMQ_SUB, _REQ, _PUSH or _DEALER) that connect to the endpoint, or with
   `binds` wait there: then those who come cannot be asked. Endpoint and keys must outlive it.
   Errors: EX_UNAVAILABLE. */
int monitor_open(struct monitor **monitor, const char *endpoint, int type, bool binds,
                 const struct key_client *keys, struct error *error);
void monitor_close(struct monitor **monitor);

/* Begin to watch a socket, before it is connected or bound, and end it, before the socket is
   closed. One at a time, as often as there is a new one. -1 with errno. */
int monitor_attach(struct monitor *monitor, void *context, void *socket);
void monitor_detach(struct monitor *monitor);

/* What to poll for: any event there means that monitor_next may have something. */
enum { MONITOR_ITEMS = 2 };
void monitor_items(const struct monitor *monitor, zmq_pollitem_t items[MONITOR_ITEMS]);

/* Likewise for poll(2), while a socket is attached. After monitor_next has said that there is
   nothing, they are readable when there may be something again. */
enum { MONITOR_DESCRIPTORS = 2 };
void monitor_descriptors(const struct monitor *monitor, int descriptors[MONITOR_DESCRIPTORS]);

/* The next event, without waiting; false when there is none. */
bool monitor_next(struct monitor *monitor, struct monitor_event *event);

/* After HINDERED and REFUSED: why, a phrase that begins with "the daemon" or "what is there". NULL
   before, and when a handshake has been done since. */
const char *monitor_reason(const struct monitor *monitor);

#endif
