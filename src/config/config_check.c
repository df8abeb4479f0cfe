/* Defaults, and the rules between keys. */
#include "config_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/address.h"

static const size_t PARAMETERS_MAX = INT32_MAX;

static const char *word_of(const struct draft *draft, const char *path, size_t layer,
                           char word[CONFIG_TEXT_SIZE]) {
    for (size_t k = 0; k < config_key_count; k++)
        if (!strcmp(config_keys[k].path, path))
            config_value_print(&config_keys[k], layer, draft, word, CONFIG_TEXT_SIZE);
    return word;
}

bool config_key_counts(const struct config_key *key, size_t layer, const struct draft *draft) {
    char word[CONFIG_TEXT_SIZE];
    return !key->when ||
           config_words_contain(key->is, word_of(draft, key->when, layer, word), NULL);
}

/* Whether the key was given for all layers, and counts in another: then it is none of this one. */
static bool is_of_others(const struct reading *reading, const struct config_key *key,
                         size_t layer) {
    if (!reading->places[key - config_keys][layer].all)
        return false;
    for (size_t n = 0; n < reading->draft.config.architecture.layer_count; n++)
        if (config_key_counts(key, n, &reading->draft))
            return true;
    return false;
}

/* A key is given where it counts, and there when it is required; else it takes its default. */
static int check_presence(struct reading *reading, const struct config_key *key, size_t layer) {
    char path[CONFIG_KEY_SIZE], word[CONFIG_TEXT_SIZE], text[CONFIG_TEXT_SIZE];
    char worked_out[CONFIG_TEXT_SIZE];
    bool given =
        reading->places[key - config_keys][layer].given || config_columns_say(reading, key->path);
    bool counts = config_key_counts(key, layer, &reading->draft);
    if (given && !counts && is_of_others(reading, key, layer))
        given = reading->places[key - config_keys][layer].given = false;
    const char *preset = given || !counts ? NULL : config_preset_value(reading, key);
    if (!given && counts && !preset &&
        (config_target_value(reading, key, worked_out) ||
         config_words_value(reading, key, worked_out)))
        preset = worked_out;
    config_key_path(key, layer, path);
    if (given && !counts) {
        word_of(&reading->draft, key->when, layer, word);
        config_words_list(key->is, text, sizeof text);
        return config_fail(reading, path, "found with %s: %s; it is allowed only with %s: %s",
                           strrchr(key->when, '.') + 1,
                           word_of(&reading->draft, key->when, layer, word),
                           strrchr(key->when, '.') + 1, text);
    }
    if (!given && !preset && counts && key->flags & KEY_REQUIRED) {
        config_value_expected(key, text, sizeof text);
        return config_fail(reading, path, "missing; needed is %s (%s)", text, key->what);
    }
    if (preset)
        config_value_store(key, layer, preset, false, &reading->draft);
    else if (!given)
        config_value_default(key, layer, &reading->draft);
    return 0;
}

/* In the table's order: what decides whether a key counts comes before the key. */
static int check_keys(struct reading *reading) {
    config_preset_layers(reading);
    if (config_begin_columns(reading) != 0)
        return -1;
    size_t layers = reading->draft.config.architecture.layer_count;
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        if (config_key_layered(key) && layers == 0)
            return config_fail(reading, "model.layers",
                               "missing; needed is a list of 1 to %d layers", MODEL_LAYERS_MAX);
        for (size_t n = 0; n < (config_key_layered(key) ? layers : 1); n++)
            if (check_presence(reading, key, n) != 0)
                return -1;
    }
    return 0;
}

static int check_output_size(struct reading *reading) {
    static const char path[] = "model.output.size";
    struct output *output = &reading->draft.config.architecture.output;
    const struct loss_kind *kind = loss_kind(output->loss);
    bool given = config_place(reading, path)->given;
    if (!given && kind->size)
        output->size = kind->size;
    else if (output->column_count && (output->target == TARGET_NEXT || !kind->class_id))
        return 0; /* config_check_columns */
    else if (!given && config_words_classes(reading))
        output->size = config_words_classes(reading);
    else if (!given && (reading->draft.config.preset ||
                        reading->draft.config.architecture.input.scale == SCALE_FORECAST))
        output->size = reading->draft.config.architecture.input.size;
    else if (!given)
        return config_fail(reading, path,
                           "missing; needed is the count of numbers in a target, or "
                           "of classes");
    if (kind->size && output->size != kind->size)
        return config_fail(reading, path, "found %zu; allowed with loss: %s is %zu (%s)",
                           output->size, kind->name, kind->size, kind->size_reason);
    return 0;
}

