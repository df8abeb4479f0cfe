/* Types of values that are lists or mappings of more than words and numbers: tags, members,
   columns with their keys, layers in other places than model.layers, and outputs. */
#include "config_read.h"

#include <stdlib.h>

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

int config_read_tag(const struct walk *walk, const yaml_node_t *node, const char *name,
                    const char *path, struct tags_config *tags) {
    char found[CONFIG_TEXT_SIZE];
    if (!config_name_good(name))
        return walk_fail(walk, node, path,
                         "invalid tag name \"%.*s\"; expected 1 to %d letters, digits, '-', '_' "
                         "and '.'",
                         CONFIG_SHOWN_MAX, name, CONFIG_MEMBER_NAME_SIZE - 1);
    remove_tag(tags, name);
    if (walk_is_null(node))
        return 0;
    if (!walk_has_text(node) || node->data.scalar.length >= CONFIG_TAG_SIZE)
        return walk_fail(walk, node, path, "expected a text of at most %d bytes, got %s",
                         CONFIG_TAG_SIZE - 1, walk_shown(node, found));
    if (tags->count == CONFIG_TAGS_MAX)
        return walk_fail(walk, node, path, "too many tags; the limit is %d", CONFIG_TAGS_MAX);
    struct tag_config *tag = &tags->list[tags->count++];
    strcpy(tag->name, name);
    strcpy(tag->text, walk_text(node));
    return 0;
}

static int tags_read(const struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                     const char *path, void *where) {
    memset(where, 0, key->type->size);
    if (walk_is_null(node)) /* a heading with all tags commented out */
        return 0;
    if (node->type != YAML_MAPPING_NODE)
        return config_fail_value(walk, node, key, path);
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = walk_node(walk, pair->key), *text = walk_node(walk, pair->value);
        if (name->type != YAML_SCALAR_NODE || walk_is_null(text))
            return config_fail_value(walk, name->type == YAML_SCALAR_NODE ? text : name, key, path);
        const char *at = CONFIG_PATH("%s.%s", path, walk_text(name));
        if (walk_once(walk, node, pair, at) != 0 ||
            config_read_tag(walk, text, walk_text(name), at, where) != 0)
            return -1;
    }
    return 0;
}

/* "site: osaka, run: 7", in a document with braces. */
static void tags_print(const struct config_key *key, const void *where, struct config_text *to) {
    const struct tags_config *tags = where;
    (void)key;
    config_add(to, to->out ? "{" : "");
    for (size_t n = 0; n < tags->count; n++) {
        config_add(to, n ? ", " : "");
        config_add_text(to, tags->list[n].name);
        config_add(to, ": ");
        config_add_text(to, tags->list[n].text);
    }
    config_add(to, to->out ? "}" : "");
}

const struct value_type value_tags = {
    "mapping of texts",         "a mapping of at most $most names to texts, as in {site: osaka}",
    sizeof(struct tags_config), .most = CONFIG_TAGS_MAX,
    .read = tags_read,          .print = tags_print};

/* ---- Members ---- */

static const yaml_node_t *value_of(const struct walk *walk, const yaml_node_t *mapping,
                                   const char *name) {
    const yaml_node_pair_t *end = mapping->data.mapping.pairs.top;
    for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < end; p++) {
        const yaml_node_t *key = walk_node(walk, p->key);
        if (key->type == YAML_SCALAR_NODE && !strcmp(walk_text(key), name))
            return walk_node(walk, p->value);
    }
    return NULL;
}

/* Append "KEY=VALUE" to the texts of all members. */
static int append_set(const struct walk *walk, const yaml_node_t *name, const yaml_node_t *value,
                      struct config *config, const struct member_config *member) {
    char text[CONFIG_SET_SIZE];
    if (name->type != YAML_SCALAR_NODE || value->type != YAML_SCALAR_NODE ||
        snprintf(text, sizeof text, "%s=%s", walk_text(name), walk_text(value)) >= CONFIG_SET_SIZE)
        return walk_fail(walk, name, "members",
                         "invalid key or value of member %s; expected KEY: VALUE with one short "
                         "value, as in model.layers.0.size: 32",
                         member->name);
    size_t size = strlen(text) + 1;
    if (config->sets_size + size > CONFIG_SETS_SIZE)
        return walk_fail(walk, name, "members",
                         "the settings of all members exceed %d bytes; move common settings to "
                         "the configuration itself",
                         CONFIG_SETS_SIZE);
    memcpy(config->sets + config->sets_size, text, size);
    config->sets_size += size;
    return 0;
}

