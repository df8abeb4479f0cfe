/* Members: several networks on the same streams, each a configuration of its own that differs in
   what the member sets. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/hash.h"
#include "config_read.h"
#include "forecast/forecast.h"

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
    bool forecast = config->architecture.input.scale == SCALE_FORECAST;
    uint64_t values[DIGESTS];
    int status = 0;
    for (size_t n = 0; n < DIGESTS; n++)
        values[n] = config_digest_of(&reading->draft, digests[n].flags, digests[n].without);
    if (forecast) {
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

enum { SHAPES_TOLD = 6, NAMES_TOLD = 3 };

static void __attribute__((format(printf, 2, 3)))
append(char text[CONFIG_NETWORKS_SIZE], const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, CONFIG_NETWORKS_SIZE - used, format, arguments);
    va_end(arguments);
}

static void summarize(const struct config *config, size_t member,
                      char summary[MODEL_SUMMARY_SIZE]) {
    struct architecture architecture;
    config_member_network(config, member, &architecture);
    model_summary(&architecture, summary);
}

/* Of each member the first one that is described alike. */
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

/* "; member wide: lstm 70 norm > squared 2, next" of the members like this one, without the input,
   which is that of all. */
static void append_others(const struct config *config, const size_t *first, size_t member,
                          char text[CONFIG_NETWORKS_SIZE]) {
    char summary[MODEL_SUMMARY_SIZE];
    size_t count = 0;
    for (size_t m = member; m < config->member_count; m++)
        count += first[m] == member;
    append(text, "; member%s ", count == 1 ? "" : "s");
    for (size_t m = member, told = 0; m < config->member_count && told < NAMES_TOLD; m++)
        if (first[m] == member)
            append(text, "%s%s", told++ ? ", " : "", config->members[m].name);
    if (count > NAMES_TOLD)
        append(text, " and %zu more", count - NAMES_TOLD);
    summarize(config, member, summary);
    const char *input_end = strstr(summary, " > ");
    append(text, ": %s", input_end ? input_end + strlen(" > ") : summary);
}

void config_networks(const struct config *config, char text[CONFIG_NETWORKS_SIZE]) {
    size_t first[CONFIG_MEMBERS_MAX], shapes = 0,
                                      members = config->members_given ? config->member_count : 0;
    text[0] = '\0';
    if (members == 0) {
        model_summary(&config->architecture, text);
        return;
    }
    find_alike(config, first);
    summarize(config, 0, text);
    for (size_t m = 1; m < members; m++)
        if (first[m] == m && shapes++ < SHAPES_TOLD)
            append_others(config, first, m, text);
    if (shapes > SHAPES_TOLD)
        append(text, "; %zu more kinds of networks", shapes - SHAPES_TOLD);
}
