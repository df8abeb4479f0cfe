/* One request to a daemon's control socket and its reply. */
#ifndef RUNNEL_CTL_REQUEST_H
#define RUNNEL_CTL_REQUEST_H

#include <stdbool.h>

#include <jansson.h>

#include "runnel.h"

/* Send the request, over the connection of the one before if `*request` is not NULL, and wait at
   most `timeout` seconds for connection and reply. Returns EX_OK with `reply` filled, which is
   valid until request_close. Else complains and returns EX_USAGE (no endpoint), EX_UNAVAILABLE (no
   daemon, no answer, or an answer that no daemon gives) or EX_SOFTWARE (the daemon refused or
   failed, and has said why). With `raw` the reply's JSON is written to standard output before
   anything is made of it. */
int request_send(struct runnel_request **request, const struct runnel_peer *peer, double timeout,
                 const json_t *body, bool raw, struct runnel_reply *reply);

#endif
