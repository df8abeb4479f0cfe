/* Reads YAML into a reading: a document with its marks, processed with the table of keys. */
#include "config_read.h"

#include <sysexits.h>

#include "common/error.h"
#include "common/text.h"

enum { OVERRIDE_MAX = 16384 }; /* bytes of a value */

static const yaml_node_t NOWHERE; /* the node of an override, whose position is its text */

static const char ANY_LAYER[] = ".N."; /* any layer in the path of an override */

const struct place *config_place(const struct reading *reading, const char *path) {
    const struct config_key *key;
    size_t layer;
    if (config_path_kind(path, &key, &layer) == PATH_KEY)
        return &reading->places[key - config_keys][layer];
    return NULL;
}

bool config_given(const struct reading *reading, const char *path) {
    const struct place *place = config_place(reading, path);
    return place && place->given;
}

const struct place *config_section_place(const struct reading *reading, const char *path) {
    for (size_t s = 0; s < reading->section_count; s++)
        if (!strcmp(reading->sections[s].path, path))
            return reading->sections[s].place.given ? &reading->sections[s].place : NULL;
    return NULL;
}

const char *config_given_below(const struct reading *reading, const char *section) {
    for (size_t k = 0; k < config_key_count; k++)
        if (config_path_below(config_keys[k].path, section) && reading->places[k][0].given)
            return config_keys[k].path;
    return NULL;
}

void config_note_section(struct reading *reading, const char *path, struct place place) {
    size_t s = 0;
    while (s < reading->section_count && strcmp(reading->sections[s].path, path))
        s++;
    if (s == CONFIG_SECTIONS_MAX)
        return;
    snprintf(reading->sections[s].path, CONFIG_KEY_SIZE, "%s", path);
    reading->sections[s].place = place;
    if (s == reading->section_count)
        reading->section_count++;
}

int config_fail(const struct reading *reading, const char *path, const char *format, ...) {
    char around[CONFIG_KEY_SIZE];
    const struct place *place;
    snprintf(around, sizeof around, "%s", path);
    while (!(place = config_given(reading, around) ? config_place(reading, around)
                                                   : config_section_place(reading, around)) &&
           *around) {
        char *dot = strrchr(around, '.');
        *(dot ? dot : around) = 0;
    }
    va_list arguments;
    va_start(arguments, format);
    config_fail_at(&reading->origin, place, path, format, arguments);
    va_end(arguments);
    return -1;
}

static int store_value(struct reading *reading, const struct walk *walk, const yaml_node_t *node,
                       const char *path) {
    const struct config_key *key;
    size_t layer;
    config_path_kind(path, &key, &layer);
    if (config_value_read(walk, node, key, layer, path, &reading->draft) != 0)
        return -1;
    reading->places[key - config_keys][layer] = walk_place(walk, node);
    return 0;
}

int config_expect(const struct reading *reading, bool good, const char *path, const char *why,
                  const char *what, ...) {
    const struct config_key *key;
    char text[ERROR_TEXT_SIZE], value[CONFIG_TEXT_SIZE];
    size_t layer;
    if (good)
        return 0;
    TEXT_FORMAT(text, sizeof text, what);
    config_path_kind(path, &key, &layer);
    config_value_print(key, layer, &reading->draft, value, sizeof value);
    return config_fail(reading, path, "expected %s, got %s%s%s", text, value, why ? ": " : "",
                       why ? why : "");
}

const char *config_path_format(char path[CONFIG_KEY_SIZE], const char *format, ...) {
    TEXT_FORMAT(path, CONFIG_KEY_SIZE, format);
    return path;
}

static int fail_unknown(const struct walk *walk, const yaml_node_t *node, const char *parent,
                        const char *path) {
    char children[CONFIG_TEXT_SIZE], meant[CONFIG_MEANT_SIZE];
    config_path_children(parent, children, sizeof children);
    return walk_fail(walk, node, path, "unknown key%s; expected %s%s: %s",
                     config_path_meant(path, meant), *parent ? "in " : "here", parent, children);
}

/* The path of `name` below `parent`. */
static bool join(char path[CONFIG_KEY_SIZE], const char *parent, const char *name) {
    return snprintf(path, CONFIG_KEY_SIZE, "%s%s%s", parent, *parent ? "." : "", name) <
           CONFIG_KEY_SIZE;
}

