/* For the files that read an experiment's YAML alone: experiment_spec_read.c (the file),
   experiment_spec_settings.c (keys with values, bases, names), experiment_spec_streams.c,
   experiment_spec_variants.c. */
#ifndef RUNNEL_EXPERIMENT_SPEC_READING_H
#define RUNNEL_EXPERIMENT_SPEC_READING_H

#include "experiment_spec.h"
#include "experiment_yaml.h"

struct spec_reading {
    struct yaml_reading yaml;
    struct experiment_spec *spec;
};

/* All return 0, or -1 with the error of `yaml`. */
int spec_no_memory(const struct spec_reading *reading);

/* A copy; NULL: out of memory. */
char *spec_keep(const struct spec_reading *reading, const char *text);

/* A key and its value; `of` says in errors what they belong to. */
int spec_take_setting(struct spec_reading *reading, const yaml_node_t *key, const char *name,
                      const yaml_node_t *value, const char *of, struct spec_setting *setting);

/* All pairs of a mapping but that of the key `without`, which may be NULL. */
int spec_take_settings(struct spec_reading *reading, const yaml_node_t *node, const char *of,
                       const char *without, struct spec_settings *settings);

/* A path, or a configuration in place. */
int spec_take_base(struct spec_reading *reading, const yaml_node_t *node, const char *key,
                   struct spec_base *base);

/* Whether the name can be that of a file. */
int spec_want_name(struct spec_reading *reading, const yaml_node_t *node, const char *key,
                   const char *name);

int spec_take_streams(struct spec_reading *reading, const yaml_node_t *node);

/* The grid, and the list of variants, either NULL: what they make. */
int spec_take_variants(struct spec_reading *reading, const yaml_node_t *grid,
                       const yaml_node_t *list);

#endif
