/* Keys with values, bases and names in an experiment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "config/config.h"
#include "experiment_memory.h"
#include "experiment_spec_reading.h"

int spec_no_memory(const struct spec_reading *reading) {
    return error_no_memory(reading->yaml.error);
}

char *spec_keep(const struct spec_reading *reading, const char *text) {
    char *copy = memory_copy(&reading->spec->memory, text);
    if (!copy)
        spec_no_memory(reading);
    return copy;
}

/* A name of a file in the YAML is looked for from the YAML's directory. */
static const char *relative_to(const struct spec_reading *reading, const char *path) {
    const char *copy = *path == '/' ? memory_copy(&reading->spec->memory, path)
                                    : memory_print(&reading->spec->memory, "%s/%s",
                                                   reading->spec->directory, path);
    if (!copy)
        spec_no_memory(reading);
    return copy;
}

/* ---- Settings ---- */

/* A value that names a file, as a path that does not depend on where the command is called. */
static const char *value_of(struct spec_reading *reading, const char *path,
                            const yaml_node_t *value) {
    static const char initial[] = "model.initial";
    bool file = !strcmp(path, initial) && value->type == YAML_SCALAR_NODE;
    const char *name = file ? (const char *)value->data.scalar.value : "";
    return *name && *name != '~' ? relative_to(reading, name) : yaml_line(&reading->yaml, value);
}

int spec_take_setting(struct spec_reading *reading, const yaml_node_t *key, const char *name,
                      const yaml_node_t *value, const char *of, struct spec_setting *setting) {
    char path[CONFIG_KEY_NAME_SIZE];
    struct error *error = reading->yaml.error;
    if (config_key_meant(name, path, error))
        return error_prefix(error, "%s:%zu:%zu: %s", reading->yaml.path, key->start_mark.line + 1,
                            key->start_mark.column + 1, of);
    *setting = (struct spec_setting){.brief = spec_keep(reading, name),
                                     .key = spec_keep(reading, path),
                                     .value = value_of(reading, path, value),
                                     .line = key->start_mark.line + 1};
    return setting->brief && setting->key && setting->value ? 0 : -1;
}

/* All pairs of a mapping but that of the key `without`. */
int spec_take_settings(struct spec_reading *reading, const yaml_node_t *node, const char *of,
                       const char *without, struct spec_settings *settings) {
    if (yaml_want_mapping(&reading->yaml, node, of))
        return -1;
    settings->rows =
        memory_take(&reading->spec->memory, (yaml_pairs(node) + 1) * sizeof *settings->rows);
    if (!settings->rows)
        return spec_no_memory(reading);
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(&reading->yaml, node, n, &key, &value);
        if (!name)
            return -1;
        if (without && !strcmp(name, without))
            continue;
        if (spec_take_setting(reading, key, name, value, of, &settings->rows[settings->count++]))
            return -1;
    }
    return 0;
}

/* ---- Bases ---- */

/* A mapping in place, with a key a line. */
static int take_base_text(struct spec_reading *reading, const yaml_node_t *node,
                          struct spec_base *base) {
    base->text = "";
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(&reading->yaml, node, n, &key, &value);
        const char *line = name ? yaml_line(&reading->yaml, value) : NULL;
        if (!line)
            return -1;
        base->named |= !strcmp(name, "name");
        base->text = memory_print(&reading->spec->memory, "%s%s: %s\n", base->text, name, line);
        if (!base->text)
            return spec_no_memory(reading);
    }
    return 0;
}

int spec_take_base(struct spec_reading *reading, const yaml_node_t *node, const char *key,
                   struct spec_base *base) {
    const char *path;
    if (node->type == YAML_MAPPING_NODE)
        return take_base_text(reading, node, base);
    if (yaml_want_text(&reading->yaml, node, key, &path))
        return -1;
    base->path = relative_to(reading, path);
    return base->path ? 0 : -1;
}

/* ---- Names ---- */

/* What a name of a file has: letters, digits, '-', '_' and '.', which is not the first. */
static const char allowed_in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789-_.";

static bool is_file_name(const char *name) {
    return *name && *name != '.' && strlen(name) <= SPEC_NAME_MAX &&
           strspn(name, allowed_in_names) == strlen(name);
}

int spec_want_name(struct spec_reading *reading, const yaml_node_t *node, const char *key,
                   const char *name) {
    return is_file_name(name)
               ? 0
               : yaml_fail(
                     &reading->yaml, node, key,
                     "found \"%.60s\"; allowed are a to z, A to Z, digits, '-', '_' and '.', at "
                     "most %d and none '.' at first",
                     name, SPEC_NAME_MAX);
}
