/* Members: several networks for the same streams. Each has its own configuration, with the
   values that it sets. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/hash.h"
#include "config_read.h"
#include "forecast/forecast.h"
#include "symbols/symbols.h"

static const char combines[] = "mlpoly|average|best";

static bool is_reserved(const struct reading *reading, const char *name) {
    static const char rows[] =
        "logistic|experts|mixture|frequencies|" CONFIG_NETWORK "|constant|order1|order2|order3";
    bool symbols = reading->draft.config.preset == PRESET_SYMBOLS;
    bool found = config_words_contain(symbols ? rows : combines, name, NULL);
    for (unsigned n = 0; n < (symbols ? (unsigned)SYMBOLS_EXPERTS : (unsigned)EXPERTS); n++)
        found |= !strcmp(symbols ? symbols_names[n] : expert_name((enum expert)n), name);
    return found;
}

static int check_names(const struct reading *reading) {
    const struct config *config = &reading->draft.config;
    for (size_t n = 0; n < config->member_count; n++) {
        const char *name = config->members[n].name;
        if (is_reserved(reading, name))
            return config_fail(reading, "members",
                               "invalid member name %s: it is the name of an expert or a word "
                               "of combine; use another name",
                               name);
        for (size_t m = 0; m < n; m++)
            if (!strcmp(config->members[m].name, name))
                return config_fail(reading, "members", "duplicate member name %s", name);
    }
    return 0;
}

/* Resolve `combine` to the index of mixture.h: words, then experts and members by position; or
   enum symbols_combine. */
static int resolve_combine(struct reading *reading) {
    enum { NAMES_SIZE = (COMBINE_ONE + EXPERTS + CONFIG_MEMBERS_MAX) * CONFIG_MEMBER_NAME_SIZE };
    struct config *config = &reading->draft.config;
    char names[NAMES_SIZE];
    struct config_text to = {.text = names, .size = sizeof names};
    size_t place;
    char text[CONFIG_TEXT_SIZE] = "mlpoly, average, best, or the name of an expert or a member";
    bool symbols = config->preset == PRESET_SYMBOLS;
    config_add(&to, "%s", symbols ? "logistic|experts" : combines);
    for (enum expert expert = 0; expert < EXPERTS && !symbols; expert++)
        if (config->experts >> expert & 1)
            config_add(&to, "|%s", expert_name(expert));
    for (size_t n = 0; n < config->member_count && config->members_given; n++)
        config_add(&to, "|%s", config->members[n].name);
    if (!config->members_given)
        config_add(&to, "|" CONFIG_NETWORK);
    if (symbols)
        config_words_list(names, text, sizeof text);
    if (!config_words_contain(names, config->combine, &place))
        return config_fail(reading, "combine", "expected %s, got \"%s\"", text, config->combine);
    config->combined = (unsigned)place;
    return 0;
}

/* A member cannot set values that all members share. */
static int check_set(const struct reading *reading, const struct member_config *member,
                     const char *set) {
    static const char *const own[] = {"model.layers", "model.output", "learning", "seed"};
    static const char *const shared[] = {"learning.max_streams", "learning.threads", "learning.pin",
                                         "model.output.ahead"};
    char path[CONFIG_SET_SIZE];
    bool allowed = false;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(set, "="), set);
    for (size_t n = 0; n < sizeof own / sizeof *own; n++)
        allowed |= config_path_below(path, own[n]);
    for (size_t n = 0; n < sizeof shared / sizeof *shared; n++)
        allowed &= strcmp(path, shared[n]) != 0;
    if (allowed)
        return 0;
    return config_fail(reading, "members",
                       "member %s cannot set %s; expected seed or keys of model.layers, "
                       "model.output (except ahead) or learning (except max_streams, threads "
                       "and pin)",
                       member->name, path);
}

