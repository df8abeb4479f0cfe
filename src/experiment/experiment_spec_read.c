/* The YAML of an experiment into a specification. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/text.h"
#include "config/config_yaml.h"
#include "experiment_memory.h"
#include "experiment_spec_reading.h"
#include "experiment_store.h"

enum {
    FILE_SIZE_MAX = 1 << 20,
    SEED_MAX = 1000000000,
    POINTS_MAX = 100000,
    POINTS = 200, /* of a curve, unless something else is said */
};
static const double RECENT = 0.1;

/* "dir/rates.yaml" is "rates"; what a name may not have becomes '_'. */
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

static int take_seeds(struct spec_reading *reading, const yaml_node_t *node) {
    struct experiment_spec *spec = reading->spec;
    int64_t count;
    if (node->type != YAML_SEQUENCE_NODE)
        return yaml_want_count(&reading->yaml, node, "seeds", 1, SPEC_SEEDS_MAX, &count) ||
                       spec_set_seeds(spec, (uint64_t)count, reading->yaml.error)
                   ? -1
                   : 0;
    spec->seed_count = yaml_items(node);
    spec->seeds = memory_take(&spec->memory, (spec->seed_count + 1) * sizeof *spec->seeds);
    if (!spec->seeds)
        return spec_no_memory(reading);
    if (spec->seed_count == 0 || spec->seed_count > SPEC_SEEDS_MAX)
        return yaml_fail(&reading->yaml, node, "seeds", "allowed are 1 to %d of them",
                         SPEC_SEEDS_MAX);
    for (size_t n = 0; n < spec->seed_count; n++) {
        const yaml_node_t *item = yaml_at(&reading->yaml, node->data.sequence.items.start[n]);
        if (yaml_want_count(&reading->yaml, item, "seeds", 0, SEED_MAX, &spec->seeds[n]))
            return -1;
        for (size_t b = 0; b < n; b++)
            if (spec->seeds[b] == spec->seeds[n])
                return yaml_fail(&reading->yaml, item, "seeds", "found %lld twice",
                                 (long long)spec->seeds[n]);
    }
    return 0;
}

static int take_measure(struct spec_reading *reading, const yaml_node_t *node) {
    const char *name;
    if (yaml_want_text(&reading->yaml, node, "report.measure", &name))
        return -1;
    reading->spec->measure = name;
    return experiment_measure_named(name) < EXPERIMENT_FIGURES
               ? 0
               : yaml_fail(&reading->yaml, node, "report.measure",
                           "found \"%.60s\"; allowed is mean, recent, skill, skill_recent, rmse, "
                           "mae, accuracy or bits",
                           name);
}

static int take_recent(struct spec_reading *reading, const yaml_node_t *node) {
    const char *text;
    char *end;
    if (yaml_want_text(&reading->yaml, node, "report.recent", &text))
        return -1;
    double recent = strtod(text, &end);
    reading->spec->recent = recent;
    return !*end && recent > 0 && recent <= 1
               ? 0
               : yaml_fail(&reading->yaml, node, "report.recent",
                           "found \"%.60s\"; allowed is a number greater than 0 and at most 1",
                           text);
}

static int take_kept(struct spec_reading *reading, const yaml_node_t *node) {
    static const char *const words[] = {"losses", "weights", "parameters"};
    bool list = node->type == YAML_SEQUENCE_NODE;
    for (size_t n = 0; n < (list ? yaml_items(node) : 1); n++) {
        const yaml_node_t *item =
            list ? yaml_at(&reading->yaml, node->data.sequence.items.start[n]) : node;
        const char *word;
        if (yaml_want_text(&reading->yaml, item, "report.keep", &word))
            return -1;
        size_t w = 0;
        while (w < sizeof words / sizeof *words && strcmp(words[w], word) != 0)
            w++;
        if (w == sizeof words / sizeof *words)
            return yaml_fail(&reading->yaml, item, "report.keep",
                             "found \"%.60s\"; allowed is losses, weights or parameters", word);
        reading->spec->keep |= 1u << w;
    }
    return 0;
}

