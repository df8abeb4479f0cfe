/* The resolved configuration: every key that applies, including defaults, as YAML that gives the
   same configuration again, or as an object of JSON from paths to values. */
#include <errno.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "config_keys.h"

/* Keys below this path are printed as a list for members. */
static const char layers_path[] = "model.layers";

struct config_printer {
    struct config_text to;
    /* configured values: differences get a comment; may be NULL */
    const struct config *configured;
    char last[CONFIG_KEY_SIZE]; /* path of the previous key, "" before the first */
    struct config *own;         /* (2,) room for a member's current and configured values */
};

/* ---- Selected keys ---- */

/* Whether the key is omitted: keys that follow from columns and vocabularies, and keys of an
   unused broker. The first matching row decides. */
static bool is_left_out(const struct config_key *key, const struct config *config) {
    const struct input *input = &config->architecture.input;
    const struct output *output = &config->architecture.output;
    const struct publish_config *publish = &config->publish;
    const struct consume_config *consume = &config->consume;
    const bool columns = input->column_count, words = input->vocabulary.capacity || input->hash;
    const struct {
        const char *section;
        bool left_out;
    } rows[] = {
        {"model.input.kind", columns},
        {"model.input.size", columns || words},
        {"model.input.embedding", columns},
        {"model.input.vocabulary", columns},
        {"model.input.sequence", !input_is_message(input)},
        {"model.input.time_zone", !(input->time & ~(1U << TIME_GAP))},
        {"model.output.size", *output->name || output->vocabulary.capacity},
        {"model.output.sequence", *output->name || !output_is_message(output)},
        {"model.output.weight", true},
        {"model.output", *output->name},
        {"examples.redis", !*consume->redis.stream},
        {"examples.kafka", !*consume->kafka.topic},
        {"examples.json",
         !consume->json.field.count && !*consume->json.key_field && !*consume->json.time_field},
        {"fleet", config->fleet.lease <= 0},
        {"examples", config_consumes(config)},
        {"publish.keep", !*publish->redis},
        {"publish", !*publish->mqtt && !*publish->redis && !*publish->kafka && !*publish->nats},
    };
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (config_path_below(key->path, rows[n].section))
            return rows[n].left_out;
    return false;
}

/* No value, or an empty list in an optional section. */
static bool is_empty(const struct config_key *key, const struct config *config) {
    char text[sizeof CONFIG_EMPTY_SET + 1];
    config_value_print(key, 0, config, text, sizeof text);
    return !*text || (key->flags & KEY_RELOAD && !strcmp(text, CONFIG_EMPTY_SET));
}

static bool is_printed(const struct config_key *key, size_t layer, const struct config *config) {
    return key->type != &value_connect && config_key_counts(key, layer, config) &&
           !is_left_out(key, config) && !is_empty(key, config);
}

/* ---- Members ---- */

static bool may_differ(const struct config_key *key) {
    return !strcmp(key->path, "seed") || config_path_below(key->path, layers_path) ||
           config_path_below(key->path, "model.output") || config_path_below(key->path, "learning");
}

/* "[{cell: gru, size: 8}, {cell: gru, size: 4}]" */
static void print_layers(struct config_text *to, const struct config *own) {
    char *text = NULL;
    size_t size = 0;
    struct config_text inner = {.out = open_memstream(&text, &size)};
    if (!inner.out)
        return;
    config_write_layers(&inner, own);
    fclose(inner.out);
    if (text)
        config_add_text(to, text);
    free(text);
}

/* Add a comment if a value was changed while running. */
static void print_difference(struct config_text *to, const struct config_key *key, size_t layer,
                             const struct config *config, const struct config *configured) {
    if (to->json || !configured || !(key->flags & KEY_IN_FLIGHT) ||
        config_value_same(key, layer, config, configured))
        return;
    config_add(to, "  # set while running; configured: ");
    config_value_write(to, key, layer, configured);
}

/* Begin a key that the member sets. */
static void begin_set(struct config_text *to, const char *path, size_t *count) {
    if (to->json)
        config_add(to, "%s\"%s\": ", *count ? ", " : ", \"set\": {", path);
    else
        config_add(to, "%s\n      %s: ", *count ? "" : "\n    set:", path);
    ++*count;
}

/* Print the values of a member that differ from the rest of the configuration. */
static void print_sets(struct config_text *to, const struct config *config,
                       const struct config *own, const struct config *file) {
    size_t count = 0, layers = own->architecture.layer_count;
    bool other = config->architecture.layer_count != layers;
    for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++) {
        bool layered = config_key_layered(key);
        if (!may_differ(key) || (other && layered))
            continue;
        for (size_t n = 0; n < (layered ? layers : 1); n++) {
            char path[CONFIG_KEY_SIZE];
            bool here = is_printed(key, n, own), there = is_printed(key, n, config);
            if (here == there && (!here || config_value_same(key, n, config, own)))
                continue;
            config_key_path(key, n, path);
            begin_set(to, path, &count);
            if (here)
                config_value_write(to, key, n, own);
            else
                config_add(to, "null");
            print_difference(to, key, n, own, here ? file : NULL);
        }
    }
    if (other) {
        begin_set(to, layers_path, &count);
        print_layers(to, own);
    }
    config_add(to, to->json && count ? "}" : "");
}

