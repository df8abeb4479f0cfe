/* Presets, and members: several networks on the same streams, each a configuration of its own that
   differs in what the member sets. And the rules of scale: forecast, which both are for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "config_internal.h"
#include "forecast/forecast.h"

/* ---- Presets ---- */

enum { PRESET_NONE, PRESET_FORECAST };

/* preset: forecast. The layer's values count where no layer is given. */
static const struct {
    const char *path, *value;
} preset[] = {
    {"model.input.kind", "real"},
    {"model.input.scale", "forecast"},
    {"model.input.missing", "hold"},
    {"model.layers.*.cell", "gru"},
    {"model.layers.*.size", "64"},
    {"model.output.loss", "squared"},
    {"model.output.target", "next"},
    {"model.output.relative", "ar12"},
    {"model.output.readout", "rls"},
    {"learning.window", "16"},
    {"learning.stride", "4"},
    {"learning.optimizer.kind", "adam"},
    {"learning.optimizer.rate", "0.0003"},
    {"learning.clip", "1"},
    {"anomaly.enabled", "true"},
    {"anomaly.surprise", "true"},
};

static bool has_preset(const struct reading *reading) {
    return reading->draft.config.preset == PRESET_FORECAST;
}

void config_preset_layers(struct reading *reading) {
    struct architecture *architecture = &reading->draft.config.architecture;
    if (!has_preset(reading) || architecture->layer_count)
        return;
    reading->preset_layer = true;
    architecture->layer_count = 1;
}

const char *config_preset_value(const struct reading *reading, const struct config_key *key) {
    for (size_t n = 0; has_preset(reading) && n < sizeof preset / sizeof *preset; n++)
        if (!strcmp(preset[n].path, key->path))
            return config_key_layered(key) && !reading->preset_layer ? NULL : preset[n].value;
    return NULL;
}

bool config_is_network(const struct reading *reading) {
    return reading->member || !(reading->draft.config.members_given || has_preset(reading));
}

bool config_has(const struct reading *reading, const char *path) {
    const struct config_key *key;
    config_path_kind(path, &key, NULL);
    return config_place(reading, path)->given || config_preset_value(reading, key);
}

static void add_preset_members(struct reading *reading) {
    struct config *config = &reading->draft.config;
    if (!has_preset(reading) || config->members_given)
        return;
    config->members_given = true;
    config->member_count = 2;
    strcpy(config->members[0].name, "change");
    strcpy(config->members[1].name, "level");
    static const char sets[] = "\0model.output.relative=none\0"; /* of the first nothing */
    memcpy(config->sets, sets, sizeof sets);
    config->sets_size = sizeof sets;
    config->members[1].sets = 1;
}

/* ---- Rules ---- */

static int check_without(struct reading *reading) {
    const struct output *output = &reading->draft.config.architecture.output;
    char word[CONFIG_TEXT_SIZE];
    if (output->relative > RELATIVE_TRUE)
        return config_fail(reading, "model.output.relative",
                           "found %s; allowed is false or true, or with scale: forecast none, last "
                           "or ar12",
                           config_word_of(reading, "model.output.relative", word));
    if (output->solved)
        return config_fail(reading, "model.output.readout",
                           "found rls; it is allowed only with scale: forecast");
    return 0;
}

static bool squares(const struct loss_kind *kind) {
    return kind->squares;
}

static int check_output(struct reading *reading) {
    const struct config *config = &reading->draft.config;
    bool network = config_is_network(reading);
    const struct output *output = &config->architecture.output;
    const struct loss_kind *kind = loss_kind(output->loss);
    char text[CONFIG_TEXT_SIZE];
    if (output->solved && !squares(kind))
        return config_fail(reading, "model.output.readout",
                           "found rls with loss: %s; least squares need loss: %s", kind->name,
                           config_losses(squares, " or ", text));
    if (!squares(kind))
        return config_fail(reading, "model.output.loss",
                           "found %s; allowed with scale: forecast is %s", kind->name,
                           config_losses(squares, " or ", text));
    if (output->target != TARGET_NEXT)
        return config_fail(reading, "model.output.target",
                           "found %s; allowed with scale: forecast is next",
                           target_name(output->target));
    if (output->relative == RELATIVE_TRUE)
        return config_fail(reading, "model.output.relative",
                           "found true; allowed with scale: forecast is none, last or ar12");
    if (network && output->relative == RELATIVE_AR12 && !(config->experts >> EXPERT_ar12 & 1))
        return config_fail(reading, "model.output.relative",
                           "found ar12, an expert that is not among experts; add it there, or use "
                           "last or none");
    return 0;
}

