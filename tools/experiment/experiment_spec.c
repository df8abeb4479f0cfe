#include "experiment_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <yaml.h>

#include "common/error.h"
#include "common/text.h"
#include "config/config.h"
#include "config/config_yaml.h"
#include "experiment_memory.h"
#include "experiment_store.h"

enum { SHOWN_MAX = 60 }; /* bytes of a wrong value that an error quotes */

struct reading {
    yaml_document_t document;
    struct experiment_spec *spec;
    struct error *error;
};

static int no_memory(const struct reading *reading) {
    return error_no_memory(reading->error);
}

/* Room for `count` items of that size, and one more; NULL after no_memory. */
static void *make_room(const struct reading *reading, size_t count, size_t size) {
    void *room = memory_take(&reading->spec->memory, (count + 1) * size);
    if (!room)
        no_memory(reading);
    return room;
}

/* ---- YAML nodes ---- */

static yaml_node_t *yaml_at(struct reading *reading, int index) {
    return yaml_document_get_node(&reading->document, index);
}
static yaml_node_t *yaml_item(struct reading *reading, const yaml_node_t *list, size_t n) {
    return yaml_at(reading, list->data.sequence.items.start[n]);
}
static size_t yaml_pairs(const yaml_node_t *node) {
    return (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
}
static size_t yaml_items(const yaml_node_t *node) {
    return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

/* "FILE:LINE:COLUMN: KEY: SENTENCE", EX_CONFIG; returns -1. */
static int __attribute__((format(printf, 4, 5)))
yaml_fail(const struct reading *reading, const yaml_node_t *node, const char *key,
          const char *format, ...) {
    char sentence[ERROR_TEXT_SIZE];
    TEXT_FORMAT(sentence, sizeof sentence, format);
    return error_set(reading->error, EX_CONFIG, "%s:%zu:%zu: %s%s%s", reading->spec->path,
                     node->start_mark.line + 1, node->start_mark.column + 1, key, *key ? ": " : "",
                     sentence);
}

/* A key that is not in `allowed`, "a, b or c". */
static int yaml_fail_unknown(const struct reading *reading, const yaml_node_t *key, const char *in,
                             const char *allowed) {
    return yaml_fail(reading, key, in, "unknown key \"%.*s\"; expected %s", SHOWN_MAX,
                     (const char *)key->data.scalar.value, allowed);
}

static const char *scalar(const yaml_node_t *node) {
    bool text = node->type == YAML_SCALAR_NODE;
    return text && strlen((char *)node->data.scalar.value) == node->data.scalar.length
               ? (const char *)node->data.scalar.value
               : NULL;
}

/* Pair n of a mapping: its key as text, NULL after yaml_fail, and its value. */
static const char *yaml_pair(struct reading *reading, const yaml_node_t *mapping, size_t n,
                             yaml_node_t **key, yaml_node_t **value) {
    const yaml_node_pair_t *pair = &mapping->data.mapping.pairs.start[n];
    *key = yaml_at(reading, pair->key);
    *value = yaml_at(reading, pair->value);
    const char *name = scalar(*key);
    if (!name || !*name) {
        yaml_fail(reading, *key, "", "expected a text as the key");
        return NULL;
    }
    for (size_t before = 0; before < n; before++) {
        const yaml_node_t *other = yaml_at(reading, mapping->data.mapping.pairs.start[before].key);
        if (scalar(other) && !strcmp(scalar(other), name)) {
            yaml_fail(reading, *key, name, "duplicate key, first in line %zu",
                      other->start_mark.line + 1);
            return NULL;
        }
    }
    return name;
}

static const char *kind_of(const yaml_node_t *node) {
    return node->type == YAML_MAPPING_NODE    ? "a mapping"
           : node->type == YAML_SEQUENCE_NODE ? "a list"
                                              : NULL;
}

/* Whether the node is a mapping, text or count; else yaml_fail. */
static int yaml_want_mapping(const struct reading *reading, const yaml_node_t *node,
                             const char *key) {
    return node->type == YAML_MAPPING_NODE
               ? 0
               : yaml_fail(reading, node, key, "expected a mapping, e.g. {a: 1}, got %s",
                           kind_of(node) ? kind_of(node) : "a text");
}

static int yaml_want_text(const struct reading *reading, const yaml_node_t *node, const char *key,
                          const char **text) {
    const char *found = scalar(node);
    if (!found || !*found)
        return yaml_fail(reading, node, key, "expected a text, got %s",
                         kind_of(node) ? kind_of(node) : "nothing");
    *text = memory_copy(&reading->spec->memory, found);
    return *text ? 0 : error_no_memory(reading->error);
}

static int yaml_want_count(const struct reading *reading, const yaml_node_t *node, const char *key,
                           int64_t least, int64_t most, int64_t *count) {
    const char *found = scalar(node);
    char *end = NULL;
    errno = 0;
    *count = found ? strtoll(found, &end, 10) : 0;
    if (!found || end == found || *end || errno || *count < least || *count > most)
        return yaml_fail(reading, node, key,
                         "expected a whole number from %lld to %lld, got %s%.*s%s",
                         (long long)least, (long long)most, found ? "\"" : "", SHOWN_MAX,
                         found ? found : kind_of(node), found ? "\"" : "");
    return 0;
}

/* ---- A node as one line ---- */

static void print_quoted(FILE *out, const char *text) {
    putc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < ' ')
            fprintf(out, "\\x%02x", *c);
        else
            putc(*c, out);
    putc('"', out);
}

/* A word that is also a text without quotes, for readability. */
static bool is_word(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
                      others[] = "0123456789_-./";
    static const char *const special[] = {"true", "false", "null", "yes", "no",
                                          "on",   "off",   "inf",  "nan"};
    if (!*text || !strchr(letters, *text))
        return false;
    for (const char *c = text; *c; c++)
        if (!strchr(letters, *c) && !strchr(others, *c))
            return false;
    for (size_t n = 0; n < sizeof special / sizeof *special; n++)
        if (!strcasecmp(text, special[n]))
            return false;
    return true;
}

static int print(struct reading *reading, FILE *out, const yaml_node_t *node, bool inside) {
    static const char special[] = ",[]{}:#&*!|>'\"%@`";
    const char *text = scalar(node);
    if (node->type == YAML_SCALAR_NODE && !text)
        return yaml_fail(reading, node, "", "invalid text: it contains a zero byte");
    if (node->type == YAML_SCALAR_NODE) {
        bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE || is_word(text);
        if (plain && (!inside || (*text && !strpbrk(text, special))))
            fputs(text, out);
        else
            print_quoted(out, text);
        return 0;
    }
    bool list = node->type == YAML_SEQUENCE_NODE;
    putc(list ? '[' : '{', out);
    for (size_t n = 0; n < (list ? yaml_items(node) : yaml_pairs(node)); n++) {
        fputs(n ? ", " : "", out);
        if (list && print(reading, out, yaml_item(reading, node, n), true))
            return -1;
        if (list)
            continue;
        const yaml_node_pair_t *pair = &node->data.mapping.pairs.start[n];
        if (print(reading, out, yaml_at(reading, pair->key), true))
            return -1;
        fputs(": ", out);
        if (print(reading, out, yaml_at(reading, pair->value), true))
            return -1;
    }
    putc(list ? ']' : '}', out);
    return 0;
}

/* The node as YAML in one line; NULL after yaml_fail. */
static char *yaml_line(struct reading *reading, const yaml_node_t *node) {
    char *text = NULL, *copy = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    int result = out ? print(reading, out, node, false) : -1;
    bool written = out && fclose(out) == 0;
    if (result == 0 && written)
        copy = memory_copy(&reading->spec->memory, text);
    if (!copy && (!out || result == 0))
        error_no_memory(reading->error);
    free(text);
    return copy;
}

/* A copy; NULL after no_memory. */
static char *copy_text(const struct reading *reading, const char *text) {
    char *copy = make_room(reading, strlen(text), 1);
    return copy ? strcpy(copy, text) : NULL;
}

/* File names in the YAML are relative to the YAML's directory. */
static const char *relative_to(const struct reading *reading, const char *path) {
    const char *copy = *path == '/' ? memory_copy(&reading->spec->memory, path)
                                    : memory_print(&reading->spec->memory, "%s/%s",
                                                   reading->spec->directory, path);
    if (!copy)
        no_memory(reading);
    return copy;
}

/* ---- Settings ---- */

/* A value that is a file name, as a path that does not depend on the working directory. */
static const char *value_of(struct reading *reading, const char *path, const yaml_node_t *value) {
    static const char initial[] = "model.initial";
    bool file = !strcmp(path, initial) && value->type == YAML_SCALAR_NODE;
    const char *name = file ? (const char *)value->data.scalar.value : "";
    return *name && *name != '~' ? relative_to(reading, name) : yaml_line(reading, value);
}

/* A key and its value; `of` is their owner in errors. */
static int take_setting(struct reading *reading, const yaml_node_t *key, const char *name,
                        const yaml_node_t *value, const char *of, struct spec_setting *setting) {
    char path[CONFIG_KEY_NAME_SIZE];
    struct error *error = reading->error;
    if (config_key_meant(name, path, error))
        return error_prefix(error, "%s:%zu:%zu: %s", reading->spec->path, key->start_mark.line + 1,
                            key->start_mark.column + 1, of);
    *setting = (struct spec_setting){.brief = copy_text(reading, name),
                                     .key = copy_text(reading, path),
                                     .value = value_of(reading, path, value),
                                     .line = key->start_mark.line + 1};
    return setting->brief && setting->key && setting->value ? 0 : -1;
}

/* All pairs of a mapping except the key `without`. */
static int take_settings(struct reading *reading, const yaml_node_t *node, const char *of,
                         const char *without, struct spec_settings *settings) {
    if (yaml_want_mapping(reading, node, of))
        return -1;
    if (!(settings->rows = make_room(reading, yaml_pairs(node), sizeof *settings->rows)))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(reading, node, n, &key, &value);
        if (!name)
            return -1;
        if (without && !strcmp(name, without))
            continue;
        if (take_setting(reading, key, name, value, of, &settings->rows[settings->count++]))
            return -1;
    }
    return 0;
}

