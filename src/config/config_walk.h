/* A document of YAML that is walked along the table of keys: config_read.c, and config_read_list.c
   and config_read_columns.c for values that are lists. */
#ifndef RUNNEL_CONFIG_WALK_H
#define RUNNEL_CONFIG_WALK_H

#include "config_internal.h"
#include "config_yaml.h"

enum { WALK_SHOWN_MAX = 60 }; /* bytes of a wrong value that an error quotes */

/* One text being walked, into `reading`. */
struct walk {
    struct reading *reading;
    yaml_document_t document;
    const char *override; /* NULL: the file */
    bool all;             /* it is of all layers */
};

/* A sentence about `path`, at the mark. Returns -1, as those below. */
int walk_fail(const struct walk *walk, yaml_mark_t mark, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The node's value is not what the key allows. */
int walk_fail_value(const struct walk *walk, const yaml_node_t *node, const struct config_key *key,
                    const char *path);

/* The mapping has had that key: `first`. */
int walk_fail_twice(const struct walk *walk, yaml_mark_t mark, const char *path,
                    const yaml_node_t *first);

/* The key of that name in an earlier pair of the mapping, or NULL. */
const yaml_node_t *walk_earlier(struct walk *walk, const yaml_node_t *mapping,
                                const yaml_node_pair_t *pair, const char *name);

/* The value there, for an error. */
const char *walk_shown(const yaml_node_t *node, char text[CONFIG_TEXT_SIZE]);

/* The text of a scalar. */
static inline const char *walk_text(const yaml_node_t *node) {
    return (const char *)node->data.scalar.value;
}

/* Nothing, or a word for it. */
bool walk_is_null(const yaml_node_t *node);

static inline bool walk_is_plain(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* Take model.input.columns, model.output.columns: config_read_columns.c. */
int walk_columns(struct walk *walk, const yaml_node_t *node, const struct config_key *key);
int walk_column_names(struct walk *walk, const yaml_node_t *node, const struct config_key *key);

/* Take a tag, in the place of one of that name; nothing takes that one out. config_read_list.c */
int walk_tag(struct walk *walk, const yaml_node_t *node, const char *name, const char *path);

/* Take a list, the value of a key that has one, into the draft. */
int walk_list(struct walk *walk, const yaml_node_t *node, const struct config_key *key,
              const char *path);

#endif
