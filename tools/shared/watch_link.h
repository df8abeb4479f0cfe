/* The connection to a daemon's statistics socket (runnel.h) for tools: topics by number, errors on
   stderr. */
#ifndef RUNNEL_WATCH_LINK_H
#define RUNNEL_WATCH_LINK_H

#include <stdbool.h>

#include <jansson.h>

#include "common/topics.h"
#include "runnel.h"

struct message {
    enum topic topic;
    json_t *body;        /* an object, owned by the message */
    char *text;          /* the same text on one line from '{' to '}', owned */
    const char *problem; /* instead of body and text: why the message is invalid, a static phrase */
    struct runnel_news news; /* other news; its pointers are valid until link_next */
};

struct link;

/* Subscribes to the topics marked in `topics`; the daemon may start later. Returns EX_OK, or prints
   an error and returns EX_USAGE (not an endpoint) or EX_UNAVAILABLE (no sockets). */
int link_open(struct link **link, const struct runnel_peer *peer, const bool topics[TOPICS]);
void link_close(struct link **link);

/* Waits until news arrive, `wake` is readable, or `seconds` have passed. Sets *woken if `wake` is
   readable. */
void link_wait(struct link *link, int wake, double seconds, bool *woken);

/* Stops parsing: from now on `body` is NULL and the text may be invalid JSON. */
void link_unparsed(struct link *link);

/* For polling several links: readable as long as link_next may return news. */
int link_descriptor(const struct link *link);

/* Returns the next news without waiting: RUNNEL_MESSAGE with `message` filled, which the caller
   clears, a change of the connection, or RUNNEL_NOTHING. */
enum runnel_kind link_next(struct link *link, struct message *message);
void message_clear(struct message *message);

/* The reason as a phrase, after RUNNEL_HINDERED (the link tries again) and RUNNEL_REFUSED (it does
   not). */
const char *link_refusal(const struct link *link);

#endif
