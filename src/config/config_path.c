/* Questions about the paths of keys, and about words that are allowed. */
#include "config_internal.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool config_key_layered(const struct config_key *key) {
    return strchr(key->path, '*') != NULL;
}

void config_key_path(const struct config_key *key, size_t layer, char path[CONFIG_KEY_SIZE]) {
    const char *star = strchr(key->path, '*');
    if (star)
        snprintf(path, CONFIG_KEY_SIZE, "%.*s%zu%s", (int)(star - key->path), key->path, layer,
                 star + 1);
    else
        snprintf(path, CONFIG_KEY_SIZE, "%s", key->path);
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
    size_t used = 0, length;
    const char *name;
    text[0] = 0;
    for (size_t row = 0; used < size && (name = next_child(path, &row, &length));)
        used += snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)length, name);
}

/* Edits (insert, delete, replace, swap neighbours) that make `a` of `b`, for short words; the
   optimal string alignment distance. Case does not count. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    enum { WORD_MAX = 32 };
    size_t rows[WORD_MAX + 1][WORD_MAX + 1];
    if (a_length > WORD_MAX || b_length > WORD_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= a_length; i++)
        for (size_t j = 0; j <= b_length; j++) {
            if (i == 0 || j == 0) {
                rows[i][j] = i + j;
                continue;
            }
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            size_t best = rows[i - 1][j - 1] + (x != y);
            size_t shorter = rows[i - 1][j] < rows[i][j - 1] ? rows[i - 1][j] : rows[i][j - 1];
            if (shorter + 1 < best)
                best = shorter + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) && rows[i - 2][j - 2] + 1 < best)
                best = rows[i - 2][j - 2] + 1;
            rows[i][j] = best;
        }
    return rows[a_length][b_length];
}

/* Whether `word` is nearer to `text` than `*best`, and near enough to have been meant. */
static bool nearer(const char *word, size_t word_length, const char *text, size_t *best) {
    enum { LETTERS_PER_EDIT = 3 };
    size_t length = strlen(text), edits = distance(word, word_length, text, length);
    size_t longer = length > word_length ? length : word_length;
    if (edits >= *best || edits > 1 + longer / LETTERS_PER_EDIT || edits >= longer)
        return false;
    *best = edits;
    return true;
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

bool config_path_suggest(const char *path, char suggestion[CONFIG_KEY_SIZE]) {
    const char *dot = strrchr(path, '.');
    const char *last = dot ? dot + 1 : path, *name;
    char parent[CONFIG_KEY_SIZE];
    if (same_word(path, last, suggestion))
        return true;
    snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - path) : 0, path);
    size_t best = SIZE_MAX, length;
    size_t used = snprintf(suggestion, CONFIG_KEY_SIZE, "%s%s", parent, *parent ? "." : "");
    for (size_t row = 0; (name = next_child(parent, &row, &length));)
        if (*name != '*' && used + length < CONFIG_KEY_SIZE && nearer(name, length, last, &best)) {
            memcpy(suggestion + used, name, length);
            suggestion[used + length] = 0;
        }
    return best != SIZE_MAX;
}

bool config_word_suggest(const char *words, const char *text, char *suggestion, size_t size) {
    size_t best = SIZE_MAX;
    for (const char *word = words; *word; word += strcspn(word, "|"), word += *word == '|') {
        size_t length = strcspn(word, "|");
        if (nearer(word, length, text, &best))
            snprintf(suggestion, size, "%.*s", (int)length, word);
    }
    return best != SIZE_MAX;
}

bool config_words_contain(const char *words, const char *word, size_t *place) {
    size_t number = 0, length = strlen(word);
    for (const char *w = words;; number++, w++) {
        size_t this = strcspn(w, "|");
        if (this == length && memcmp(w, word, length) == 0) {
            if (place)
                *place = number;
            return true;
        }
        w += this;
        if (!*w)
            return false;
    }
}

const char *config_word(const char *words, size_t place, size_t *length) {
    while (place-- > 0)
        words += strcspn(words, "|") + 1;
    *length = strcspn(words, "|");
    return words;
}

size_t config_words_count(const char *words) {
    size_t count = 1;
    for (; *words; words++)
        count += *words == '|';
    return count;
}

void config_words_list(const char *words, char *text, size_t size) {
    size_t used = 0;
    for (const char *w = words; *w && used < size;) {
        size_t length = strcspn(w, "|");
        const char *before = w == words ? "" : w[length] ? ", " : " or ";
        used += snprintf(text + used, size - used, "%s%.*s", before, (int)length, w);
        w += length + (w[length] == '|');
    }
}
