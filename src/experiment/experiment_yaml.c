#include "experiment_yaml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#include "common/error.h"
#include "experiment_memory.h"

enum { SHOWN_MAX = 60 }; /* bytes of a wrong value that an error quotes */

int yaml_fail(const struct yaml_reading *reading, const yaml_node_t *node, const char *key,
              const char *format, ...) {
    char sentence[ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return error_set(reading->error, EX_CONFIG, "%s:%zu:%zu: %s%s%s", reading->path,
                     node->start_mark.line + 1, node->start_mark.column + 1, key, *key ? ": " : "",
                     sentence);
}

int yaml_fail_unknown(const struct yaml_reading *reading, const yaml_node_t *key, const char *in,
                      const char *allowed) {
    return yaml_fail(reading, key, in, "unknown key \"%.*s\"; allowed %s: %s", SHOWN_MAX,
                     (const char *)key->data.scalar.value, *in ? "there" : "here", allowed);
}

static const char *scalar(const yaml_node_t *node) {
    bool text = node->type == YAML_SCALAR_NODE;
    return text && strlen((char *)node->data.scalar.value) == node->data.scalar.length
               ? (const char *)node->data.scalar.value
               : NULL;
}

const char *yaml_pair(struct yaml_reading *reading, const yaml_node_t *mapping, size_t n,
                      yaml_node_t **key, yaml_node_t **value) {
    const yaml_node_pair_t *pair = &mapping->data.mapping.pairs.start[n];
    *key = yaml_at(reading, pair->key);
    *value = yaml_at(reading, pair->value);
    const char *name = scalar(*key);
    if (!name || !*name) {
        yaml_fail(reading, *key, "", "found no text where a key is allowed");
        return NULL;
    }
    for (size_t before = 0; before < n; before++) {
        const yaml_node_t *other = yaml_at(reading, mapping->data.mapping.pairs.start[before].key);
        if (scalar(other) && !strcmp(scalar(other), name)) {
            yaml_fail(reading, *key, name, "found twice, first in line %zu; once is allowed",
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

int yaml_want_mapping(const struct yaml_reading *reading, const yaml_node_t *node,
                      const char *key) {
    return node->type == YAML_MAPPING_NODE
               ? 0
               : yaml_fail(reading, node, key, "found %s; allowed is a mapping, as in {a: 1}",
                           kind_of(node) ? kind_of(node) : "a text");
}

int yaml_want_text(const struct yaml_reading *reading, const yaml_node_t *node, const char *key,
                   const char **text) {
    const char *found = scalar(node);
    if (!found || !*found)
        return yaml_fail(reading, node, key, "found %s; allowed is a text",
                         kind_of(node) ? kind_of(node) : "nothing");
    *text = memory_copy(reading->memory, found);
    return *text ? 0 : error_no_memory(reading->error);
}

int yaml_want_count(const struct yaml_reading *reading, const yaml_node_t *node, const char *key,
                    int64_t least, int64_t most, int64_t *count) {
    const char *found = scalar(node);
    char *end = NULL;
    errno = 0;
    *count = found ? strtoll(found, &end, 10) : 0;
    if (!found || end == found || *end || errno || *count < least || *count > most)
        return yaml_fail(reading, node, key,
                         "found %s%.*s%s; allowed is a whole number from %lld to %lld",
                         found ? "\"" : "", SHOWN_MAX, found ? found : kind_of(node),
                         found ? "\"" : "", (long long)least, (long long)most);
    return 0;
}

/* ---- One line ---- */

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

/* A word that is a text without quotes, too: it is easier to read. */
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

static int print(struct yaml_reading *reading, FILE *out, const yaml_node_t *node, bool inside) {
    static const char special[] = ",[]{}:#&*!|>'\"%@`";
    const char *text = scalar(node);
    if (node->type == YAML_SCALAR_NODE && !text)
        return yaml_fail(reading, node, "", "found a text with a zero byte");
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
        if (list && print(reading, out, yaml_at(reading, node->data.sequence.items.start[n]), true))
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

char *yaml_line(struct yaml_reading *reading, const yaml_node_t *node) {
    char *text = NULL, *copy = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    int result = out ? print(reading, out, node, false) : -1;
    bool written = out && fclose(out) == 0;
    if (result == 0 && written)
        copy = memory_copy(reading->memory, text);
    if (!copy && (!out || result == 0))
        error_no_memory(reading->error);
    free(text);
    return copy;
}