/* The settings of a member: a mapping from paths to values. */
static int read_sets(const struct walk *walk, const yaml_node_t *node, struct config *config,
                     const struct member_config *member) {
    char found[CONFIG_TEXT_SIZE];
    if (node->type != YAML_MAPPING_NODE)
        return walk_fail(walk, node, "members",
                         "expected a mapping in set of member %s, as in {model.layers.0.size: "
                         "32}, got %s",
                         member->name, walk_shown(node, found));
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (size_t n = 0; pair < node->data.mapping.pairs.top; pair++, n++) {
        const yaml_node_t *name = walk_node(walk, pair->key);
        if (n == CONFIG_SETS_MAX)
            return walk_fail(walk, name, "members",
                             "too many keys in set of member %s; the limit is %d", member->name,
                             CONFIG_SETS_MAX);
        if (append_set(walk, name, walk_node(walk, pair->value), config, member) != 0 ||
            walk_once(walk, node, pair, walk_text(name)) != 0)
            return -1;
    }
    return 0;
}

static int read_member(const struct walk *walk, const yaml_node_t *node,
                       const struct config_key *key, struct config *config,
                       struct member_config *member) {
    bool mapping = node->type == YAML_MAPPING_NODE;
    const yaml_node_t *name = mapping ? value_of(walk, node, "name") : NULL;
    const yaml_node_t *sets = mapping ? value_of(walk, node, "set") : NULL;
    if (!name || name->type != YAML_SCALAR_NODE ||
        node->data.mapping.pairs.top - node->data.mapping.pairs.start > 1 + (sets != NULL))
        return config_fail_value(walk, node, key, key->path);
    if (!config_label_good(walk_text(name)))
        return walk_fail(walk, name, key->path,
                         "invalid name \"%.*s\"; expected 1 to %d letters, digits, '-' and '_'",
                         CONFIG_SHOWN_MAX, walk_text(name), CONFIG_MEMBER_NAME_SIZE - 1);
    strcpy(member->name, walk_text(name));
    member->sets = config->sets_size;
    if (sets && read_sets(walk, sets, config, member) != 0)
        return -1;
    config->sets[config->sets_size++] = '\0';
    return 0;
}

static int members_read(const struct walk *walk, const yaml_node_t *node,
                        const struct config_key *key, const char *path, void *where) {
    struct config *config = AROUND(where, struct config, members_given);
    if (node->type != YAML_SEQUENCE_NODE)
        return config_fail_value(walk, node, key, path);
    size_t count = walk_items(node);
    if (count > CONFIG_MEMBERS_MAX)
        return walk_fail(walk, node, path, "expected at most %d members, got %zu",
                         CONFIG_MEMBERS_MAX, count);
    memset(config->members, 0, sizeof config->members);
    memset(config->sets, 0, sizeof config->sets);
    config->sets_size = 0;
    config->members_given = true;
    config->member_count = count;
    for (size_t n = 0; n < count; n++)
        if (read_member(walk, walk_node(walk, node->data.sequence.items.start[n]), key, config,
                        &config->members[n]) != 0)
            return -1;
    return 0;
}

/* "change, level (model.output.relative=none)" */
static void members_print(const struct config_key *key, const void *where, struct config_text *to) {
    const struct config *config = AROUND(where, const struct config, members_given);
    (void)key;
    for (size_t n = 0; config->members_given && n < config->member_count; n++) {
        config_add(to, "%s%s", n ? ", " : "", config->members[n].name);
        const char *set = config->sets + config->members[n].sets;
        for (; *set; set += strlen(set) + 1)
            config_add(to, " (%s)", set);
    }
    if (config->members_given && !config->member_count)
        config_add(to, "[]");
}