int config_check_forecast(struct reading *reading) {
    struct architecture *architecture = &reading->draft.config.architecture;
    enum { STREAMS = 1024, FORECAST_STREAMS = 128 };
    bool forecast = architecture->input.scale == SCALE_FORECAST;
    reading->draft.config.anomaly.by_preset =
        has_preset(reading) && !config_place(reading, "anomaly.enabled")->given;
    if (!config_place(reading, "learning.max_streams")->given)
        reading->draft.config.learning.max_streams = forecast ? FORECAST_STREAMS : STREAMS;
    if (!forecast && has_preset(reading))
        return config_fail(reading, "model.input.scale",
                           "found another scale with preset: forecast; allowed is forecast");
    if (!forecast)
        return check_without(reading);
    if (check_output(reading) != 0)
        return -1;
    if (config_place(reading, "model.output.skip")->given && !architecture->output.skip)
        return config_fail(reading, "model.output.skip",
                           "found false; with scale: forecast the output always has the skip path: "
                           "leave it out, or say true");
    architecture->output.skip = true;
    if (architecture->output.relative == RELATIVE_FALSE)
        architecture->output.relative = RELATIVE_NONE;
    return 0;
}

/* ---- Members ---- */

static const char combines[] = "mlpoly|average|best";

static bool is_expert(const char *name) {
    for (enum expert expert = 0; expert < EXPERTS; expert++)
        if (!strcmp(expert_name(expert), name))
            return true;
    return false;
}

static int check_names(const struct reading *reading) {
    const struct config *config = &reading->draft.config;
    for (size_t n = 0; n < config->member_count; n++) {
        const char *name = config->members[n].name;
        if (is_expert(name) || config_words_contain(combines, name, NULL))
            return config_fail(reading, "members",
                               "found a member with the name %s, which an expert or a word of "
                               "combine has; allowed is another one",
                               name);
        for (size_t m = 0; m < n; m++)
            if (!strcmp(config->members[m].name, name))
                return config_fail(reading, "members",
                                   "found two members with the name %s; allowed is another one for "
                                   "each",
                                   name);
    }
    return 0;
}

/* `combine` as mixture.h has it. */
static int resolve_combine(struct reading *reading) {
    struct config *config = &reading->draft.config;
    size_t place, count = 0, members = config->members_given ? config->member_count : 1;
    if (config_words_contain(combines, config->combine, &place)) {
        config->combined = (unsigned)place;
        return 0;
    }
    for (enum expert expert = 0; expert < EXPERTS; expert++) {
        if (config->experts >> expert & 1 && !strcmp(expert_name(expert), config->combine)) {
            config->combined = COMBINE_ONE + (unsigned)count;
            return 0;
        }
        count += config->experts >> expert & 1;
    }
    for (size_t n = 0; n < members; n++, count++) {
        const char *name = config->members_given ? config->members[n].name : CONFIG_NETWORK;
        if (!strcmp(name, config->combine)) {
            config->combined = COMBINE_ONE + (unsigned)count;
            return 0;
        }
    }
    return config_fail(reading, "combine",
                       "found \"%s\"; allowed is mlpoly, average, best, or the name of one of "
                       "experts or members",
                       config->combine);
}

/* What is of all members cannot be another for one of them. */
static int check_set(const struct reading *reading, const struct member_config *member,
                     const char *set) {
    static const char *const own[] = {"model.layers", "model.output", "learning", "seed"};
    size_t length = strcspn(set, "=");
    bool allowed = false;
    for (size_t n = 0; n < sizeof own / sizeof *own; n++) {
        size_t part = strlen(own[n]);
        allowed |= !strncmp(set, own[n], part) && (part == length || set[part] == '.');
    }
    static const char *const shared[] = {"learning.max_streams", "learning.threads", "learning.pin",
                                         "model.output.ahead"};
    for (size_t n = 0; n < sizeof shared / sizeof *shared; n++)
        allowed &= strlen(shared[n]) != length || strncmp(set, shared[n], length) != 0;
    if (allowed)
        return 0;
    return config_fail(reading, "members",
                       "found %.*s, which member %s sets; allowed are keys of model.layers, "
                       "model.output but ahead and learning but max_streams, threads and pin, and "
                       "seed: all members have the same streams, inputs, horizons and threads",
                       (int)length, set, member->name);
}

