#include "experiment_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "config/config.h"
#include "experiment_memory.h"

void spec_clear(struct experiment_spec *spec) {
    void *memory = spec->memory;
    memory_clear(&memory);
    memset(spec, 0, sizeof *spec);
}

int spec_set_seeds(struct experiment_spec *spec, uint64_t count, struct error *error) {
    spec->seeds = memory_take(&spec->memory, count * sizeof *spec->seeds);
    if (!spec->seeds)
        return error_no_memory(error);
    for (uint64_t n = 0; n < count; n++)
        spec->seeds[n] = (int64_t)n + 1;
    spec->seed_count = count;
    return 0;
}

int spec_check_seeds(const struct experiment_spec *spec, struct error *error) {
    for (size_t n = 0; n < spec->variant_count; n++) {
        const struct spec_settings *set = &spec->variants[n].set;
        for (size_t s = 0; s < set->count; s++)
            if (!strcmp(set->rows[s].key, "seed"))
                return error_set(error, EX_CONFIG,
                                 "%s:%zu: variant \"%s\": seed is none of a variant's keys: every "
                                 "variant is run with all of `seeds`, as in `seeds: [1, 2, 3]`",
                                 spec->path, set->rows[s].line, spec->variants[n].name);
    }
    return 0;
}

int spec_resolve(struct experiment_spec *spec, const char *override, struct spec_setting *setting,
                 struct error *error) {
    char path[CONFIG_KEY_NAME_SIZE];
    const char *equals = strchr(override, '=');
    if (!equals)
        return error_set(error, EX_USAGE, "--set %s: a value is missing; write KEY=VALUE",
                         override);
    char *brief = memory_print(&spec->memory, "%.*s", (int)(equals - override), override);
    if (!brief)
        return error_no_memory(error);
    if (config_key_meant(brief, path, error))
        return error_prefix(error, "--set %s", override);
    *setting = (struct spec_setting){.brief = brief,
                                     .key = memory_copy(&spec->memory, path),
                                     .value = memory_copy(&spec->memory, equals + 1)};
    return setting->key && setting->value ? 0 : error_no_memory(error);
}

const struct spec_base *spec_base_of(const struct experiment_spec *spec, size_t stream) {
    const struct spec_base *own = &spec->streams[stream].base;
    return own->path || own->text ? own : &spec->base;
}

/* ---- Overrides ---- */

static void add(struct spec_overrides *overrides, const struct spec_setting *rows, size_t count) {
    for (size_t n = 0; n < count; n++)
        overrides->values[overrides->count++] =
            memory_print(&overrides->memory, "%s=%s", rows[n].key, rows[n].value);
}

int spec_overrides(struct spec_overrides *overrides, const struct experiment_spec *spec,
                   size_t variant, size_t stream, int64_t seed, const struct spec_setting *extra,
                   size_t extra_count, struct error *error) {
    const struct spec_settings *of[] = {&spec->set, &spec->streams[stream].set,
                                        &spec->variants[variant].set};
    size_t most = extra_count + 1;
    for (size_t n = 0; n < sizeof of / sizeof *of; n++)
        most += of[n]->count;
    *overrides = (struct spec_overrides){0};
    overrides->values = memory_take(&overrides->memory, most * sizeof *overrides->values);
    if (!overrides->values)
        return error_no_memory(error);
    for (size_t n = 0; n < sizeof of / sizeof *of; n++)
        add(overrides, of[n]->rows, of[n]->count);
    add(overrides, extra, extra_count);
    overrides->values[overrides->count++] =
        memory_print(&overrides->memory, "seed=%lld", (long long)seed);
    for (size_t n = 0; n < overrides->count; n++)
        if (!overrides->values[n]) {
            spec_overrides_clear(overrides);
            return error_no_memory(error);
        }
    return 0;
}

void spec_overrides_clear(struct spec_overrides *overrides) {
    memory_clear(&overrides->memory);
    *overrides = (struct spec_overrides){0};
}

/* ---- The command of a stream ---- */

static bool is_plain(const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./=:,+@%{}$";
    return *word && strspn(word, plain) == strlen(word);
}

char *spec_command(void **memory, const struct spec_stream *stream) {
    char *line = memory_copy(memory, stream->replay ? "runnel-replay" : "runnel-feed");
    for (size_t n = 0; n < stream->word_count && line; n++) {
        const char *quote = is_plain(stream->words[n]) ? "" : "'";
        line = memory_print(memory, "%s %s%s%s", line, quote, stream->words[n], quote);
    }
    return line;
}