/* Compare the written texts: all other values of a member follow from other keys. */
static bool members_same(const struct config_key *key, const void *left, const void *right) {
    const struct config *a = AROUND(left, const struct config, members_given);
    const struct config *b = AROUND(right, const struct config, members_given);
    bool same = a->members_given == b->members_given && a->member_count == b->member_count;
    (void)key;
    for (size_t n = 0; n < a->member_count && same; n++)
        same = !strcmp(a->members[n].name, b->members[n].name);
    return same && a->sets_size == b->sets_size && !memcmp(a->sets, b->sets, a->sets_size);
}

/* Members are written on their own lines: config_print.c. */
const struct value_type value_members = {
    "list of mappings",
    "a list of at most $most, as in [{name: a}, {name: b, set: {KEY: VALUE}}]",
    offsetof(struct config, sets) + sizeof(((struct config *)0)->sets) -
        offsetof(struct config, members_given),
    .most = CONFIG_MEMBERS_MAX,
    .read = members_read,
    .print = members_print,
    .same = members_same};

/* ---- Columns ---- */

/* clang-format off */
#define OF(member) offsetof(struct column, member)
#define RANGE(low, high) .minimum = (low), .maximum = (high)
#define OF_REAL .when = "kind", .is = "real"
#define OF_SYMBOL .when = "kind", .is = "symbol"
#define OF_CYCLE .when = "kind", .is = "cycle"

/* Values equal to the fallback are not printed, so that digests stay the same when a key is
   added. */
const struct config_key config_column_keys[COLUMN_KEYS] = {
    [COLUMN_NAME] = {"name", &value_label, OF(name), .fallback = "", .what = "name of the column"},
    [COLUMN_KIND] = {"kind", &value_word, OF(kind), .words = "real|symbol|cycle", .fallback = "",
                     .what = "kind of the column's values"},
    [COLUMN_SCALE] = {"scale", &value_choice, OF(standard), .words = "none|standard", .fallback = "none",
                      OF_REAL, .what = "running standardization"},
    [COLUMN_MEMORY] = {"memory", &value_count, OF(memory), RANGE(0, MEMORY_MAX), .fallback = "0", OF_REAL,
                       .what = "values that mean and deviation remember, 0 = all"},
    [COLUMN_LIMIT] = {"limit", &value_real, OF(limit), RANGE(0, LIMIT_MAX), .fallback = "0", OF_REAL,
                      .what = "largest distance of a value from the mean, in deviations, 0 = no "
                              "limit"},
    [COLUMN_MISSING] = {"missing", &value_choice, OF(hold), .words = "reject|hold", .fallback = "reject",
                        OF_REAL, .what = "treatment of a NaN"},
    [COLUMN_MASK] = {"mask", &value_boolean, OF(mask), .fallback = "false", OF_REAL,
                     .what = "add an input that is 1 where the value was not observed"},
    [COLUMN_KNOWN] = {"known", &value_size, OF(known), RANGE(1, AHEAD_STEPS_MAX), .fallback = "0", OF_REAL,
                      .what = "steps that its values are known ahead"},
    [COLUMN_SIZE] = {"size", &value_size, OF(size), RANGE(1, INPUT_MAX), .fallback = "0", OF_SYMBOL,
                     .what = "size of the alphabet"},
    [COLUMN_EMBEDDING] = {"embedding", &value_size, OF(embedding), RANGE(0, LAYER_SIZE_MAX), .fallback = "0",
                          OF_SYMBOL, .what = "width of the learned embedding, 0 = one-hot"},
    [COLUMN_CAPACITY] = {"vocabulary.capacity", &value_size, OF(vocabulary.capacity), RANGE(1, VOCABULARY_MAX),
                         .fallback = "0", OF_SYMBOL, .what = "words that get a symbol each"},
    [COLUMN_UNKNOWN] = {"vocabulary.unknown", &value_choice, OF(vocabulary.reject), .words = "share|reject",
                        .fallback = "share", OF_SYMBOL, .what = "treatment of a word beyond the "
                                                                "capacity"},
    [COLUMN_FORGET] = {"vocabulary.forget", &value_choice, OF(vocabulary.lru), .words = "none|lru",
                       .fallback = "none", OF_SYMBOL, .what = "word to forget when all symbols "
                                                              "are in use"},
    [COLUMN_HASH] = {"hash", &value_size, OF(hash), RANGE(1, INPUT_MAX), .fallback = "0", OF_SYMBOL,
                     .what = "number of symbols that words are hashed to"},
    [COLUMN_PERIOD] = {"period", &value_real, OF(period), RANGE(1e-9, 1e12), .fallback = "0", OF_CYCLE,
                       .what = "period of the values"},
    [COLUMN_HARMONICS] = {"harmonics", &value_size, OF(harmonics), RANGE(1, COLUMN_HARMONICS_MAX),
                          .fallback = "1", OF_CYCLE, .what = "number of sines and cosines, of k "
                                                             "times the frequency each"},
};
/* clang-format on */