static int read_mapping(struct reading *reading, const struct walk *walk, const yaml_node_t *node,
                        const char *path) {
    if (walk_is_null(node)) { /* a heading with all keys commented out */
        config_note_section(reading, path, walk_place(walk, node));
        return 0;
    }
    if (node->type != YAML_MAPPING_NODE) {
        char children[CONFIG_TEXT_SIZE], found[CONFIG_TEXT_SIZE];
        config_path_children(path, children, sizeof children);
        return walk_fail(walk, node, path, "expected a mapping of %s, got %s", children,
                         walk_shown(node, found));
    }
    config_note_section(reading, path, walk_place(walk, node));
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = walk_node(walk, pair->key);
        char child[CONFIG_KEY_SIZE], found[CONFIG_TEXT_SIZE];
        if (key->type != YAML_SCALAR_NODE || strlen(walk_text(key)) != key->data.scalar.length)
            return walk_fail(walk, key, path, "expected a key, got %s", walk_shown(key, found));
        bool fits = join(child, path, walk_text(key));
        if (strchr(walk_text(key), '.'))
            return walk_fail(walk, key, child,
                             "key with a dot; expected nested mappings, as in \"learning: "
                             "{window: 16}\"");
        if (!fits || config_path_kind(child, NULL, NULL) == PATH_UNKNOWN)
            return fail_unknown(walk, key, path, child);
        if (walk_once(walk, node, pair, child) != 0 ||
            config_read_node(reading, walk, walk_node(walk, pair->value), child) != 0)
            return -1;
    }
    return 0;
}

/* The only list: model.layers. */
static int read_list(struct reading *reading, const struct walk *walk, const yaml_node_t *node,
                     const char *path) {
    char found[CONFIG_TEXT_SIZE];
    if (node->type != YAML_SEQUENCE_NODE)
        return walk_fail(walk, node, path, "expected a list of 1 to %d layers, got %s",
                         MODEL_LAYERS_MAX, walk_shown(node, found));
    const yaml_node_item_t *item = node->data.sequence.items.start;
    size_t count = walk_items(node);
    if (count > MODEL_LAYERS_MAX)
        return walk_fail(walk, node, path, "expected a list of 1 to %d layers, got %zu",
                         MODEL_LAYERS_MAX, count);
    config_note_section(reading, path, walk_place(walk, node));
    reading->draft.config.architecture.layer_count = count;
    for (size_t n = 0; n < count; n++) {
        char child[CONFIG_KEY_SIZE];
        snprintf(child, sizeof child, "%s.%zu", path, n);
        if (config_read_node(reading, walk, walk_node(walk, item[n]), child) != 0)
            return -1;
    }
    return 0;
}

/* Custom tags ("!secret") are not supported. */
static bool has_known_tag(const yaml_node_t *node) {
    static const char prefix[] = "tag:yaml.org,2002:";
    const char *tag = (const char *)node->tag;
    return !tag ||
           (!strncmp(tag, prefix, sizeof prefix - 1) &&
            config_words_contain("str|int|float|bool|null|map|seq", tag + sizeof prefix - 1, NULL));
}

int config_read_node(struct reading *reading, const struct walk *walk, const yaml_node_t *node,
                     const char *path) {
    if (!has_known_tag(node))
        return walk_fail(walk, node, path, "the YAML tag \"%.*s\" is not supported",
                         CONFIG_SHOWN_MAX, (const char *)node->tag);
    switch (config_path_kind(path, NULL, NULL)) {
    case PATH_MAPPING:
        return read_mapping(reading, walk, node, path);
    case PATH_LIST:
        return read_list(reading, walk, node, path);
    case PATH_KEY:
        return store_value(reading, walk, node, path);
    case PATH_UNKNOWN:
        break;
    }
    return fail_unknown(walk, node, "", path);
}

/* Whether at least half of the names are keys. */
static bool is_configuration(struct walk *walk, const yaml_node_t *root) {
    size_t known = 0, unknown = 0;
    if (walk_is_null(root))
        return true;
    if (root->type != YAML_MAPPING_NODE)
        return false;
    for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = walk_node(walk, pair->key);
        bool found = key->type == YAML_SCALAR_NODE && *walk_text(key) &&
                     config_path_kind(walk_text(key), NULL, NULL) != PATH_UNKNOWN;
        known += found;
        unknown += !found;
    }
    return known >= unknown;
}

int config_read_text(struct reading *reading, const char *text, size_t size) {
    struct walk walk = {.origin = &reading->origin};
    char children[CONFIG_TEXT_SIZE];
    int status;
    if (walk_load(&walk, text, size) != 0)
        return -1;
    const yaml_node_t *root = yaml_document_get_root_node(&walk.document);
    config_path_children("", children, sizeof children);
    if (is_configuration(&walk, root))
        status = config_read_node(reading, &walk, root, "");
    else /* it may be another file with secrets: do not quote it */
        status =
            walk_fail(&walk, root, "", "not a configuration; expected a mapping of %s", children);
    yaml_document_delete(&walk.document);
    return status;
}

