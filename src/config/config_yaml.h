/* Texts in YAML: a document of libyaml's, its nodes, and sentences about a place in it. What a text
   may cost is bounded: a stranger may have sent it. */
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
    CONFIG_SHOWN_MAX = 60, /* bytes of a wrong value that an error quotes */
};

/* What is wrong with a text: where, and a sentence. */
struct yaml_problem {
    yaml_mark_t mark;
    char text[YAML_PROBLEM_SIZE];
};

/* Load the one document of a text; the caller deletes it. -1, and nothing to be deleted: it is not
   YAML, empty, has a second document, or is nested deeper than any configuration. */
int config_yaml_load(yaml_document_t *document, const char *text, size_t size,
                     struct yaml_problem *problem);

/* Where something stood. */
struct place {
    bool given;
    bool all;             /* by an override of all layers */
    const char *override; /* "learning.clip=1", or NULL: in the file, at */
    size_t line, column;  /* counted from 1 */
};

/* How errors begin. */
struct config_origin {
    const char *path; /* of the file */
    const char *verb; /* what an override is called: "--set" */
    bool member;      /* of one member: what members share is checked elsewhere */
    struct error *error;
};

/* One text being walked. */
struct walk {
    const struct config_origin *origin;
    yaml_document_t document;
    const char *override; /* NULL: the file */
    bool all;             /* it is of all layers */
};

/* Fail with "FILE:LINE:COLUMN: PATH: SENTENCE"; a place of NULL is not known. Returns -1. */
int config_fail_at(const struct config_origin *origin, const struct place *place, const char *path,
                   const char *format, va_list arguments);

struct place walk_place(const struct walk *walk, const yaml_node_t *node);

/* A sentence about `path`, at the node. Returns -1. */
int walk_fail(const struct walk *walk, const yaml_node_t *node, const char *path,
              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Load the text into walk->document, which the caller deletes. */
int walk_load(struct walk *walk, const char *text, size_t size);

/* The node that an item of a list, or a key or value of a mapping, names. */
static inline const yaml_node_t *walk_node(const struct walk *walk, int item) {
    return yaml_document_get_node((yaml_document_t *)&walk->document, item);
}

/* Fail if the mapping has the key of `pair` before it. */
int walk_once(const struct walk *walk, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
              const char *path);

/* The value there, for an error: `text`, or a word. */
const char *walk_shown(const yaml_node_t *node, char text[CONFIG_TEXT_SIZE]);

/* The text of a scalar. */
static inline const char *walk_text(const yaml_node_t *node) {
    return (const char *)node->data.scalar.value;
}

static inline bool walk_is_plain(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* What YAML calls null: nothing at all, "~" or "null". */
bool walk_is_null(const yaml_node_t *node);

/* Whether it is a scalar without a byte that is 0, and not null. */
static inline bool walk_has_text(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE && !walk_is_null(node) &&
           strlen(walk_text(node)) == node->data.scalar.length;
}

static inline size_t walk_items(const yaml_node_t *list) {
    return (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
}

#endif