static int fail_unknown(const struct walk *walk, const yaml_node_t *name, const char *path) {
    char words[CONFIG_TEXT_SIZE] = "", list[CONFIG_TEXT_SIZE], meant[CONFIG_TEXT_SIZE];
    for (unsigned n = 0; n < COLUMN_KEYS; n++)
        config_words_add(words, config_column_keys[n].path);
    config_words_list(words, list, sizeof list);
    return walk_fail(walk, name, path, "unknown key \"%.*s\"%s; expected %s", CONFIG_SHOWN_MAX,
                     walk_text(name), config_word_meant(words, walk_text(name), meant), list);
}

/* Read the pairs of a column's mapping, or of its vocabulary, whose keys begin with `section`. */
static int read_pairs(const struct walk *walk, const yaml_node_t *mapping, const char *path,
                      const char *section, struct column *column) {
    const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
    for (; pair < mapping->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = walk_node(walk, pair->key), *value = walk_node(walk, pair->value);
        char at[CONFIG_KEY_SIZE + COLUMN_NAME_SIZE], found[CONFIG_TEXT_SIZE],
            whole[CONFIG_TEXT_SIZE];
        if (name->type != YAML_SCALAR_NODE)
            return walk_fail(walk, name, path, "expected a key, got a list or a mapping");
        if (!*section && !strcmp(walk_text(name), "vocabulary") &&
            value->type == YAML_MAPPING_NODE) {
            if (read_pairs(walk, value, path, "vocabulary.", column) != 0)
                return -1;
            continue;
        }
        snprintf(whole, sizeof whole, "%s%.*s", section, CONFIG_SHOWN_MAX, walk_text(name));
        const struct config_key *key = config_column_keys;
        while (key < config_column_keys + COLUMN_KEYS && strcmp(key->path, whole) != 0)
            key++;
        if (key == config_column_keys + COLUMN_KEYS)
            return fail_unknown(walk, name, path);
        snprintf(at, sizeof at, "%s.%s", path, key->path);
        if (walk_once(walk, mapping, pair, at) != 0)
            return -1;
        bool scalar = value->type == YAML_SCALAR_NODE;
        if (key == &config_column_keys[COLUMN_NAME] &&
            !(scalar && config_label_good(walk_text(value))))
            return walk_fail(walk, value, at,
                             "expected 1 to %d letters, digits, '-' and '_', got %s",
                             COLUMN_NAME_SIZE - 1, walk_shown(value, found));
        if (!scalar || config_value_store(key, 0, walk_text(value), !walk_is_plain(value), column))
            return config_fail_value(walk, value, key, at);
        column->given |= 1U << (key - config_column_keys);
    }
    return 0;
}

/* Whether the key belongs to all kinds of columns, or to this kind. */
static bool is_of_kind(const struct config_key *key, const struct column *column) {
    return !key->is || !strcmp(key->is, column_kind_name(column->kind));
}

