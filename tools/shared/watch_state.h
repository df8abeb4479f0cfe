/* The layers of a `state` message: of a daemon whose networks have names (members) those of all of
   them, one after the other, numbered through. */
#ifndef RUNNEL_WATCH_STATE_H
#define RUNNEL_WATCH_STATE_H

#include <jansson.h>

enum {
    STATE_LAYERS = 1024, /* at most: 64 members of 16; further ones are left out */
    STATE_NAME_SIZE = 64,
};

/* A list of them, a new reference; NULL: the message has none, or out of memory. Those of a member
   have one thing more than in the message, state_member. */
json_t *state_layers(const json_t *body);

/* The name of the member that a layer of that list belongs to; NULL: the network has no name. */
const char *state_member(const json_t *layer);

/* Columns that the names of the list's members take, at most `most`; 0: they have none. */
int state_member_columns(const json_t *layers, int most);

/* The name of the layer's member in at most `columns`: of a longer one beginning and end, for names
   that are numbered differ there, with '~' between. Returns `name`; "" where there is none. */
const char *state_member_name(const json_t *layer, int columns, char name[STATE_NAME_SIZE]);

/* Columns of the number of the list's last layer. */
int state_number_columns(const json_t *layers);

#endif
