/* Compares a configuration with the file read again. */
#include <stdlib.h>

#include "common/format.h"
#include "config_keys.h"

#define RATE "learning.optimizer.rate"
#define CLIP "learning.clip"
#define TOP "statistics.top"

/* Two configurations, and the keys that wait because of others. */
struct comparison {
    const struct config *before, *after;
    bool learned;  /* a restart would reject the learned state */
    bool alike;    /* a restart can change neither window nor optimizer */
    bool rates;    /* rates wait for changed members or another optimizer */
    bool security; /* all of security waits: a part may be less strict than either file */
};

static bool is(const struct config_key *key, const char *path) {
    return !strcmp(key->path, path);
}

static bool of_security(const struct config_key *key) {
    return config_path_below(key->path, "security");
}

/* Numbers with the fewest digits that give the same value. */
static void print(const struct config_key *key, size_t layer, const struct config *config,
                  char *text, size_t size) {
    char plain[FORMAT_SIZE];
    config_value_print(key, layer, config, text, size);
    if (key->type == &value_real || (key->type == &value_rate && *text != 'a'))
        snprintf(text, size, "%s", format_exact(plain, strtod(text, NULL)));
}

/* ---- Members ---- */

static bool sets_rate(const char *set) {
    return !strncmp(set, RATE "=", strlen(RATE "=")) || !strncmp(set, CLIP "=", strlen(CLIP "="));
}

/* The next "KEY=VALUE" of a member that is not a rate or clip. */
static const char *next_fixed(const char *set) {
    while (sets_rate(set))
        set += strlen(set) + 1;
    return set;
}

static bool same_sets(const char *a, const char *b) {
    for (; *(a = next_fixed(a)) && *(b = next_fixed(b)); a += strlen(a) + 1, b += strlen(b) + 1)
        if (strcmp(a, b) != 0)
            return false;
    return !*a && !*next_fixed(b);
}

/* Whether members differ at most in the rates and clips that they set. */
static bool members_alike(const struct config *a, const struct config *b) {
    bool alike = a->members_given == b->members_given && a->member_count == b->member_count;
    for (size_t n = 0; alike && a->members_given && n < a->member_count; n++)
        alike = !strcmp(a->members[n].name, b->members[n].name) &&
                same_sets(a->sets + a->members[n].sets, b->sets + b->members[n].sets);
    return alike;
}

static bool rates_fit(const struct config *before, const struct config *after) {
    char why[CONFIG_WHY_SIZE];
    bool fit = before->members_given ||
               config_rate_fits(&before->learning.optimizer, after->learning.optimizer.rate, why);
    for (size_t n = 0; before->members_given && n < before->member_count; n++)
        fit &= config_rate_fits(&before->members[n].learning.optimizer,
                                after->members[n].learning.optimizer.rate, why);
    return fit;
}

static void copy_rates(const struct config *from, struct config *to) {
    memcpy(to->sets, from->sets, sizeof to->sets);
    to->sets_size = from->sets_size;
    for (size_t n = 0; to->members_given && n < to->member_count; n++) {
        to->members[n].sets = from->members[n].sets;
        to->members[n].learning.optimizer.rate = from->members[n].learning.optimizer.rate;
        to->members[n].learning.clip = from->members[n].learning.clip;
    }
}

/* ---- Single keys ---- */

static bool differs(const struct comparison *c, const struct config_key *key, size_t layer) {
    bool listed =
        *c->after->architecture.output.name && config_path_below(key->path, "model.output");
    return !listed &&                     /* compared as model.outputs */
           key->type != &value_connect && /* its value is compared with that of bind */
           !config_value_same(key, layer, c->before, c->after);
}

static enum config_way way_of(const struct comparison *c, const struct config_key *key) {
    bool rate = is(key, RATE) || is(key, CLIP) || key->type == &value_members;
    if (rate && !c->rates)
        return CONFIG_APPLIED;
    bool symbols = c->before->preset == PRESET_SYMBOLS && is(key, TOP);
    if (symbols || (of_security(key) && c->security))
        return CONFIG_RESTART;
    if (!rate && key->flags & (KEY_IN_FLIGHT | KEY_RELOAD))
        return CONFIG_APPLIED;
    bool lasting =
        key->flags & KEY_DIGEST && (c->alike || !(key->flags & (KEY_WINDOW | KEY_MOMENT)));
    return key->flags & KEY_FRESH            ? CONFIG_FRESH
           : c->learned && (rate || lasting) ? CONFIG_REFUSED
                                             : CONFIG_RESTART;
}

static struct comparison compare(const struct config *before, const struct config *after) {
    struct comparison c = {.before = before, .after = after};
    c.alike = before->fleet.lease > 0; /* all daemons of a fleet learn with one configuration */
    c.learned = c.alike ? strcmp(before->compatible, after->compatible) != 0
                        : strcmp(before->lasting, after->lasting) != 0;
    c.rates = !members_alike(before, after) || !rates_fit(before, after) ||
              strcmp(before->optimizer, after->optimizer) != 0;
    for (size_t k = 0; k < config_key_count; k++)
        c.security |= of_security(&config_keys[k]) && !(config_keys[k].flags & KEY_RELOAD) &&
                      differs(&c, &config_keys[k], 0);
    return c;
}

static void apply(const struct comparison *c, const struct config_key *key, size_t layer,
                  struct config *current, struct config *configured, config_changed *changed,
                  void *context) {
    char path[CONFIG_KEY_SIZE], value[CONFIG_PATH_SIZE];
    enum config_way way = way_of(c, key);
    if (way == CONFIG_APPLIED && key->type != &value_members) {
        config_value_copy(key, layer, c->after, current);
        config_value_copy(key, layer, c->after, configured);
    }
    config_key_written(key, layer, c->after, path);
    print(key, layer, c->after, value, sizeof value);
    changed(context, way, path, value);
}

void config_reload(struct config *current, struct config *configured, const struct config *before,
                   const struct config *after, config_changed *changed, void *context) {
    const struct comparison c = compare(before, after);
    size_t layers = after->architecture.layer_count;
    bool as_many = before->architecture.layer_count == layers;
    char count[FORMAT_SIZE];
    *configured = *before;
    if (!as_many) {
        snprintf(count, sizeof count, "%zu", layers);
        changed(context, CONFIG_REFUSED, "model.layers", count);
    }
    for (size_t k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        size_t rows = !config_key_layered(key) ? 1 : as_many ? layers : 0;
        for (size_t n = 0; n < rows; n++)
            if (differs(&c, key, n))
                apply(&c, key, n, current, configured, changed, context);
    }
    if (!c.rates) { /* rates of members follow from several keys */
        copy_rates(after, current);
        copy_rates(after, configured);
    }
    config_digest(configured);
}
