/* Values that are lists: experts, steps ahead, members with what they set. */
#include <stdio.h>
#include <string.h>

#include "config_walk.h"

/* A list of words, none of them twice; none at all where that is the default. */
static int take_set(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                    const char *path) {
    struct draft *draft = &walk->reading->draft;
    const yaml_node_item_t *item = node->data.sequence.items.start;
    if (node->type != YAML_SEQUENCE_NODE ||
        (item == node->data.sequence.items.top && !key->fallback))
        return walk_fail_value(walk, node, key, path);
    *(unsigned *)config_value_home(key, 0, draft) = 0;
    for (; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *word = yaml_document_get_node(&walk->document, *item);
        if (word->type != YAML_SCALAR_NODE ||
            config_value_store(key, 0, walk_text(word), false, draft) != 0)
            return walk_fail_value(walk, word, key, path);
    }
    return 0;
}

/* A list of numbers, each greater than the one before. */
static int take_ahead(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                      const char *path) {
    const yaml_node_item_t *item = node->data.sequence.items.start;
    if (item == node->data.sequence.items.top)
        return walk_fail_value(walk, node, key, path);
    for (; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *number = yaml_document_get_node(&walk->document, *item);
        bool first = item == node->data.sequence.items.start;
        if (!walk_is_plain(number) ||
            config_value_add(key, walk_text(number), first, &walk->reading->draft) != 0)
            return walk_fail_value(walk, number, key, path);
    }
    return 0;
}

/* What follows NAME= may be a secret, and this sentence is logged. */
static int fail_pair(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                     const char *path) {
    char expected[CONFIG_TEXT_SIZE];
    size_t size = strcspn(walk_text(node), "=");
    config_value_expected(key, expected, sizeof expected);
    return walk_fail(walk, node->start_mark, path, "found \"%.*s=...\"; allowed is %s (%s)",
                     (int)(size < WALK_SHOWN_MAX ? size : WALK_SHOWN_MAX), walk_text(node),
                     expected, key->what);
}

/* A text. */
static int take_prefix(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                       const char *path) {
    if (node->type == YAML_SCALAR_NODE && !walk_is_null(node) &&
        strlen(walk_text(node)) == node->data.scalar.length &&
        config_value_store(key, 0, walk_text(node), false, &walk->reading->draft) == 0)
        return 0;
    bool pair = node->type == YAML_SCALAR_NODE && strchr(walk_text(node), '=');
    return pair ? fail_pair(walk, node, key, path) : walk_fail_value(walk, node, key, path);
}

/* One, or a list of them, none of them twice. */
static int take_prefixes(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                         const char *path) {
    config_value_default(key, 0, &walk->reading->draft);
    if (node->type != YAML_SEQUENCE_NODE)
        return take_prefix(walk, node, key, path);
    const yaml_node_item_t *item = node->data.sequence.items.start;
    for (; item < node->data.sequence.items.top; item++)
        if (take_prefix(walk, yaml_document_get_node(&walk->document, *item), key, path))
            return -1;
    return 0;
}

static const yaml_node_t *value_of(struct walk *walk, const yaml_node_t *mapping,
                                   const char *name) {
    const yaml_node_pair_t *end = mapping->data.mapping.pairs.top;
    const yaml_node_t *key = NULL;
    for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < end; p++) {
        key = yaml_document_get_node(&walk->document, p->key);
        if (key->type == YAML_SCALAR_NODE && !strcmp(walk_text(key), name))
            return yaml_document_get_node(&walk->document, p->value);
    }
    return NULL;
}

