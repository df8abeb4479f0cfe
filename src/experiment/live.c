#include "live.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "experiment_memory.h"
#include "experiment_spec.h"

/* ---- What members can be ---- */

/* Of all members there is one stream, one input, one horizon: as config_members.c has it. */
static bool can_differ(const char *key) {
    static const char *const own[] = {"model.layers.", "model.output.", "learning.", "seed"};
    static const char *const shared[] = {"learning.max_streams", "learning.threads", "learning.pin",
                                         "model.output.ahead"};
    bool can = false;
    for (size_t n = 0; n < sizeof own / sizeof *own; n++)
        can |= !strncmp(key, own[n], strlen(own[n]));
    for (size_t n = 0; n < sizeof shared / sizeof *shared; n++)
        can &= strcmp(key, shared[n]) != 0;
    return can;
}

static int check_variants(const struct experiment_spec *spec, struct error *error) {
    if (spec->stream_count != 1)
        return error_set(
            error, EX_CONFIG,
            "%s: --live is of one stream, and there are %zu of them: leave the others out",
            spec->path, spec->stream_count);
    if (spec->variant_count > CONFIG_MEMBERS_MAX)
        return error_set(error, EX_CONFIG,
                         "%s: there are %zu variants, and a daemon has at most %d members: leave "
                         "some out",
                         spec->path, spec->variant_count, CONFIG_MEMBERS_MAX);
    for (size_t i = 0; i < spec->variant_count; i++) {
        const struct spec_variant *variant = &spec->variants[i];
        if (variant->set.count > CONFIG_SETS_MAX)
            return error_set(error, EX_CONFIG,
                             "%s: variant %s sets %zu keys, and a member can set %d: put what all "
                             "have into `set`",
                             spec->path, variant->name, variant->set.count, CONFIG_SETS_MAX);
        for (size_t k = 0; k < variant->set.count; k++)
            if (!can_differ(variant->set.rows[k].key))
                return error_set(error, EX_CONFIG,
                                 "%s: variant %s sets %s, in which the members of a daemon cannot "
                                 "differ: allowed are keys of model.layers, model.output but ahead "
                                 "and learning but max_streams, threads and pin, and seed",
                                 spec->path, variant->name, variant->set.rows[k].key);
    }
    return 0;
}

/* Letters, digits, '-' and '_'; another name than those before. */
static void member_name(struct live *live, size_t place, const char *variant) {
    char *name = live->names[place];
    size_t used = 0;
    for (const char *c = variant; *c && used + 1 < CONFIG_MEMBER_NAME_SIZE; c++) {
        bool plain = isalnum((unsigned char)*c) || *c == '_' || *c == '-';
        if (plain || (used && name[used - 1] != '-'))
            name[used++] = plain ? *c : '-';
    }
    while (used && name[used - 1] == '-')
        used--;
    name[used] = '\0';
    bool taken = !used;
    for (size_t i = 0; i < place; i++)
        taken |= !strcmp(live->names[i], name);
    if (!taken)
        return;
    enum { ROOM = 4 }; /* "-12" */
    used = used < CONFIG_MEMBER_NAME_SIZE - ROOM ? used : CONFIG_MEMBER_NAME_SIZE - ROOM;
    snprintf(name + used, CONFIG_MEMBER_NAME_SIZE - used, "%s%zu", used ? "-" : "variant-",
             place + 1);
}

/* "members=[{name: a, set: {KEY: VALUE, ...}}, ...]" */
static const char *members_text(void **memory, const struct experiment_spec *spec,
                                struct live *live) {
    char *text = memory_copy(memory, "members=[");
    for (size_t i = 0; text && i < spec->variant_count; i++) {
        const struct spec_settings *set = &spec->variants[i].set;
        member_name(live, i, spec->variants[i].name);
        text =
            memory_print(memory, "%s%s{name: \"%s\", set: {", text, i ? ", " : "", live->names[i]);
        for (size_t k = 0; text && k < set->count; k++)
            text = memory_print(memory, "%s%s%s: %s", text, k ? ", " : "", set->rows[k].key,
                                set->rows[k].value);
        text = text ? memory_print(memory, "%s}}", text) : NULL;
    }
    return text ? memory_print(memory, "%s]", text) : NULL;
}

/* ---- The configuration ---- */

/* What all variants have in common, on the one stream with the first seed. */
static int load(const struct experiment_plan *plan, const char *members, struct config *config,
                struct error *error) {
    struct spec_variant none = {.name = ""};
    struct experiment_spec common = *plan->spec;
    struct spec_overrides overrides;
    common.variants = &none;
    common.variant_count = 1;
    if (spec_overrides(&overrides, &common, 0, 0, common.seeds[0], plan->extra, plan->extra_count,
                       error))
        return -1;
    const char **values = memory_take(&overrides.memory, (overrides.count + 1) * sizeof *values);
    int status = values ? 0 : error_no_memory(error);
    if (!status) {
        if (overrides.count)
            memcpy(values, overrides.values, overrides.count * sizeof *values);
        values[overrides.count] = members;
        status =
            config_load(config, plan->bases[0], values, overrides.count + (members != NULL), error);
    }
    spec_overrides_clear(&overrides);
    return status;
}

static int resolve(const struct experiment_plan *plan, struct live *live, struct error *error) {
    void *memory = NULL;
    const char *members = members_text(&memory, plan->spec, live);
    int status = members ? load(plan, NULL, &live->config, error) : error_no_memory(error);
    if (!status && !input_has_experts(&live->config.architecture.input))
        status = error_set(error, EX_CONFIG,
                           "%s: --live needs model.input.scale: forecast, for only then has a "
                           "daemon members: say it in `set`, or begin with preset: forecast",
                           plan->spec->path);
    if (!status)
        status = load(plan, members, &live->config, error);
    memory_clear(&memory);
    return status;
}

struct live *live_resolve(const struct experiment_plan *plan, struct error *error) {
    if (check_variants(plan->spec, error))
        return NULL;
    struct live *live = calloc(1, sizeof *live);
    if (!live)
        error_no_memory(error);
    else if (resolve(plan, live, error)) {
        free(live);
        live = NULL;
    }
    return live;
}

/* ---- Printing ---- */

static void print_head(const struct experiment_plan *plan, const struct live *live, FILE *to) {
    const struct experiment_spec *spec = plan->spec;
    void *memory = NULL;
    const char *feed = spec_command(&memory, &spec->streams[0]);
    fprintf(to, "# %s on a live stream: one daemon, whose members are the variants.\n", spec->name);
    for (size_t i = 0; i < spec->variant_count; i++)
        fprintf(to, "#   %s: %s\n", live->names[i], spec->variants[i].name);
    fprintf(to,
            "# With this in %s.daemon.yaml, each in a terminal of its own:\n"
            "#   runneld --config %s.daemon.yaml\n"
            "#   runnel-record --output %s.db\n"
            "#   %s\n"
            "# and then, whenever you like:\n"
            "#   runnel-experiment --live %s --recording %s.db\n",
            spec->name, spec->name, spec->name, feed ? feed : "runnel-feed ...", spec->path,
            spec->name);
    memory_clear(&memory);
}

int live_print(const struct experiment_plan *plan, FILE *to, struct error *error) {
    struct live *live = live_resolve(plan, error);
    if (!live)
        return -1;
    print_head(plan, live, to);
    int status = config_print(to, &live->config, NULL, error);
    free(live);
    return status;
}
