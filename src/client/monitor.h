/* The connections of one ZeroMQ socket: their beginnings, ends, and reasons of failures. libzmq
   reports them through a monitor. By chance it may report the end of a handshake without its
   reason; then an inquiry (inquiry.h) finds it. All our programs that connect to a daemon use
   this module. */
#ifndef RUNNEL_MONITOR_H
#define RUNNEL_MONITOR_H

#include <stdbool.h>

#include <zmq.h>

struct error;
struct key_client;
struct monitor;

enum monitor_kind {
    MONITOR_OPENED,   /* a connection was made or accepted; its handshake begins */
    MONITOR_READY,    /* a handshake has succeeded (libzmq does not report of which connection) */
    MONITOR_CLOSED,   /* a connection has ended */
    MONITOR_MISSED,   /* an attempt to connect has failed */
    MONITOR_HINDERED, /* no peer, see monitor_reason; the cause may be temporary */
    MONITOR_REFUSED,  /* no peer, see monitor_reason; the cause is permanent */
};

struct monitor_event {
    enum monitor_kind kind;
    int descriptor; /* the connection's descriptor, for OPENED and CLOSED; libzmq owns it */
};

/* Open a monitor for sockets of that type (ZMQ_SUB, _REQ, _PUSH or _DEALER) that connect to the
   endpoint or, with `binds`, are bound to it. An inquiry is not possible for bound sockets. The
   endpoint and keys must outlive the monitor. Errors: EX_UNAVAILABLE. */
int monitor_open(struct monitor **monitor, const char *endpoint, int type, bool binds,
                 const struct key_client *keys, struct error *error);
void monitor_close(struct monitor **monitor);

/* Attach to a socket before it connects or binds, and detach before it is closed. A monitor
   watches one socket at a time. Returns -1 with errno. */
int monitor_attach(struct monitor *monitor, void *context, void *socket);
void monitor_detach(struct monitor *monitor);

/* Items for zmq_poll. After any event on them, call monitor_next. */
enum { MONITOR_ITEMS = 2 };
void monitor_items(const struct monitor *monitor, zmq_pollitem_t items[MONITOR_ITEMS]);

/* Descriptors for poll(2) while a socket is attached. After monitor_next has returned false,
   they become readable when there may be another event. */
enum { MONITOR_DESCRIPTORS = 2 };
void monitor_descriptors(const struct monitor *monitor, int descriptors[MONITOR_DESCRIPTORS]);

/* The next event, without waiting; false without one. */
bool monitor_next(struct monitor *monitor, struct monitor_event *event);

/* The reason of the last HINDERED or REFUSED event: a phrase that begins with "the daemon" or
   "the peer". NULL before such an event, and after a successful handshake. */
const char *monitor_reason(const struct monitor *monitor);

#endif