/* "KEY=VALUE" after what members have set so far. */
static int append_set(struct walk *walk, const yaml_node_t *name, const yaml_node_t *value,
                      const struct config_key *key, const struct member_config *member) {
    struct config *config = &walk->reading->draft.config;
    char text[CONFIG_SET_SIZE];
    if (name->type != YAML_SCALAR_NODE || value->type != YAML_SCALAR_NODE ||
        snprintf(text, sizeof text, "%s=%s", walk_text(name), walk_text(value)) >= CONFIG_SET_SIZE)
        return walk_fail(walk, name->start_mark, key->path,
                         "found a key that member %s sets without one short value; allowed is "
                         "KEY: VALUE, as in model.layers.0.size: 32",
                         member->name);
    size_t size = strlen(text) + 1;
    if (config->sets_size + size > CONFIG_SETS_SIZE)
        return walk_fail(walk, name->start_mark, key->path,
                         "found more than %d bytes that all members set; allowed are at most that "
                         "many: what most of them set can stand in the configuration itself",
                         CONFIG_SETS_SIZE);
    memcpy(config->sets + config->sets_size, text, size);
    config->sets_size += size;
    return 0;
}

/* What a member sets: a mapping of paths to values. */
static int take_sets(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                     const struct member_config *member) {
    char found[CONFIG_TEXT_SIZE];
    if (node->type != YAML_MAPPING_NODE)
        return walk_fail(walk, node->start_mark, key->path,
                         "found %s, which member %s sets; allowed is a mapping, as in "
                         "{model.layers.0.size: 32}",
                         walk_shown(node, found), member->name);
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (size_t n = 0; pair < node->data.mapping.pairs.top; pair++, n++) {
        const yaml_node_t *name = yaml_document_get_node(&walk->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&walk->document, pair->value);
        if (n == CONFIG_SETS_MAX)
            return walk_fail(
                walk, name->start_mark, key->path,
                "found more than %d keys that member %s sets; allowed are at most that "
                "many",
                CONFIG_SETS_MAX, member->name);
        if (append_set(walk, name, value, key, member) != 0)
            return -1;
        const yaml_node_t *first = walk_earlier(walk, node, pair, walk_text(name));
        if (first)
            return walk_fail_twice(walk, name->start_mark, walk_text(name), first);
    }
    return 0;
}

static int take_member(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                       struct member_config *member) {
    const yaml_node_t *name = NULL, *sets = NULL;
    if (node->type == YAML_MAPPING_NODE) {
        name = value_of(walk, node, "name");
        sets = value_of(walk, node, "set");
    }
    size_t known = (name != NULL) + (sets != NULL), count = 0;
    if (name)
        count = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
    if (!name || name->type != YAML_SCALAR_NODE || known < count)
        return walk_fail_value(walk, node, key, key->path);
    if (!config_label_good(walk_text(name)))
        return walk_fail(
            walk, name->start_mark, key->path,
            "found the name \"%.*s\"; allowed are 1 to %d letters, digits, '-' and '_'",
            WALK_SHOWN_MAX, walk_text(name), CONFIG_MEMBER_NAME_SIZE - 1);
    strcpy(member->name, walk_text(name));
    struct config *config = &walk->reading->draft.config;
    member->sets = config->sets_size;
    if (sets && take_sets(walk, sets, key, member) != 0)
        return -1;
    config->sets[config->sets_size++] = '\0';
    return 0;
}

static int take_members(struct walk *walk, const yaml_node_t *node, const struct config_key *key) {
    struct config *config = &walk->reading->draft.config;
    if (node->type != YAML_SEQUENCE_NODE)
        return walk_fail_value(walk, node, key, key->path);
    const yaml_node_item_t *item = node->data.sequence.items.start;
    size_t count = (size_t)(node->data.sequence.items.top - item);
    if (count > CONFIG_MEMBERS_MAX)
        return walk_fail(walk, node->start_mark, key->path,
                         "found a list of %zu; allowed are at most %d members", count,
                         CONFIG_MEMBERS_MAX);
    memset(config->members, 0, sizeof config->members);
    memset(config->sets, 0, sizeof config->sets);
    config->sets_size = 0;
    config->members_given = true;
    config->member_count = count;
    for (size_t n = 0; n < count; n++)
        if (take_member(walk, yaml_document_get_node(&walk->document, item[n]), key,
                        &config->members[n]) != 0)
            return -1;
    return 0;
}

/* ---- Tags ---- */

