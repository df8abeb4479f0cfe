/* The examples socket: PULL, SUB or ROUTER, bound or connected as configured. Receives messages,
   checks them (decode.h), and returns valid examples. Invalid messages are counted by reason and
   announced, and have no other effect.

   Waiting data is limited: at most INGEST_QUEUE_BYTES of one-step examples per feeder (but
   between INGEST_QUEUE_MIN and INGEST_QUEUE_MAX examples). Beyond that PULL stops reading and
   the feeders block, and a PUB peer of a SUB socket loses examples. libzmq closes connections
   that send a frame larger than decoder_frame_max. */
#ifndef RUNNEL_INGEST_H
#define RUNNEL_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode.h"

struct config;
struct error;
struct ingest;
struct security;
struct socket_config;

enum {
    INGEST_QUEUE_BYTES = 16 << 20,
    INGEST_QUEUE_MIN = 100,
    INGEST_QUEUE_MAX = 10000,
    INGEST_ANNOUNCEMENT_SIZE = 512, /* enough for all announcements */
};

/* Open the socket of `config`. The model must outlive it. Errors: EX_CONFIG for an invalid
   endpoint, EX_UNAVAILABLE for one that is not available. With a broker it opens no socket, and
   only counts rejections. */
int ingest_open(struct ingest **ingest, void *zmq_context, struct security *security,
                const struct config *config, const struct model *model, struct error *error);
void ingest_close(struct ingest **ingest);

/* After the daemon's key has changed: see endpoint_renew. */
int ingest_renew(struct ingest *ingest, struct security *security,
                 const struct socket_config *config, struct error *error);

/* The sender of the last example of ingest_take: the identity of a ROUTER's client. */
const void *ingest_peer(const struct ingest *ingest, size_t *size);

/* The schema of the examples. */
void ingest_schema(const struct ingest *ingest, struct schema *schema);

/* Additional members of the answer to a schema: the text of a JSON object, which the caller
   frees, or NULL. */
typedef char *ingest_more(const void *context);
void ingest_answer_more(struct ingest *ingest, ingest_more *more, const void *context);

/* The socket, for zmq_poll with ZMQ_POLLIN. */
void *ingest_socket(const struct ingest *ingest);

/* The endpoint as bound, with the actual port for '*'. */
const char *ingest_endpoint(const struct ingest *ingest);

/* Receive one example without waiting; `now` (CLOCK_MONOTONIC in ns) becomes its `received`. 1:
   `example` is filled and valid until the next call. 0: no message is waiting, or several were
   rejected: poll again. -1: the socket has failed. */
int ingest_take(struct ingest *ingest, uint64_t now, struct example *example, struct error *error);

/* Reject the last example of ingest_take: answer, count and announce it like an invalid message.
   `why`: a clause for people. */
void ingest_reject(struct ingest *ingest, const struct example *example, enum reject_reason reason,
                   const char *why);

/* A label had no effect: count and announce it. */
void ingest_refuse_label(struct ingest *ingest, const struct example *label, const char *why);

/* To be called if zmq_poll reports no message. */
void ingest_idle(struct ingest *ingest);

/* Messages rejected since open: for one reason, or all with REJECT_NOT. */
uint64_t ingest_rejected(const struct ingest *ingest, enum reject_reason reason);

/* How many of the numbers first..last of the example's stream, producer and epoch were recently
   rejected: they are not missing. */
uint64_t ingest_rejected_numbers(const struct ingest *ingest, const struct example *example,
                                 uint64_t first, uint64_t last);

/* Write one sentence about unannounced rejections in printable UTF-8 without newline; false if none
   is due at `now` (as above). Each reason is due at most once a second; the sentence counts all
   rejections since the previous one. UINT64_MAX makes all due: call until false before closing. */
bool ingest_announce(struct ingest *ingest, uint64_t now, char *text, size_t size);

/* The stream in the last sentence; size 0: none. */
const char *ingest_announced_stream(const struct ingest *ingest, size_t *size);

/* Time of the next announcement, the limit for the sleep of a poll; UINT64_MAX: none. */
uint64_t ingest_announcement_due(const struct ingest *ingest);

#endif
