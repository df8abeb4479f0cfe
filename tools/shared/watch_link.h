/* The connection to a daemon's statistics socket (runnel.h) as the tools use it: topics by number,
   and complaints on stderr. */
#ifndef RUNNEL_WATCH_LINK_H
#define RUNNEL_WATCH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/topics.h"
#include "runnel.h"

struct message {
    enum topic topic;
    json_t *body;            /* an object; owned by the message */
    char *text;              /* the same as it came, on one line from '{' to '}'; owned */
    const char *problem;     /* instead of the other two: why it is no message, a static phrase */
    struct runnel_news news; /* what else is known of it; its pointers are valid until link_next */
};

struct link;

/* Subscribe to the topics marked in `topics`; the daemon may come later. Returns EX_OK, or
   complains and returns an exit status: EX_USAGE when it is no endpoint, EX_UNAVAILABLE when there
   are no sockets. */
int link_open(struct link **link, const struct runnel_peer *peer, const bool topics[TOPICS]);
void link_close(struct link **link);

/* Wait until there are news, something to read on `wake`, or `seconds` have passed. Sets *woken
   when it is `wake`. */
void link_wait(struct link *link, int wake, double seconds, bool *woken);

/* From now on `body` is NULL: messages are not parsed, and may be no JSON. */
void link_unparsed(struct link *link);

/* For who waits for several links at once: readable as long as link_next may have something. */
int link_descriptor(const struct link *link);

/* The next of the news, without waiting: RUNNEL_MESSAGE with `message` filled, to be cleared, a
   change of the connection, or RUNNEL_NOTHING. */
enum runnel_kind link_next(struct link *link, struct message *message);
void message_clear(struct message *message);

/* After RUNNEL_HINDERED (it is tried again) and RUNNEL_REFUSED (it is not): why, a phrase. */
const char *link_refusal(const struct link *link);

#endif
