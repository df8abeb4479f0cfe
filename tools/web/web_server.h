/* The HTTP server: page, API and metrics for clients that are not trusted. It accepts only GET and
   HEAD, and is read-only.

   The cost of a client is bounded: connections and their memory, seconds for a request and its
   reply, open streams, and bytes of replies that are being sent. */
#ifndef RUNNEL_WEB_SERVER_H
#define RUNNEL_WEB_SERVER_H

#include "web_feed.h"

enum {
    SERVER_URL_SIZE = 160,
};

struct server_options {
    const char *listen;     /* "HOST:PORT", "[HOST]:PORT" or "PORT"; port 0 = any free port */
    const char *token_file; /* NULL = none: only a loopback address is accepted */
    const char *chart_file; /* path of the chart library */
};

struct server;

/* Returns EX_OK, or prints an error and returns an exit status. `feeds` must outlive the server. */
int server_open(struct server **server, const struct server_options *options, struct feeds *feeds);
void server_close(struct server **server);

/* The address of the page, such as http://127.0.0.1:5580 */
const char *server_url(const struct server *server);

/* A descriptor that is readable when server_run is due; call it also after server_next seconds. */
int server_descriptor(const struct server *server);
double server_next(const struct server *server);
void server_run(struct server *server);

#endif
