/* The layers of a `state` message. If networks have names (members), the layers of all members in
   order, with continuous numbers. */
#ifndef RUNNEL_WATCH_STATE_H
#define RUNNEL_WATCH_STATE_H

#include <jansson.h>

enum {
    STATE_LAYERS = 1024, /* 64 members of 16 layers; further layers are left out */
    STATE_NAME_SIZE = 64,
};

/* A new reference to a list of layers; NULL without layers or when out of memory. The layers of a
   member also have its name, see state_member. */
json_t *state_layers(const json_t *body);

/* The name of the layer's member; NULL if the network has no name. */
const char *state_member(const json_t *layer);

/* Columns of the longest name of a member, or of a layer in a network without a name, at most
 * `most`; 0 without names. */
int state_member_columns(const json_t *layers, int most);

/* That name of the layer in at most `columns`. Keeps beginning and end of a long name with
   '~' between, since numbered names differ there. Returns `name`; "" without a name. */
const char *state_member_name(const json_t *layer, int columns, char name[STATE_NAME_SIZE]);

/* Columns of the highest layer number. */
int state_number_columns(const json_t *layers);

#endif
