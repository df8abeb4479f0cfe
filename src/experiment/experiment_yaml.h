/* The YAML of an experiment, for the files that read it: nodes of libyaml's document, and errors
   that name file, line and key. */
#ifndef RUNNEL_EXPERIMENT_YAML_H
#define RUNNEL_EXPERIMENT_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

struct error;

struct yaml_reading {
    const char *path; /* of the file */
    yaml_document_t document;
    void **memory; /* of texts */
    struct error *error;
};

/* "FILE:LINE:COLUMN: KEY: SENTENCE", EX_CONFIG; returns -1. */
int yaml_fail(const struct yaml_reading *reading, const yaml_node_t *node, const char *key,
              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* A key that is none of `allowed`, "a, b or c". */
int yaml_fail_unknown(const struct yaml_reading *reading, const yaml_node_t *key, const char *in,
                      const char *allowed);

static inline yaml_node_t *yaml_at(struct yaml_reading *reading, int index) {
    return yaml_document_get_node(&reading->document, index);
}
static inline size_t yaml_pairs(const yaml_node_t *node) {
    return (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
}
static inline size_t yaml_items(const yaml_node_t *node) {
    return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

/* Pair n of a mapping: a key that is a text, NULL after yaml_fail, and its value. */
const char *yaml_pair(struct yaml_reading *reading, const yaml_node_t *mapping, size_t n,
                      yaml_node_t **key, yaml_node_t **value);

/* The node is such a thing; else yaml_fail. */
int yaml_want_mapping(const struct yaml_reading *reading, const yaml_node_t *node, const char *key);
int yaml_want_text(const struct yaml_reading *reading, const yaml_node_t *node, const char *key,
                   const char **text);
int yaml_want_count(const struct yaml_reading *reading, const yaml_node_t *node, const char *key,
                    int64_t least, int64_t most, int64_t *count);

/* The node as YAML in one line; NULL after yaml_fail. */
char *yaml_line(struct yaml_reading *reading, const yaml_node_t *node);

#endif
