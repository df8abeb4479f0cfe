/* One daemon that is recorded: the link to it, how it is, and what it says of itself. */
#ifndef RUNNEL_RECORD_SOURCE_H
#define RUNNEL_RECORD_SOURCE_H

#include "common/keys.h"
#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"

enum { SOURCE_NAME_SIZE = 65 };

struct source {
    const char *endpoint;
    struct link *link;
    struct health health;
    char name[SOURCE_NAME_SIZE]; /* "" = not known yet */
    bool named;                  /* whether that it is recorded has been said, of this run */
    bool refused, hindrance_said;
    void (*note)(struct source *source, const char *text);
    void *context;
};

/* Subscribe at the endpoint, to predictions if they are wanted; what people should know about the
   daemon goes to `note`. EX_OK, or complains and returns an exit status. */
int source_open(struct source *source, const struct runnel_peer *peer, double silence,
                bool predictions);
void source_close(struct source *source);

/* Take the next message: false when none waits. One with a problem is counted and said, and comes
   back with `problem`. Changes of the connection before it are taken in. */
bool source_receive(struct source *source, struct message *message);

/* Look at the clock; with `last` say what is held back. */
void source_tick(struct source *source, bool last);

#endif
