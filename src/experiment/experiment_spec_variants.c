/* The variants of an experiment: a list, a grid, or each of the list times the grid. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "experiment_memory.h"
#include "experiment_spec_reading.h"

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

static int take_axis(struct spec_reading *reading, const yaml_node_t *key, const char *name,
                     const yaml_node_t *node, struct axis *axis) {
    if (node->type != YAML_SEQUENCE_NODE || yaml_items(node) == 0)
        return yaml_fail(&reading->yaml, node, "grid",
                         "%s: allowed is a list of values, as in [1, 2]", name);
    axis->count = yaml_items(node);
    axis->values = memory_take(&reading->spec->memory, axis->count * sizeof *axis->values);
    if (!axis->values)
        return spec_no_memory(reading);
    for (size_t n = 0; n < axis->count; n++)
        if (spec_take_setting(reading, key, name,
                              yaml_at(&reading->yaml, node->data.sequence.items.start[n]), "grid",
                              &axis->values[n]))
            return -1;
    return 0;
}

static int take_grid(struct spec_reading *reading, const yaml_node_t *node, struct grid *grid) {
    if (yaml_want_mapping(&reading->yaml, node, "grid"))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(&reading->yaml, node, n, &key, &value);
        if (!name)
            return -1;
        if (grid->count == AXES_MAX)
            return yaml_fail(&reading->yaml, key, "grid", "allowed are at most %d keys", AXES_MAX);
        struct axis *axis = &grid->axes[grid->count++];
        if (take_axis(reading, key, name, value, axis))
            return -1;
        grid->all *= axis->count;
        if (grid->all > SPEC_VARIANTS_MAX)
            return yaml_fail(&reading->yaml, node, "grid", "allowed are at most %d combinations",
                             SPEC_VARIANTS_MAX);
    }
    return 0;
}

/* One of the list `variants`. */
struct listed {
    const char *name; /* NULL: none */
    struct spec_settings set;
    const yaml_node_t *node;
};

static int take_listed(struct spec_reading *reading, const yaml_node_t *node, size_t place,
                       struct listed *listed) {
    char of[64];
    listed->node = node;
    snprintf(of, sizeof of, "variants, number %zu", place + 1);
    if (yaml_want_mapping(&reading->yaml, node, of))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(&reading->yaml, node, n, &key, &value);
        if (!name || (!strcmp(name, "name") &&
                      yaml_want_text(&reading->yaml, value, "variants.name", &listed->name)))
            return -1;
    }
    if (listed->name)
        snprintf(of, sizeof of, "variant \"%.40s\"", listed->name);
    return spec_take_settings(reading, node, of, "name", &listed->set);
}

static int take_list(struct spec_reading *reading, const yaml_node_t *node, struct listed **list,
                     size_t *count) {
    if (node->type != YAML_SEQUENCE_NODE || yaml_items(node) == 0)
        return yaml_fail(&reading->yaml, node, "variants",
                         "allowed is a list of mappings, as in [{name: small, size: 32}]");
    *count = yaml_items(node);
    *list = memory_take(&reading->spec->memory, *count * sizeof **list);
    if (!*list)
        return spec_no_memory(reading);
    for (size_t n = 0; n < *count; n++)
        if (take_listed(reading, yaml_at(&reading->yaml, node->data.sequence.items.start[n]), n,
                        &(*list)[n]))
            return -1;
    return 0;
}

/* "rate 1e-4, norm layer", after the name that is there. */
static const char *name_of(struct spec_reading *reading, const char *name, size_t named,
                           const struct spec_settings *set) {
    for (size_t n = named; n < set->count; n++)
        name =
            memory_print(&reading->spec->memory, "%s%s%s%s%s", name ? name : "", name ? ", " : "",
                         set->rows[n].brief, *set->rows[n].value ? " " : "", set->rows[n].value);
    return name ? name : "base";
}

static int check_variant(struct spec_reading *reading, const struct spec_variant *variant) {
    const struct experiment_spec *spec = reading->spec;
    const char *path = reading->yaml.path;
    if (!variant->name)
        return spec_no_memory(reading);
    for (const struct spec_variant *other = spec->variants; other < variant; other++)
        if (!strcmp(other->name, variant->name))
            return error_set(reading->yaml.error, EX_CONFIG,
                             "%s: two variants are called \"%s\": give them names of their own",
                             path, variant->name);
    for (size_t a = 1; a < variant->set.count; a++)
        for (size_t b = 0; b < a; b++)
            if (!strcmp(variant->set.rows[a].key, variant->set.rows[b].key))
                return error_set(reading->yaml.error, EX_CONFIG,
                                 "%s:%zu: variant \"%s\" sets %s twice, first in line %zu", path,
                                 variant->set.rows[a].line, variant->name, variant->set.rows[a].key,
                                 variant->set.rows[b].line);
    return 0;
}

/* One of the list, with combination `number` of the grid: the last key changes fastest. */
static int combine(struct spec_reading *reading, const struct listed *listed,
                   const struct grid *grid, size_t number, struct spec_variant *variant) {
    size_t own = listed->set.count;
    variant->set.rows =
        memory_take(&reading->spec->memory, (own + grid->count + 1) * sizeof *variant->set.rows);
    if (!variant->set.rows)
        return spec_no_memory(reading);
    if (own)
        memcpy(variant->set.rows, listed->set.rows, own * sizeof *variant->set.rows);
    variant->set.count = own + grid->count;
    for (size_t a = grid->count; a-- > 0; number /= grid->axes[a].count)
        variant->set.rows[own + a] = grid->axes[a].values[number % grid->axes[a].count];
    variant->name = name_of(reading, listed->name, listed->name ? own : 0, &variant->set);
    return check_variant(reading, variant);
}

static int make_variants(struct spec_reading *reading, const struct listed *list, size_t listed,
                         const struct grid *grid) {
    struct experiment_spec *spec = reading->spec;
    static const struct listed none;
    size_t lists = list ? listed : 1, all = lists * grid->all;
    if (all > SPEC_VARIANTS_MAX)
        return error_set(reading->yaml.error, EX_CONFIG,
                         "%s: variants: found %zu with the grid; allowed are at most %d",
                         reading->yaml.path, all, SPEC_VARIANTS_MAX);
    spec->variants = memory_take(&spec->memory, all * sizeof *spec->variants);
    if (!spec->variants)
        return spec_no_memory(reading);
    for (size_t n = 0; n < lists; n++)
        for (size_t c = 0; c < grid->all; c++)
            if (combine(reading, list ? &list[n] : &none, grid, c,
                        &spec->variants[spec->variant_count++]))
                return -1;
    return 0;
}

int spec_take_variants(struct spec_reading *reading, const yaml_node_t *grid,
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
