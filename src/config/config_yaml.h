/* Texts in YAML: a document of libyaml, its nodes, and errors with positions. The cost of a text
   is limited, because its author may be unknown. */
#ifndef RUNNEL_CONFIG_YAML_H
#define RUNNEL_CONFIG_YAML_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <yaml.h>

enum {
    YAML_PROBLEM_SIZE = 512,
    CONFIG_TEXT_SIZE = 256,
    CONFIG_SHOWN_MAX = 60, /* bytes of an invalid value in an error */
};

/* An error in a text: its position, and a sentence. */
struct yaml_problem {
    yaml_mark_t mark;
    char text[YAML_PROBLEM_SIZE];
};

/* Load the only document of a text; the caller deletes it. -1 without a document: the text is
   not YAML, is empty, has a second document, or is nested too deeply. */
int config_yaml_load(yaml_document_t *document, const char *text, size_t size,
                     struct yaml_problem *problem);

/* The position of a value. */
struct place {
    bool given;
    bool all;             /* set by an override of all layers */
    const char *override; /* "learning.clip=1"; NULL: from the file */
    size_t line, column;  /* counted from 1 */
};

/* The beginning of errors. */
struct config_origin {
    const char *path; /* path of the file */
    const char *verb; /* name of an override: "--set" */
    bool member;      /* one member: common values are checked elsewhere */
    /* A part is read as if it stood at `from` in a configuration of its own: errors name `to`
       instead. NULL: as it stands. */
    const char *from, *to;
    struct error *error;
};

/* One text while it is processed. */
struct walk {
    const struct config_origin *origin;
    yaml_document_t document;
    const char *override; /* NULL: the file */
    bool all;             /* applies to all layers */
};

/* Fail with "FILE:LINE:COLUMN: PATH: SENTENCE"; `place` NULL: unknown position. Returns -1. */
int config_fail_at(const struct config_origin *origin, const struct place *place, const char *path,
                   const char *format, va_list arguments);

/* Copy the text with the paths of the origin, truncated. Returns `to`. */
const char *config_rename(const struct config_origin *origin, const char *text, char *to,
                          size_t size);

struct place walk_place(const struct walk *walk, const yaml_node_t *node);

/* Fail with a sentence about `path` at the node. Returns -1. */
int walk_fail(const struct walk *walk, const yaml_node_t *node, const char *path,
              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Load the text into walk->document, which the caller deletes. */
int walk_load(struct walk *walk, const char *text, size_t size);

/* The node of a list's item, or of a mapping's key or value. */
static inline const yaml_node_t *walk_node(const struct walk *walk, int item) {
    return yaml_document_get_node((yaml_document_t *)&walk->document, item);
}

/* Fail if an earlier pair of the mapping has the same key. */
int walk_once(const struct walk *walk, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
              const char *path);

/* The value for an error: `text`, or a word. */
const char *walk_shown(const yaml_node_t *node, char text[CONFIG_TEXT_SIZE]);

/* The text of a scalar. */
static inline const char *walk_text(const yaml_node_t *node) {
    return (const char *)node->data.scalar.value;
}

static inline bool walk_is_plain(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* Whether the node is null in YAML: empty, "~" or "null". */
bool walk_is_null(const yaml_node_t *node);

/* Whether the node is a scalar without zero bytes, and not null. */
static inline bool walk_has_text(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE && !walk_is_null(node) &&
           strlen(walk_text(node)) == node->data.scalar.length;
}

static inline size_t walk_items(const yaml_node_t *list) {
    return (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
}

#endif