/* ---- Bases ---- */

/* A mapping in place, with one key per line. */
static int take_base_text(struct reading *reading, const yaml_node_t *node,
                          struct spec_base *base) {
    base->text = "";
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(reading, node, n, &key, &value);
        const char *line = name ? yaml_line(reading, value) : NULL;
        if (!line)
            return -1;
        base->named |= !strcmp(name, "name");
        base->text = memory_print(&reading->spec->memory, "%s%s: %s\n", base->text, name, line);
        if (!base->text)
            return no_memory(reading);
    }
    return 0;
}

static int take_base(struct reading *reading, const yaml_node_t *node, const char *key,
                     struct spec_base *base) {
    const char *path;
    if (node->type == YAML_MAPPING_NODE)
        return take_base_text(reading, node, base);
    if (yaml_want_text(reading, node, key, &path))
        return -1;
    base->path = relative_to(reading, path);
    return base->path ? 0 : -1;
}

/* ---- Names ---- */

/* Characters of a file name: letters, digits, '-', '_' and '.', but not '.' first. */
static const char allowed_in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789-_.";

static bool is_file_name(const char *name) {
    return *name && *name != '.' && strlen(name) <= SPEC_NAME_MAX &&
           strspn(name, allowed_in_names) == strlen(name);
}

static int want_name(struct reading *reading, const yaml_node_t *node, const char *key,
                     const char *name) {
    return is_file_name(name)
               ? 0
               : yaml_fail(reading, node, key,
                           "invalid name \"%.60s\": expected at most %d of a to z, A to Z, digits, "
                           "'-', '_' and '.', without '.' at the beginning",
                           name, SPEC_NAME_MAX);
}