static int take_report(struct spec_reading *reading, const yaml_node_t *node) {
    int64_t points;
    if (yaml_want_mapping(&reading->yaml, node, "report"))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(&reading->yaml, node, n, &key, &value);
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
            result =
                yaml_want_count(&reading->yaml, value, "report.points", 1, POINTS_MAX, &points);
            reading->spec->points = (uint64_t)points;
        } else
            result =
                yaml_fail_unknown(&reading->yaml, key, "report", "measure, recent, points, keep");
        if (result)
            return -1;
    }
    return 0;
}

/* ---- The file ---- */

static int take_root(struct spec_reading *reading, const yaml_node_t *root) {
    struct experiment_spec *spec = reading->spec;
    const yaml_node_t *grid = NULL, *list = NULL;
    if (yaml_want_mapping(&reading->yaml, root, ""))
        return -1;
    for (size_t n = 0; n < yaml_pairs(root); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(&reading->yaml, root, n, &key, &value);
        if (!name)
            return -1;
        int result = 0;
        if (!strcmp(name, "name"))
            result = yaml_want_text(&reading->yaml, value, "name", &spec->name) ||
                     spec_want_name(reading, value, "name", spec->name);
        else if (!strcmp(name, "base"))
            result = spec_take_base(reading, value, "base", &spec->base);
        else if (!strcmp(name, "set"))
            result = spec_take_settings(reading, value, "set", NULL, &spec->set);
        else if (!strcmp(name, "streams"))
            result = spec_take_streams(reading, value);
        else if (!strcmp(name, "grid"))
            grid = value;
        else if (!strcmp(name, "variants"))
            list = value;
        else if (!strcmp(name, "seeds"))
            result = take_seeds(reading, value);
        else if (!strcmp(name, "report"))
            result = take_report(reading, value);
        else
            result = yaml_fail_unknown(&reading->yaml, key, "",
                                       "name, base, set, streams, grid, variants, seeds, report");
        if (result)
            return -1;
    }
    if (!spec->streams || !spec->stream_count)
        return yaml_fail(&reading->yaml, root, "streams",
                         "missing; needed is what is learned, as in streams: {text: {feed: \"text "
                         "FILE\"}}");
    for (size_t n = 0; n < spec->stream_count; n++)
        if (!spec_base_of(spec, n)->path && !spec_base_of(spec, n)->text)
            return yaml_fail(&reading->yaml, root, "base",
                             "missing; needed is a configuration of runneld, or one in place");
    return spec_take_variants(reading, grid, list);
}

static int read_text(struct experiment_spec *spec, size_t *size, struct error *error) {
    FILE *file = fopen(spec->path, "rb");
    char *text = file ? memory_take(&spec->memory, FILE_SIZE_MAX + 1) : NULL;
    if (!file)
        return error_set(error, EX_NOINPUT, "%s: cannot open the experiment: %s", spec->path,
                         strerror(errno));
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
        return error_set(error, EX_CONFIG, "%s: longer than %d bytes; is it an experiment?",
                         spec->path, FILE_SIZE_MAX);
    if (strspn(text, " \t\n") == *size)
        return error_set(error, EX_CONFIG, "%s: empty; needed are at least base and streams",
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
    struct spec_reading reading = {
        .yaml = {.path = spec->path, .memory = &spec->memory, .error = error}, .spec = spec};
    if (config_yaml_load(&reading.yaml.document, spec->text, size, &problem))
        return error_set(error, EX_CONFIG, "%s:%zu:%zu: %s", path, problem.mark.line + 1,
                         problem.mark.column + 1, problem.text);
    int result = take_root(&reading, yaml_document_get_root_node(&reading.yaml.document));
    yaml_document_delete(&reading.yaml.document);
    return result;
}
