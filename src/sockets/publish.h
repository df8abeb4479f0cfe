/* The statistics socket: XPUB, so that the daemon knows which topics anybody wants and builds
   nothing for the others. A message is [topic][JSON]; every JSON object begins with the fields of
   EACH in common/fields.def: of which run, the number of this topic's messages in it (a gap is
   messages lost), examples and steps learned when it was written, and the time.

   libzmq handles what subscribers send in the thread that uses the socket, without an end while
   they go on. So the socket belongs to a thread of its own (publish.c), which takes finished
   messages from a queue: nothing that a subscriber does holds up the thread that publishes.

   A subscriber that does not keep up loses messages (PUBLISH_QUEUE may wait for each), and all do
   when PUBLISH_BYTES wait for the thread. */
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

/* What has been published is handed to libzmq first. Before security_close. */
void publish_close(struct publish **publish);

/* After the daemon's key has changed: see endpoint_renew. All connections end. */
int publish_renew(struct publish *publish, struct security *security,
                  const struct socket_config *config, struct error *error);

/* Readable when publish_subscriptions has something to say. */
int publish_descriptor(const struct publish *publish);

/* The endpoint as bound, a port asked for with '*' filled in. */
const char *publish_endpoint(const struct publish *publish);

/* Something has changed in what is wanted. True: a new subscriber is owed a `status`. */
bool publish_subscriptions(struct publish *publish);

/* Whether anybody subscribes to the topic. */
bool publish_wanted(const struct publish *publish, enum topic topic);

/* Whether what is published from now on is learned again from the journal: messages say so. */
void publish_mark_replaying(struct publish *publish, bool replaying);

const char *publish_run(const struct publish *publish);

/* Messages that were dropped since too much waited. */
uint64_t publish_dropped(const struct publish *publish);

/* The beginning of the topic's next message: an object with the fields above, to which the caller
   adds the topic's own; publish_send must follow before another one is begun. NULL when nobody
   subscribes to the topic: then there is nothing to write or send. */
struct json_text *publish_begin(struct publish *publish, enum topic topic, uint64_t examples,
                                uint64_t steps);

/* Likewise, of something that was at `time`, seconds since 1970. */
struct json_text *publish_begin_at(struct publish *publish, enum topic topic, uint64_t examples,
                                   uint64_t steps, double time);

/* Send it; it is lost when out of memory. */
void publish_send(struct publish *publish, enum topic topic);

#endif