/* ---- Streams ---- */

/* The next word, split like in a shell without any expansion; NULL at the end, or with *bad if a
   quote is not closed. */
static char *next_word(const char **text, bool *bad, char *word) {
    const char *c = *text + strspn(*text, " \t\n");
    char quote = 0, *end = word;
    if (!*c)
        return NULL;
    for (; *c && (quote || !strchr(" \t\n", *c)); c++) {
        if (*c == quote)
            quote = 0;
        else if (!quote && (*c == '\'' || *c == '"'))
            quote = *c;
        else if (*c == '\\' && quote != '\'' && c[1])
            *end++ = *++c;
        else
            *end++ = *c;
    }
    *end = 0;
    *bad = quote != 0;
    *text = c;
    return *bad ? NULL : word;
}

static int split(struct reading *reading, const yaml_node_t *node, const char *key,
                 const char ***words, size_t *count) {
    const char *text;
    bool bad = false;
    if (yaml_want_text(reading, node, key, &text))
        return -1;
    char *word = make_room(reading, strlen(text), 1);
    if (!word || !(*words = make_room(reading, strlen(text), sizeof **words)))
        return -1;
    while (next_word(&text, &bad, word))
        if (!((*words)[(*count)++] = copy_text(reading, word)))
            return -1;
    return bad ? yaml_fail(reading, node, key, "missing closing quote") : 0;
}

static int take_words(struct reading *reading, const yaml_node_t *node, const char *key,
                      struct spec_stream *stream) {
    const char **words = NULL;
    size_t count = 0;
    if (node->type != YAML_SEQUENCE_NODE) {
        if (split(reading, node, key, &words, &count))
            return -1;
    } else {
        count = yaml_items(node);
        if (!(words = make_room(reading, count, sizeof *words)))
            return -1;
        for (size_t n = 0; n < count; n++)
            if (yaml_want_text(reading, yaml_item(reading, node, n), key, &words[n]))
                return -1;
    }
    stream->words = words;
    stream->word_count = count;
    return count ? 0
                 : yaml_fail(reading, node, key, "expected the arguments of runnel-%s, got nothing",
                             key);
}

