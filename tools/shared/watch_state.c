#include "watch_state.h"

#include <string.h>

#include "common/json_member.h"
#include "common/text.h"
#include "watch_names.h"

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

/* The name of its member, or its own. */
static const char *label_of(const json_t *layer) {
    const char *member = state_member(layer);
    return member ? member : member_string(layer, "name");
}

int state_member_columns(const json_t *layers, int most) {
    const json_t *layer;
    size_t i;
    int columns = 0;
    json_array_foreach(layers, i, layer) {
        const char *name = label_of(layer);
        int length = name ? (int)strnlen(name, (size_t)most) : 0;
        columns = length > columns ? length : columns;
    }
    return columns;
}

const char *state_member_name(const json_t *layer, int columns, char name[STATE_NAME_SIZE]) {
    const char *all = label_of(layer);
    *name = '\0';
    if (!all)
        return name;
    char cut[NAME_SIZE];
    return text_copy(name, STATE_NAME_SIZE, names_cut(cut, all, columns));
}

int state_number_columns(const json_t *layers) {
    enum { TEN = 10 };
    int columns = 1;
    for (size_t last = json_array_size(layers); last > TEN; last = (last + TEN - 1) / TEN)
        columns++;
    return columns;
}