static bool takes_class(const struct loss_kind *kind) {
    return kind->class_id;
}

static bool takes_numbers(const struct loss_kind *kind) {
    return !kind->class_id;
}

/* With `target: next` the stream's next input is the target, so that loss and sizes must fit it. */
static int check_next(struct reading *reading) {
    const struct input *input = &reading->draft.config.architecture.input;
    const struct output *output = &reading->draft.config.architecture.output;
    const struct loss_kind *kind = loss_kind(output->loss);
    char losses[CONFIG_TEXT_SIZE];
    bool symbols = input->kind == INPUT_SYMBOL;
    if (symbols != kind->class_id)
        return config_fail(reading, "model.output.loss",
                           "found %s; allowed with target: next and %s inputs is %s", kind->name,
                           input_kind_name(input->kind),
                           config_losses(symbols ? takes_class : takes_numbers, " or ", losses));
    if (kind->size && input->size != kind->size)
        return config_fail(reading, "model.input.size",
                           "found %zu; allowed with target: next and loss: %s is %zu", input->size,
                           kind->name, kind->size);
    if (output->size != input->size)
        return config_fail(reading, "model.output.size",
                           "found %zu; allowed with target: next is model.input.size, %zu",
                           output->size, input->size);
    if (input->scale == SCALE_STANDARD && kind->parts[0].unit == UNIT_NONE)
        return config_fail(reading, "model.input.scale",
                           "found standard; allowed with target: next and loss: %s is none, since "
                           "scaled targets would leave their range",
                           kind->name);
    return 0;
}

static int check_size(struct reading *reading) {
    struct model model;
    model_build(&model, &reading->draft.config.architecture);
    if (model.parameters > PARAMETERS_MAX)
        return config_fail(reading, "model", "found %zu parameters; allowed are at most %zu",
                           model.parameters, PARAMETERS_MAX);
    return 0;
}

static int check_learning(struct reading *reading) {
    struct config *config = &reading->draft.config;
    if (!config_has(reading, "learning.stride"))
        config->learning.stride = config->learning.window;
    bool windowed = rule_kind(config->learning.rule)->keeps == KEEPS_NOTHING;
    if (windowed && config->learning.stride > config->learning.window)
        return config_fail(reading, "learning.stride",
                           "found %zu; allowed is at most learning.window, %zu",
                           config->learning.stride, config->learning.window);
    return config_check_rule(reading) || config_check_optimizer(reading) ? -1 : 0;
}

/* One of bind and connect. One that an override gives takes the other's place. */
static int check_socket(struct reading *reading, const char *section, struct socket_config *socket,
                        const char *connect) {
    char path[CONFIG_KEY_SIZE];
    snprintf(path, sizeof path, "%s.bind", section);
    const struct place *bound = config_place(reading, path);
    snprintf(path, sizeof path, "%s.connect", section);
    const struct place *connected = config_place(reading, path);
    if (bound->given && connected->given && !bound->override == !connected->override)
        return config_fail(reading, path, "found beside %s.bind; allowed is one of them", section);
    socket->connect = connected->given && !(bound->given && bound->override);
    if (socket->connect)
        memcpy(socket->endpoint, connect, sizeof socket->endpoint);
    return 0;
}

/* Whether ZeroMQ picks a free port or path by itself. */
static bool is_wildcard(const char *endpoint) {
    const char *colon = strrchr(endpoint, ':');
    return !strcmp(endpoint, "ipc://*") || !strcmp(colon, ":*") || !strcmp(colon, ":0");
}

