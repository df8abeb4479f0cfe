/* Server-sent events to all open pages. The newest events are in one ring, in which each client has
   a position. A client that reads too slowly loses events and gets an event `lost`; others are not
   affected. */
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

/* Publishes an event with this name; `json` must be one line. */
void live_publish(struct live *live, const char *name, const char *json);

/* The number of clients. */
size_t live_clients(const struct live *live);

/* A response that streams events to the connection; NULL when out of memory or if there are too
   many clients. */
struct MHD_Response *live_response(struct live *live, struct MHD_Connection *connection);

/* Keeps connections alive, and drops clients that do not read. */
void live_tick(struct live *live);

/* Releases all clients, before the server stops. */
void live_stop(struct live *live);

/* Seconds until live_tick is due. */
double live_next(const struct live *live);

#endif
