#include "experiment_plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "experiment_memory.h"

void plan_clear(struct experiment_plan *plan) {
    void *memory = plan->memory;
    memory_clear(&memory);
    *plan = (struct experiment_plan){0};
}

size_t plan_left(const struct experiment_plan *plan) {
    size_t left = 0;
    for (size_t n = 0; n < plan->run_count; n++)
        left += !plan->runs[n].over && !plan->runs[n].left_out;
    return left;
}

/* ---- Bases ---- */

/* A base that is a text becomes a file: "base.yaml", of a stream "base-STREAM.yaml". */
static const char *write_base(struct experiment_plan *plan, const struct spec_base *base,
                              const char *stream, const char *directory, struct error *error) {
    char *path = stream ? memory_print(&plan->memory, "%s/base-%s.yaml", directory, stream)
                        : memory_print(&plan->memory, "%s/base.yaml", directory);
    FILE *file = path ? fopen(path, "we") : NULL;
    if (!path) {
        error_no_memory(error);
        return NULL;
    }
    bool written = file != NULL;
    if (file) {
        if (!base->named)
            written &=
                fprintf(file, "name: \"%.*s\"\n", CONFIG_NAME_SIZE - 1, plan->spec->name) > 0;
        written &= fputs(base->text, file) >= 0;
        written &= fclose(file) == 0;
    }
    if (!written) {
        error_set(error, EX_IOERR, "%s cannot be written: %s", path, strerror(errno));
        return NULL;
    }
    return path;
}

static int write_bases(struct experiment_plan *plan, const char *directory, struct error *error) {
    const struct experiment_spec *spec = plan->spec;
    plan->bases = memory_take(&plan->memory, (spec->stream_count + 1) * sizeof *plan->bases);
    if (!plan->bases)
        return error_no_memory(error);
    const char *common = NULL;
    for (size_t n = 0; n < spec->stream_count; n++) {
        const struct spec_base *base = spec_base_of(spec, n);
        bool own = base != &spec->base;
        if (base->path)
            plan->bases[n] = base->path;
        else if (!own && common)
            plan->bases[n] = common;
        else
            plan->bases[n] =
                write_base(plan, base, own ? spec->streams[n].name : NULL, directory, error);
        if (!plan->bases[n])
            return -1;
        common = own ? common : plan->bases[n];
    }
    return 0;
}

/* ---- Configurations ---- */

/* "DIRECTORY/base.yaml:3:1: SENTENCE" of a base that is in the experiment itself: that file is none
   that anybody has written, and goes when nothing is run. */
static void hide_file(const char *path, struct error *error) {
    size_t length = strlen(path);
    if (strncmp(error->text, path, length) != 0 || error->text[length] != ':')
        return;
    const char *rest = error->text + length;
    rest += strspn(rest, ":0123456789 ");
    memmove(error->text, rest, strlen(rest) + 1);
    error_prefix(error, "base");
}

static int load(const struct experiment_plan *plan, const struct planned_run *run,
                struct config *config, struct error *error) {
    const struct experiment_spec *spec = plan->spec;
    struct spec_overrides overrides;
    if (spec_overrides(&overrides, spec, run->variant, run->stream, run->seed, plan->extra,
                       plan->extra_count, error))
        return -1;
    int result =
        config_load(config, plan->bases[run->stream], overrides.values, overrides.count, error);
    spec_overrides_clear(&overrides);
    if (result == 0)
        return 0;
    error->status = EX_CONFIG;
    if (spec_base_of(spec, run->stream)->text)
        hide_file(plan->bases[run->stream], error);
    return error_prefix(error, "%s: variant \"%s\", stream %s", spec->path,
                        spec->variants[run->variant].name, spec->streams[run->stream].name);
}

int plan_load(const struct experiment_plan *plan, const struct planned_run *run,
              struct config *config, struct error *error) {
    if (load(plan, run, config, error))
        return -1;
    return strcmp(config->digest, run->digest) == 0
               ? 0
               : error_set(error, EX_CONFIG,
                           "%s has changed while the experiment runs: call it again",
                           plan->bases[run->stream]);
}

static int load_all(struct experiment_plan *plan, struct error *error) {
    struct config *config = calloc(1, sizeof *config);
    int result = config ? 0 : error_no_memory(error);
    for (size_t n = 0; n < plan->run_count && result == 0; n++) {
        result = load(plan, &plan->runs[n], config, error);
        if (result == 0)
            strcpy(plan->runs[n].digest, config->digest);
    }
    free(config);
    return result;
}

static int list_runs(struct experiment_plan *plan, const char *only, struct error *error) {
    const struct experiment_spec *spec = plan->spec;
    size_t count = spec->variant_count * spec->stream_count * spec->seed_count, matching = 0;
    plan->runs = memory_take(&plan->memory, (count + 1) * sizeof *plan->runs);
    if (!plan->runs)
        return error_no_memory(error);
    for (size_t seed = 0; seed < spec->seed_count; seed++)
        for (size_t stream = 0; stream < spec->stream_count; stream++)
            for (size_t variant = 0; variant < spec->variant_count; variant++) {
                struct planned_run *run = &plan->runs[plan->run_count++];
                *run = (struct planned_run){
                    .variant = variant, .stream = stream, .seed = spec->seeds[seed]};
                run->left_out = only && fnmatch(only, spec->variants[variant].name, 0) != 0;
                matching += !run->left_out;
            }
    return matching ? 0
                    : error_set(error, EX_USAGE, "--only %s: no variant of %s has such a name",
                                only, spec->path);
}

int plan_make(struct experiment_plan *plan, struct experiment_spec *spec,
              const struct plan_options *options, struct error *error) {
    *plan = (struct experiment_plan){.spec = spec};
    plan->extra = memory_take(&plan->memory, (options->set_count + 1) * sizeof *plan->extra);
    if (!plan->extra)
        return error_no_memory(error);
    for (size_t n = 0; n < options->set_count; n++)
        if (spec_resolve(spec, options->sets[n], &plan->extra[plan->extra_count++], error))
            return -1;
    return write_bases(plan, options->directory, error) || list_runs(plan, options->only, error) ||
                   load_all(plan, error)
               ? -1
               : 0;
}