/* Check that the column has the required keys of its kind, and no key of another kind. */
static int check_kind(const struct walk *walk, const yaml_node_t *node, const char *path,
                      const struct column *column) {
    const char *kind = column_kind_name(column->kind);
    for (unsigned n = 0; n < COLUMN_KEYS; n++) {
        const struct config_key *key = &config_column_keys[n];
        if (!is_of_kind(key, column) && column->given >> n & 1)
            return walk_fail(walk, node, path,
                             "%s is not supported with kind: %s; it requires kind: %s", key->path,
                             kind, key->is);
    }
    static const unsigned needs[] = {
        [COLUMN_REAL] = 1U << COLUMN_NAME,
        [COLUMN_SYMBOL] = 1U << COLUMN_SIZE | 1U << COLUMN_CAPACITY | 1U << COLUMN_HASH,
        [COLUMN_CYCLE] = 1U << COLUMN_PERIOD,
    };
    if (!(column->given >> COLUMN_NAME & 1))
        return walk_fail(walk, node, path, "missing name of the column");
    if (column->given & needs[column->kind])
        return 0;
    const struct config_key *needed =
        &config_column_keys[column->kind == COLUMN_SYMBOL ? COLUMN_SIZE : COLUMN_PERIOD];
    char expected[CONFIG_TEXT_SIZE];
    config_value_expected(needed, expected, sizeof expected);
    return walk_fail(walk, node, path, "column %s requires %s with kind: %s; expected %s (%s)",
                     column->name, needed->path, kind, expected, needed->what);
}

/* The alphabet from a vocabulary or hash. Only one of the ways to define it may be given. */
static int read_words(const struct walk *walk, const yaml_node_t *node, const char *path,
                      struct column *column) {
    static const enum column_key ways[] = {COLUMN_SIZE, COLUMN_CAPACITY, COLUMN_HASH};
    const char *first = NULL;
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
        if (!(column->given >> ways[n] & 1))
            continue;
        if (first)
            return walk_fail(walk, node, path,
                             "%s of column %s cannot be combined with %s; remove one of them",
                             config_column_keys[ways[n]].path, column->name, first);
        first = config_column_keys[ways[n]].path;
    }
    if (column->hash)
        column->size = column->hash;
    else if (column->vocabulary.capacity)
        column->size = column->vocabulary.capacity + 1;
    return 0;
}

/* Count the items of the list, mappings or names. Not 0: the node is not such a list, or the count
   is invalid. */
static int count_items(const struct walk *walk, const yaml_node_t *node,
                       const struct config_key *key, const char *path, const char *what,
                       size_t *count) {
    if (node->type != YAML_SEQUENCE_NODE)
        return config_fail_value(walk, node, key, path);
    *count = walk_items(node);
    if (*count < 1 || *count > key->type->most)
        return walk_fail(walk, node, path, "expected a list of 1 to %zu %s, got %zu",
                         key->type->most, what, *count);
    for (size_t n = 0; n < *count && key->type != &value_column_names; n++) {
        const yaml_node_t *item = walk_node(walk, node->data.sequence.items.start[n]);
        if (item->type != YAML_MAPPING_NODE)
            return config_fail_value(walk, item, key, CONFIG_PATH("%s.%zu", path, n));
    }
    return 0;
}

static int columns_read(const struct walk *walk, const yaml_node_t *node,
                        const struct config_key *key, const char *list, void *where) {
    struct input *input = AROUND(where, struct input, column_count);
    if (count_items(walk, node, key, list, "columns", &input->column_count) != 0)
        return -1;
    for (size_t n = 0; n < input->column_count; n++) {
        const yaml_node_t *one = walk_node(walk, node->data.sequence.items.start[n]);
        struct column *column = &input->columns[n];
        const char *path = CONFIG_PATH("%s.%zu", list, n);
        *column = (struct column){.harmonics = 1};
        if (read_pairs(walk, one, path, "", column) != 0 ||
            check_kind(walk, one, path, column) != 0 || read_words(walk, one, path, column) != 0)
            return -1;
        for (size_t m = 0; m < n; m++)
            if (!strcmp(input->columns[m].name, column->name))
                return walk_fail(walk, one, path, "duplicate name %s (also column %zu)",
                                 column->name, m);
    }
    return 0;
}

