/* The HTTP side: a page, its API and what Prometheus reads, for clients that are not trusted. It
   takes GET and HEAD alone, and changes nothing.

   What a client can cost is bounded: connections, memory of each, seconds for a request, seconds
   for taking the reply, open streams, and bytes of replies under way. */
#ifndef RUNNEL_WEB_SERVER_H
#define RUNNEL_WEB_SERVER_H

#include "web_feed.h"

enum {
    SERVER_URL_SIZE = 160,
};

struct server_options {
    const char *listen;     /* "HOST:PORT", "[HOST]:PORT" or "PORT"; port 0 = any */
    const char *token_file; /* NULL = none, then only a loopback address is taken */
    const char *chart_file; /* the chart library */
};

struct server;

/* EX_OK, or complains and returns an exit status. `feeds` must outlive it. */
int server_open(struct server **server, const struct server_options *options, struct feeds *feeds);
void server_close(struct server **server);

/* Where the page is: http://127.0.0.1:5580/ */
const char *server_url(const struct server *server);

/* A descriptor that is readable when server_run has something to do; it is also to be called when
   server_next seconds have passed. */
int server_descriptor(const struct server *server);
double server_next(const struct server *server);
void server_run(struct server *server);

#endif
