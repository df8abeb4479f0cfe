/* What changes when the file is read again. */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/format.h"
#include "config_internal.h"

/* A draft begins with its configuration, and no key that is asked for here lies after it. */
static const struct draft *draft_of(const struct config *config) {
    return (const struct draft *)(const void *)config;
}

/* What a socket connects to is at home where it would be bound. */
static bool is_compared(const struct config_key *key) {
    return key->type != VALUE_CONNECT;
}

static size_t count_of(const struct config_key *key, const struct config *config) {
    return config_key_layered(key) ? config->architecture.layer_count : 1;
}

/* The key's path; of a socket that connects, as that is written. */
static void name(const struct config_key *key, size_t layer, const struct config *config,
                 char path[CONFIG_KEY_SIZE]) {
    const struct socket_config *socket = (const void *)((const char *)config + key->offset);
    const struct config_key *written = key;
    if (key->type == VALUE_BIND && socket->connect)
        written++; /* its row is the next one */
    config_key_path(written, layer, path);
}

/* In as few digits as give the same number again. */
static void print(const struct config_key *key, size_t layer, const struct config *config,
                  char *text, size_t size) {
    char plain[FORMAT_SIZE];
    config_value_print(key, layer, draft_of(config), text, size);
    if (key->type == VALUE_REAL || (key->type == VALUE_RATE && *text != 'a'))
        snprintf(text, size, "%s", format_exact(plain, strtod(text, NULL)));
}

static int refuse(const struct config_key *key, size_t layer, const struct config *before,
                  const struct config *after, struct error *error) {
    enum { SHOWN_MAX = 100 };
    char path[CONFIG_KEY_SIZE], old[CONFIG_TEXT_SIZE], found[CONFIG_TEXT_SIZE];
    name(key, layer, after, path);
    print(key, layer, before, old, sizeof old);
    print(key, layer, after, found, sizeof found);
    return error_set(error, EX_CONFIG,
                     "%s: found %.*s%s, but the daemon runs with %.*s%s; restart it to change that",
                     path, SHOWN_MAX, found, *found ? "" : "nothing", SHOWN_MAX, old,
                     *old ? "" : "none");
}

static int check(const struct config *before, const struct config *after, struct error *error) {
    size_t old = before->architecture.layer_count, found = after->architecture.layer_count;
    if (old != found)
        return error_set(error, EX_CONFIG,
                         "model.layers: found %zu of them, but the daemon runs with %zu; restart "
                         "it to change that",
                         found, old);
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        if (!is_compared(key) || key->flags & (KEY_IN_FLIGHT | KEY_RELOAD))
            continue;
        for (size_t n = 0; n < count_of(key, after); n++)
            if (!config_value_same(key, n, draft_of(before), draft_of(after)))
                return refuse(key, n, before, after, error);
    }
    return 0;
}

int config_reload(struct config *current, const struct config *before, const struct config *after,
                  config_changed *changed, void *context, struct error *error) {
    if (check(before, after, error))
        return -1;
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        char value[CONFIG_PATH_SIZE];
        if (!(key->flags & (KEY_IN_FLIGHT | KEY_RELOAD)) ||
            config_value_same(key, 0, draft_of(before), draft_of(after)))
            continue;
        config_value_copy(key, 0, draft_of(after), (struct draft *)(void *)current);
        print(key, 0, after, value, sizeof value);
        changed(context, key->path, value);
    }
    return 0;
}
