/* model.input.columns and model.output.columns: lists out of YAML, each value checked by itself. */
#include <stdio.h>
#include <string.h>

#include "config_walk.h"

/* clang-format off */
#define OF(member) offsetof(struct column, member)
#define RANGE(low, high) .minimum = (low), .maximum = (high)
#define OF_REAL .when = "kind", .is = "real"
#define OF_SYMBOL .when = "kind", .is = "symbol"
#define OF_CYCLE .when = "kind", .is = "cycle"

/* What a fallback says is not printed, so that digests stay when a key is added. */
const struct config_key config_column_keys[COLUMN_KEYS] = {
    [COLUMN_NAME] = {"name", VALUE_LABEL, OF(name), .fallback = "", .what = "what the column is called"},
    [COLUMN_KIND] = {"kind", VALUE_WORD, OF(kind), .words = "real|symbol|cycle", .fallback = "",
                     .what = "what its values are"},
    [COLUMN_SCALE] = {"scale", VALUE_CHOICE, OF(standard), .words = "none|standard", .fallback = "none",
                      OF_REAL, .what = "running standardization"},
    [COLUMN_MEMORY] = {"memory", VALUE_COUNT, OF(memory), RANGE(0, MEMORY_MAX), .fallback = "0", OF_REAL,
                       .what = "values that mean and deviation remember, 0 = all"},
    [COLUMN_LIMIT] = {"limit", VALUE_REAL, OF(limit), RANGE(0, LIMIT_MAX), .fallback = "0", OF_REAL,
                      .what = "deviations that a value is away at most, 0 = no limit"},
    [COLUMN_MISSING] = {"missing", VALUE_CHOICE, OF(hold), .words = "reject|hold", .fallback = "reject",
                        OF_REAL, .what = "what becomes of a NaN"},
    [COLUMN_MASK] = {"mask", VALUE_BOOLEAN, OF(mask), .fallback = "false", OF_REAL,
                     .what = "an input that is 1 where the value was not observed"},
    [COLUMN_SIZE] = {"size", VALUE_SIZE, OF(size), RANGE(1, INPUT_MAX), .fallback = "0", OF_SYMBOL,
                     .what = "size of the alphabet"},
    [COLUMN_EMBEDDING] = {"embedding", VALUE_SIZE, OF(embedding), RANGE(0, LAYER_SIZE_MAX), .fallback = "0",
                          OF_SYMBOL, .what = "width of the learned embedding, 0 = one-hot"},
    [COLUMN_CAPACITY] = {"vocabulary.capacity", VALUE_SIZE, OF(vocabulary.capacity), RANGE(1, VOCABULARY_MAX),
                         .fallback = "0", OF_SYMBOL, .what = "words that get an id each"},
    [COLUMN_UNKNOWN] = {"vocabulary.unknown", VALUE_CHOICE, OF(vocabulary.reject), .words = "share|reject",
                        .fallback = "share", OF_SYMBOL, .what = "what becomes of a word beyond the capacity"},
    [COLUMN_FORGET] = {"vocabulary.forget", VALUE_CHOICE, OF(vocabulary.lru), .words = "none|lru",
                       .fallback = "none", OF_SYMBOL, .what = "which word is forgotten"},
    [COLUMN_HASH] = {"hash", VALUE_SIZE, OF(hash), RANGE(1, INPUT_MAX), .fallback = "0", OF_SYMBOL,
                     .what = "symbols that words are hashed to"},
    [COLUMN_PERIOD] = {"period", VALUE_REAL, OF(period), RANGE(1e-9, 1e12), .fallback = "0", OF_CYCLE,
                       .what = "after which the values begin again"},
    [COLUMN_HARMONICS] = {"harmonics", VALUE_SIZE, OF(harmonics), RANGE(1, COLUMN_HARMONICS_MAX),
                          .fallback = "1", OF_CYCLE, .what = "sines and cosines, of k times the frequency each"},
};
/* clang-format on */

/* The key of that name; COLUMN_KEYS: there is none. */
static enum column_key key_named(const char *name) {
    unsigned n = 0;
    while (n < COLUMN_KEYS && strcmp(config_column_keys[n].path, name) != 0)
        n++;
    return (enum column_key)n;
}

