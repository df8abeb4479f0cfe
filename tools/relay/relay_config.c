#include "relay_config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <yaml.h>

#include "common/error.h"
#include "relay_options.h"

/* Keys of publish and the options that they are. */
static const struct {
    const char *key, *option;
    bool path, list;
} KEYS[] = {
    {"mqtt", "mqtt", false, false},
    {"redis", "redis", false, false},
    {"kafka", "kafka", false, false},
    {"nats", "nats", false, false},
    {"topic", "topic", false, false},
    {"messages", "publish", false, true},
    {"user", "user", false, false},
    {"password_file", "password-file", true, false},
    {"credentials", "credentials", true, false},
    {"cafile", "cafile", true, false},
    {"settings", "setting", false, true},
    {"keep", "keep", false, false},
    {"buffer", "buffer", false, false},
};
enum { KEYS_COUNT = sizeof KEYS / sizeof KEYS[0] };

struct relay_config {
    const char *path;
    yaml_document_t document;
    bool loaded;
    bool given[KEYS_COUNT];
    char *paths[KEYS_COUNT]; /* that stood relative to the file */
    char *endpoint;
};

static int fail(const struct relay_config *config, const yaml_node_t *node, struct error *error,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
static int fail(const struct relay_config *config, const yaml_node_t *node, struct error *error,
                const char *format, ...) {
    char text[ERROR_TEXT_SIZE];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return error_set(error, EX_CONFIG, "%s:%zu: %s", config->path,
                     node ? node->start_mark.line + 1 : 1, text);
}

static int load(struct relay_config *config, struct error *error) {
    yaml_parser_t parser;
    FILE *file = fopen(config->path, "re");
    if (!file)
        return error_set(error, EX_NOINPUT, "%s: cannot be opened: %s", config->path,
                         strerror(errno));
    if (!yaml_parser_initialize(&parser)) {
        fclose(file);
        return error_no_memory(error);
    }
    yaml_parser_set_input_file(&parser, file);
    config->loaded = yaml_parser_load(&parser, &config->document);
    if (!config->loaded)
        error_set(error, EX_CONFIG, "%s:%zu: is no YAML: %s", config->path,
                  parser.problem_mark.line + 1, parser.problem ? parser.problem : "");
    yaml_parser_delete(&parser);
    fclose(file);
    return config->loaded ? 0 : -1;
}

static const char *text_of(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

/* The value of the key, or NULL. */
static yaml_node_t *member(struct relay_config *config, const yaml_node_t *node, const char *key) {
    if (!node || node->type != YAML_MAPPING_NODE)
        return NULL;
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const char *name = text_of(yaml_document_get_node(&config->document, pair->key));
        if (name && strcmp(name, key) == 0)
            return yaml_document_get_node(&config->document, pair->value);
    }
    return NULL;
}

/* As the daemon has it: "~/" is the home directory, and a relative path begins where the file is.
   NULL: out of memory. */
static const char *whole_path(struct relay_config *config, size_t key, const char *text) {
    const char *slash = strrchr(config->path, '/'), *home = getenv("HOME");
    int size = 0;
    if (strncmp(text, "~/", 2) == 0 && home)
        size = asprintf(&config->paths[key], "%s%s", home, text + 1);
    else if (*text != '/' && slash)
        size = asprintf(&config->paths[key], "%.*s/%s", (int)(slash - config->path), config->path,
                        text);
    else
        return text;
    if (size < 0)
        config->paths[key] = NULL;
    return config->paths[key];
}

static int take_text(struct relay_config *config, size_t key, const yaml_node_t *node,
                     struct options *options, struct error *error) {
    const char *text = text_of(node);
    struct error reason;
    if (!text)
        return fail(config, node, error, "publish.%s: found no text and no number", KEYS[key].key);
    if (KEYS[key].path && !(text = whole_path(config, key, text)))
        return error_no_memory(error);
    if (option_set(relay_options, options, KEYS[key].option, text, &reason) == 0)
        return 0;
    return fail(config, node, error, "publish.%s: %s", KEYS[key].key, reason.text);
}

/* A value, or a list of them. */
static int take(struct relay_config *config, const char *name, yaml_node_t *node,
                struct options *options, struct error *error) {
    size_t key = 0;
    while (key < KEYS_COUNT && strcmp(KEYS[key].key, name) != 0)
        key++;
    if (key == KEYS_COUNT)
        return fail(config, node, error, "publish.%s: there is no such key; see runnel.yaml(5)",
                    name);
    if (config->given[key])
        return fail(config, node, error, "publish.%s: found twice", name);
    config->given[key] = true;
    if (node->type == YAML_SEQUENCE_NODE && !KEYS[key].list)
        return fail(config, node, error, "publish.%s: found a list; allowed is one value", name);
    if (node->type != YAML_SEQUENCE_NODE)
        return take_text(config, key, node, options, error);
    for (const yaml_node_item_t *item = node->data.sequence.items.start;
         item < node->data.sequence.items.top; item++)
        if (take_text(config, key, yaml_document_get_node(&config->document, *item), options,
                      error) < 0)
            return -1;
    return 0;
}

/* Where the daemon publishes: what it binds, on this machine. */
static int take_endpoint(struct relay_config *config, const yaml_node_t *root,
                         struct options *options, struct error *error) {
    static const char *const EVERYWHERE[] = {"tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:"};
    const yaml_node_t *statistics = member(config, root, "statistics");
    const char *endpoint = text_of(member(config, statistics, "bind"));
    if (member(config, statistics, "connect"))
        endpoint = ""; /* --connect has to say where that is bound */
    for (size_t n = 0; endpoint && n < sizeof EVERYWHERE / sizeof *EVERYWHERE; n++) {
        size_t size = strlen(EVERYWHERE[n]);
        if (strncmp(endpoint, EVERYWHERE[n], size) != 0)
            continue;
        if (asprintf(&config->endpoint, "tcp://127.0.0.1:%s", endpoint + size) < 0) {
            config->endpoint = NULL;
            return error_no_memory(error);
        }
        endpoint = config->endpoint;
    }
    if (endpoint)
        options->endpoint = endpoint;
    return 0;
}

int relay_config_open(struct relay_config **result, const char *path, struct options *options,
                      struct error *error) {
    struct relay_config *config = *result = calloc(1, sizeof *config);
    if (!config)
        return error_no_memory(error);
    config->path = path;
    if (load(config, error) < 0)
        return -1;
    yaml_node_t *root = yaml_document_get_root_node(&config->document);
    yaml_node_t *publish = member(config, root, "publish");
    if (!publish || publish->type != YAML_MAPPING_NODE)
        return fail(config, publish, error,
                    "there is no section publish, which says to which broker; see runnel.yaml(5)");
    for (const yaml_node_pair_t *pair = publish->data.mapping.pairs.start;
         pair < publish->data.mapping.pairs.top; pair++) {
        const char *name = text_of(yaml_document_get_node(&config->document, pair->key));
        if (take(config, name ? name : "", yaml_document_get_node(&config->document, pair->value),
                 options, error) < 0)
            return -1;
    }
    options->from_file = options->published_from_file = true;
    options->of_file = options->target;
    return take_endpoint(config, root, options, error);
}

void relay_config_close(struct relay_config **pointer) {
    struct relay_config *config = *pointer;
    if (!config)
        return;
    if (config->loaded)
        yaml_document_delete(&config->document);
    for (size_t key = 0; key < KEYS_COUNT; key++)
        free(config->paths[key]);
    free(config->endpoint);
    free(config);
    *pointer = NULL;
}