static void print_members(struct config_printer *printer, const struct config *config) {
    const struct config *configured = printer->configured;
    struct config_text *to = &printer->to;
    for (size_t n = 0; n < config->member_count; n++) {
        config_add(to, to->json ? n ? ", {\"name\": " : "{\"name\": " : "\n  - name: ");
        config_add_text(to, config->members[n].name);
        config_member(config, n, &printer->own[0]);
        if (configured)
            config_member(configured, n, &printer->own[1]);
        print_sets(to, config, &printer->own[0], configured ? &printer->own[1] : NULL);
        config_add(to, to->json ? "}" : "");
    }
}

/* ---- The whole configuration ---- */

/* Begin the sections of `path` that the previous key was not in, and the indentation. */
static void begin_line(struct config_text *to, const char *path, const char *last) {
    const char *at = path;
    int depth = 0;
    bool fresh = false, item = false;
    for (const char *dot; (dot = strchr(at, '.')); at = dot + 1, depth += 2) {
        bool number = *at >= '0' && *at <= '9';
        fresh |= strncmp(last, path, (size_t)(dot + 1 - path)) != 0;
        if (fresh && !number)
            config_add(to, "%*s%.*s:\n", depth, "", (int)(dot - at), at);
        item = fresh && number;
    }
    config_add(to, item ? "%*s- %s:" : "%*s%s:", item ? depth - 2 : depth, "", at);
}

static void print_key(struct config_printer *printer, const struct config_key *key, size_t layer,
                      const struct config *config) {
    struct config_text *to = &printer->to;
    char path[CONFIG_KEY_SIZE];
    /* Omit it with the preset, because a machine with too little memory may disable it. */
    if (!to->json && config->anomaly.by_preset && !strcmp(key->path, "anomaly.enabled"))
        return;
    config_key_written(key, layer, config, path);
    if (to->json)
        config_add(to, "%s\"%s\":", *printer->last ? ", " : "", path);
    else
        begin_line(to, path, printer->last);
    strcpy(printer->last, path);
    if (key->type == &value_members) {
        bool flow = to->json || !config->member_count;
        config_add(to, flow ? " [" : "");
        print_members(printer, config);
        config_add(to, flow ? "]" : "");
    } else {
        config_add(to, " ");
        config_value_write(to, key, layer, config);
        print_difference(to, key, layer, config, printer->configured);
    }
    config_add(to, to->json ? "" : "\n");
}

static int end(FILE *out, struct error *error) {
    return ferror(out)
               ? error_set(error, EX_IOERR, "cannot write the configuration: %s", strerror(errno))
               : 0;
}

static int print(struct config_printer *printer, const struct config *config, struct error *error) {
    char directory[CONFIG_PATH_SIZE];
    printer->own = malloc(2 * sizeof *printer->own);
    if (!printer->own)
        return error_no_memory(error);
    printer->to.directory = getcwd(directory, sizeof directory);
    printer->own[0] = printer->own[1] = *config;
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        size_t count = config_key_layered(key) ? config->architecture.layer_count : 1;
        size_t last = k;
        if (config_key_layered(key)) /* layer by layer, not key by key */
            while (last + 1 < config_key_count && config_key_layered(&config_keys[last + 1]))
                last++;
        for (size_t n = 0; n < count; n++)
            for (size_t row = k; row <= last; row++)
                if (is_printed(&config_keys[row], n, config))
                    print_key(printer, &config_keys[row], n, config);
        k = last;
    }
    free(printer->own);
    return end(printer->to.out, error);
}

int config_print_tags(FILE *out, const struct config *config, struct error *error) {
    struct config_text printer = {.out = out, .json = true};
    const struct config_key *key;
    config_path_kind("tags", &key, NULL);
    config_value_write(&printer, key, 0, config);
    return end(out, error);
}

int config_print(FILE *out, const struct config *config, const struct config *configured,
                 struct error *error) {
    struct config_printer printer = {.to = {.out = out}, .configured = configured};
    return print(&printer, config, error);
}

int config_print_json(FILE *out, const struct config *config, struct error *error) {
    struct config_printer printer = {.to = {.out = out, .json = true}};
    fputc('{', out);
    int result = print(&printer, config, error);
    fputc('}', out);
    return result;
}
