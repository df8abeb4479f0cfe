/* Paths of keys: their kinds, suggestions for misspelt ones, short names, and descriptions of
   keys. */
#include "config_keys.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/text.h"

/* Accepted forms of a number: N or '*' for any; in short names any digits. */
enum numbers { NUMBERS, NUMBERS_OR_N, NUMBERS_OF_NAMES };

/* The path as in the table, with '*' for its number, which is returned; NULL: no such key. */
static const char *generalize(const char *path, enum numbers numbers,
                              char pattern[CONFIG_KEY_SIZE]) {
    enum { NUMBER_DIGITS = 6 };
    struct config_text to = {.text = pattern, .size = CONFIG_KEY_SIZE};
    const char *number = NULL;
    *pattern = 0;
    for (size_t length; *path; path += length) {
        length = strcspn(path, ".");
        bool digits = length && strspn(path, "0123456789") >= length;
        bool padded = length > 1 && *path == '0', letter = length == 1 && strchr("N*", *path);
        bool usual = (!padded && length <= NUMBER_DIGITS) || numbers == NUMBERS_OF_NAMES;
        if ((digits && usual) || (letter && numbers != NUMBERS)) {
            config_add(&to, "*");
            number = path;
        } else {
            config_add(&to, "%.*s", (int)length, *path == '*' ? "?" : path);
        }
        if (path[length] == '.') {
            config_add(&to, ".");
            length++;
        }
    }
    return number;
}

/* The rest of the key's path after the pattern: "" if they are equal; NULL if the key is not
   below it. */
static const char *rest_of(const struct config_key *key, const char *pattern) {
    size_t length = strlen(pattern);
    if (!length)
        return key->path;
    if (!config_path_below(key->path, pattern))
        return NULL;
    return key->path + length + (key->path[length] == '.');
}

static enum path_kind kind_of(const char *path, enum numbers numbers, const struct config_key **key,
                              size_t *layer) {
    char pattern[CONFIG_KEY_SIZE];
    const char *number = generalize(path, numbers, pattern);
    if (layer)
        *layer = number ? strtoul(number, NULL, 10) : 0;
    for (size_t k = 0; k < config_key_count; k++) {
        const char *rest = rest_of(&config_keys[k], pattern);
        if (!rest)
            continue;
        if (key)
            *key = *rest ? NULL : &config_keys[k];
        return !*rest ? PATH_KEY : *rest == '*' ? PATH_LIST : PATH_MAPPING;
    }
    return PATH_UNKNOWN;
}

enum path_kind config_path_kind(const char *path, const struct config_key **key, size_t *layer) {
    return kind_of(path, NUMBERS, key, layer);
}

bool config_key_below(const struct config_key *key, const char *path) {
    char pattern[CONFIG_KEY_SIZE];
    generalize(path, NUMBERS_OR_N, pattern);
    return rest_of(key, pattern) != NULL;
}

bool config_path_layer(const char *path, size_t *layer) {
    char pattern[CONFIG_KEY_SIZE];
    const char *number = generalize(path, NUMBERS, pattern);
    *layer = number ? strtoul(number, NULL, 10) : 0;
    return number != NULL;
}

void config_key_written(const struct config_key *key, size_t layer, const struct config *config,
                        char path[CONFIG_KEY_SIZE]) {
    const struct socket_config *socket = config_value_home(key, layer, config);
    bool connects = key->type == &value_bind && socket->connect;
    config_key_path(connects ? key + 1 : key, layer, path); /* the next row */
}

void config_key_title(const struct config_key *key, char path[CONFIG_KEY_SIZE]) {
    snprintf(path, CONFIG_KEY_SIZE, "%s", key->path);
    char *star = strchr(path, '*');
    if (star)
        *star = 'N';
}

/* The next row from `*row` on whose child of `path` differs from that of the previous row, and
   the child's name. Children with the same name are consecutive in the table. */
static const char *next_child(const char *path, size_t *row, size_t *length) {
    char pattern[CONFIG_KEY_SIZE];
    generalize(path, NUMBERS, pattern);
    while (*row < config_key_count) {
        const struct config_key *key = &config_keys[(*row)++];
        const char *name = rest_of(key, pattern);
        const char *before = key > config_keys ? rest_of(key - 1, pattern) : NULL;
        *length = name ? strcspn(name, ".") : 0;
        if (*length &&
            !(before && !strncmp(name, before, *length) && strcspn(before, ".") == *length))
            return name;
    }
    return NULL;
}

void config_path_children(const char *path, char *text, size_t size) {
    struct config_text to = {.text = text, .size = size};
    const char *name;
    *text = 0;
    for (size_t row = 0, length; (name = next_child(path, &row, &length));)
        config_add(&to, "%s%.*s", to.used ? ", " : "", (int)length, name);
}

/* The key elsewhere with the same last word; of several the most similar one. */
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

/* Candidates for a short name: paths, with N for a missing layer number. */
struct meant {
    char paths[MEANT_MAX][CONFIG_KEY_SIZE];
    size_t count;
};

