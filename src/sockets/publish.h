/* The statistics socket: XPUB, so that the daemon knows the subscribed topics and writes nothing
   for the others. A message is [topic][JSON]. Every JSON object begins with the fields EACH of
   common/fields.def: the run, the number of this topic's messages in it (a gap means lost
   messages), examples and steps learned so far, and the time.

   libzmq processes data of subscribers in the thread that uses the socket, without a limit. The
   socket therefore has its own thread (publish.c), which reads finished messages from a queue: a
   subscriber cannot block the publishing thread.

   A slow subscriber loses messages (at most PUBLISH_QUEUE wait for each), and all subscribers
   lose messages when PUBLISH_BYTES wait for the thread. */
#ifndef RUNNEL_PUBLISH_H
#define RUNNEL_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/topics.h"

struct error;
struct json_text;
struct publish;
struct security;
struct socket_config;

enum { PUBLISH_QUEUE = 10000, PUBLISH_BYTES = 16 << 20 };

/* Open the socket and start its thread. Errors: as endpoint_open. */
int publish_open(struct publish **publish, void *zmq_context, struct security *security,
                 const struct socket_config *config, struct error *error);

/* Hands published messages to libzmq first. Call it before security_close. */
void publish_close(struct publish **publish);

/* After the daemon's key has changed: see endpoint_renew. All connections end. */
int publish_renew(struct publish *publish, struct security *security,
                  const struct socket_config *config, struct error *error);

/* Readable when publish_subscriptions should be called. */
int publish_descriptor(const struct publish *publish);

/* The endpoint as bound, with the actual port for '*'. */
const char *publish_endpoint(const struct publish *publish);

/* Process changes of subscriptions. True: a new subscriber needs a `status`. */
bool publish_subscriptions(struct publish *publish);

/* Whether the topic has a subscriber. */
bool publish_wanted(const struct publish *publish, enum topic topic);

/* Mark the following messages as replayed from the journal, or not. */
void publish_mark_replaying(struct publish *publish, bool replaying);

const char *publish_run(const struct publish *publish);

/* Messages dropped because too many were waiting. */
uint64_t publish_dropped(const struct publish *publish);

/* Begin the topic's next message: an object with the fields above, to which the caller adds the
   topic's own. Call publish_send before beginning another. NULL: the topic has no subscriber: write
   and send nothing. */
struct json_text *publish_begin(struct publish *publish, enum topic topic, uint64_t examples,
                                uint64_t steps);

/* Begin the message of an event at `time`, seconds since 1970, like publish_begin. */
struct json_text *publish_begin_at(struct publish *publish, enum topic topic, uint64_t examples,
                                   uint64_t steps, double time);

/* Send the message; it is lost if out of memory. */
void publish_send(struct publish *publish, enum topic topic);

#endif