static void remove_tag(struct tags_config *tags, const char *name) {
    for (size_t n = 0; n < tags->count; n++) {
        if (strcmp(tags->list[n].name, name) != 0)
            continue;
        memmove(&tags->list[n], &tags->list[n + 1], (tags->count - n - 1) * sizeof *tags->list);
        tags->list[--tags->count] = (struct tag_config){0};
        return;
    }
}

int walk_tag(struct walk *walk, const yaml_node_t *node, const char *name, const char *path) {
    struct tags_config *tags = &walk->reading->draft.config.tags;
    char found[CONFIG_TEXT_SIZE];
    if (!config_tag_good(name))
        return walk_fail(walk, node->start_mark, path,
                         "found the tag \"%.*s\"; allowed are names of 1 to %d letters, digits, "
                         "'-', '_' and '.'",
                         WALK_SHOWN_MAX, name, CONFIG_MEMBER_NAME_SIZE - 1);
    remove_tag(tags, name);
    if (walk_is_null(node))
        return 0;
    if (node->type != YAML_SCALAR_NODE || strlen(walk_text(node)) != node->data.scalar.length ||
        node->data.scalar.length >= CONFIG_TAG_SIZE)
        return walk_fail(walk, node->start_mark, path,
                         "found %s; allowed is a text of at most %d bytes", walk_shown(node, found),
                         CONFIG_TAG_SIZE - 1);
    if (tags->count == CONFIG_TAGS_MAX)
        return walk_fail(walk, node->start_mark, path,
                         "found more than %d tags; that many are allowed", CONFIG_TAGS_MAX);
    struct tag_config *tag = &tags->list[tags->count++];
    strcpy(tag->name, name);
    strcpy(tag->text, walk_text(node));
    return 0;
}

static int take_tags(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                     const char *path) {
    config_value_default(key, 0, &walk->reading->draft);
    if (walk_is_null(node)) /* a heading whose tags are all commented out */
        return 0;
    if (node->type != YAML_MAPPING_NODE)
        return walk_fail_value(walk, node, key, path);
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = yaml_document_get_node(&walk->document, pair->key);
        const yaml_node_t *text = yaml_document_get_node(&walk->document, pair->value);
        char at[CONFIG_KEY_SIZE];
        if (name->type != YAML_SCALAR_NODE || walk_is_null(text))
            return walk_fail_value(walk, name->type == YAML_SCALAR_NODE ? text : name, key, path);
        const yaml_node_t *first = walk_earlier(walk, node, pair, walk_text(name));
        snprintf(at, sizeof at, "%s.%s", path, walk_text(name));
        if (first)
            return walk_fail_twice(walk, name->start_mark, at, first);
        if (walk_tag(walk, text, walk_text(name), at) != 0)
            return -1;
    }
    return 0;
}

/* CPUs, likewise. */
static int take_pin(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                    const char *path) {
    char *pin = walk->reading->draft.config.threads.pin;
    const yaml_node_item_t *item = node->data.sequence.items.start;
    if (item == node->data.sequence.items.top)
        return walk_fail_value(walk, node, key, path);
    for (; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *cpu = yaml_document_get_node(&walk->document, *item);
        bool first = item == node->data.sequence.items.start;
        if (cpu->type != YAML_SCALAR_NODE || config_value_add_cpu(walk_text(cpu), first, pin) != 0)
            return walk_fail_value(walk, cpu, key, path);
    }
    return 0;
}

int walk_list(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
              const char *path) {
    switch (key->type) {
    case VALUE_SET:
        return take_set(walk, node, key, path);
    case VALUE_MEMBERS:
        return take_members(walk, node, key);
    case VALUE_COLUMNS:
        return walk_columns(walk, node, key);
    case VALUE_COLUMN_NAMES:
        return walk_column_names(walk, node, key);
    case VALUE_PREFIXES:
        return take_prefixes(walk, node, key, path);
    case VALUE_TAGS:
        return take_tags(walk, node, key, path);
    case VALUE_PIN:
        return take_pin(walk, node, key, path);
    default:
        return take_ahead(walk, node, key, path);
    }
}