/* Treat the key, or all keys below the path, as not given. */
static void forget(struct reading *reading, const char *path) {
    size_t layer;
    bool one = config_path_layer(path, &layer);
    for (size_t k = 0; k < config_key_count; k++)
        for (size_t n = 0; n < MODEL_LAYERS_MAX && config_key_below(&config_keys[k], path); n++)
            if (!one || n == layer)
                reading->places[k][n].given = false;
    for (size_t s = 0; s < reading->section_count; s++)
        if (config_path_below(reading->sections[s].path, path))
            reading->sections[s].place.given = false;
    if (config_path_kind(path, NULL, NULL) == PATH_LIST) {
        reading->draft.config.architecture.layer_count = 0;
        reading->preset_layer = false;
    }
}

#define TAGS "tags."

/* "tags.NAME=TEXT" sets one tag; an empty text removes it. */
static int override_tag(struct reading *reading, struct walk *walk, const char *path,
                        const char *text) {
    size_t length = strlen(text);
    if (strspn(text, " ") == length) {
        text = "~";
        length = 1;
    }
    if (length > OVERRIDE_MAX || walk_load(walk, text, length) != 0)
        return -1;
    int status = config_read_tag(walk, yaml_document_get_root_node(&walk->document),
                                 path + strlen(TAGS), path, &reading->draft.config.tags);
    yaml_document_delete(&walk->document);
    return status;
}

/* Check that the path of the override is known, and that its layer exists. */
static int check_override(const struct reading *reading, const struct walk *walk,
                          const char *path) {
    size_t layer, layers = reading->draft.config.architecture.layer_count;
    if (!*path || config_path_kind(path, NULL, NULL) == PATH_UNKNOWN) {
        char parent[CONFIG_KEY_SIZE];
        const char *dot = strrchr(path, '.');
        snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - path) : 0, path);
        if (config_path_kind(parent, NULL, NULL) != PATH_MAPPING)
            *parent = 0;
        return fail_unknown(walk, &NOWHERE, parent, path);
    }
    if (config_path_layer(path, &layer) && layer >= layers)
        return walk_fail(walk, &NOWHERE, path,
                         "expected a layer below %zu, the number of layers, got %zu", layers,
                         layer);
    return 0;
}

/* Read the value of an override at one path. */
static int read_value(struct reading *reading, struct walk *walk, const char *path,
                      const char *value) {
    if (check_override(reading, walk, path) != 0)
        return -1;
    size_t length = strlen(value);
    if (length > OVERRIDE_MAX)
        return walk_fail(walk, &NOWHERE, path,
                         "expected a value of at most %d bytes, got %zu "
                         "bytes",
                         OVERRIDE_MAX, length);
    if (strspn(value, " ") == length) {
        forget(reading, path);
        return 0;
    }
    if (walk_load(walk, value, length) != 0)
        return -1;
    const yaml_node_t *root = yaml_document_get_root_node(&walk->document);
    forget(reading, path);
    int status = walk_is_null(root) ? 0 : config_read_node(reading, walk, root, path);
    yaml_document_delete(&walk->document);
    return status;
}

/* "model.layers.N.size": set it for each layer. */
static int read_values(struct reading *reading, struct walk *walk, const char *path,
                       const char *any, const char *value) {
    size_t layers = reading->draft.config.architecture.layer_count;
    int before = (int)(any - path) + 1, status = 0;
    walk->all = layers > 1;
    for (size_t n = 0; n < (layers ? layers : 1) && status == 0; n++) {
        char one[2 * CONFIG_KEY_SIZE];
        snprintf(one, sizeof one, "%.*s%zu%s", before, path, n, any + sizeof ANY_LAYER - 2);
        status = read_value(reading, walk, one, value);
    }
    return status;
}

int config_read_override(struct reading *reading, const char *override) {
    struct walk walk = {.origin = &reading->origin, .override = override};
    char path[CONFIG_KEY_SIZE];
    const char *equals = strchr(override, '=');
    if (!equals)
        return error_set(reading->origin.error, EX_USAGE,
                         "%s %.*s: missing value; expected KEY=VALUE", reading->origin.verb,
                         CONFIG_KEY_SIZE, override);
    snprintf(path, sizeof path, "%.*s", (int)(equals - override), override);
    if (!strncmp(path, TAGS, strlen(TAGS)))
        return override_tag(reading, &walk, path, equals + 1);
    const char *any = strstr(path, ANY_LAYER);
    return any ? read_values(reading, &walk, path, any, equals + 1)
               : read_value(reading, &walk, path, equals + 1);
}