static const struct digest {
    unsigned flags, without;
    size_t text; /* where in struct config */
} digests[] = {
    {KEY_DIGEST, 0, offsetof(struct config, compatible)},
    {KEY_DIGEST, KEY_WINDOW | KEY_MOMENT, offsetof(struct config, lasting)},
    {KEY_MOMENT, 0, offsetof(struct config, optimizer)},
};
enum { DIGESTS = sizeof digests / sizeof *digests };

static void add_digests(const struct draft *draft, const char *name, uint64_t values[DIGESTS]) {
    for (size_t n = 0; n < DIGESTS; n++) {
        uint64_t value = config_digest_of(draft, digests[n].flags, digests[n].without);
        values[n] = hash_bytes(hash_bytes(values[n], name, strlen(name) + 1), &value, sizeof value);
    }
}

/* The configuration with what one member sets. */
static int check_member(struct reading *reading, struct member_config *member, struct reading *own,
                        uint64_t values[DIGESTS]) {
    char verb[CONFIG_PATH_SIZE + CONFIG_TEXT_SIZE];
    const struct place *place = config_place(reading, "members");
    if (place->given && !place->override)
        snprintf(verb, sizeof verb, "%s:%zu:%zu: member %s:", reading->path, place->line,
                 place->column, member->name);
    else
        snprintf(verb, sizeof verb, "member %s:", member->name);
    own->member = true;
    own->verb = verb;
    config_preset_layers(own);
    const char *set = reading->draft.config.sets + member->sets;
    int status = 0;
    for (; *set && status == 0; set += strlen(set) + 1)
        status = check_set(reading, member, set) != 0 || config_read_override(own, set) != 0;
    status = status || config_check(own) != 0;
    own->verb = reading->verb;
    if (status)
        return -1;
    const struct config *config = &own->draft.config;
    member->seed = config->seed;
    memcpy(member->layers, config->architecture.layers, sizeof member->layers);
    member->layer_count = config->architecture.layer_count;
    member->output = config->architecture.output;
    member->learning = config->learning;
    add_digests(&own->draft, member->name, values);
    return 0;
}

int config_check_members(struct reading *reading, const struct reading *read) {
    struct config *config = &reading->draft.config;
    bool forecast = config->architecture.input.scale == SCALE_FORECAST;
    uint64_t values[DIGESTS];
    int status = 0;
    for (size_t n = 0; n < DIGESTS; n++)
        values[n] = config_digest_of(&reading->draft, digests[n].flags, digests[n].without);
    if (forecast) {
        add_preset_members(reading);
        if (check_names(reading) != 0 || resolve_combine(reading) != 0)
            return -1;
    }
    for (size_t n = 0; n < DIGESTS && config->members_given; n++)
        values[n] = hash_bytes(values[n], "members", sizeof "members");
    struct reading *own = malloc(sizeof *own);
    for (size_t n = 0; own && status == 0 && config->members_given && n < config->member_count;
         n++) {
        *own = *read;
        status = check_member(reading, &config->members[n], own, values);
    }
    if (!own)
        status = config_fail(reading, "members", "out of memory");
    free(own);
    for (size_t n = 0; n < DIGESTS; n++)
        snprintf((char *)config + digests[n].text, CONFIG_DIGEST_SIZE, "%016" PRIx64, values[n]);
    return status;
}

void config_member_network(const struct config *config, size_t member,
                           struct architecture *architecture) {
    const struct member_config *own = &config->members[member];
    *architecture = config->architecture;
    memcpy(architecture->layers, own->layers, sizeof own->layers);
    architecture->layer_count = own->layer_count;
    architecture->output = own->output;
}