static void print_column(struct config_text *to, const struct column *column) {
    config_add(to, "{");
    for (unsigned k = 0; k < COLUMN_KEYS; k++) {
        const struct config_key *key = &config_column_keys[k];
        char value[CONFIG_TEXT_SIZE];
        config_value_print(key, 0, column, value, sizeof value);
        if (is_of_kind(key, column) && strcmp(value, key->fallback) != 0)
            config_add(to, "%s%s: %s", k ? ", " : "", key->path, value);
    }
    config_add(to, "}");
}

/* Whether a column of this kind prints the key. Of the ways to define an alphabet only the used
   one is printed. */
static bool is_defined(unsigned k, const struct column *column, const struct input *input) {
    const struct vocabulary *words = &column->vocabulary;
    const bool own = input->scale != SCALE_FORECAST, standard = own && column->standard;
    const bool left_out[COLUMN_KEYS] = {
        [COLUMN_SCALE] = !own,
        [COLUMN_MASK] = !own,
        [COLUMN_KNOWN] = !column->known,
        [COLUMN_MEMORY] = !standard,
        [COLUMN_LIMIT] = !standard,
        [COLUMN_SIZE] = words->capacity || column->hash,
        [COLUMN_CAPACITY] = !words->capacity,
        [COLUMN_UNKNOWN] = !words->capacity && !words->reject,
        [COLUMN_FORGET] = !words->capacity && !words->lru,
        [COLUMN_HASH] = !column->hash,
    };
    return !left_out[k];
}

/* A mapping while it is written. Keys of an inner mapping are consecutive. */
struct mapping {
    struct config_text *to;
    const char *before, *inner;
    size_t length; /* of the name of the inner mapping, with a dot */
};

static void write_pair(struct mapping *m, const struct config_key *key, const char *name,
                       size_t layer, const void *draft) {
    const char *quote = m->to->json ? "\"" : "";
    size_t own = strchr(name, '.') ? strcspn(name, ".") + 1 : 0;
    bool same = own == m->length && !strncmp(name, m->inner, own);
    config_add(m->to, "%s%s", m->length && !same ? "}" : "", m->before);
    if (own && !same)
        config_add(m->to, "%s%.*s%s: {", quote, (int)own - 1, name, quote);
    config_add(m->to, "%s%s%s: ", quote, name + own, quote);
    config_value_write(m->to, key, layer, draft);
    *m = (struct mapping){m->to, ", ", name, own};
}

static void write_column(struct config_text *to, const struct column *column,
                         const struct input *input) {
    struct mapping m = {to, "{", "", 0};
    for (unsigned k = 0; k < COLUMN_KEYS; k++)
        if (is_of_kind(&config_column_keys[k], column) && is_defined(k, column, input))
            write_pair(&m, &config_column_keys[k], config_column_keys[k].path, 0, column);
    config_add(to, m.length ? "}}" : "}");
}

/* Print all keys that apply in a document, else those that differ from the default, so that
   digests stay the same when a key is added. */
static void columns_print(const struct config_key *key, const void *where, struct config_text *to) {
    const struct input *input = AROUND(where, const struct input, column_count);
    (void)key;
    for (size_t n = 0; n < input->column_count; n++) {
        struct column column = input->columns[n];
        if (column.horizon) /* a known column is printed once, without the steps in its name */
            continue;
        column.name[strcspn(column.name, "+")] = 0;
        config_add(to, !n ? "[" : !to->out || to->json ? ", " : ",\n      ");
        if (to->out)
            write_column(to, &column, input);
        else
            print_column(to, &column);
    }
    config_add(to, input->column_count ? "]" : "");
}

