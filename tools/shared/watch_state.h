/* The layers of a `state` message: of a daemon whose networks have names (members) those of all of
   them, one after the other, numbered through. */
#ifndef RUNNEL_WATCH_STATE_H
#define RUNNEL_WATCH_STATE_H

#include <jansson.h>

enum { STATE_LAYERS = 128 /* at most; further ones are left out */ };

/* A list of them, a new reference; NULL: the message has none, or out of memory. Those of a member
   have one thing more than in the message, state_member. */
json_t *state_layers(const json_t *body);

/* The name of the member that a layer of that list belongs to; NULL: the network has no name. */
const char *state_member(const json_t *layer);

#endif