static int check_sockets(struct reading *reading) {
    struct config *config = &reading->draft.config;
    const struct draft *draft = &reading->draft;
    if (check_socket(reading, "examples", &config->examples, draft->examples_connect) != 0 ||
        check_socket(reading, "statistics", &config->statistics, draft->statistics_connect) != 0 ||
        check_socket(reading, "control", &config->control, draft->control_connect) != 0)
        return -1;
    const struct {
        const char *path;
        const struct socket_config *socket;
    } sockets[] = {{"examples.bind", &config->examples},
                   {"statistics.bind", &config->statistics},
                   {"control.bind", &config->control}};
    for (size_t a = 1; a < sizeof sockets / sizeof *sockets; a++)
        for (size_t b = 0; b < a; b++)
            if (!sockets[a].socket->connect && !sockets[b].socket->connect &&
                !is_wildcard(sockets[a].socket->endpoint) &&
                !strcmp(sockets[a].socket->endpoint, sockets[b].socket->endpoint))
                return config_fail(reading, sockets[a].path,
                                   "found \"%s\", which %s has too; allowed is another endpoint",
                                   sockets[a].socket->endpoint, sockets[b].path);
    return 0;
}

/* A path as a user means it: ~/ is the home directory; relative is to the file's own directory, or
   on the command line to the working directory. */
static int resolve(struct reading *reading, const char *key, char path[CONFIG_PATH_SIZE]) {
    char whole[2 * CONFIG_PATH_SIZE];
    const char *slash = strrchr(reading->path, '/'), *home = getenv("HOME");
    if (!strcmp(path, "~") || !strncmp(path, "~/", 2)) {
        if (!home || *home != '/')
            return config_fail(reading, key,
                               "found \"%s\", and $HOME is not set; write the whole "
                               "path",
                               path);
        snprintf(whole, sizeof whole, "%s%s", home, path + 1);
    } else if (*path && *path != '/' && slash && !config_place(reading, key)->override) {
        snprintf(whole, sizeof whole, "%.*s/%s", (int)(slash - reading->path), reading->path, path);
    } else {
        return 0;
    }
    if (strlen(whole) >= CONFIG_PATH_SIZE)
        return config_fail(reading, key, "found a path of %zu bytes; allowed are at most %d",
                           strlen(whole), CONFIG_PATH_SIZE - 1);
    strcpy(path, whole);
    return 0;
}

/* People look for it from other directories. */
static int make_absolute(struct reading *reading, const char *key, char path[CONFIG_PATH_SIZE]) {
    char directory[CONFIG_PATH_SIZE], whole[2 * CONFIG_PATH_SIZE];
    if (*path == '/')
        return 0;
    if (!getcwd(directory, sizeof directory))
        return config_fail(reading, key,
                           "found \"%s\", and the working directory has no path: %s; "
                           "write the whole path",
                           path, strerror(errno));
    int length = snprintf(whole, sizeof whole, "%s/%s", directory, path);
    if (length >= CONFIG_PATH_SIZE)
        return config_fail(reading, key, "found a path of %d bytes; allowed are at most %d", length,
                           CONFIG_PATH_SIZE - 1);
    memcpy(path, whole, (size_t)length + 1);
    return 0;
}

/* $STATE_DIRECTORY is systemd's: one or more absolute paths with colons between them. */
static int default_directory(struct reading *reading) {
    static const char key[] = "state.directory";
    struct config *config = &reading->draft.config;
    const char *systemd = getenv("STATE_DIRECTORY"), *state = getenv("XDG_STATE_HOME"),
               *home = getenv("HOME");
    int length;
    if (systemd && *systemd)
        length = snprintf(config->state_directory, CONFIG_PATH_SIZE, "%.*s",
                          (int)strcspn(systemd, ":"), systemd);
    else if (state && *state == '/')
        length = snprintf(config->state_directory, CONFIG_PATH_SIZE, "%s/runnel/%s", state,
                          config->name);
    else if (home && *home == '/')
        length = snprintf(config->state_directory, CONFIG_PATH_SIZE, "%s/.local/state/runnel/%s",
                          home, config->name);
    else
        return config_fail(reading, key,
                           "missing; needed is a path, since none of "
                           "$STATE_DIRECTORY, $XDG_STATE_HOME and $HOME is set");
    if (length >= CONFIG_PATH_SIZE)
        return config_fail(reading, key,
                           "the default from the environment has %d bytes; allowed "
                           "are at most %d",
                           length, CONFIG_PATH_SIZE - 1);
    return 0;
}

