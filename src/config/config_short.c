/* Short names of keys: the last parts of a path. */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "config_internal.h"

enum { MEANT_MAX = 32 };

/* What a short name may mean: paths, with N for a layer's number that it does not say. */
struct meant {
    char paths[MEANT_MAX][CONFIG_KEY_SIZE];
    size_t count;
};

/* Parts of a path or name that are read from its end. */
static const char *last_part(const char *text, size_t *length) {
    size_t end = *length;
    while (*length > 0 && text[*length - 1] != '.')
        (*length)--;
    const char *part = text + *length;
    size_t size = end - *length;
    *length -= *length > 0;
    return size ? part : NULL;
}

static bool is_number(const char *text, size_t length) {
    return length > 0 && strspn(text, "0123456789") >= length;
}

/* Whether the first `size` bytes of a key's path end with the name; then its path, with what the
   name says of a layer. */
static bool ends_with(const char *key, size_t size, const char *name, char path[CONFIG_KEY_SIZE]) {
    char number[CONFIG_KEY_SIZE] = "N";
    size_t in_key = size, in_name = strlen(name);
    while (in_name > 0) {
        size_t key_end = in_key, name_end = in_name;
        const char *a = in_key ? last_part(key, &in_key) : NULL, *b = last_part(name, &in_name);
        if (!a || !b)
            return false;
        size_t a_size = (size_t)(key + key_end - a), b_size = (size_t)(name + name_end - b);
        bool layer = *a == '*' && (is_number(b, b_size) || (b_size == 1 && *b == 'N'));
        if (layer)
            snprintf(number, sizeof number, "%.*s", (int)b_size, b);
        else if (a_size != b_size || memcmp(a, b, a_size) != 0)
            return false;
    }
    const char *star = memchr(key, '*', size);
    if (star)
        snprintf(path, CONFIG_KEY_SIZE, "%.*s%s%.*s", (int)(star - key), key, number,
                 (int)(size - (size_t)(star - key) - 1), star + 1);
    else
        snprintf(path, CONFIG_KEY_SIZE, "%.*s", (int)size, key);
    return true;
}

static void add(struct meant *meant, const char *path) {
    for (size_t n = 0; n < meant->count; n++)
        if (!strcmp(meant->paths[n], path))
            return;
    if (meant->count < MEANT_MAX)
        snprintf(meant->paths[meant->count++], CONFIG_KEY_SIZE, "%s", path);
}

/* Keys, or with `sections` also what is above them: "model.layers", "learning.optimizer". */
static void find(struct meant *meant, const char *name, bool sections, bool layered) {
    char path[CONFIG_KEY_SIZE];
    for (size_t k = 0; k < config_key_count; k++) {
        const char *key = config_keys[k].path;
        for (size_t size = strlen(key); size > 0; last_part(key, &size)) {
            bool whole = !key[size];
            if ((whole || sections) && (!layered || config_key_layered(&config_keys[k])) &&
                ends_with(key, size, name, path))
                add(meant, path);
            if (!sections)
                break;
        }
    }
}

static int fail(const char *name, const struct meant *meant, struct error *error) {
    char list[ERROR_TEXT_SIZE / 2] = "", near[CONFIG_KEY_SIZE];
    size_t used = 0;
    for (size_t n = 0; n < meant->count && used < sizeof list; n++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 n == 0                  ? ""
                                 : n + 1 == meant->count ? " or "
                                                         : ", ",
                                 meant->paths[n]);
    if (meant->count)
        return error_set(error, EX_CONFIG,
                         "the key \"%.*s\" is ambiguous: write more of the one that is meant, %s",
                         CONFIG_KEY_SIZE, name, list);
    bool close = config_path_suggest(name, near);
    return error_set(error, EX_CONFIG,
                     "unknown key \"%.*s\"%s%s%s: runneld --explain lists all keys",
                     CONFIG_KEY_SIZE, name, close ? " (did you mean \"" : "", close ? near : "",
                     close ? "\"?)" : "");
}

int config_key_meant(const char *name, char path[CONFIG_KEY_NAME_SIZE], struct error *error) {
    static const struct {
        bool sections, layered;
    } orders[] = {{false, true}, {false, false}, {true, false}};
    struct meant meant = {0};
    for (size_t n = 0; n < sizeof orders / sizeof *orders && meant.count == 0 && *name; n++)
        find(&meant, name, orders[n].sections, orders[n].layered);
    for (size_t n = 0; n < meant.count; n++)
        if (!strcmp(meant.paths[n], name)) { /* it was no short one */
            strcpy(meant.paths[0], name);
            meant.count = 1;
        }
    if (meant.count != 1)
        return fail(name, &meant, error);
    strcpy(path, meant.paths[0]);
    return 0;
}
