/* The control socket: REP to its clients. Takes one JSON request at a time, has the command of that
   name run, and replies {"ok": true, ...} or {"ok": false, "error": one sentence}. Whatever a
   client sends, it gets one reply and the next client its turn.

   A command may leave its reply for later (a checkpoint that waits for the disk); until
   control_reply other clients wait. */
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
}; /* bytes; libzmq drops a connection that sends a larger frame */

/* What a command says: fields to add to {"ok": true}, and a second frame. */
struct control_answer {
    json_t *fields;      /* an empty object, to be filled */
    unsigned char *blob; /* second frame, or NULL; freed by control */
    size_t blob_size;
    bool later; /* control_reply will be called: nothing is sent now */
    bool last;  /* the daemon ends after this reply: control_close waits until it is read */
};

struct control_command {
    const char *name; /* NULL ends the table */
    /* Returns 0, or -1 with an error for the client. */
    int (*run)(void *context, const json_t *request, struct control_answer *answer,
               struct error *error);
};

/* Open the socket. The table and what `context` points to must outlive it. Errors: endpoint_open.
 */
int control_open(struct control **control, void *zmq_context, struct security *security,
                 const struct socket_config *config, const struct control_command *commands,
                 void *context, struct error *error);
void control_close(struct control **control);

/* After the daemon's key has changed: see endpoint_renew. */
int control_renew(struct control *control, struct security *security,
                  const struct socket_config *config, struct error *error);

/* The socket, for zmq_poll with ZMQ_POLLIN. */
void *control_socket(const struct control *control);

/* The endpoint as bound, a port asked for with '*' filled in. */
const char *control_endpoint(const struct control *control);

/* Take one request that waits, run it and reply. False: none waited, or one awaits its reply. */
bool control_handle(struct control *control);

/* Whether a command has left its reply for later. */
bool control_waiting(const struct control *control);

/* Send that reply: the fields, which are taken over, or the error if it is not NULL. */
void control_reply(struct control *control, json_t *fields, const struct error *error);

#endif