static const char *const allow_keys[SOCKET_ROLES] = {
    [SOCKET_EXAMPLES] = "security.allow.examples",
    [SOCKET_STATISTICS] = "security.allow.statistics",
    [SOCKET_CONTROL] = "security.allow.control",
};

/* Lists of keys mean something only where there are keys, and what others can reach wants them. */
static int check_security(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    const struct socket_config *sockets[SOCKET_ROLES] = {&config->examples, &config->statistics,
                                                         &config->control};
    static const char *const binds[SOCKET_ROLES] = {"examples.bind", "statistics.bind",
                                                    "control.bind"};
    bool keys = *config->security.secret != 0;
    for (size_t i = 0; i < SOCKET_ROLES; i++) {
        if (!keys && *config->security.allow[i])
            return config_fail(reading, allow_keys[i],
                               "found without security.secret; it is allowed only beside that");
        if (!keys && !config->security.insecure && !sockets[i]->connect &&
            address_is_abstract(sockets[i]->endpoint))
            return config_fail(reading, binds[i],
                               "found \"%s\", a name without a file, which every user of this "
                               "machine can reach, without keys; allowed is ipc with a path, or "
                               "any with security.secret (runnel-keygen) or, where all users may "
                               "do everything, with security.insecure: true",
                               sockets[i]->endpoint);
        if (!keys && !config->security.insecure && !sockets[i]->connect &&
            !address_is_local(sockets[i]->endpoint))
            return config_fail(reading, binds[i],
                               "found \"%s\", which other machines can reach, without keys; "
                               "allowed is loopback or ipc, or any with security.secret "
                               "(runnel-keygen) or, on a trusted network, with "
                               "security.insecure: true",
                               sockets[i]->endpoint);
    }
    return 0;
}

static int check_paths(struct reading *reading) {
    struct config *config = &reading->draft.config;
    if (resolve(reading, "model.initial", config->initial) != 0 ||
        resolve(reading, "security.secret", config->security.secret) != 0 ||
        resolve(reading, "examples.redis.password_file", config->consume.redis.password_file) !=
            0 ||
        resolve(reading, "examples.kafka.password_file", config->consume.kafka.password_file) !=
            0 ||
        resolve(reading, "publish.password_file", config->publish.password_file) != 0 ||
        resolve(reading, "publish.credentials", config->publish.credentials) != 0 ||
        resolve(reading, "publish.cafile", config->publish.cafile) != 0)
        return -1;
    for (size_t i = 0; i < SOCKET_ROLES; i++)
        if (resolve(reading, allow_keys[i], config->security.allow[i]) != 0)
            return -1;
    if (!config_place(reading, "state.directory")->given)
        return default_directory(reading);
    return resolve(reading, "state.directory", config->state_directory) ||
                   make_absolute(reading, "state.directory", config->state_directory)
               ? -1
               : 0;
}

/* An acknowledgement means that the example is in the journal. */
static int check_journal(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    if (config->examples_socket == EXAMPLES_ROUTER && !config->journal.enabled)
        return config_fail(reading, "state.journal.enabled",
                           "found false with examples.socket: router, which acknowledges what the "
                           "journal has; allowed is true");
    return 0;
}

int config_check(struct reading *reading) {
    const struct output *output = &reading->draft.config.architecture.output;
    if (check_keys(reading) != 0 || config_check_columns(reading) != 0 ||
        config_check_time(reading) != 0 || check_output_size(reading) != 0 ||
        config_check_words(reading) != 0)
        return -1;
    if (output->target == TARGET_NEXT && !output->column_count && check_next(reading) != 0)
        return -1;
    if (config_check_targets(reading) != 0 || config_check_forecast(reading) != 0 ||
        check_size(reading) != 0 || check_learning(reading) != 0)
        return -1;
    if (reading->member)
        return 0;
    if (check_sockets(reading) != 0 || config_check_consume(reading) != 0 ||
        config_check_publish(reading) != 0 || check_security(reading) != 0 ||
        check_journal(reading) != 0)
        return -1;
    return check_paths(reading);
}
