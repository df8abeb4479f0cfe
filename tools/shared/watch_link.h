/* The connection to a daemon's statistics socket: a SUB socket, its monitor, and the messages that
   come in, checked as far as everybody needs them checked. */
#ifndef RUNNEL_WATCH_LINK_H
#define RUNNEL_WATCH_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>
#include <zmq.h>

#include "common/keys.h"

enum topic { TOPIC_STATUS, TOPIC_LOSS, TOPIC_STATE, TOPIC_PREDICTION, TOPIC_EVENT, TOPICS };

extern const char *const topic_names[TOPICS];

/* The topic of that name (not terminated), TOPICS when there is none. */
enum topic topic_find(const char *name, size_t size);

struct message {
    enum topic topic;
    json_t *body;        /* an object; owned by the message */
    char *text;          /* the same as it came, on one line from '{' to '}'; owned */
    const char *problem; /* instead of the other two: why it is no message, a static phrase */
};

enum link_change { LINK_SAME, LINK_CONNECTED, LINK_DISCONNECTED, LINK_HINDERED, LINK_REFUSED };

struct link;

/* Subscribe to the topics marked in `topics` at the endpoint, with keys that must outlive it; the
   daemon may come later. A connection that nobody takes is soon tried again, a handshake that is
   aborted again and again only every few seconds. Returns EX_OK, or complains and returns an
   exit status: EX_USAGE when it is no endpoint, EX_UNAVAILABLE when there are no sockets. */
int link_open(struct link **link, const char *endpoint, const struct key_client *keys,
              const bool topics[TOPICS]);
void link_close(struct link **link);

/* Wait until there is a message, a change, something to read on `wake`, or `seconds` have passed.
   Sets *woken when it is `wake`. */
void link_wait(struct link *link, int wake, double seconds, bool *woken);

/* For who waits for several links at once: fill in what to poll for. Any event there means that
   link_receive and link_changed have something to take. */
enum { LINK_ITEMS = 3 };
void link_items(const struct link *link, zmq_pollitem_t items[LINK_ITEMS]);

/* What has become of the connection since the last call, one change at a time. */
enum link_change link_changed(struct link *link);

/* After LINK_HINDERED (it is tried again) and LINK_REFUSED (it is not): why, a phrase that begins
   with "the daemon" or "what is there". */
const char *link_refusal(const struct link *link);

/* Take the next message: true with `message` filled, false when none waits. Messages of topics that
   nobody knows are passed over. */
bool link_receive(struct link *link, struct message *message);
void message_clear(struct message *message);

#endif