/* Replaces ${NAME} by the environment variable. */
static const char *expand(struct reading *reading, const struct spec_stream *stream,
                          const char *word) {
    const char *begin = strstr(word, "${"), *end = begin ? strchr(begin, '}') : NULL;
    if (!end)
        return word;
    const char *name =
        memory_print(&reading->spec->memory, "%.*s", (int)(end - begin) - 2, begin + 2);
    if (!name) {
        no_memory(reading);
        return NULL;
    }
    const char *value = getenv(name);
    if (!value || !*value) {
        error_set(
            reading->error, EX_CONFIG,
            "%s: streams.%s: environment variable %s is not set; run %s=VALUE runnel-experiment %s",
            reading->spec->path, stream->name, name, name, reading->spec->path);
        return NULL;
    }
    const char *rest = expand(reading, stream, end + 1);
    const char *all = rest ? memory_print(&reading->spec->memory, "%.*s%s%s", (int)(begin - word),
                                          word, value, rest)
                           : NULL;
    if (rest && !all)
        no_memory(reading);
    return all;
}

static int take_arguments(struct reading *reading, struct spec_stream *stream) {
    const char **arguments = make_room(reading, stream->word_count, sizeof *arguments);
    if (!arguments)
        return -1;
    for (size_t n = 0; n < stream->word_count; n++)
        if (!(arguments[n] = expand(reading, stream, stream->words[n])))
            return -1;
    stream->arguments = arguments;
    return 0;
}

static int take_stream(struct reading *reading, const yaml_node_t *node,
                       struct spec_stream *stream) {
    const char *of = memory_print(&reading->spec->memory, "streams.%s", stream->name);
    if (!of)
        return no_memory(reading);
    if (yaml_want_mapping(reading, node, of))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(reading, node, n, &key, &value);
        if (!name)
            return -1;
        bool feed = !strcmp(name, "feed"), replay = !strcmp(name, "replay");
        if ((feed || replay) && stream->words)
            return yaml_fail(reading, key, of,
                             "feed and replay cannot be combined; remove one of them");
        stream->replay |= replay;
        int result = feed || replay          ? take_words(reading, value, name, stream)
                     : !strcmp(name, "base") ? take_base(reading, value, "base", &stream->base)
                     : !strcmp(name, "set")
                         ? take_settings(reading, value, of, NULL, &stream->set)
                         : yaml_fail_unknown(reading, key, of, "feed or replay, base, set");
        if (result)
            return -1;
    }
    if (!stream->words)
        return yaml_fail(reading, node, of,
                         "missing feed (the arguments of runnel-feed) or replay");
    return take_arguments(reading, stream);
}

static int take_streams(struct reading *reading, const yaml_node_t *node) {
    struct experiment_spec *spec = reading->spec;
    if (yaml_want_mapping(reading, node, "streams"))
        return -1;
    if (!(spec->streams = make_room(reading, yaml_pairs(node), sizeof *spec->streams)))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(reading, node, n, &key, &value);
        struct spec_stream *stream = &spec->streams[spec->stream_count++];
        if (!name || want_name(reading, key, "streams", name) ||
            !(stream->name = copy_text(reading, name)) || take_stream(reading, value, stream))
            return -1;
    }
    return 0;
}

/* ---- Variants: a list, a grid, or each of the list times the grid ---- */

enum { AXES_MAX = 64 };

/* One key of the grid. */
struct axis {
    struct spec_setting *values; /* (count,) */
    size_t count;
};
struct grid {
    struct axis axes[AXES_MAX];
    size_t count, all; /* combinations */
};

static int take_axis(struct reading *reading, const yaml_node_t *key, const char *name,
                     const yaml_node_t *node, struct axis *axis) {
    if (node->type != YAML_SEQUENCE_NODE || yaml_items(node) == 0)
        return yaml_fail(reading, node, "grid", "%s: expected a list of values, e.g. [1, 2]", name);
    axis->count = yaml_items(node);
    if (!(axis->values = make_room(reading, axis->count, sizeof *axis->values)))
        return -1;
    for (size_t n = 0; n < axis->count; n++)
        if (take_setting(reading, key, name, yaml_item(reading, node, n), "grid", &axis->values[n]))
            return -1;
    return 0;
}

static int take_grid(struct reading *reading, const yaml_node_t *node, struct grid *grid) {
    if (yaml_want_mapping(reading, node, "grid"))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(reading, node, n, &key, &value);
        if (!name)
            return -1;
        if (grid->count == AXES_MAX)
            return yaml_fail(reading, key, "grid", "expected at most %d keys", AXES_MAX);
        struct axis *axis = &grid->axes[grid->count++];
        if (take_axis(reading, key, name, value, axis))
            return -1;
        grid->all *= axis->count;
        if (grid->all > SPEC_VARIANTS_MAX)
            return yaml_fail(reading, node, "grid", "expected at most %d combinations",
                             SPEC_VARIANTS_MAX);
    }
    return 0;
}

