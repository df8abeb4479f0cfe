/* Server-sent events: what is published goes to every open page. The newest events lie in one ring;
   each client has its place in it, so that a page that reads slowly costs nothing but its own gaps:
   when the ring has moved past it, it gets an event `lost`. */
#ifndef RUNNEL_WEB_LIVE_H
#define RUNNEL_WEB_LIVE_H

#include <stdbool.h>
#include <stddef.h>

#include <microhttpd.h>

enum { LIVE_CLIENTS_MAX = 64 };
#define LIVE_TYPE "text/event-stream"

struct live;

/* NULL when out of memory. */
struct live *live_open(void);
void live_close(struct live **live);

/* An event of that name with `json`, which is on one line. */
void live_publish(struct live *live, const char *name, const char *json);

/* Whether somebody listens. */
size_t live_clients(const struct live *live);

/* The response that streams to a connection from now on; NULL when there are too many clients, or
   out of memory. */
struct MHD_Response *live_response(struct live *live, struct MHD_Connection *connection);

/* Keep connections alive, and drop those that take nothing. */
void live_tick(struct live *live);

/* Let go of all clients, before the server is stopped. */
void live_stop(struct live *live);

/* Seconds until live_tick has something to do. */
double live_next(const struct live *live);

#endif
