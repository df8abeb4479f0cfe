/* The examples socket: PULL, SUB or ROUTER, bound or connected as the configuration says. Takes
   messages, has them checked (decode.h), and hands on good examples; bad ones are counted by
   reason, announced, and leave no other trace.

   What waits in memory is bounded: at most INGEST_QUEUE_BYTES of one-step examples a feeder (but
   between INGEST_QUEUE_MIN and INGEST_QUEUE_MAX of them); then PULL stops reading and the feeders
   block, while a PUB peer of a SUB socket loses examples. A frame larger than decoder_frame_max is
   not even received: libzmq drops that connection. */
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
    INGEST_ANNOUNCEMENT_SIZE = 512, /* long enough for every announcement */
};

/* Open the socket of `config`. The model must outlive it. Errors: EX_CONFIG for an endpoint that
   libzmq cannot read, EX_UNAVAILABLE for one that cannot be had. With a broker in its place there
   is no socket: only what was rejected is counted. */
int ingest_open(struct ingest **ingest, void *zmq_context, struct security *security,
                const struct config *config, const struct model *model, struct error *error);
void ingest_close(struct ingest **ingest);

/* After the daemon's key has changed: see endpoint_renew. */
int ingest_renew(struct ingest *ingest, struct security *security,
                 const struct socket_config *config, struct error *error);

/* Who sent the example that ingest_take gave last: the identity of a ROUTER's client. */
const void *ingest_peer(const struct ingest *ingest, size_t *size);

/* What its examples are. */
void ingest_schema(const struct ingest *ingest, struct schema *schema);

/* What the answer to a schema has besides: the text of a JSON object, which the caller frees. NULL:
   nothing. */
typedef char *ingest_more(const void *context);
void ingest_answer_more(struct ingest *ingest, ingest_more *more, const void *context);

/* The socket, for zmq_poll with ZMQ_POLLIN. */
void *ingest_socket(const struct ingest *ingest);

/* The endpoint as bound, a port asked for with '*' filled in. */
const char *ingest_endpoint(const struct ingest *ingest);

/* Take one example, never waiting; `now` (CLOCK_MONOTONIC in ns) becomes its `received`.
   1: `example` is filled and valid until the next call. 0: none waits, or a run of bad ones has
   been rejected: poll again. -1: the socket has failed. */
int ingest_take(struct ingest *ingest, uint64_t now, struct example *example, struct error *error);

/* Reject the example that ingest_take gave last: it is answered, counted and announced as those
   that are no examples. `why`: a clause, for people. */
void ingest_reject(struct ingest *ingest, const struct example *example, enum reject_reason reason,
                   const char *why);

/* A label that was taken has changed nothing: it is counted and announced, too. */
void ingest_refuse_label(struct ingest *ingest, const struct example *label, const char *why);

/* zmq_poll has said that no example waits. */
void ingest_idle(struct ingest *ingest);

/* Messages rejected since open: for one reason, or for all with REJECT_NOT. */
uint64_t ingest_rejected(const struct ingest *ingest, enum reject_reason reason);

/* How many of the numbers first..last of the example's stream, producer and epoch were rejected
   lately: those have come. */
uint64_t ingest_rejected_numbers(const struct ingest *ingest, const struct example *example,
                                 uint64_t first, uint64_t last);

/* Write one sentence about rejections that have not been announced, for people, in printable UTF-8
   without newline; false when none is due at `now` (as above). Each reason is due at most once a
   second, and its sentence counts every rejection since the one before. UINT64_MAX makes all due:
   call until false before closing. */
bool ingest_announce(struct ingest *ingest, uint64_t now, char *text, size_t size);

/* The stream that the newest sentence names; size 0: none. */
const char *ingest_announced_stream(const struct ingest *ingest, size_t *size);

/* When the next announcement is due, so that a poll need not sleep longer; UINT64_MAX: none. */
uint64_t ingest_announcement_due(const struct ingest *ingest);

#endif