/* One entry of the list `variants`. */
struct listed {
    const char *name; /* NULL: none */
    struct spec_settings set;
};

static int take_listed(struct reading *reading, const yaml_node_t *node, size_t place,
                       struct listed *listed) {
    char of[64];
    snprintf(of, sizeof of, "variants, number %zu", place + 1);
    if (yaml_want_mapping(reading, node, of))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(reading, node, n, &key, &value);
        if (!name || (!strcmp(name, "name") &&
                      yaml_want_text(reading, value, "variants.name", &listed->name)))
            return -1;
    }
    if (listed->name)
        snprintf(of, sizeof of, "variant \"%.40s\"", listed->name);
    return take_settings(reading, node, of, "name", &listed->set);
}

static int take_list(struct reading *reading, const yaml_node_t *node, struct listed **list,
                     size_t *count) {
    if (node->type != YAML_SEQUENCE_NODE || yaml_items(node) == 0)
        return yaml_fail(reading, node, "variants",
                         "expected a list of mappings, e.g. [{name: small, size: 32}]");
    *count = yaml_items(node);
    if (!(*list = make_room(reading, *count, sizeof **list)))
        return -1;
    for (size_t n = 0; n < *count; n++)
        if (take_listed(reading, yaml_item(reading, node, n), n, &(*list)[n]))
            return -1;
    return 0;
}

/* "rate 1e-4, norm layer", after the given name. */
static const char *name_of(struct reading *reading, const char *name, size_t named,
                           const struct spec_settings *set) {
    for (size_t n = named; n < set->count; n++)
        name =
            memory_print(&reading->spec->memory, "%s%s%s%s%s", name ? name : "", name ? ", " : "",
                         set->rows[n].brief, *set->rows[n].value ? " " : "", set->rows[n].value);
    return name ? name : "base";
}

static int check_variant(struct reading *reading, const struct spec_variant *variant) {
    const struct experiment_spec *spec = reading->spec;
    const char *path = reading->spec->path;
    if (!variant->name)
        return no_memory(reading);
    for (const struct spec_variant *other = spec->variants; other < variant; other++)
        if (!strcmp(other->name, variant->name))
            return error_set(reading->error, EX_CONFIG,
                             "%s: duplicate variant name \"%s\"; use different names", path,
                             variant->name);
    for (size_t a = 1; a < variant->set.count; a++)
        for (size_t b = 0; b < a; b++)
            if (!strcmp(variant->set.rows[a].key, variant->set.rows[b].key))
                return error_set(reading->error, EX_CONFIG,
                                 "%s:%zu: variant \"%s\" sets %s twice, first in line %zu", path,
                                 variant->set.rows[a].line, variant->name, variant->set.rows[a].key,
                                 variant->set.rows[b].line);
    return 0;
}

/* One entry of the list, with combination `number` of the grid: the last key changes fastest. */
static int combine(struct reading *reading, const struct listed *listed, const struct grid *grid,
                   size_t number, struct spec_variant *variant) {
    size_t own = listed->set.count;
    if (!(variant->set.rows = make_room(reading, own + grid->count, sizeof *variant->set.rows)))
        return -1;
    if (own)
        memcpy(variant->set.rows, listed->set.rows, own * sizeof *variant->set.rows);
    variant->set.count = own + grid->count;
    for (size_t a = grid->count; a-- > 0; number /= grid->axes[a].count)
        variant->set.rows[own + a] = grid->axes[a].values[number % grid->axes[a].count];
    variant->name = name_of(reading, listed->name, listed->name ? own : 0, &variant->set);
    return check_variant(reading, variant);
}

static int make_variants(struct reading *reading, const struct listed *list, size_t listed,
                         const struct grid *grid) {
    struct experiment_spec *spec = reading->spec;
    static const struct listed none;
    size_t lists = list ? listed : 1, all = lists * grid->all;
    if (all > SPEC_VARIANTS_MAX)
        return error_set(reading->error, EX_CONFIG,
                         "%s: variants: expected at most %d with the grid, got %zu",
                         reading->spec->path, SPEC_VARIANTS_MAX, all);
    if (!(spec->variants = make_room(reading, all, sizeof *spec->variants)))
        return -1;
    for (size_t n = 0; n < lists; n++)
        for (size_t c = 0; c < grid->all; c++)
            if (combine(reading, list ? &list[n] : &none, grid, c,
                        &spec->variants[spec->variant_count++]))
                return -1;
    return 0;
}