static int fail_unknown(struct walk *walk, const yaml_node_t *name, const char *path) {
    char words[CONFIG_TEXT_SIZE] = "", list[CONFIG_TEXT_SIZE], meant[CONFIG_TEXT_SIZE];
    for (unsigned n = 0; n < COLUMN_KEYS; n++) {
        strcat(words, n ? "|" : "");
        strcat(words, config_column_keys[n].path);
    }
    config_words_list(words, list, sizeof list);
    bool near = config_word_suggest(words, walk_text(name), meant, sizeof meant);
    return walk_fail(walk, name->start_mark, path,
                     "found the key \"%.*s\"%s%s%s; allowed of a column are %s", WALK_SHOWN_MAX,
                     walk_text(name), near ? " (did you mean \"" : "", near ? meant : "",
                     near ? "\"?)" : "", list);
}

static int take_pair(struct walk *walk, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
                     const char *path, const char *section, struct column *column);

/* The mapping of a column's vocabulary. */
static int take_vocabulary(struct walk *walk, const yaml_node_t *node, const char *path,
                           struct column *column) {
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++)
        if (take_pair(walk, node, pair, path, "vocabulary.", column) != 0)
            return -1;
    return 0;
}

/* One pair of a column's mapping, or of one in it: the keys there begin with `section`. */
static int take_pair(struct walk *walk, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
                     const char *path, const char *section, struct column *column) {
    const yaml_node_t *name = yaml_document_get_node(&walk->document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(&walk->document, pair->value);
    char at[CONFIG_KEY_SIZE + COLUMN_NAME_SIZE];
    if (name->type != YAML_SCALAR_NODE)
        return walk_fail(walk, name->start_mark, path,
                         "found a list or a mapping where a key is "
                         "allowed");
    char found[CONFIG_TEXT_SIZE], whole[CONFIG_TEXT_SIZE];
    if (!*section && !strcmp(walk_text(name), "vocabulary") && value->type == YAML_MAPPING_NODE)
        return take_vocabulary(walk, value, path, column);
    snprintf(whole, sizeof whole, "%s%.*s", section, WALK_SHOWN_MAX, walk_text(name));
    enum column_key k = key_named(whole);
    if (k == COLUMN_KEYS)
        return fail_unknown(walk, name, path);
    const yaml_node_t *first = walk_earlier(walk, mapping, pair, walk_text(name));
    const struct config_key *key = &config_column_keys[k];
    snprintf(at, sizeof at, "%s.%s", path, key->path);
    if (first)
        return walk_fail_twice(walk, name->start_mark, at, first);
    if (k == COLUMN_NAME &&
        (value->type != YAML_SCALAR_NODE || !config_label_good(walk_text(value))))
        return walk_fail(walk, value->start_mark, at,
                         "found %s; allowed are 1 to %d letters, digits, '-' and '_'",
                         walk_shown(value, found), COLUMN_NAME_SIZE - 1);
    if (value->type != YAML_SCALAR_NODE ||
        config_value_store(key, 0, walk_text(value), !walk_is_plain(value),
                           config_column_draft(column)) != 0)
        return walk_fail_value(walk, value, key, at);
    column->given |= 1U << k;
    return 0;
}

static bool has_words(const struct column *column) {
    return column->given & (1U << COLUMN_CAPACITY | 1U << COLUMN_HASH);
}

/* What its kind needs is there, and nothing that another one needs. */
static int check_kind(struct walk *walk, const yaml_node_t *node, const char *path,
                      const struct column *column) {
    const char *kind = column_kind_name(column->kind);
    for (unsigned n = 0; n < COLUMN_KEYS; n++) {
        const struct config_key *key = &config_column_keys[n];
        if (key->is && strcmp(key->is, kind) != 0 && column->given >> n & 1)
            return walk_fail(walk, node->start_mark, path,
                             "found %s with kind: %s; it is allowed only with kind: %s", key->path,
                             kind, key->is);
    }
    unsigned needed = column->kind == COLUMN_SYMBOL  ? COLUMN_SIZE
                      : column->kind == COLUMN_CYCLE ? COLUMN_PERIOD
                                                     : COLUMN_NAME;
    char expected[CONFIG_TEXT_SIZE];
    if (!(column->given >> COLUMN_NAME & 1))
        return walk_fail(walk, node->start_mark, path, "found a column without a name");
    if (column->given >> needed & 1 || (needed == COLUMN_SIZE && has_words(column)))
        return 0;
    config_value_expected(&config_column_keys[needed], expected, sizeof expected);
    return walk_fail(walk, node->start_mark, path,
                     "found the column %s without %s; kind: %s needs it: %s (%s)", column->name,
                     config_column_keys[needed].path, kind, expected,
                     config_column_keys[needed].what);
}

/* The alphabet that words bring. One of the ways to say it is given. */
static int take_words(struct walk *walk, const yaml_node_t *node, const char *path,
                      struct column *column) {
    static const enum column_key ways[] = {COLUMN_SIZE, COLUMN_CAPACITY, COLUMN_HASH};
    const char *first = NULL;
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
        if (!(column->given >> ways[n] & 1))
            continue;
        if (first)
            return walk_fail(walk, node->start_mark, path,
                             "found %s of the column %s beside %s; allowed is one of them",
                             config_column_keys[ways[n]].path, column->name, first);
        first = config_column_keys[ways[n]].path;
    }
    if (column->hash)
        column->size = column->hash;
    else if (column->vocabulary.capacity)
        column->size = column->vocabulary.capacity + 1;
    return 0;
}

