#include "watch_state.h"

#include "common/json_member.h"

#define MEMBER "member"

static void add_layers(json_t *list, const char *name, const json_t *layers) {
    json_t *layer;
    size_t i;
    json_array_foreach(layers, i, layer) {
        json_t *copy = json_is_object(layer) ? json_copy(layer) : json_object();
        if (json_array_size(list) == STATE_LAYERS) {
            json_decref(copy);
            return;
        }
        if (name)
            json_object_set_new(copy, MEMBER, json_string(name));
        json_array_append_new(list, copy);
    }
}

json_t *state_layers(const json_t *body) {
    json_t *members = json_object_get(body, "members"), *member;
    const json_t *layers = json_object_get(body, "layers");
    json_t *list = layers || members ? json_array() : NULL;
    const char *name;
    if (!json_object_size(members))
        add_layers(list, NULL, layers);
    json_object_foreach(members, name, member) {
        add_layers(list, name, json_object_get(member, "layers"));
    }
    return list;
}

const char *state_member(const json_t *layer) {
    return member_string(layer, MEMBER);
}