static int take_variants(struct reading *reading, const yaml_node_t *grid,
                         const yaml_node_t *list) {
    struct grid axes = {.all = 1};
    struct listed *listed = NULL;
    size_t count = 0;
    return (grid && take_grid(reading, grid, &axes)) ||
                   (list && take_list(reading, list, &listed, &count)) ||
                   make_variants(reading, listed, count, &axes)
               ? -1
               : 0;
}

enum {
    FILE_SIZE_MAX = 1 << 20,
    SEED_MAX = 1000000000,
    POINTS_MAX = 100000,
    POINTS = 200, /* default number of points of a curve */
};
static const double RECENT = 0.1;

/* "dir/rates.yaml" is "rates"; '_' replaces characters that names must not have. */
static int default_name(struct experiment_spec *spec, struct error *error) {
    static const char *const endings[] = {".yaml", ".yml"};
    const char *slash = strrchr(spec->path, '/');
    char *name = memory_copy(&spec->memory, slash ? slash + 1 : spec->path);
    if (!name)
        return error_no_memory(error);
    for (size_t n = 0; n < sizeof endings / sizeof *endings; n++) {
        size_t length = strlen(name), ending = strlen(endings[n]);
        if (length > ending && !strcmp(name + length - ending, endings[n]))
            name[length - ending] = 0;
    }
    spec->name = text_file_name(name, SPEC_NAME_MAX + 1, name);
    return 0;
}

/* ---- Seeds and report ---- */

static int take_seeds(struct reading *reading, const yaml_node_t *node) {
    struct experiment_spec *spec = reading->spec;
    int64_t count;
    if (node->type != YAML_SEQUENCE_NODE)
        return yaml_want_count(reading, node, "seeds", 1, SPEC_SEEDS_MAX, &count) ||
                       spec_set_seeds(spec, (uint64_t)count, reading->error)
                   ? -1
                   : 0;
    spec->seed_count = yaml_items(node);
    if (!(spec->seeds = make_room(reading, spec->seed_count, sizeof *spec->seeds)))
        return -1;
    if (spec->seed_count == 0 || spec->seed_count > SPEC_SEEDS_MAX)
        return yaml_fail(reading, node, "seeds", "expected 1 to %d seeds", SPEC_SEEDS_MAX);
    for (size_t n = 0; n < spec->seed_count; n++) {
        const yaml_node_t *item = yaml_item(reading, node, n);
        if (yaml_want_count(reading, item, "seeds", 0, SEED_MAX, &spec->seeds[n]))
            return -1;
        for (size_t b = 0; b < n; b++)
            if (spec->seeds[b] == spec->seeds[n])
                return yaml_fail(reading, item, "seeds", "duplicate seed %lld",
                                 (long long)spec->seeds[n]);
    }
    return 0;
}

static int take_measure(struct reading *reading, const yaml_node_t *node) {
    const char *name;
    if (yaml_want_text(reading, node, "report.measure", &name))
        return -1;
    reading->spec->measure = name;
    return experiment_measure_named(name) < EXPERIMENT_FIGURES
               ? 0
               : yaml_fail(reading, node, "report.measure",
                           "expected mean, recent, skill, skill_recent, rmse, mae, accuracy, "
                           "bits, crps or crps_skill, got \"%.60s\"",
                           name);
}

static int take_recent(struct reading *reading, const yaml_node_t *node) {
    const char *text;
    char *end;
    if (yaml_want_text(reading, node, "report.recent", &text))
        return -1;
    double recent = strtod(text, &end);
    reading->spec->recent = recent;
    return !*end && recent > 0 && recent <= 1
               ? 0
               : yaml_fail(reading, node, "report.recent",
                           "expected a number greater than 0 and at most 1, got \"%.60s\"", text);
}

static int take_kept(struct reading *reading, const yaml_node_t *node) {
    static const char *const words[] = {"losses", "weights", "parameters"};
    bool list = node->type == YAML_SEQUENCE_NODE;
    for (size_t n = 0; n < (list ? yaml_items(node) : 1); n++) {
        const yaml_node_t *item = list ? yaml_item(reading, node, n) : node;
        const char *word;
        if (yaml_want_text(reading, item, "report.keep", &word))
            return -1;
        size_t w = 0;
        while (w < sizeof words / sizeof *words && strcmp(words[w], word) != 0)
            w++;
        if (w == sizeof words / sizeof *words)
            return yaml_fail(reading, item, "report.keep",
                             "expected losses, weights or parameters, got \"%.60s\"", word);
        reading->spec->keep |= 1u << w;
    }
    return 0;
}