/* Compare lists of columns, of their names, or of layers. */
static bool lists_same(const struct config_key *key, const void *a, const void *b) {
    char *text = malloc(2 * (size_t)CONFIG_LIST_SIZE);
    if (!text)
        return false;
    struct config_text left = {.text = text, .size = CONFIG_LIST_SIZE};
    struct config_text right = {.text = text + CONFIG_LIST_SIZE, .size = CONFIG_LIST_SIZE};
    *left.text = *right.text = 0;
    key->type->print(key, a, &left);
    key->type->print(key, b, &right);
    bool same = strcmp(left.text, right.text) == 0;
    free(text);
    return same;
}

const struct value_type value_columns = {
    "list of mappings",
    "a list of 1 to $most, as in [{name: load}, {name: host, kind: symbol, size: 8}]",
    sizeof(size_t),
    .most = COLUMNS_MAX,
    .read = columns_read,
    .print = columns_print,
    .same = lists_same};

static int names_read(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, const char *path, void *where) {
    struct draft *draft = AROUND(where, struct draft, config.architecture.output.column_count);
    char found[CONFIG_TEXT_SIZE];
    size_t *count = where;
    if (count_items(walk, node, key, path, "names", count) != 0)
        return -1;
    memset(draft->output_columns, 0, sizeof draft->output_columns);
    for (size_t n = 0; n < *count; n++) {
        const yaml_node_t *name = walk_node(walk, node->data.sequence.items.start[n]);
        if (name->type != YAML_SCALAR_NODE || !config_label_good(walk_text(name)))
            return walk_fail(walk, name, path, "expected a column name, got %s",
                             walk_shown(name, found));
        strcpy(draft->output_columns[n], walk_text(name));
    }
    return 0;
}

static void names_print(const struct config_key *key, const void *where, struct config_text *to) {
    const struct architecture *architecture =
        AROUND(where, const struct architecture, output.column_count);
    const struct output *output = &architecture->output;
    (void)key;
    if (architecture->input.scale == SCALE_FORECAST) /* all columns that are not known ahead */
        return;
    for (size_t n = 0; n < output->column_count; n++) {
        config_add(to, n ? ", " : "[");
        config_add_text(to, output_is_input(output)
                                ? architecture->input.columns[output->columns[n]].name
                                : architecture->target_names[n]);
    }
    config_add(to, output->column_count ? "]" : "");
}

const struct value_type value_column_names = {
    "list of words",    "a list of names, each once; with target: next names of columns",
    sizeof(size_t),     .most = COLUMNS_MAX,
    .read = names_read, .print = names_print,
    .same = lists_same};

/* ---- Parts: read as if they stood elsewhere, in a configuration of their own ---- */

/* Read the node at `path` as if it stood at `from`. The caller frees the result; NULL: an error. */
static struct reading *read_part(const struct walk *walk, const yaml_node_t *node, const char *from,
                                 const char *path) {
    struct reading *reading = calloc(1, sizeof *reading);
    struct walk own = *walk;
    if (!reading) {
        walk_fail(walk, node, path, "out of memory");
        return NULL;
    }
    reading->origin = *walk->origin;
    reading->origin.from = from;
    reading->origin.to = config_rename(walk->origin, path, reading->to, sizeof reading->to);
    own.origin = &reading->origin;
    if (config_read_node(reading, &own, node, from) == 0)
        return reading;
    free(reading);
    return NULL;
}

static bool is_default(const struct config_key *key, size_t layer, const void *draft) {
    char text[CONFIG_TEXT_SIZE];
    const char *fallback = key->fallback ? key->fallback : "";
    config_value_print(key, layer, draft, text, sizeof text);
    return !strcmp(text, fallback) || (key->type == &value_float && key->fallback &&
                                       strtof(text, NULL) == strtof(fallback, NULL));
}

/* "{cell: gru, size: 8}": the values below the section that differ from their defaults. */
static void write_section(struct config_text *to, const char *section, size_t layer,
                          const struct config *config) {
    struct mapping m = {to, "{", "", 0};
    for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++)
        if (config_path_below(key->path, section) && config_key_counts(key, layer, config) &&
            !is_default(key, layer, config))
            write_pair(&m, key, key->path + strlen(section) + 1, layer, config);
    config_add(to, m.length ? "}}" : "}");
}

