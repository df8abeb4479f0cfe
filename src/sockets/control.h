/* The control socket: REP for its clients. Receives one JSON request at a time, runs its
   command, and replies {"ok": true, ...} or {"ok": false, "error": one sentence}. Each message
   of a client gets one reply, then the next client has its turn.

   A command may postpone its reply (a checkpoint that waits for the disk); other clients wait
   until control_reply. */
#ifndef RUNNEL_CONTROL_H
#define RUNNEL_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct control;
struct error;
struct security;
struct socket_config;

enum {
    CONTROL_REQUEST_MAX = 65536
}; /* bytes; libzmq closes a connection that sends a larger frame */

/* The result of a command: fields to add to {"ok": true}, and a second frame. */
struct control_answer {
    json_t *fields;      /* an empty object to fill */
    unsigned char *blob; /* second frame, or NULL; control frees it */
    size_t blob_size;
    bool later; /* no reply now: control_reply will be called */
    bool last;  /* the daemon ends after this reply: control_close waits until it is read */
};

struct control_command {
    const char *name; /* NULL ends the table */
    /* Returns 0, or -1 with an error for the client. */
    int (*run)(void *context, const json_t *request, struct control_answer *answer,
               struct error *error);
};

/* Open the socket. The table and the target of `context` must outlive it. Errors: endpoint_open. */
int control_open(struct control **control, void *zmq_context, struct security *security,
                 const struct socket_config *config, const struct control_command *commands,
                 void *context, struct error *error);
void control_close(struct control **control);

/* After the daemon's key has changed: see endpoint_renew. */
int control_renew(struct control *control, struct security *security,
                  const struct socket_config *config, struct error *error);

/* The socket, for zmq_poll with ZMQ_POLLIN. */
void *control_socket(const struct control *control);

/* The endpoint as bound, with the actual port for '*'. */
const char *control_endpoint(const struct control *control);

/* Receive one request, run it and reply. False: no request is waiting, or a postponed reply is due.
 */
bool control_handle(struct control *control);

/* Whether a reply is postponed. */
bool control_waiting(const struct control *control);

/* Send the postponed reply: the fields, which it takes ownership of, or the error if it is not
   NULL. */
void control_reply(struct control *control, json_t *fields, const struct error *error);

#endif