static int take_column(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                       const char *path, struct column *column) {
    *column = (struct column){.harmonics = 1};
    if (node->type != YAML_MAPPING_NODE)
        return walk_fail_value(walk, node, key, path);
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++)
        if (take_pair(walk, node, pair, path, "", column) != 0)
            return -1;
    return check_kind(walk, node, path, column) || take_words(walk, node, path, column) ? -1 : 0;
}

/* How many the list has; not 0: it is none, or one of too many. */
static int list_of(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                   const char *what, size_t *count) {
    if (node->type != YAML_SEQUENCE_NODE)
        return walk_fail_value(walk, node, key, key->path);
    *count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (*count >= 1 && *count <= COLUMNS_MAX)
        return 0;
    return walk_fail(walk, node->start_mark, key->path,
                     "found a list of %zu; allowed is a list of 1 to %d %s", *count, COLUMNS_MAX,
                     what);
}

int walk_columns(struct walk *walk, const yaml_node_t *node, const struct config_key *key) {
    struct input *input = &walk->reading->draft.config.architecture.input;
    char path[CONFIG_KEY_SIZE];
    size_t count;
    if (list_of(walk, node, key, "columns", &count))
        return -1;
    const yaml_node_item_t *item = node->data.sequence.items.start;
    input->column_count = count;
    for (size_t n = 0; n < count; n++) {
        const yaml_node_t *one = yaml_document_get_node(&walk->document, item[n]);
        struct column *column = &input->columns[n];
        snprintf(path, sizeof path, "%s.%zu", key->path, n);
        if (take_column(walk, one, key, path, column) != 0)
            return -1;
        for (size_t m = 0; m < n; m++)
            if (!strcmp(input->columns[m].name, column->name))
                return walk_fail(walk, one->start_mark, path,
                                 "found the name %s, which column %zu has too; allowed is another "
                                 "one",
                                 column->name, m);
    }
    return 0;
}

int walk_column_names(struct walk *walk, const yaml_node_t *node, const struct config_key *key) {
    struct draft *draft = &walk->reading->draft;
    char found[CONFIG_TEXT_SIZE];
    size_t count;
    if (list_of(walk, node, key, "names", &count))
        return -1;
    const yaml_node_item_t *item = node->data.sequence.items.start;
    memset(draft->output_columns, 0, sizeof draft->output_columns);
    for (size_t n = 0; n < count; n++) {
        const yaml_node_t *name = yaml_document_get_node(&walk->document, item[n]);
        if (name->type != YAML_SCALAR_NODE || !config_label_good(walk_text(name)))
            return walk_fail(walk, name->start_mark, key->path,
                             "found %s; allowed is the name of a column", walk_shown(name, found));
        strcpy(draft->output_columns[n], walk_text(name));
    }
    draft->config.architecture.output.column_count = count;
    return 0;
}
