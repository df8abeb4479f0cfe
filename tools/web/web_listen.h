/* The socket at which the HTTP side listens. */
#ifndef RUNNEL_WEB_LISTEN_H
#define RUNNEL_WEB_LISTEN_H

#include <stdbool.h>

#include "web_server.h"

/* A listening socket at "HOST:PORT", "[HOST]:PORT" or "PORT", which is on 127.0.0.1; or -1 after a
   complaint, with *status. One that other machines reach is refused unless `guarded`. */
int listen_open(const char *listen_at, bool guarded, int *status);

/* http://127.0.0.1:5580/ */
void listen_url(int listener, char url[SERVER_URL_SIZE]);

#endif