static const struct digest {
    unsigned flags, without;
    size_t text; /* offset in struct config */
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

/* Check the configuration with the values of one member. */
static int check_member(struct reading *reading, struct member_config *member, struct reading *own,
                        uint64_t values[DIGESTS]) {
    char verb[CONFIG_PATH_SIZE + CONFIG_TEXT_SIZE];
    const struct place *place = config_place(reading, "members");
    if (place->given && !place->override)
        snprintf(verb, sizeof verb, "%s:%zu:%zu: member %s:", reading->origin.path, place->line,
                 place->column, member->name);
    else
        snprintf(verb, sizeof verb, "member %s:", member->name);
    own->origin.member = true;
    own->origin.verb = verb;
    config_preset_layers(own);
    const char *set = reading->draft.config.sets + member->sets;
    int status = 0;
    for (; *set && status == 0; set += strlen(set) + 1)
        status = check_set(reading, member, set) != 0 || config_read_override(own, set) != 0;
    status = status || config_check(own) != 0;
    own->origin.verb = reading->origin.verb;
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
    bool mixed =
        config->architecture.input.scale == SCALE_FORECAST || config->preset == PRESET_SYMBOLS;
    uint64_t values[DIGESTS];
    int status = 0;
    for (size_t n = 0; n < DIGESTS; n++)
        values[n] = config_digest_of(&reading->draft, digests[n].flags, digests[n].without);
    if (mixed && (check_names(reading) != 0 || resolve_combine(reading) != 0))
        return -1;
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

void config_member(const struct config *config, size_t member, struct config *own) {
    own->seed = config->members[member].seed;
    config_member_network(config, member, &own->architecture);
    own->learning = config->members[member].learning;
}

void config_member_network(const struct config *config, size_t member,
                           struct architecture *architecture) {
    const struct member_config *own = &config->members[member];
    *architecture = config->architecture;
    memcpy(architecture->layers, own->layers, sizeof own->layers);
    architecture->layer_count = own->layer_count;
    architecture->output = own->output;
}

/* ---- All networks in one line ---- */

enum { SHAPES_SHOWN = 6, NAMES_SHOWN = 3 };

static void summarize(const struct config *config, size_t member,
                      char summary[MODEL_SUMMARY_SIZE]) {
    struct architecture architecture;
    config_member_network(config, member, &architecture);
    model_summary(&architecture, summary);
}

/* Find the first member with the same description as each member. */
static void find_alike(const struct config *config, size_t first[CONFIG_MEMBERS_MAX]) {
    uint64_t hashes[CONFIG_MEMBERS_MAX];
    for (size_t m = 0; m < config->member_count; m++) {
        char summary[MODEL_SUMMARY_SIZE];
        summarize(config, m, summary);
        hashes[m] = hash_bytes(HASH_BEGIN, summary, strlen(summary));
        first[m] = 0;
        while (hashes[first[m]] != hashes[m])
            first[m]++;
    }
}

/* "; member wide: lstm 70 norm > squared 2, next" for the members with the description of this
   one, without the common input. */
static void add_others(const struct config *config, const size_t *first, size_t member,
                       struct config_text *to) {
    char summary[MODEL_SUMMARY_SIZE];
    size_t count = 0;
    for (size_t m = member; m < config->member_count; m++)
        count += first[m] == member;
    config_add(to, "; member%s ", count == 1 ? "" : "s");
    for (size_t m = member, named = 0; m < config->member_count && named < NAMES_SHOWN; m++)
        if (first[m] == member)
            config_add(to, "%s%s", named++ ? ", " : "", config->members[m].name);
    if (count > NAMES_SHOWN)
        config_add(to, " and %zu more", count - NAMES_SHOWN);
    summarize(config, member, summary);
    const char *input_end = strstr(summary, " > ");
    config_add(to, ": %s", input_end ? input_end + strlen(" > ") : summary);
}

void config_networks(const struct config *config, char text[CONFIG_NETWORKS_SIZE]) {
    size_t first[CONFIG_MEMBERS_MAX], shapes = 0;
    struct config_text to = {.text = text, .size = CONFIG_NETWORKS_SIZE};
    if (!config->members_given || !config->member_count) {
        struct architecture architecture = config->architecture;
        if (config->members_given) /* no network */
            architecture.layer_count = 0;
        model_summary(&architecture, text);
        return;
    }
    find_alike(config, first);
    summarize(config, 0, text);
    to.used = strlen(text);
    for (size_t m = 1; m < config->member_count; m++)
        if (first[m] == m && shapes++ < SHAPES_SHOWN)
            add_others(config, first, m, &to);
    if (shapes > SHAPES_SHOWN)
        config_add(&to, "; %zu more kinds of networks", shapes - SHAPES_SHOWN);
}