/* Whether the first `size` bytes of a key's path end with the pattern. */
static bool ends_with(const char *key, size_t size, const char *pattern) {
    size_t length = strlen(pattern);
    return length && length <= size && !strncmp(key + size - length, pattern, length) &&
           (length == size || key[size - length - 1] == '.');
}

static void add(struct meant *meant, const char *path) {
    for (size_t n = 0; n < meant->count; n++)
        if (!strcmp(meant->paths[n], path))
            return;
    if (meant->count < MEANT_MAX)
        snprintf(meant->paths[meant->count++], CONFIG_KEY_SIZE, "%s", path);
}

/* Find keys, or with `sections` also the sections above them: "model.layers",
   "learning.optimizer". */
static void find(struct meant *meant, const char *name, bool sections, bool layered) {
    char pattern[CONFIG_KEY_SIZE], path[CONFIG_KEY_SIZE];
    const char *number = generalize(name + (*name == '.'), NUMBERS_OF_NAMES, pattern);
    if (!number || *number == '*')
        number = "N";
    bool short_name = !strchr(pattern, '.'); /* `layers` alone is model.layers */
    for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++)
        for (size_t size = strlen(key->path); size > 0; size--) {
            bool part = !key->path[size] || (sections && key->path[size] == '.');
            if (!part || (layered && !config_key_layered(key)) ||
                (short_name && (key->type == &value_layers || key->flags & KEY_LONG)) ||
                !ends_with(key->path, size, pattern))
                continue;
            const char *star = memchr(key->path, '*', size);
            int before = (int)(star ? (size_t)(star - key->path) : size);
            snprintf(path, sizeof path, "%.*s%.*s%.*s", before, key->path,
                     star ? (int)strcspn(number, ".") : 0, number,
                     star ? (int)size - before - 1 : 0, star ? star + 1 : "");
            add(meant, path);
        }
}

static int fail(const char *name, const struct meant *meant, struct error *error) {
    char words[MEANT_MAX * CONFIG_KEY_SIZE] = "", list[ERROR_TEXT_SIZE / 2];
    char near[CONFIG_MEANT_SIZE];
    struct config_text to = {.text = words, .size = sizeof words};
    for (size_t n = 0; n < meant->count; n++)
        config_add(&to, "%s%s", n ? "|" : "", meant->paths[n]);
    config_words_list(words, list, sizeof list);
    if (meant->count)
        return error_set(error, EX_CONFIG, "ambiguous key \"%.*s\"; expected one of %s",
                         CONFIG_KEY_SIZE, name, list);
    return error_set(error, EX_CONFIG, "unknown key \"%.*s\"%s; runneld --explain lists all keys",
                     CONFIG_KEY_SIZE, name, config_path_meant(name, near));
}

static const struct config_key *find_full(const char *path) {
    for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++)
        if (!strcmp(key->path, path))
            return key;
    return NULL;
}

int config_key_meant(const char *name, char path[CONFIG_KEY_NAME_SIZE], struct error *error) {
    static const struct {
        bool sections, layered;
    } orders[] = {{false, true}, {false, false}, {true, false}};
    struct meant meant = {0};
    if (find_full(name)) /* also if layers have a key of that name, such as `memory` */
        add(&meant, name);
    for (size_t n = 0; n < sizeof orders / sizeof *orders && meant.count == 0 && *name; n++)
        find(&meant, name, orders[n].sections, orders[n].layered);
    for (size_t n = 0; n < meant.count; n++) {
        const struct config_key *key = find_full(meant.paths[n]);
        /* the name was the path of a section, or its key can be set in flight */
        if (!strcmp(meant.paths[n], name) || (key && key->flags & KEY_IN_FLIGHT)) {
            memmove(meant.paths[0], meant.paths[n], sizeof meant.paths[0]);
            meant.count = 1;
        }
    }
    if (meant.count != 1)
        return fail(name, &meant, error);
    strcpy(path, meant.paths[0]);
    return 0;
}

/* ---- Descriptions: for --explain and the documents ---- */

static const char *default_of(const struct config_key *key) {
    return key->left_out ? key->left_out : key->fallback ? key->fallback : "none";
}