static int take_report(struct reading *reading, const yaml_node_t *node) {
    int64_t points;
    if (yaml_want_mapping(reading, node, "report"))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(reading, node, n, &key, &value);
        if (!name)
            return -1;
        int result = 0;
        if (!strcmp(name, "measure"))
            result = take_measure(reading, value);
        else if (!strcmp(name, "recent"))
            result = take_recent(reading, value);
        else if (!strcmp(name, "keep"))
            result = take_kept(reading, value);
        else if (!strcmp(name, "points")) {
            result = yaml_want_count(reading, value, "report.points", 1, POINTS_MAX, &points);
            reading->spec->points = (uint64_t)points;
        } else
            result = yaml_fail_unknown(reading, key, "report", "measure, recent, points, keep");
        if (result)
            return -1;
    }
    return 0;
}

/* ---- The file ---- */

static int take_root(struct reading *reading, const yaml_node_t *root) {
    struct experiment_spec *spec = reading->spec;
    const yaml_node_t *grid = NULL, *list = NULL;
    if (yaml_want_mapping(reading, root, ""))
        return -1;
    for (size_t n = 0; n < yaml_pairs(root); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(reading, root, n, &key, &value);
        if (!name)
            return -1;
        int result = 0;
        if (!strcmp(name, "name"))
            result = yaml_want_text(reading, value, "name", &spec->name) ||
                     want_name(reading, value, "name", spec->name);
        else if (!strcmp(name, "base"))
            result = take_base(reading, value, "base", &spec->base);
        else if (!strcmp(name, "set"))
            result = take_settings(reading, value, "set", NULL, &spec->set);
        else if (!strcmp(name, "streams"))
            result = take_streams(reading, value);
        else if (!strcmp(name, "grid"))
            grid = value;
        else if (!strcmp(name, "variants"))
            list = value;
        else if (!strcmp(name, "seeds"))
            result = take_seeds(reading, value);
        else if (!strcmp(name, "report"))
            result = take_report(reading, value);
        else
            result = yaml_fail_unknown(reading, key, "",
                                       "name, base, set, streams, grid, variants, seeds, report");
        if (result)
            return -1;
    }
    if (!spec->streams || !spec->stream_count)
        return yaml_fail(reading, root, "streams",
                         "missing streams, e.g. streams: {text: {feed: \"text FILE\"}}");
    for (size_t n = 0; n < spec->stream_count; n++)
        if (!spec_base_of(spec, n)->path && !spec_base_of(spec, n)->text)
            return yaml_fail(
                reading, root, "base",
                "missing base: the file name of a configuration, or the configuration itself");
    return take_variants(reading, grid, list);
}

static int read_text(struct experiment_spec *spec, size_t *size, struct error *error) {
    FILE *file = fopen(spec->path, "rb");
    char *text = file ? memory_take(&spec->memory, FILE_SIZE_MAX + 1) : NULL;
    if (!file)
        return error_set(error, EX_NOINPUT, "%s: cannot open the experiment: %s", spec->path,
                         error_of_file(errno));
    *size = text ? fread(text, 1, FILE_SIZE_MAX + 1, file) : 0;
    bool failed = ferror(file);
    int reason = errno;
    fclose(file);
    if (!text)
        return error_no_memory(error);
    if (failed)
        return error_set(error, EX_NOINPUT, "%s: cannot read the experiment: %s", spec->path,
                         strerror(reason));
    if (*size > FILE_SIZE_MAX)
        return error_set(error, EX_CONFIG,
                         "%s: the file is longer than %d bytes; is it an experiment?", spec->path,
                         FILE_SIZE_MAX);
    if (strspn(text, " \t\n") == *size)
        return error_set(error, EX_CONFIG, "%s: empty experiment: base and streams are required",
                         spec->path);
    text[*size] = 0;
    spec->text = text;
    return 0;
}

