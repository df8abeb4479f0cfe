/* Questions about the paths of keys. */
#include "config_keys.h"

#include <stdlib.h>
#include <sysexits.h>

#include "common/error.h"

/* How a path relates to a key's, component by component; '*' is any number. */
enum relation {
    RELATION_NONE,
    RELATION_ABOVE,       /* the path is a mapping around the key */
    RELATION_ABOVE_LAYER, /* likewise a list: what comes next is '*' */
    RELATION_SAME,
    RELATION_BELOW, /* the path continues below the key */
};

static bool is_number(const char *text, size_t length) {
    static const size_t digits_max = 6;
    size_t digits = strspn(text, "0123456789");
    bool padded = length > 1 && *text == '0';
    return length > 0 && length <= digits_max && digits >= length && !padded;
}

static enum relation relate(const char *key, const char *path, size_t *layer, bool *any_layer) {
    *any_layer = true;
    while (*path) {
        size_t key_length = strcspn(key, "."), length = strcspn(path, ".");
        if (*key == '*') {
            if (!is_number(path, length))
                return RELATION_NONE;
            *layer = strtoul(path, NULL, 10);
            *any_layer = false;
        } else if (key_length != length || memcmp(key, path, length) != 0) {
            return RELATION_NONE;
        }
        key += key_length;
        path += length;
        if (!*key)
            return *path ? RELATION_BELOW : RELATION_SAME;
        key++;
        if (*path && !*++path)
            return RELATION_NONE; /* it ends with a dot */
    }
    return *key == '*' ? RELATION_ABOVE_LAYER : RELATION_ABOVE;
}

enum path_kind config_path_kind(const char *path, const struct config_key **key, size_t *layer) {
    for (size_t k = 0; k < config_key_count; k++) {
        size_t number = 0;
        bool any_layer;
        enum relation relation = relate(config_keys[k].path, path, &number, &any_layer);
        if (relation == RELATION_NONE || relation == RELATION_BELOW)
            continue;
        if (layer)
            *layer = number;
        if (key)
            *key = relation == RELATION_SAME ? &config_keys[k] : NULL;
        return relation == RELATION_SAME          ? PATH_KEY
               : relation == RELATION_ABOVE_LAYER ? PATH_LIST
                                                  : PATH_MAPPING;
    }
    return PATH_UNKNOWN;
}

bool config_key_below(const struct config_key *key, const char *path, size_t *layer,
                      bool *any_layer) {
    enum relation relation = relate(key->path, path, layer, any_layer);
    return relation != RELATION_NONE && relation != RELATION_BELOW;
}

void config_key_path(const struct config_key *key, size_t layer, char path[CONFIG_KEY_SIZE]) {
    const char *star = strchr(key->path, '*');
    if (star)
        snprintf(path, CONFIG_KEY_SIZE, "%.*s%zu%s", (int)(star - key->path), key->path, layer,
                 star + 1);
    else
        snprintf(path, CONFIG_KEY_SIZE, "%s", key->path);
}

void config_key_written(const struct config_key *key, size_t layer, const struct config *config,
                        char path[CONFIG_KEY_SIZE]) {
    const struct socket_config *socket = config_value_home(key, layer, config);
    bool connects = key->type == &value_bind && socket->connect;
    config_key_path(connects ? key + 1 : key, layer, path); /* its row is the next one */
}

void config_key_title(const struct config_key *key, char path[CONFIG_KEY_SIZE]) {
    snprintf(path, CONFIG_KEY_SIZE, "%s", key->path);
    char *star = strchr(path, '*');
    if (star)
        *star = 'N';
}

/* The component of `key` right below `path`, and its length; NULL when the key lies elsewhere. */
static const char *child(const struct config_key *key, const char *path, size_t *length) {
    size_t layer;
    bool any_layer;
    enum relation relation = relate(key->path, path, &layer, &any_layer);
    if (relation != RELATION_ABOVE && relation != RELATION_ABOVE_LAYER)
        return NULL;
    const char *at = key->path;
    for (const char *p = path; *p; p += strcspn(p, "."), p += *p == '.')
        at += strcspn(at, ".") + 1;
    *length = strcspn(at, ".");
    return at;
}

/* The next row from `*row` on that has another child of `path` than the row before it: children of
   one name follow each other in the table. */
static const char *next_child(const char *path, size_t *row, size_t *length) {
    const char *before = NULL;
    size_t before_length = 0;
    if (*row > 0)
        before = child(&config_keys[*row - 1], path, &before_length);
    for (; *row < config_key_count; (*row)++) {
        const char *name = child(&config_keys[*row], path, length);
        bool same = name && before && *length == before_length && !memcmp(name, before, *length);
        if (name && !same) {
            (*row)++;
            return name;
        }
    }
    return NULL;
}

void config_path_children(const char *path, char *text, size_t size) {
    struct config_text to = {text, size, 0};
    const char *name;
    *text = 0;
    for (size_t row = 0, length; (name = next_child(path, &row, &length));)
        config_add(&to, "%s%.*s", to.used ? ", " : "", (int)length, name);
}

/* The key elsewhere that ends in the same word, of several the one with the most in common. */
static bool same_word(const char *path, const char *last, char suggestion[CONFIG_KEY_SIZE]) {
    size_t most = 0;
    for (size_t k = 0; k < config_key_count; k++) {
        const char *key = config_keys[k].path, *word = strrchr(key, '.');
        size_t common = 1;
        while (key[common - 1] == path[common - 1] && key[common - 1])
            common++;
        if (word && !strcmp(word + 1, last) && common > most) {
            config_key_path(&config_keys[k], 0, suggestion);
            most = common;
        }
    }
    return most > 0;
}