const char *config_path_last(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* "`cell: lstm`", "`kind: adam` or `adamw`". */
static void add_condition(struct config_text *to, const struct config_key *key) {
    const char *name = config_path_last(key->when);
    size_t count = config_words_count(key->is), length;
    for (size_t n = 0; n < count; n++) {
        const char *word = config_word(key->is, n, &length);
        if (n == 0)
            config_add(to, "`%s: %.*s`", name, (int)length, word);
        else
            config_add(to, "%s`%.*s`", n + 1 < count ? ", " : " or ", (int)length, word);
    }
    config_add(to, key->symbols ? " or `preset: symbols`" : "");
}

void config_key_summary(const struct config_key *key, char text[CONFIG_SUMMARY_SIZE]) {
    struct config_text to = {.text = text, .size = CONFIG_SUMMARY_SIZE};
    char expected[CONFIG_TEXT_SIZE];
    config_value_expected(key, expected, sizeof expected);
    config_add(&to, "%c%s: %s.", toupper((unsigned char)*key->what), key->what + 1, expected);
    if (key->when) {
        config_add(&to, " Requires ");
        add_condition(&to, key);
        config_add(&to, ".");
    }
    if (key->flags & KEY_REQUIRED)
        config_add(&to, " Required.");
    else
        config_add(&to, " Default: %s.", default_of(key));
    if (key->flags & KEY_IN_FLIGHT)
        config_add(&to, " Can change while the daemon runs.");
    else if (key->flags & KEY_RELOAD)
        config_add(&to, " Can change on reload.");
}

size_t config_token(const char *text) {
    const char *quote = *text == '`' ? strchr(text + 1, '`') : NULL;
    size_t length = quote ? (size_t)(quote + 1 - text) : 0;
    return length + strcspn(text + length, " ");
}

void config_wrap(FILE *out, const char *first, const char *next, const char *text) {
    size_t column = strlen(first);
    fputs(first, out);
    for (bool begins = true; *text; begins = false) {
        size_t length = config_token(text);
        if (!begins && column + 1 + length > CONFIG_LINE_MAX) {
            fprintf(out, "\n%s", next);
            column = strlen(next);
        } else if (!begins) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, length, out);
        column += length;
        text += length + (text[length] == ' ');
    }
    fputc('\n', out);
}

/* Write a fact, or the meaning of a word, on its own lines. */
static void __attribute__((format(printf, 3, 4)))
explain_fact(FILE *out, const char *name, const char *format, ...) {
    char first[CONFIG_KEY_SIZE], text[CONFIG_SUMMARY_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    snprintf(first, sizeof first, "  %-8s  ", name);
    config_wrap(out, first, "            ", text);
}

static void explain_meanings(FILE *out, const struct config_key *key) {
    size_t length, size;
    for (size_t n = 0; n < config_words_count(key->words); n++) {
        const char *word = config_word(key->words, n, &length);
        const char *meaning = config_word(key->meanings, n, &size);
        explain_fact(out, "", "%.*s: %.*s", (int)length, word, (int)size, meaning);
    }
}

static void explain_key(FILE *out, const struct config_key *key, size_t layer) {
    char path[CONFIG_KEY_SIZE], text[CONFIG_SUMMARY_SIZE];
    struct config_text condition = {.text = text, .size = sizeof text};
    config_key_title(key, path);
    fprintf(out, "%s: %s\n\n", path, key->what);
    explain_fact(out, "type", "%s%s%s", key->type->name, key->unit ? ", in " : "",
                 key->unit ? key->unit : "");
    config_value_expected(key, text, sizeof text);
    explain_fact(out, "allowed", "%s", text);
    if (key->meanings)
        explain_meanings(out, key);
    explain_fact(out, "default", "%s",
                 key->flags & KEY_REQUIRED ? "none (required)" : default_of(key));
    if (key->when) {
        add_condition(&condition, key);
        explain_fact(out, "only", "with %s", text);
    }
    explain_fact(out, "changes", "%s",
                 key->flags & KEY_IN_FLIGHT ? "while the daemon runs (runnel-ctl set, SIGHUP)"
                 : key->flags & KEY_RELOAD  ? "when the daemon reloads its configuration "
                                              "(SIGHUP)"
                 : key->flags & KEY_FRESH   ? "only before anything is learned"
                 : key->flags & KEY_WINDOW  ? "with a restart, which empties the windows of "
                                              "streams"
                 : key->flags & KEY_MOMENT
                     ? "with a restart, which empties the windows of streams and resets the "
                       "optimizer's moments"
                 : key->flags & KEY_DIGEST
                     ? "only before anything is learned: use another state.directory"
                     : "with a restart");
    config_key_path(key, layer, path);
    explain_fact(out, "example", "--set %s=%s", path, key->example);
    if (key->more) {
        fputc('\n', out);
        config_wrap(out, "", "", key->more);
    }
}

int config_explain(FILE *out, const char *path, struct error *error) {
    char name[CONFIG_KEY_SIZE], meant[CONFIG_MEANT_SIZE];
    const struct config_key *key = NULL;
    size_t layer = 0;
    if (kind_of(path, NUMBERS_OR_N, &key, &layer) == PATH_UNKNOWN)
        return error_set(error, EX_USAGE,
                         "--explain: unknown key \"%s\"%s; --explain without a key lists all "
                         "keys",
                         path, config_path_meant(path, meant));
    if (key) {
        explain_key(out, key, layer);
        return 0;
    }
    for (size_t k = 0; k < config_key_count; k++) {
        if (!config_key_below(&config_keys[k], path))
            continue;
        config_key_title(&config_keys[k], name);
        fprintf(out, "%-32s  %s\n", name, config_keys[k].what);
    }
    return 0;
}

void config_names(char names[CONFIG_NAMES_SIZE]) {
    struct config_text to = {.text = names, .size = CONFIG_NAMES_SIZE};
    char name[CONFIG_KEY_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        config_key_title(&config_keys[k], name);
        config_add(&to, "%s ", name);
    }
    assert(to.used + 1 < to.size);
}