static int set_places(struct experiment_spec *spec, const char *path, struct error *error) {
    const char *slash = strrchr(path, '/');
    spec->path = memory_copy(&spec->memory, path);
    spec->directory =
        !slash ? "."
               : memory_print(&spec->memory, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return spec->path && spec->directory ? 0 : error_no_memory(error);
}

int spec_read(struct experiment_spec *spec, const char *path, struct error *error) {
    size_t size = 0;
    struct yaml_problem problem;
    *spec = (struct experiment_spec){.recent = RECENT, .points = POINTS};
    if (set_places(spec, path, error) || read_text(spec, &size, error) ||
        default_name(spec, error) || spec_set_seeds(spec, 1, error))
        return -1;
    struct reading reading = {.spec = spec, .error = error};
    if (config_yaml_load(&reading.document, spec->text, size, &problem))
        return error_set(error, EX_CONFIG, "%s:%zu:%zu: %s", path, problem.mark.line + 1,
                         problem.mark.column + 1, problem.text);
    int result = take_root(&reading, yaml_document_get_root_node(&reading.document));
    yaml_document_delete(&reading.document);
    return result;
}

void spec_clear(struct experiment_spec *spec) {
    void *memory = spec->memory;
    memory_clear(&memory);
    memset(spec, 0, sizeof *spec);
}

int spec_set_seeds(struct experiment_spec *spec, uint64_t count, struct error *error) {
    spec->seeds = memory_take(&spec->memory, count * sizeof *spec->seeds);
    if (!spec->seeds)
        return error_no_memory(error);
    for (uint64_t n = 0; n < count; n++)
        spec->seeds[n] = (int64_t)n + 1;
    spec->seed_count = count;
    return 0;
}

int spec_check_seeds(const struct experiment_spec *spec, struct error *error) {
    for (size_t n = 0; n < spec->variant_count; n++) {
        const struct spec_settings *set = &spec->variants[n].set;
        for (size_t s = 0; s < set->count; s++)
            if (!strcmp(set->rows[s].key, "seed"))
                return error_set(error, EX_CONFIG,
                                 "%s:%zu: variant \"%s\": a variant must not set seed: every "
                                 "variant runs with all `seeds`, e.g. `seeds: [1, 2, 3]`",
                                 spec->path, set->rows[s].line, spec->variants[n].name);
    }
    return 0;
}

int spec_resolve(struct experiment_spec *spec, const char *override, struct spec_setting *setting,
                 struct error *error) {
    char path[CONFIG_KEY_NAME_SIZE];
    const char *equals = strchr(override, '=');
    if (!equals)
        return error_set(error, EX_USAGE, "--set %s: missing value: expected KEY=VALUE", override);
    char *brief = memory_print(&spec->memory, "%.*s", (int)(equals - override), override);
    if (!brief)
        return error_no_memory(error);
    if (config_key_meant(brief, path, error))
        return error_prefix(error, "--set %s", override);
    *setting = (struct spec_setting){.brief = brief,
                                     .key = memory_copy(&spec->memory, path),
                                     .value = memory_copy(&spec->memory, equals + 1)};
    return setting->key && setting->value ? 0 : error_no_memory(error);
}

const struct spec_base *spec_base_of(const struct experiment_spec *spec, size_t stream) {
    const struct spec_base *own = &spec->streams[stream].base;
    return own->path || own->text ? own : &spec->base;
}

/* ---- Overrides ---- */

static void add(struct spec_overrides *overrides, const struct spec_setting *rows, size_t count) {
    for (size_t n = 0; n < count; n++)
        overrides->values[overrides->count++] =
            memory_print(&overrides->memory, "%s=%s", rows[n].key, rows[n].value);
}

int spec_overrides(struct spec_overrides *overrides, const struct experiment_spec *spec,
                   size_t variant, size_t stream, int64_t seed, const struct spec_setting *extra,
                   size_t extra_count, struct error *error) {
    const struct spec_settings *of[] = {&spec->set, &spec->streams[stream].set,
                                        &spec->variants[variant].set};
    size_t most = extra_count + 1;
    for (size_t n = 0; n < sizeof of / sizeof *of; n++)
        most += of[n]->count;
    *overrides = (struct spec_overrides){0};
    overrides->values = memory_take(&overrides->memory, most * sizeof *overrides->values);
    if (!overrides->values)
        return error_no_memory(error);
    for (size_t n = 0; n < sizeof of / sizeof *of; n++)
        add(overrides, of[n]->rows, of[n]->count);
    add(overrides, extra, extra_count);
    overrides->values[overrides->count++] =
        memory_print(&overrides->memory, "seed=%lld", (long long)seed);
    for (size_t n = 0; n < overrides->count; n++)
        if (!overrides->values[n]) {
            spec_overrides_clear(overrides);
            return error_no_memory(error);
        }
    return 0;
}

void spec_overrides_clear(struct spec_overrides *overrides) {
    memory_clear(&overrides->memory);
    *overrides = (struct spec_overrides){0};
}

/* ---- The command of a stream ---- */

static bool is_plain(const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./=:,+@%{}$";
    return *word && strspn(word, plain) == strlen(word);
}

char *spec_command(void **memory, const struct spec_stream *stream) {
    char *line = memory_copy(memory, stream->replay ? "runnel-replay" : "runnel-feed");
    for (size_t n = 0; n < stream->word_count && line; n++) {
        const char *quote = is_plain(stream->words[n]) ? "" : "'";
        line = memory_print(memory, "%s %s%s%s", line, quote, stream->words[n], quote);
    }
    return line;
}
