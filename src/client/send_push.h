/* A PUSH socket that examples leave through. When the daemon is slow or away a bounded queue fills
   up, and then sending waits. What has left the queue is lost when the daemon ends before it has
   read it; ZeroMQ does not say how much that is, so only the loss of the connection is reported. */
#ifndef RUNNEL_SEND_PUSH_H
#define RUNNEL_SEND_PUSH_H

#include <stdbool.h>

struct error;
struct peer;
struct push;
struct runnel_example;
struct send_hooks;
struct send_other;

/* Open the socket and connect or bind it; peer and hooks must outlive it. Errors: EX_USAGE for an
   endpoint that is none, EX_UNAVAILABLE for one that cannot be had. */
int push_open(struct push **push, const struct peer *peer, bool bind,
              const struct send_hooks *hooks, struct error *error);

/* Somebody is connected. */
bool push_connected(const struct push *push);

/* Look whether somebody comes or is gone, for at most so many seconds, or until `other` (NULL:
   none) is ready. EX_UNAVAILABLE when the daemon has refused this client for good. */
int push_poll(struct push *push, double seconds, struct send_other *other, struct error *error);

/* Queue the example, waiting while the queue is full; RUNNEL_STOPPED when a tick has cut that
   short: then the example has not been sent. */
int push_send(struct push *push, const struct runnel_example *example, struct error *error);

/* Close the socket once everything has been handed to the network and read, or `linger` seconds are
   over, or a tick says so: -1 (EX_UNAVAILABLE), and the newest examples may be lost. */
int push_close(struct push **push, double linger, struct error *error);

#endif