void config_write_layers(struct config_text *to, const struct config *config) {
    for (size_t n = 0; n < config->architecture.layer_count; n++) {
        config_add(to, n ? ", " : "[");
        write_section(to, "model.layers.*", n, config);
    }
    config_add(to, "]");
}

/* ---- Layers that read or write messages: a count, and the layers ---- */

struct layers {
    size_t count;
    struct layer of[SEQUENCE_LAYERS_MAX];
};
_Static_assert(offsetof(struct layers, of) == offsetof(struct sequence, layers) &&
                   offsetof(struct layers, of) ==
                       offsetof(struct ranking, layers) - offsetof(struct ranking, layer_count),
               "layers after their count");

static int layers_read(const struct walk *walk, const yaml_node_t *node,
                       const struct config_key *key, const char *path, void *where) {
    struct layers *layers = where;
    struct reading *part = NULL;
    if (count_items(walk, node, key, path, "layers", &layers->count) == 0)
        part = read_part(walk, node, "model.layers", path);
    int status = part ? config_check_section(part, "model.layers") : -1;
    if (status == 0)
        memcpy(layers->of, part->draft.config.architecture.layers, sizeof layers->of);
    free(part);
    return status;
}

static void layers_print(const struct config_key *key, const void *where, struct config_text *to) {
    const struct layers *layers = where;
    struct config *own = layers->count ? calloc(1, sizeof *own) : NULL;
    (void)key;
    if (!own)
        return;
    own->architecture.layer_count = layers->count;
    memcpy(own->architecture.layers, layers->of, sizeof layers->of);
    config_write_layers(to, own);
    free(own);
}

const struct value_type value_layers = {
    "list of mappings",    "a list of 1 to $most layers, as in [{cell: gru, size: 64}]",
    sizeof(struct layers), .most = SEQUENCE_LAYERS_MAX,
    .read = layers_read,   .print = layers_print,
    .same = lists_same};

/* ---- Outputs ---- */

/* Each is checked on its own, with the rest of the configuration: config_check_outputs. */
static int outputs_read(const struct walk *walk, const yaml_node_t *node,
                        const struct config_key *key, const char *path, void *where) {
    struct draft *draft = AROUND(where, struct draft, config.architecture.other_count);
    if (count_items(walk, node, key, path, "outputs", &draft->output_count) != 0)
        return -1;
    for (size_t n = 0; n < draft->output_count; n++) {
        const yaml_node_t *one = walk_node(walk, node->data.sequence.items.start[n]);
        struct reading *part = read_part(walk, one, "model.output", CONFIG_PATH("%s.%zu", path, n));
        if (!part)
            return -1;
        draft->outputs[n].place = walk_place(walk, one);
        for (size_t k = 0; k < config_key_count; k++)
            draft->outputs[n].places[k] = part->places[k][0];
        draft->outputs[n].output = part->draft.config.architecture.output;
        free(part);
    }
    return 0;
}

static void outputs_print(const struct config_key *key, const void *where, struct config_text *to) {
    const struct architecture *architecture = AROUND(where, const struct architecture, other_count);
    bool list = *architecture->output.name;
    struct config *own = list ? calloc(1, sizeof *own) : NULL;
    (void)key;
    for (size_t k = 0; own && k <= architecture->other_count; k++) {
        own->architecture.output = *architecture_output(architecture, k);
        config_add(to, !k ? "[" : !to->out || to->json ? ", " : ",\n      ");
        write_section(to, "model.output", 0, own);
    }
    config_add(to, own ? "]" : "");
    free(own);
}

const struct value_type value_outputs = {
    "list of mappings",   "a list of 1 to $most, as in [{name: next, loss: softmax, target: next}]",
    sizeof(size_t),       .most = OUTPUTS_MAX,
    .read = outputs_read, .print = outputs_print,
    .same = lists_same};