const char *config_path_meant(const char *path, char text[CONFIG_MEANT_SIZE]) {
    const char *dot = strrchr(path, '.');
    const char *last = dot ? dot + 1 : path, *name;
    char parent[CONFIG_KEY_SIZE], meant[CONFIG_KEY_SIZE];
    size_t best = SIZE_MAX, length;
    bool near = same_word(path, last, meant);
    snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - path) : 0, path);
    for (size_t row = 0; !near && (name = next_child(parent, &row, &length));)
        if (*name != '*' && strlen(parent) + 1 + length < sizeof meant &&
            config_word_nearer(name, length, last, &best))
            snprintf(meant, sizeof meant, "%s%s%.*s", parent, *parent ? "." : "", (int)length,
                     name);
    near |= best != SIZE_MAX;
    snprintf(text, CONFIG_MEANT_SIZE, "%s%s%s", near ? " (did you mean \"" : "", near ? meant : "",
             near ? "\"?)" : "");
    return text;
}

/* ---- Short names: the last parts of a path ---- */

enum { MEANT_MAX = 32 };

/* What a short name may mean: paths, with N for a layer's number that it does not say. */
struct meant {
    char paths[MEANT_MAX][CONFIG_KEY_SIZE];
    size_t count;
};

/* Parts of a path or name that are read from its end. */
static const char *last_part(const char *text, size_t *length) {
    size_t end = *length;
    while (*length > 0 && text[*length - 1] != '.')
        (*length)--;
    const char *part = text + *length;
    size_t size = end - *length;
    *length -= *length > 0;
    return size ? part : NULL;
}

/* Whether the first `size` bytes of a key's path end with the name; then its path, with what the
   name says of a layer. */
static bool ends_with(const char *key, size_t size, const char *name, char path[CONFIG_KEY_SIZE]) {
    char number[CONFIG_KEY_SIZE] = "N";
    size_t in_key = size, in_name = strlen(name);
    while (in_name > 0) {
        size_t key_end = in_key, name_end = in_name;
        const char *a = in_key ? last_part(key, &in_key) : NULL, *b = last_part(name, &in_name);
        if (!a || !b)
            return false;
        size_t a_size = (size_t)(key + key_end - a), b_size = (size_t)(name + name_end - b);
        bool layer = *a == '*' && (strspn(b, "0123456789") >= b_size || (b_size == 1 && *b == 'N'));
        if (layer)
            snprintf(number, sizeof number, "%.*s", (int)b_size, b);
        else if (a_size != b_size || memcmp(a, b, a_size) != 0)
            return false;
    }
    const char *star = memchr(key, '*', size);
    if (star)
        snprintf(path, CONFIG_KEY_SIZE, "%.*s%s%.*s", (int)(star - key), key, number,
                 (int)(size - (size_t)(star - key) - 1), star + 1);
    else
        snprintf(path, CONFIG_KEY_SIZE, "%.*s", (int)size, key);
    return true;
}

static void add(struct meant *meant, const char *path) {
    for (size_t n = 0; n < meant->count; n++)
        if (!strcmp(meant->paths[n], path))
            return;
    if (meant->count < MEANT_MAX)
        snprintf(meant->paths[meant->count++], CONFIG_KEY_SIZE, "%s", path);
}

/* Keys, or with `sections` also what is above them: "model.layers", "learning.optimizer". */
static void find(struct meant *meant, const char *name, bool sections, bool layered) {
    char path[CONFIG_KEY_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        const char *key = config_keys[k].path;
        for (size_t size = strlen(key); size > 0; last_part(key, &size)) {
            if ((!key[size] || sections) && (!layered || config_key_layered(&config_keys[k])) &&
                ends_with(key, size, name, path))
                add(meant, path);
            if (!sections)
                break;
        }
    }
}

static int fail(const char *name, const struct meant *meant, struct error *error) {
    char words[MEANT_MAX * CONFIG_KEY_SIZE] = "", list[ERROR_TEXT_SIZE / 2];
    char near[CONFIG_MEANT_SIZE];
    struct config_text to = {words, sizeof words, 0};
    for (size_t n = 0; n < meant->count; n++)
        config_add(&to, "%s%s", n ? "|" : "", meant->paths[n]);
    config_words_list(words, list, sizeof list);
    if (meant->count)
        return error_set(error, EX_CONFIG,
                         "the key \"%.*s\" is ambiguous: write more of the one that is meant, %s",
                         CONFIG_KEY_SIZE, name, list);
    return error_set(error, EX_CONFIG, "unknown key \"%.*s\"%s: runneld --explain lists all keys",
                     CONFIG_KEY_SIZE, name, config_path_meant(name, near));
}

int config_key_meant(const char *name, char path[CONFIG_KEY_NAME_SIZE], struct error *error) {
    static const struct {
        bool sections, layered;
    } orders[] = {{false, true}, {false, false}, {true, false}};
    struct meant meant = {0};
    for (size_t n = 0; n < sizeof orders / sizeof *orders && meant.count == 0 && *name; n++)
        find(&meant, name, orders[n].sections, orders[n].layered);
    for (size_t n = 0; n < meant.count; n++)
        if (!strcmp(meant.paths[n], name)) { /* it was no short one */
            strcpy(meant.paths[0], name);
            meant.count = 1;
        }
    if (meant.count != 1)
        return fail(name, &meant, error);
    strcpy(path, meant.paths[0]);
    return 0;
}
