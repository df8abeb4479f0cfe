/* One request to a daemon's control socket and its reply. */
#ifndef RUNNEL_CTL_REQUEST_H
#define RUNNEL_CTL_REQUEST_H

#include <stdbool.h>

#include <jansson.h>
#include <zmq.h>

#include "common/keys.h"

struct reply {
    json_t *body;    /* an object with "ok": true */
    zmq_msg_t text;  /* the frame it was read from */
    zmq_msg_t bytes; /* the second frame; empty when there was none */
};

/* Send the request to the endpoint, with those keys, and wait at most `timeout` seconds for
   connection and reply. Returns EX_OK with `reply` filled, to be cleared with reply_clear. Else
   complains and returns EX_USAGE (no endpoint), EX_UNAVAILABLE (no daemon, no answer, or an answer
   that no daemon gives) or EX_SOFTWARE (the daemon refused or failed, and has said why). With `raw`
   the reply's JSON is written to standard output before anything is made of it. */
int request_send(const char *endpoint, const struct key_client *keys, double timeout,
                 const json_t *request, bool raw, struct reply *reply);

void reply_clear(struct reply *reply);

#endif
